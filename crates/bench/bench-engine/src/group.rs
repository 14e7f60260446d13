//! The servers of a session as the client sees them: a control connection to each. They are nodes
//! 1, 2, ... in the order in which they were named; the client is node 0 and speaks between them.

use std::time::{Duration, Instant};

use bench_record::counted::{Reading, Snapshot};
use bench_record::failure::Failure;
use bench_record::spec::JobSpec;
use bench_record::{FabricRecord, ReceiverCount};

use crate::exchange::{Control, Message, Signals, WhenIdle};
use crate::target::Target;
use crate::workload::gave_up;

/// The time for which the last words of servers are waited for when a session has failed.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// The time after one server's last words in which another may turn out to be the one that died.
const ROOT_CAUSE: Duration = Duration::from_millis(100);
/// Between two looks at the connections meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// One server.
#[derive(Debug)]
struct Member {
    control: Control,
    /// The name of the server in messages; empty where it is the only one.
    who: String,
    /// It has said why it ends: its end is no surprise.
    has_spoken: bool,
}

impl Member {
    /// Names the server in a failure.
    fn named<T>(&self, result: Result<T, Failure>) -> Result<T, Failure> {
        match self.who.is_empty() {
            true => result,
            false => result.map_err(|failure| failure.at(&self.who)),
        }
    }

    fn send(&mut self, message: &Message) -> Result<(), Failure> {
        let sent = self.control.send(message);
        self.named(sent)
    }

    fn receive(&mut self, doing: &str) -> Result<Message, Failure> {
        let received = self.control.receive(doing);
        self.has_spoken |= matches!(received, Err(Failure::Remote(_) | Failure::Data(_)));
        self.named(received)
    }

    fn expect(&mut self, wanted: &Message, doing: &str) -> Result<(), Failure> {
        let got = self.receive(doing)?;
        if std::mem::discriminant(&got) == std::mem::discriminant(wanted) {
            return Ok(());
        }
        self.named(Err(Failure::unexpected(doing, &format!("{wanted:?}"), &got)))
    }
}

/// All servers of a session.
#[derive(Debug)]
pub(crate) struct Group {
    members: Vec<Member>,
}

impl Group {
    /// Connects to every server.
    pub(crate) fn connect(targets: &[Target], timeout: Duration) -> Result<Self, Failure> {
        let mut members = Vec::with_capacity(targets.len());
        for (target, node) in targets.iter().zip(1..) {
            let control = Control::connect(&target.host, target.port, timeout)?;
            let is_only = targets.len() == 1;
            let who = if is_only { String::new() } else { format!("node {node}, {target}") };
            members.push(Member { control, who, has_spoken: false });
        }
        Ok(Self { members })
    }

    /// Returns the signals for the client's measuring threads.
    pub(crate) fn signals(&self, job: &JobSpec) -> Result<Signals, Failure> {
        let controls = self.members.iter().map(|member| &member.control);
        Signals::of(controls, Duration::from_millis(job.timeout_ms), WhenIdle::of(job))
    }

    /// Our own address as each server sees it.
    pub(crate) fn local_ips(&self) -> Vec<Option<String>> {
        self.members.iter().map(|member| member.control.local_ip()).collect()
    }

    /// Sends all the same.
    pub(crate) fn send(&mut self, message: &Message) -> Result<(), Failure> {
        self.members.iter_mut().try_for_each(|member| member.send(message))
    }

    /// Lets every server open its endpoints; answers the fabric of each.
    pub(crate) fn open(&mut self, job: &JobSpec) -> Result<Vec<FabricRecord>, Failure> {
        for (member, node) in self.members.iter_mut().zip(1..) {
            member.send(&Message::Job(Box::new(JobSpec { node, ..job.clone() })))?;
        }
        let doing = "waiting for the server to open the fabric";
        let fabric = |member: &mut Member| match member.receive(doing)? {
            Message::Fabric(theirs) => Ok(*theirs),
            other => member.named(Err(unexpected("its fabric", &other))),
        };
        self.members.iter_mut().map(fabric).collect()
    }

    /// The connection to a server, to link our threads with its; it has said so by then.
    pub(crate) fn link(
        &mut self,
        node: usize,
        link: impl FnOnce(&mut Control) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let member = &mut self.members[node - 1];
        let linked = link(&mut member.control);
        member.named(linked)?;
        member.expect(&Message::Ready, "connecting")
    }

    /// Carries what two servers have to tell each other until they are connected.
    pub(crate) fn introduce(&mut self, first: usize, second: usize) -> Result<(), Failure> {
        let doing = "waiting for two servers to connect to each other";
        loop {
            let from_first = self.members[first - 1].receive(doing)?;
            let from_second = self.members[second - 1].receive(doing)?;
            match (&from_first, &from_second) {
                (Message::Ready, Message::Ready) => return Ok(()),
                (Message::Exchange(_), Message::Exchange(_))
                | (Message::Barrier, Message::Barrier) => {}
                (_, other) => return Err(unexpected("the same step of both servers", other)),
            }
            self.members[second - 1].send(&from_first)?;
            self.members[first - 1].send(&from_second)?;
        }
    }

    /// Returns when all servers are here; they go on when all others are, too.
    pub(crate) fn barrier(&mut self) -> Result<(), Failure> {
        self.expect(&Message::Barrier, "waiting at a barrier")?;
        self.send(&Message::Barrier)
    }

    /// Returns when every server has something to say (or has gone), or after this long.
    pub(crate) fn settle(&self, at_most: Duration) {
        let deadline = Instant::now() + at_most;
        let is_settled =
            |member: &Member| member.control.has_message() || member.control.is_closed();
        while !self.members.iter().all(is_settled) && Instant::now() < deadline {
            // Waiting for what comes by the network, looked at again until the deadline.
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Waits for the same word of every server.
    pub(crate) fn expect(&mut self, wanted: &Message, doing: &str) -> Result<(), Failure> {
        self.members.iter_mut().try_for_each(|member| member.expect(wanted, doing))
    }

    /// Waits for what the threads of each server have counted. Words about what still goes on are
    /// passed over.
    pub(crate) fn counts(&mut self) -> Result<Vec<Vec<ReceiverCount>>, Failure> {
        let one = |member: &mut Member| loop {
            match member.receive("waiting for the receiver's count")? {
                Message::Received(counts) => return Ok(counts),
                Message::WindowDone | Message::Working => {}
                other => return member.named(Err(unexpected("a count", &other))),
            }
        };
        self.members.iter_mut().map(one).collect()
    }

    /// Waits for what each of so many threads of the server, which sends, too, has sent.
    pub(crate) fn sent(&mut self, threads: usize) -> Result<Vec<u64>, Failure> {
        let Some(member) = self.members.first_mut() else { return Ok(Vec::new()) };
        match member.receive("waiting for the server's messages")? {
            Message::Sent(counts) if counts.len() == threads => Ok(counts),
            other => member.named(Err(unexpected("a count for each thread", &other))),
        }
    }

    /// Reads what all nodes have counted up to now; `ours` is read while the servers read theirs.
    pub(crate) fn read_counters(
        &mut self,
        ours: impl FnOnce() -> Option<Snapshot>,
    ) -> Result<Reading, Failure> {
        self.send(&Message::ReadCounters)?;
        let mut nodes = vec![ours()];
        for member in &mut self.members {
            match member.receive("waiting for a server's counters")? {
                Message::Counters(theirs) => nodes.push(theirs),
                other => return member.named(Err(unexpected("counters", &other))),
            }
        }
        Ok(Reading(nodes))
    }

    /// Tells servers that wait for the end of a point that it goes on; fails if one has gone.
    pub(crate) fn keep_waiting(&mut self) -> Result<(), Failure> {
        for member in &mut self.members {
            if member.control.is_closed() {
                return member.named(Err(Failure::closed("measuring")));
            }
            // Nobody has been asked anything: it says that it failed. `explained` reads it beside
            // what the others say.
            if member.control.has_message() {
                return member.named(Err(gave_up()));
            }
            member.send(&Message::Working)?;
        }
        Ok(())
    }

    /// Replaces "another side ended" and fabric errors by the reason that a server gave, and those
    /// by the death of another server, whom the first may have waited for.
    pub(crate) fn explained<T>(&mut self, result: Result<T, Failure>) -> Result<T, Failure> {
        let Err(error) = result else { return result };
        let is_vague = match error {
            Failure::Remote(_) | Failure::Fabric(_) => true,
            // With a single server it is that one, and this says what was going on.
            Failure::PeerGone { .. } => self.members.len() > 1,
            // A wait that listened to nobody may have ended because a server gave up.
            Failure::Timeout { .. } => self.members.iter().any(|m| m.control.has_message()),
            _ => false,
        };
        if !is_vague {
            return Err(error);
        }
        Err(self.last_words().unwrap_or(error))
    }

    /// The first server that has gone without a word, or else what one of them said last.
    fn last_words(&mut self) -> Option<Failure> {
        let was_heard = self.members.iter().any(|member| member.has_spoken);
        let mut deadline = Instant::now() + if was_heard { ROOT_CAUSE } else { LAST_WORDS };
        let mut words = None;
        loop {
            // Words first: who found damage says so before its end, which others take for a death.
            if let Some(node) = self.members.iter().position(|member| member.control.has_message())
            {
                match self.members[node].receive("waiting for the server's reason") {
                    Ok(_) => {}
                    Err(damage @ Failure::Data(_)) => return Some(damage),
                    Err(failure) => {
                        words.get_or_insert(failure);
                        deadline = deadline.min(Instant::now() + ROOT_CAUSE);
                    }
                }
                continue;
            }
            let is_dead = |member: &&Member| !member.has_spoken && member.control.is_closed();
            if let Some(dead) = self.members.iter().find(is_dead) {
                return dead.named::<()>(Err(Failure::closed("measuring"))).err();
            }
            // Only after a look: on a busy machine this thread may have slept until now.
            if Instant::now() >= deadline {
                return words;
            }
            // Waiting for what comes by the network, looked at again until the deadline.
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

fn unexpected(wanted: &str, got: &Message) -> Failure {
    Failure::unexpected("talking to the server", wanted, got)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// A session with so many servers, and their ends of it.
    fn session(servers: usize) -> (Group, Vec<Control>) {
        let timeout = Duration::from_secs(60);
        let listeners: Vec<_> =
            (0..servers).map(|_| TcpListener::bind("127.0.0.1:0").expect("bind")).collect();
        let target = |listener: &TcpListener| Target {
            host: "127.0.0.1".to_owned(),
            port: listener.local_addr().expect("bound").port(),
        };
        let targets: Vec<_> = listeners.iter().map(target).collect();
        let accepting = std::thread::spawn(move || {
            let accept = |listener: TcpListener| {
                Control::accept(listener.accept().expect("a client").0, timeout)
                    .expect("a greeting")
            };
            listeners.into_iter().map(accept).collect()
        });
        let group = Group::connect(&targets, timeout).expect("connected");
        (group, accepting.join().expect("accepted"))
    }

    /// The client hears of the first one's end before it has noticed the death of the second one,
    /// which was the reason.
    #[test]
    fn who_died_is_named_though_another_was_heard_before() {
        let (mut group, mut servers) = session(3);
        servers[0].fail(&Failure::Fabric("the connection was reset".to_owned()));
        drop(servers.drain(..2));
        let heard = group.expect(&Message::Barrier, "waiting for the server");
        assert!(matches!(heard, Err(Failure::Remote(_))), "{heard:?}");
        let reason = group.explained(heard).expect_err("it failed").to_string();
        assert!(reason.contains("node 2") && reason.contains("closed"), "{reason}");
    }

    #[test]
    fn what_was_heard_is_the_reason_when_nobody_died() {
        let (mut group, mut servers) = session(2);
        servers[0].fail(&Failure::Fabric("no such provider".to_owned()));
        drop(servers.remove(0));
        let heard = group.expect(&Message::Barrier, "waiting for the server");
        let reason = group.explained(heard).expect_err("it failed").to_string();
        assert!(reason.contains("node 1") && reason.contains("no such provider"), "{reason}");
    }
}
