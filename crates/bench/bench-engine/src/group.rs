//! The servers of a session as the client sees them, with a control connection to each. Servers are
//! nodes 1, 2, ... in the order in which they were named. The client is node 0 and carries messages
//! between them.

use std::time::{Duration, Instant};

use bench_record::counted::{Reading, Snapshot};
use bench_record::failure::Failure;
use bench_record::spec::JobSpec;
use bench_record::{FabricRecord, ReceiverCount};

use crate::exchange::{Control, Message, Signals, WhenIdle};
use crate::target::Target;
use crate::workload::gave_up;

/// The time for which the last messages of servers are waited for when a session has failed.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// The time after one server's last message in which another server may turn out to be the one that
/// died.
const ROOT_CAUSE: Duration = Duration::from_millis(100);
/// The time between two looks at the connections meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// A server of the session.
#[derive(Debug)]
struct Member {
    control: Control,
    /// The name of the server in messages; empty if it is the only one.
    who: String,
    /// True if the server has said why it ends, so that its end is no surprise.
    has_spoken: bool,
}

impl Member {
    /// Adds the name of the server to a failure.
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

    /// Returns this side's IP address as each server sees it.
    pub(crate) fn local_ips(&self) -> Vec<Option<String>> {
        self.members.iter().map(|member| member.control.local_ip()).collect()
    }

    /// Sends the same message to all servers.
    pub(crate) fn send(&mut self, message: &Message) -> Result<(), Failure> {
        self.members.iter_mut().try_for_each(|member| member.send(message))
    }

    /// Lets every server open its endpoints, and returns their fabrics.
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

    /// Links the threads of this side with those of a server over its connection. Returns when the
    /// server has said that it is linked.
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

    /// Carries messages between two servers until they are connected.
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

    /// Returns when all servers have reached the barrier, and lets them go on.
    pub(crate) fn barrier(&mut self) -> Result<(), Failure> {
        self.expect(&Message::Barrier, "waiting at a barrier")?;
        self.send(&Message::Barrier)
    }

    /// Returns when every server has sent a message (or has gone), at the latest after `at_most`.
    pub(crate) fn settle(&self, at_most: Duration) {
        let deadline = Instant::now() + at_most;
        let is_settled =
            |member: &Member| member.control.has_message() || member.control.is_closed();
        while !self.members.iter().all(is_settled) && Instant::now() < deadline {
            // The loop looks for messages at this interval until the deadline.
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Waits for the same message from every server.
    pub(crate) fn expect(&mut self, wanted: &Message, doing: &str) -> Result<(), Failure> {
        self.members.iter_mut().try_for_each(|member| member.expect(wanted, doing))
    }

    /// Waits for the counts of the threads of each server. Messages that only say that work goes on
    /// are skipped.
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

    /// Waits for the number of messages that each of the server's threads has sent, in a point in
    /// which the server sends, too.
    pub(crate) fn sent(&mut self, threads: usize) -> Result<Vec<u64>, Failure> {
        let Some(member) = self.members.first_mut() else { return Ok(Vec::new()) };
        match member.receive("waiting for the server's messages")? {
            Message::Sent(counts) if counts.len() == threads => Ok(counts),
            other => member.named(Err(unexpected("a count for each thread", &other))),
        }
    }

    /// Reads the present counters of all nodes; `ours` is called while the servers read theirs.
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

    /// Tells servers that wait for the end of a point that it goes on. Fails if one has gone.
    pub(crate) fn keep_waiting(&mut self) -> Result<(), Failure> {
        for member in &mut self.members {
            if member.control.is_closed() {
                return member.named(Err(Failure::closed("measuring")));
            }
            // A server that sends a message without being asked says that it failed. `explained`
            // reads it beside the messages of the others.
            if member.control.has_message() {
                return member.named(Err(gave_up()));
            }
            member.send(&Message::Working)?;
        }
        Ok(())
    }

    /// Replaces "another side ended" and fabric errors by the reason that a server gave, and that
    /// reason by the death of another server, if the first may have waited for it.
    pub(crate) fn explained<T>(&mut self, result: Result<T, Failure>) -> Result<T, Failure> {
        let Err(error) = result else { return result };
        let is_vague = match error {
            Failure::Remote(_) | Failure::Fabric(_) => true,
            // The peer that is gone can only be a single server, and this failure says what was
            // going on.
            Failure::PeerGone { .. } => self.members.len() > 1,
            // A wait that ignores messages may have ended because a server gave up.
            Failure::Timeout { .. } => self.members.iter().any(|m| m.control.has_message()),
            _ => false,
        };
        if !is_vague {
            return Err(error);
        }
        Err(self.last_words().unwrap_or(error))
    }

    /// Returns the failure of the first server that has gone without a message, or else the last
    /// message of a server.
    fn last_words(&mut self) -> Option<Failure> {
        let was_heard = self.members.iter().any(|member| member.has_spoken);
        let mut deadline = Instant::now() + if was_heard { ROOT_CAUSE } else { LAST_WORDS };
        let mut words = None;
        loop {
            // Messages come first: a server that found damage says so before it ends, and others
            // take its end for a death.
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
            // The deadline counts only after a look: on a busy machine this thread may have slept
            // until now.
            if Instant::now() >= deadline {
                return words;
            }
            // The loop looks for messages at this interval until the deadline.
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

    /// Makes a session with this many servers, and returns their ends of the connections.
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

    /// The client hears of the end of the first server before it has noticed the death of the
    /// second one, which was the reason.
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
