//! Repetitions, timeouts and expiry.

use super::Agent;
use super::connection::State;
use crate::mad::reason;
use crate::{ConnId, Event, Transmit};
use std::time::Duration;

impl Agent {
    /// Does what is due (CM-4.6); call it when [`poll_timeout`](Self::poll_timeout) has passed.
    pub fn handle_timeout(&mut self, now: Duration) {
        self.advance(now);
        while let Some(conn) = self.table.due(self.now) {
            self.table.set_deadline(conn, None);
            match self.table.get(conn).map(|connection| connection.state) {
                Some(State::TimeWait) => self.end(conn, Event::TimewaitExit { conn }),
                Some(State::Established) => self.keep_alive(conn),
                _ => match self.delayed_until(conn) {
                    Some(until) => self.keep_alive_delayed(conn, until),
                    None => self.retransmit(conn),
                },
            }
        }
    }

    /// Returns the time until which the peer has asked this side to wait, if that is not over.
    fn delayed_until(&self, conn: ConnId) -> Option<Duration> {
        self.table.get(conn)?.delayed_until.filter(|until| *until > self.now)
    }

    /// Sends the message that the peer has asked time for, as a keepalive: a living peer answers
    /// that it still needs time, and if its process is gone, an ICMP error says so (CM-4.5).
    fn keep_alive_delayed(&mut self, conn: ConnId, until: Duration) {
        self.send_last(conn);
        self.await_end_of_delay(conn, until);
    }

    /// Schedules the next keepalive of a connection that waits until `until`.
    pub(super) fn await_end_of_delay(&mut self, conn: ConnId, until: Duration) {
        let wait = self.config.keepalive_wait(self.table.len());
        let at = wait.map_or(until, |wait| until.min(self.now + wait));
        self.table.set_deadline(conn, Some(at));
    }

    fn send_last(&mut self, conn: ConnId) {
        let Some(connection) = self.table.get(conn) else { return };
        if let Some(bytes) = &connection.last {
            self.out.push_back(Transmit { route: connection.route, bytes: **bytes });
        }
    }

    /// Repeats a message without an answer, or gives up the connection.
    fn retransmit(&mut self, conn: ConnId) {
        let Some(connection) = self.table.get_mut(conn) else { return };
        let Some(retries_left) = connection.retries_left.checked_sub(1) else {
            return self.give_up(conn);
        };
        connection.retries_left = retries_left;
        connection.delayed_until = None;
        let at = self.now + connection.wait;
        self.send_last(conn);
        self.table.set_deadline(conn, Some(at));
    }

    /// Schedules the next keepalive of an established connection.
    pub(super) fn await_keepalive(&mut self, conn: ConnId) {
        let wait = self.config.keepalive_wait(self.table.established());
        self.table.set_deadline(conn, wait.map(|wait| self.now + wait));
    }

    /// Sends a message that changes nothing at a live peer (CM-4.10). If the peer's process is
    /// gone, an ICMP error says so; a process that replaced it does not know the connection and
    /// rejects it.
    fn keep_alive(&mut self, conn: ConnId) {
        if let Some(connection) = self.table.get(conn) {
            self.answer(connection.route, connection.rtu().emit());
        }
        self.await_keepalive(conn);
    }

    /// Gives up after the last repetition. A peer that is reachable, and whose answers were lost,
    /// is told, so that it does not keep the connection.
    fn give_up(&mut self, conn: ConnId) {
        let Some(connection) = self.table.get(conn) else { return };
        match connection.state {
            State::ReqSent | State::RepSent => {
                self.queue_event(conn, Event::Unreachable { conn });
                self.send_rej(conn, reason::TIMEOUT, &[]);
            }
            State::DreqSent => self.set_disconnected(conn, true),
            _ => self.end(conn, Event::Unreachable { conn }),
        }
    }
}
