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
            let Some(connection) = self.table.get_mut(conn) else { continue };
            if connection.state == State::TimeWait {
                self.end(conn, Event::TimewaitExit { conn });
                continue;
            }
            let Some(retries_left) = connection.retries_left.checked_sub(1) else {
                self.give_up(conn);
                continue;
            };
            connection.retries_left = retries_left;
            connection.is_delayed = false;
            let at = self.now + connection.wait;
            if let Some(bytes) = &connection.last {
                self.out.push_back(Transmit { route: connection.route, bytes: **bytes });
            }
            self.table.set_deadline(conn, Some(at));
        }
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
