//! What is repeated, given up and forgotten.

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
                _ => self.ask_again(conn),
            }
        }
    }

    /// Repeats a message without answer, or gives the connection up.
    fn ask_again(&mut self, conn: ConnId) {
        let Some(connection) = self.table.get_mut(conn) else { return };
        let Some(retries_left) = connection.retries_left.checked_sub(1) else {
            return self.give_up(conn);
        };
        connection.retries_left = retries_left;
        connection.is_delayed = false;
        let at = self.now + connection.wait;
        if let Some(bytes) = &connection.last {
            self.out.push_back(Transmit { route: connection.route, bytes: **bytes });
        }
        self.table.set_deadline(conn, Some(at));
    }

    /// Sets when an established connection shows next whether its peer is still there.
    pub(super) fn await_keepalive(&mut self, conn: ConnId) {
        let wait = self.config.keepalive_wait(self.table.established());
        self.table.set_deadline(conn, wait.map(|wait| self.now + wait));
    }

    /// Says what changes nothing at a peer that is there (CM-4.10). Where its process was killed
    /// the network says so, and where another one has its place that one does not know the
    /// connection.
    fn keep_alive(&mut self, conn: ConnId) {
        if let Some(connection) = self.table.get(conn) {
            self.answer(connection.route, connection.rtu().emit());
        }
        self.await_keepalive(conn);
    }

    /// The last repetition was not answered either. A peer that only its answers do not reach is
    /// told, so that it does not believe in a connection.
    fn give_up(&mut self, conn: ConnId) {
        let Some(connection) = self.table.get(conn) else { return };
        match connection.state {
            State::ReqSent | State::RepSent => {
                self.tell(conn, Event::Unreachable { conn });
                self.send_rej(conn, reason::TIMEOUT, &[]);
            }
            State::DreqSent => self.set_disconnected(conn, true),
            _ => self.end(conn, Event::Unreachable { conn }),
        }
    }
}
