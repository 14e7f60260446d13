//! The programs that have come, each heard by a thread of its own. A descriptor that a program
//! sends along may be anything: whoever closes it, or asks what it is, may have to wait for as long
//! as a peer or a file system of that program wishes. Neither packets nor other programs do.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use rustix::net::{Shutdown, shutdown};

use super::claims::Orphan;
use super::door::{self, Door, ProgramMessage, Visitor};
use super::envelope::Key;
use super::message::{Question, SeatKind, Status};
use super::table::{ProgramId, Seat, Table};
use crate::descriptor::with_descriptor;
use crate::{host, lifecycle};

/// Programs at a time, and of one user. One that is gone counts until all that it sent is closed.
const PROGRAMS_MAX: usize = 4096;
const PROGRAMS_OF_ONE_MAX: usize = 1024;
/// Those who were refused and whose sockets are not closed yet.
const REFUSED_MAX: usize = 1024;
/// How long nobody is let in when no descriptor is left, or when too many refused ones wait.
const DOOR_SHUT: Duration = Duration::from_secs(1);
/// How often a socket is looked at while others are admitted at its address and port.
const PROOFS_MAX: usize = 4;
const STACK_BYTES: usize = 256 << 10;

/// The programs, and the threads that hear them; these end when it is dropped.
#[derive(Debug)]
pub(super) struct Programs {
    shared: Arc<Shared>,
    door: Arc<Door>,
    /// Dropped, it tells the thread at the door that it is over.
    over: Option<Sender<()>>,
    /// It is closed when that thread has ended.
    ended: Receiver<()>,
}

#[derive(Debug)]
struct Shared {
    /// Addresses that are served.
    addrs: Vec<IpAddr>,
    /// Readable when there are orphans.
    wake: OwnedFd,
    state: Mutex<State>,
}

/// What the threads of programs and that of packets share.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) table: Table,
    /// Connections of programs that are gone, whose peers are to be told.
    orphans: Vec<Orphan>,
    refused: u64,
    present: BTreeMap<ProgramId, Present>,
    last: ProgramId,
    is_over: bool,
}

/// A program whose thread runs. The thread owns the socket: closing it closes what is still in it.
#[derive(Debug)]
struct Present {
    uid: u32,
    socket: Weak<OwnedFd>,
}

/// The socket by which a question came, and what came along with it.
#[derive(Clone, Copy)]
struct Sent<'a> {
    way: &'a OwnedFd,
    file: Option<&'a OwnedFd>,
}

impl Programs {
    /// Lets programs in, which are served at `addrs`.
    pub(super) fn open(door: Door, addrs: Vec<IpAddr>) -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let wake = with_descriptor(|| Ok(eventfd(0, flags)?))?;
        let shared = Arc::new(Shared { addrs, wake, state: Mutex::default() });
        let door = Arc::new(door);
        let (over, is_over) = mpsc::channel();
        let (ends, ended) = mpsc::channel::<()>();
        let (refuse, refused) = mpsc::sync_channel(REFUSED_MAX);
        let entrance =
            Entrance { shared: Arc::clone(&shared), door: Arc::clone(&door), is_over, refuse };
        let is_begun = start("softefa-refused", move || refused.into_iter().for_each(drop))
            && start("softefa-door", move || {
                entrance.let_in();
                drop(entrance);
                drop(ends);
            });
        if !is_begun {
            return Err(io::Error::other("no thread can be started"));
        }
        Ok(Self { shared, door, over: Some(over), ended })
    }

    /// Readable when [`Programs::orphans`] has some.
    pub(super) fn fd(&self) -> &OwnedFd {
        &self.shared.wake
    }

    /// Takes the connections that programs have left behind since the last time.
    pub(super) fn orphans(&self) -> Vec<Orphan> {
        let _ = rustix::io::read(&self.shared.wake, &mut [0; 8]);
        std::mem::take(&mut self.state().orphans)
    }

    /// While this is held, no program gets an answer.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state()
    }

    /// So many requests were refused.
    pub(super) fn refused(&self) -> u64 {
        self.state().refused
    }

    /// Programs whose threads have not ended, whether they are gone or not.
    #[cfg(test)]
    pub(super) fn present(&self) -> usize {
        self.state().present.len()
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        let sockets: Vec<_> = {
            let mut state = self.state();
            state.is_over = true;
            state.present.values().filter_map(|present| present.socket.upgrade()).collect()
        };
        for socket in sockets {
            let _ = shutdown(&socket, Shutdown::Both);
        }
        self.over = None;
        let _ = shutdown(self.door.fd(), Shutdown::Both);
        // The name is free when the thread has let go of it, too.
        let _ = self.ended.recv();
    }
}

fn start(name: &str, run: impl FnOnce() + Send + 'static) -> bool {
    lifecycle::spawn(name, STACK_BYTES, run)
}

/// The thread at the door.
struct Entrance {
    shared: Arc<Shared>,
    door: Arc<Door>,
    is_over: Receiver<()>,
    refuse: SyncSender<OwnedFd>,
}

impl Entrance {
    fn let_in(&self) {
        while !self.shared.state().is_over {
            match self.door.next() {
                Ok(visitor) => {
                    if let Some(socket) = self.shared.receive(visitor) {
                        self.refuse(socket);
                    }
                }
                // It would be asked for ever.
                Err(_) => {
                    self.shut();
                }
            }
        }
    }

    /// Has a socket closed by a thread that may wait for it.
    fn refuse(&self, mut socket: OwnedFd) {
        self.shared.state().refused += 1;
        // The program need not wait.
        let _ = shutdown(&socket, Shutdown::Both);
        while let Err(TrySendError::Full(back)) = self.refuse.try_send(socket) {
            if self.shut() {
                return;
            }
            socket = back;
        }
    }

    /// Waits for a while; true when it is over.
    fn shut(&self) -> bool {
        self.is_over.recv_timeout(DOOR_SHUT) == Err(RecvTimeoutError::Disconnected)
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a visitor a thread; or the socket back when it is refused.
    fn receive(self: &Arc<Self>, Visitor { socket, uid }: Visitor) -> Option<OwnedFd> {
        let Some(uid) = uid else { return Some(socket) };
        let id = {
            let mut state = self.state();
            let of_user = state.present.values().filter(|present| present.uid == uid).count();
            if of_user >= PROGRAMS_OF_ONE_MAX || state.present.len() >= PROGRAMS_MAX {
                return Some(socket);
            }
            state.last += 1;
            let id = state.last;
            state.table.come(id, uid);
            state.present.insert(id, Present { uid, socket: Weak::new() });
            id
        };
        // A thread that cannot be started would close it here.
        let (give, take) = mpsc::sync_channel(1);
        let shared = Arc::clone(self);
        let serve = move || {
            if let Ok(socket) = take.recv() {
                shared.serve(id, socket);
            }
        };
        if start("softefa-program", serve) {
            return give.send(socket).err().map(|mpsc::SendError(socket)| socket);
        }
        let mut state = self.state();
        state.table.leave(id);
        state.present.remove(&id);
        Some(socket)
    }

    /// Serves a program until it goes.
    fn serve(&self, id: ProgramId, socket: OwnedFd) {
        let socket = Arc::new(socket);
        {
            let mut state = self.state();
            let is_over = state.is_over;
            match state.present.get_mut(&id) {
                Some(present) if !is_over => present.socket = Arc::downgrade(&socket),
                _ => return,
            }
        }
        while self.answer_one(id, &socket) {}
        self.leave(id);
        // What it did not stay to hear of is closed with it.
        drop(socket);
        self.state().present.remove(&id);
    }

    /// Answers the next question of a program; false when it is gone, or as good as that.
    fn answer_one(&self, id: ProgramId, socket: &OwnedFd) -> bool {
        let (question, file) = match door::hear(socket) {
            ProgramMessage::Nothing => return true,
            ProgramMessage::Goodbye => return false,
            ProgramMessage::Strange => (None, None),
            ProgramMessage::Lost => {
                self.state().refused += 1;
                return door::answer(socket, Status::NoDescriptor, Key([0; 16]));
            }
            ProgramMessage::Question(question, file) => (Some(question), file),
        };
        let sent = Sent { way: socket, file: file.as_ref() };
        let Some((status, key)) = self.obey(id, question, sent) else { return true };
        if status != Status::Done {
            self.state().refused += 1;
        }
        door::answer(socket, status, key)
    }

    /// Does what a program asks, and returns what it is told; `None` when it waits for nothing.
    fn obey(
        &self,
        id: ProgramId,
        question: Option<Question>,
        sent: Sent<'_>,
    ) -> Option<(Status, Key)> {
        let nothing = Key([0; 16]);
        let serves = |addr: IpAddr| self.addrs.contains(&addr);
        let status = match question {
            None => Status::Strange,
            Some(Question::Serves(addr) | Question::Claim(addr, _)) if !serves(addr) => {
                Status::NotServed
            }
            Some(Question::Admit(at, _)) if !serves(at.ip()) => Status::NotServed,
            Some(Question::Serves(_)) => Status::Done,
            Some(Question::Claim(addr, claimed)) => self.state().table.claim(id, addr, claimed),
            Some(Question::Release(at)) => {
                self.state().table.release(id, at);
                return None;
            }
            Some(Question::Admit(at, kind)) => return Some(self.admit(id, at, kind, sent)),
        };
        Some((status, nothing))
    }

    /// Admits the socket that came along. Its proof is the newest one: where another came in
    /// between, it is looked at again.
    fn admit(
        &self,
        program: ProgramId,
        at: SocketAddr,
        kind: SeatKind,
        Sent { way, file }: Sent<'_>,
    ) -> (Status, Key) {
        let nothing = Key([0; 16]);
        let Ok(bytes) = host::unguessable_bytes() else { return (Status::Full, nothing) };
        let seat = Seat { program, kind, key: Key(bytes) };
        let Some(file) = file else { return (Status::NoSocket, nothing) };
        for _ in 0..PROOFS_MAX {
            let before = self.state().table.key_at(at);
            let Some(proof) = door::prove(file, at, way) else {
                return (Status::NoSocket, nothing);
            };
            let mut state = self.state();
            if state.table.key_at(at) == before {
                let status = state.table.admit(at, seat, proof);
                return (status, if status == Status::Done { seat.key } else { nothing });
            }
        }
        (Status::Taken, nothing)
    }

    /// Forgets what a program has.
    fn leave(&self, id: ProgramId) {
        let mut state = self.state();
        let orphans = state.table.leave(id);
        if !orphans.is_empty() {
            state.orphans.extend(orphans);
            let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
        }
    }
}
