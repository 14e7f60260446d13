//! The control connection: framed JSON over TCP, versioned, with a deadline on everything.

use std::io::{ErrorKind, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use bench_record::counted::Snapshot;
use bench_record::failure::{Failure, plain};
use bench_record::spec::{JobSpec, PointSpec};
use bench_record::{FabricRecord, ReceiverCount};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt;
use serde::{Deserialize, Serialize};

use self::deadline::Deadline;
use self::signals::pending;
pub(crate) use self::signals::{Pending, Signals, WhenIdle};
use crate::watch::Silence;

mod deadline;
mod signals;

/// The version of the protocol. It changes with every incompatible change of [`Message`], and of
/// the messages between measuring threads.
pub(crate) const PROTOCOL: u32 = 9;
const MAGIC: &str = "efa-bench";
/// The length of the longest frame that is accepted, in bytes; the longest real one is a fabric
/// description.
const FRAME_BYTES_MAX: u32 = 1 << 20;

/// The interval at which a silent host is probed.
const PROBE_EVERY: Duration = Duration::from_secs(5);
/// The number of probes that a host may leave unanswered.
const PROBES_MAX: u32 = 3;

/// The first frame in both directions, whose form never changes.
#[derive(Debug, Serialize, Deserialize)]
struct Hello {
    magic: String,
    protocol: u32,
    tool: String,
}

/// The messages after the greeting.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// From the client of a leash, with the server's token: serve only me until I say goodbye or am
    /// gone.
    Join(u64),
    /// From the client: open this job.
    Job(Box<JobSpec>),
    /// From the server: the job is open.
    Fabric(Box<FabricRecord>),
    /// From either side: what each measuring thread tells its counterpart, endpoint after endpoint.
    Exchange(Vec<Vec<u8>>),
    /// From either side: I have reached the barrier.
    Barrier,
    /// From the server: a step of the set-up is done; the next peer is connected, or all endpoints
    /// are warm.
    Ready,
    /// From the client: measure this point next.
    Point(PointSpec),
    /// From the receiver of a bandwidth point: the measured window is over.
    WindowDone,
    /// From either side: work that the other side waits for goes on. A server that receives says
    /// so while messages are still arriving, the client while a point lasts, and once it is warm.
    Working,
    /// From the sender of a bandwidth point: the number of messages that each thread has sent in
    /// all.
    Sent(Vec<u64>),
    /// From the receiver of a bandwidth point: the result of each thread.
    Received(Vec<ReceiverCount>),
    /// From the client: send the counts of your adapter.
    ReadCounters,
    /// From the server: these are the counts, if there are any.
    Counters(Option<Snapshot>),
    /// From the client: there are no more points.
    Bye,
    /// From either side: the measurement failed, with the reason.
    Failed(String),
    /// From either side: received data is wrong, with the reason.
    Damaged(String),
}

/// One end of the control connection.
#[derive(Debug)]
pub struct Control {
    stream: TcpStream,
    timeout: Duration,
    /// True if any silence is tolerated.
    waits_forever: bool,
}

impl Control {
    /// Connects to a server and checks that it speaks this protocol.
    pub fn connect(host: &str, port: u16, timeout: Duration) -> Result<Self, Failure> {
        let address = format!("{host}:{port}");
        let no_server = |reason: String| Failure::NoServer { address: address.clone(), reason };
        let candidates = (host, port).to_socket_addrs().map_err(|e| no_server(plain(&e)))?;
        let mut last = no_server("the name has no address".to_owned());
        for candidate in candidates {
            match TcpStream::connect_timeout(&candidate, timeout) {
                Ok(stream) => {
                    let mut this = Self::over(stream, timeout)?;
                    this.greet(&address)?;
                    return Ok(this);
                }
                Err(error) => last = no_server(plain(&error)),
            }
        }
        Err(last)
    }

    /// Takes an accepted connection and checks that the client speaks this protocol.
    pub fn accept(stream: TcpStream, timeout: Duration) -> Result<Self, Failure> {
        let address =
            stream.peer_addr().map_or_else(|_| "client".to_owned(), |a| format!("client {a}"));
        let mut this = Self::over(stream, timeout)?;
        this.greet(&address)?;
        Ok(this)
    }

    fn over(stream: TcpStream, timeout: Duration) -> Result<Self, Failure> {
        let set = stream
            .set_nodelay(true)
            .and_then(|()| stream.set_nonblocking(false))
            .and_then(|()| stream.set_write_timeout(Some(timeout)));
        set.map_err(|e| gone("setting up the control connection", &e))?;
        Ok(Self { stream, timeout, waits_forever: false })
    }

    fn greet(&mut self, address: &str) -> Result<(), Failure> {
        let tool = env!("CARGO_PKG_VERSION").to_owned();
        let hello = Hello { magic: MAGIC.to_owned(), protocol: PROTOCOL, tool };
        let not_ours = |reason: String| Failure::NotAServer { address: address.to_owned(), reason };
        self.write_frame(&hello, "greeting")?;
        let frame = self.read_frame("greeting").map_err(|error| match error {
            Failure::Timeout { seconds, .. } => {
                Failure::SilentServer { address: address.to_owned(), seconds }
            }
            error => not_ours(error.to_string()),
        })?;
        let theirs: Hello = serde_json::from_slice(&frame)
            .map_err(|_| not_ours("its greeting is something else".to_owned()))?;
        if theirs.magic != MAGIC {
            return Err(not_ours(format!("it calls itself {:?}", theirs.magic)));
        }
        if theirs.protocol != PROTOCOL {
            return Err(Failure::OtherVersion {
                address: address.to_owned(),
                theirs: theirs.protocol,
                ours: PROTOCOL,
                tool: theirs.tool,
            });
        }
        Ok(())
    }

    /// Changes how long silence is tolerated, and how long a message may take to arrive.
    pub(crate) const fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    /// Tolerates any silence from now on, but not a host that is gone.
    pub fn wait_forever(&mut self) -> Result<(), Failure> {
        self.waits_forever = true;
        let set = sockopt::set_socket_keepalive(&self.stream, true)
            .and_then(|()| sockopt::set_tcp_keepidle(&self.stream, PROBE_EVERY))
            .and_then(|()| sockopt::set_tcp_keepintvl(&self.stream, PROBE_EVERY))
            .and_then(|()| sockopt::set_tcp_keepcnt(&self.stream, PROBES_MAX));
        set.map_err(|e| gone("watching the control connection", &e.into()))
    }

    /// Returns this side's IP address on this connection. An IPv4 address in the IPv6 form that a
    /// socket of both versions has is returned as IPv4, because a peer with IPv4 only could not use
    /// the other form.
    pub(crate) fn local_ip(&self) -> Option<String> {
        self.stream.local_addr().ok().map(|a| a.ip().to_canonical().to_string())
    }

    /// Sends one message.
    pub fn send(&mut self, message: &Message) -> Result<(), Failure> {
        self.write_frame(message, "sending a control message")
    }

    /// Returns true if the other side has sent a message that was not received yet.
    pub(crate) fn has_message(&self) -> bool {
        !matches!(pending(&self.stream), Pending::Nothing | Pending::Closed)
    }

    /// Tells the other side why this side ends.
    pub(crate) fn fail(&mut self, failure: &Failure) {
        let reason = failure.to_string();
        let last = match failure {
            Failure::Data(_) => Message::Damaged(reason),
            _ => Message::Failed(reason),
        };
        // The other side may be gone, which may be the reason.
        let _ = self.send(&last);
    }

    /// Receives the next message; a `Failed` or `Damaged` from the other side becomes the error.
    pub fn receive(&mut self, doing: &str) -> Result<Message, Failure> {
        let frame = self.read_frame(doing)?;
        match serde_json::from_slice(&frame) {
            Ok(Message::Failed(reason)) => Err(Failure::Remote(reason)),
            Ok(Message::Damaged(reason)) => Err(Failure::Data(reason)),
            Ok(message) => Ok(message),
            Err(error) => Err(Failure::PeerGone {
                doing: doing.to_owned(),
                reason: format!("it sent something that is no message ({error})"),
            }),
        }
    }

    /// Receives the next message; until it arrives, `check` is called at the interval `every`, and
    /// may give up.
    pub(crate) fn receive_while(
        &mut self,
        doing: &str,
        every: Duration,
        mut check: impl FnMut() -> Result<(), Failure>,
    ) -> Result<Message, Failure> {
        // If a wait takes longer than this, the process did not run.
        let mut silence = Silence::new(Instant::now(), every * 2);
        while pending(&self.stream) == Pending::Nothing {
            check()?;
            if silence.goes_on(Instant::now()) >= self.timeout {
                let seconds = self.timeout.as_secs_f64();
                return Err(Failure::Timeout { doing: doing.to_owned(), seconds });
            }
            let wait = Timespec::try_from(every).ok();
            // An interrupted wait is just a shorter one.
            let _ = poll(&mut [PollFd::new(&self.stream, PollFlags::IN)], wait.as_ref());
        }
        self.receive(doing)
    }

    /// Returns true if the other side has gone.
    pub(crate) fn is_closed(&self) -> bool {
        pending(&self.stream) == Pending::Closed
    }

    /// Tells the other side's threads what this side's threads say, and returns their answers.
    pub(crate) fn exchange(&mut self, ours: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>, Failure> {
        let doing = "exchanging addresses";
        let threads = ours.len();
        self.send(&Message::Exchange(ours))?;
        match self.receive(doing)? {
            Message::Exchange(theirs) if theirs.len() == threads => Ok(theirs),
            other => Err(Failure::unexpected(doing, "an address for each thread", &other)),
        }
    }

    /// Returns when the other side has reached the barrier, too.
    pub(crate) fn barrier(&mut self) -> Result<(), Failure> {
        self.send(&Message::Barrier)?;
        self.expect_barrier("waiting at a barrier")
    }

    /// Waits until the other side has reached a barrier; `doing` names the purpose.
    pub fn expect_barrier(&mut self, doing: &str) -> Result<(), Failure> {
        match self.receive(doing)? {
            Message::Barrier => Ok(()),
            other => Err(Failure::unexpected(doing, "a barrier", &other)),
        }
    }

    fn write_frame<T: Serialize>(&mut self, value: &T, doing: &str) -> Result<(), Failure> {
        let body = serde_json::to_vec(value)
            .map_err(|e| Failure::Check(format!("cannot encode a control message: {e}")))?;
        let len = u32::try_from(body.len()).unwrap_or(u32::MAX);
        let mut frame = len.to_be_bytes().to_vec();
        frame.extend_from_slice(&body);
        self.stream.write_all(&frame).map_err(|e| self.io_failure(doing, &e))
    }

    fn read_frame(&mut self, doing: &str) -> Result<Vec<u8>, Failure> {
        let deadline = Deadline::after((!self.waits_forever).then_some(self.timeout));
        let mut prefix = [0_u8; 4];
        deadline.read(&self.stream, &mut prefix).map_err(|e| self.io_failure(doing, &e))?;
        let len = u32::from_be_bytes(prefix);
        if len > FRAME_BYTES_MAX {
            return Err(Failure::PeerGone {
                doing: doing.to_owned(),
                reason: "it sent something that is no control message".to_owned(),
            });
        }
        let mut body = vec![0_u8; len as usize];
        deadline.read(&self.stream, &mut body).map_err(|e| self.io_failure(doing, &e))?;
        Ok(body)
    }

    fn io_failure(&self, doing: &str, error: &std::io::Error) -> Failure {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                Failure::Timeout { doing: doing.to_owned(), seconds: self.timeout.as_secs_f64() }
            }
            _ => gone(doing, error),
        }
    }
}

fn gone(doing: &str, error: &std::io::Error) -> Failure {
    let reason = match error.kind() {
        ErrorKind::UnexpectedEof => "it closed the connection".to_owned(),
        _ => plain(error),
    };
    Failure::PeerGone { doing: doing.to_owned(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Control, Control) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bind");
        let ours = TcpStream::connect(listener.local_addr().expect("bound")).expect("connect");
        let (theirs, _) = listener.accept().expect("accept");
        let over = |stream| Control::over(stream, Duration::from_secs(1)).expect("a connection");
        (over(ours), over(theirs))
    }

    /// A busy kernel delivers on loopback only some time after the call has returned.
    fn arrives(is_here: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !is_here() {
            assert!(Instant::now() < deadline, "it never arrived");
            std::thread::yield_now();
        }
    }

    #[test]
    fn the_end_of_a_window_is_told_from_other_messages() {
        let (mut here, mut there) = pair();
        let second = Duration::from_secs(1);
        let signals = Signals::of([&here], second, WhenIdle::Spin).expect("signals");
        assert_eq!(signals.pending(), Pending::Nothing);
        for (message, seen) in [
            (Message::WindowDone, Pending::WindowDone),
            (Message::Working, Pending::Message),
            (Message::Failed("window_done".to_owned()), Pending::Message),
        ] {
            there.send(&message).expect("send");
            arrives(|| here.has_message());
            assert_eq!(signals.pending(), seen, "{message:?}");
            let _ = here.receive("testing");
        }
        drop(there);
        arrives(|| here.is_closed());
        assert_eq!(signals.pending(), Pending::Closed);
    }

    /// The deadline must not start anew with each byte: otherwise a stranger could hold a server
    /// for days.
    #[test]
    fn a_peer_that_drips_is_dropped() {
        let (mut here, there) = pair();
        here.set_timeout(Duration::from_millis(50));
        // The whole frame would take hours. The sender gives up after a minute if nothing ends it
        // before.
        let bytes = FRAME_BYTES_MAX.to_be_bytes().into_iter().chain(std::iter::repeat(b' '));
        let dripping = std::thread::spawn(move || {
            let mut stream = &there.stream;
            for byte in bytes.take(12_000) {
                if stream.write_all(&[byte]).is_err() {
                    return;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let failure = here.receive("testing").expect_err("no frame is ever whole");
        assert!(matches!(failure, Failure::Timeout { .. }), "{failure}");
        drop(here);
        dripping.join().expect("it ends with its listener");
    }

    #[test]
    fn of_several_connections_the_worst_counts() {
        let (mut ends, mut others): (Vec<_>, Vec<_>) = (0..3).map(|_| pair()).unzip();
        let signals = Signals::of(&ends, Duration::from_secs(1), WhenIdle::Spin).expect("signals");
        assert_eq!(signals.pending(), Pending::Nothing);
        others[2].send(&Message::Ready).expect("send");
        arrives(|| ends[2].has_message());
        assert_eq!(signals.pending(), Pending::Nothing, "one may be ready before the others");
        others[1].fail(&Failure::Data("flipped".to_owned()));
        arrives(|| ends[1].has_message());
        assert_eq!(signals.pending(), Pending::Message);
        drop(others.remove(0));
        arrives(|| ends[0].is_closed());
        assert_eq!(signals.pending(), Pending::Closed);
        assert!(!ends[1].is_closed());
        let told = ends[1].receive("testing");
        assert!(matches!(told, Err(Failure::Data(reason)) if reason == "flipped"));
    }
}
