//! The connection on which rank 0 holds a server: it is made when all servers have been found, and
//! its end ends the server.

use std::net::{IpAddr, TcpListener};
use std::time::{Duration, Instant};

use bench_engine::exchange::{Control, Message};
use bench_engine::target::Target;
use bench_record::failure::{Failure, plain};

use super::Member;
use super::address::RankAddress;

/// The time that one address of a server may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// The time between two looks whether rank 0 has come.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Rank 0's end of a lifeline.
pub(super) struct Lifeline {
    control: Control,
    pub(super) member: Member,
}

impl Lifeline {
    /// Takes the server at `rank_address`, by the first of its addresses that answers.
    pub(super) fn take(
        rank: usize,
        rank_address: &RankAddress,
        deadline: Instant,
    ) -> Result<Self, Failure> {
        let mut last = None;
        for host in rank_address.addresses() {
            match Self::take_at(&host, rank_address, deadline) {
                Ok(control) => {
                    let target = Target { host, port: rank_address.port };
                    let member = Member { rank, host: rank_address.host.clone(), target };
                    return Ok(Self { control, member });
                }
                Err(error) => last = Some(error),
            }
        }
        Err(last
            .unwrap_or_else(|| Failure::NoRank(format!("{} has no address", rank_address.host))))
    }

    fn take_at(
        host: &str,
        rank_address: &RankAddress,
        deadline: Instant,
    ) -> Result<Control, Failure> {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = left.clamp(LOOK_EVERY, ANSWER_TIMEOUT);
        let mut control = Control::connect(host, rank_address.leash_port, timeout)?;
        control.send(&Message::Join(rank_address.token))?;
        control.expect_barrier("taking a server")?;
        Ok(control)
    }

    /// Lets the server end.
    pub(super) fn release(mut self) {
        // A server that is gone by now has ended already.
        let _ = self.control.send(&Message::Bye);
    }
}

/// A server that waits for rank 0.
pub(super) struct LifelineListener {
    listener: TcpListener,
    port: u16,
}

/// A server's end of a lifeline.
#[derive(Debug)]
pub(super) struct LifelineServer(Control);

impl LifelineListener {
    pub(super) fn listen(bind: IpAddr) -> Result<Self, Failure> {
        let failed =
            |e: std::io::Error| Failure::Usage(format!("cannot listen on {bind}: {}", plain(&e)));
        let listener = TcpListener::bind((bind, 0)).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        Ok(Self { listener, port })
    }

    pub(super) const fn port(&self) -> u16 {
        self.port
    }

    /// Waits for rank 0, which knows the token of `rank_address`; strangers are sent away.
    pub(super) fn wait(
        self,
        rank_address: &RankAddress,
        deadline: Instant,
    ) -> Result<LifelineServer, Failure> {
        while Instant::now() < deadline {
            let Ok((stream, _)) = self.listener.accept() else {
                std::thread::sleep(LOOK_EVERY);
                continue;
            };
            let Ok(mut control) = Control::accept(stream, ANSWER_TIMEOUT) else { continue };
            if !matches!(control.receive("waiting for rank 0"), Ok(Message::Join(token)) if token == rank_address.token)
            {
                continue;
            }
            control.send(&Message::Barrier)?;
            control.wait_forever()?;
            return Ok(LifelineServer(control));
        }
        Err(Failure::NoRank(
            "rank 0 did not come: look whether it was started and reaches this host, or \
             raise --join-timeout"
                .to_owned(),
        ))
    }
}

impl LifelineServer {
    /// Returns when rank 0 is done, or has gone without a word, which is an error.
    pub(super) fn wait(mut self) -> Result<(), Failure> {
        match self.0.receive("serving rank 0")? {
            Message::Bye => Ok(()),
            other => Err(Failure::unexpected("serving rank 0", "its end", &other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(20)
    }

    fn listener() -> (LifelineListener, RankAddress) {
        let listener = LifelineListener::listen(IpAddr::from([127, 0, 0, 1])).expect("listens");
        let rank_address = RankAddress::here(None, 1, listener.port());
        (listener, rank_address)
    }

    #[test]
    fn a_server_is_held_until_it_is_released() {
        let (listener, rank_address) = listener();
        let own = rank_address.clone();
        let server = std::thread::spawn(move || listener.wait(&own, soon()).expect("held").wait());
        let lifeline = Lifeline::take(1, &rank_address, soon()).expect("taken");
        assert_eq!(
            (lifeline.member.target.host.as_str(), lifeline.member.target.port),
            ("127.0.0.1", 1)
        );
        lifeline.release();
        assert!(server.join().expect("no panic").is_ok());
    }

    #[test]
    fn a_server_notices_that_rank_0_is_gone() {
        let (listener, rank_address) = listener();
        let own = rank_address.clone();
        let server = std::thread::spawn(move || listener.wait(&own, soon()).expect("held").wait());
        drop(Lifeline::take(1, &rank_address, soon()).expect("taken"));
        let error = server.join().expect("no panic").unwrap_err();
        assert_eq!(error.exit_code(), 7, "{error}");
    }

    #[test]
    fn a_stranger_with_another_token_is_sent_away_and_nobody_is_waited_for_forever() {
        let (listener, mut rank_address) = listener();
        let own = rank_address.clone();
        let deadline = Instant::now() + Duration::from_millis(400);
        let server = std::thread::spawn(move || listener.wait(&own, deadline));
        rank_address.token = rank_address.token.wrapping_add(1);
        assert!(Lifeline::take(1, &rank_address, soon()).is_err());
        let error = server.join().expect("no panic").unwrap_err();
        assert!(error.to_string().contains("rank 0 did not come"), "{error}");
    }
}
