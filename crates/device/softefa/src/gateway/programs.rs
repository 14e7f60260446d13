//! Serves each registered program on a thread of its own. A program may send any descriptor along,
//! and closing or inspecting a descriptor can block for as long as a peer or a file system of that
//! program likes. Neither packets nor other programs are held up by that.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use rustix::net::{Shutdown, shutdown};

use super::claims::OrphanedConnection;
use super::envelope::Key;
use super::message::{Question, SocketKind, Status};
use super::program_socket::{self, Client, ProgramListener, ProgramMessage};
use super::table::{ProgramId, Registration, Table};
use crate::descriptor::with_descriptor;
use crate::{host, lifecycle};

/// The most programs at a time. A program that is gone counts until everything it sent is closed.
const PROGRAMS_MAX: usize = 4096;
/// The most programs of one user, counted in the same way.
const PROGRAMS_PER_USER_MAX: usize = 1024;
/// The most refused connections whose sockets are not closed yet.
const REFUSED_QUEUE_MAX: usize = 1024;
/// The pause in accepting when no descriptor is left, or when the queue of refused sockets is full.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);
/// The most attempts to verify a socket while others are registered at its address and port.
const PROOF_ATTEMPTS_MAX: usize = 4;
const STACK_BYTES: usize = 256 << 10;

/// The registered programs and their threads, which end when this is dropped.
#[derive(Debug)]
pub(super) struct Programs {
    shared: Arc<Shared>,
    listener: Arc<ProgramListener>,
    /// Dropping it tells the accepting thread to stop.
    stop: Option<Sender<()>>,
    /// It is disconnected when that thread has ended.
    stopped: Receiver<()>,
}

#[derive(Debug)]
struct Shared {
    /// The addresses that are served.
    addrs: Vec<IpAddr>,
    /// It is readable when there are orphaned connections.
    wake: OwnedFd,
    state: Mutex<State>,
}

/// The state that the threads of programs share with the thread that forwards packets.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) table: Table,
    /// Connections of programs that are gone, whose peers have not been told yet.
    orphans: Vec<OrphanedConnection>,
    refused: u64,
    served: BTreeMap<ProgramId, ServedProgram>,
    last: ProgramId,
    is_stopping: bool,
}

/// A program whose thread runs. That thread owns the socket: closing the socket also closes the
/// descriptors that are still queued in it.
#[derive(Debug)]
struct ServedProgram {
    uid: u32,
    socket: Weak<OwnedFd>,
}

/// The socket that a question came from, and the descriptor that came with it.
#[derive(Clone, Copy)]
struct QuestionSource<'a> {
    gateway_socket: &'a OwnedFd,
    file: Option<&'a OwnedFd>,
}

impl Programs {
    /// Starts to accept programs, and serves them at `addrs`.
    pub(super) fn open(listener: ProgramListener, addrs: Vec<IpAddr>) -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let wake = with_descriptor(|| Ok(eventfd(0, flags)?))?;
        let shared = Arc::new(Shared { addrs, wake, state: Mutex::default() });
        let listener = Arc::new(listener);
        let (stop, is_stopping) = mpsc::channel();
        let (stops, stopped) = mpsc::channel::<()>();
        let (refuse, refused) = mpsc::sync_channel(REFUSED_QUEUE_MAX);
        let acceptor = Acceptor {
            shared: Arc::clone(&shared),
            listener: Arc::clone(&listener),
            is_stopping,
            refuse,
        };
        let is_started = spawn("softefa-refused", move || refused.into_iter().for_each(drop))
            && spawn("softefa-accept", move || {
                acceptor.accept_programs();
                drop(acceptor);
                drop(stops);
            });
        if !is_started {
            return Err(io::Error::other("no thread can be started"));
        }
        Ok(Self { shared, listener, stop: Some(stop), stopped })
    }

    /// It becomes readable when [`Programs::take_orphans`] has something to return.
    pub(super) fn fd(&self) -> &OwnedFd {
        &self.shared.wake
    }

    /// Takes the connections that programs have left behind since the last call.
    pub(super) fn take_orphans(&self) -> Vec<OrphanedConnection> {
        let _ = rustix::io::read(&self.shared.wake, &mut [0; 8]);
        std::mem::take(&mut self.state().orphans)
    }

    /// Locks the state. No program gets an answer while the lock is held.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state()
    }

    /// Returns the number of refused requests.
    pub(super) fn refused(&self) -> u64 {
        self.state().refused
    }

    /// Returns the number of programs whose threads still run, including programs that are gone.
    #[cfg(test)]
    pub(super) fn served(&self) -> usize {
        self.state().served.len()
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        let sockets: Vec<_> = {
            let mut state = self.state();
            state.is_stopping = true;
            state.served.values().filter_map(|served| served.socket.upgrade()).collect()
        };
        for socket in sockets {
            let _ = shutdown(&socket, Shutdown::Both);
        }
        self.stop = None;
        let _ = shutdown(self.listener.fd(), Shutdown::Both);
        // The name is free only when the accepting thread has closed the listener, too.
        let _ = self.stopped.recv();
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> bool {
    lifecycle::spawn(name, STACK_BYTES, run)
}

/// The thread that accepts programs.
struct Acceptor {
    shared: Arc<Shared>,
    listener: Arc<ProgramListener>,
    is_stopping: Receiver<()>,
    refuse: SyncSender<OwnedFd>,
}

impl Acceptor {
    fn accept_programs(&self) {
        while !self.shared.state().is_stopping {
            match self.listener.accept() {
                Ok(client) => {
                    if let Some(socket) = self.shared.serve_client(client) {
                        self.refuse(socket);
                    }
                }
                // Without a pause the loop would spin.
                Err(_) => {
                    self.pause();
                }
            }
        }
    }

    /// Passes a socket to the thread that closes refused sockets, because closing may block.
    fn refuse(&self, mut socket: OwnedFd) {
        self.shared.state().refused += 1;
        // So the program does not wait for an answer.
        let _ = shutdown(&socket, Shutdown::Both);
        while let Err(TrySendError::Full(back)) = self.refuse.try_send(socket) {
            if self.pause() {
                return;
            }
            socket = back;
        }
    }

    /// Pauses; returns true if the thread is to stop.
    fn pause(&self) -> bool {
        self.is_stopping.recv_timeout(ACCEPT_PAUSE) == Err(RecvTimeoutError::Disconnected)
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a thread for a client, or returns the socket of a client that is refused.
    fn serve_client(self: &Arc<Self>, Client { socket, uid }: Client) -> Option<OwnedFd> {
        let Some(uid) = uid else { return Some(socket) };
        let id = {
            let mut state = self.state();
            let of_user = state.served.values().filter(|served| served.uid == uid).count();
            if of_user >= PROGRAMS_PER_USER_MAX || state.served.len() >= PROGRAMS_MAX {
                return Some(socket);
            }
            state.last += 1;
            let id = state.last;
            state.table.register_program(id, uid);
            state.served.insert(id, ServedProgram { uid, socket: Weak::new() });
            id
        };
        // If the thread cannot be started, the closure is dropped here, and must not close the
        // socket.
        let (handover, receiver) = mpsc::sync_channel(1);
        let shared = Arc::clone(self);
        let serve = move || {
            if let Ok(socket) = receiver.recv() {
                shared.serve(id, socket);
            }
        };
        if spawn("softefa-program", serve) {
            return handover.send(socket).err().map(|mpsc::SendError(socket)| socket);
        }
        let mut state = self.state();
        state.table.unregister_program(id);
        state.served.remove(&id);
        Some(socket)
    }

    /// Serves a program until it disconnects.
    fn serve(&self, id: ProgramId, socket: OwnedFd) {
        let socket = Arc::new(socket);
        {
            let mut state = self.state();
            let is_stopping = state.is_stopping;
            match state.served.get_mut(&id) {
                Some(served) if !is_stopping => served.socket = Arc::downgrade(&socket),
                _ => return,
            }
        }
        while self.serve_question(id, &socket) {}
        self.leave(id);
        // This also closes descriptors that the program sent and that were never received.
        drop(socket);
        self.state().served.remove(&id);
    }

    /// Answers the next question of a program; returns false when the program is gone or cannot be
    /// reached any more.
    fn serve_question(&self, id: ProgramId, socket: &OwnedFd) -> bool {
        let (question, file) = match program_socket::receive_question(socket) {
            ProgramMessage::Interrupted => return true,
            ProgramMessage::Disconnected => return false,
            ProgramMessage::Malformed => (None, None),
            ProgramMessage::DescriptorLost => {
                self.state().refused += 1;
                return program_socket::send_answer(socket, Status::NoDescriptor, Key([0; 16]));
            }
            ProgramMessage::Question(question, file) => (Some(question), file),
        };
        let source = QuestionSource { gateway_socket: socket, file: file.as_ref() };
        let Some((status, key)) = self.handle_question(id, question, source) else { return true };
        if status != Status::Done {
            self.state().refused += 1;
        }
        program_socket::send_answer(socket, status, key)
    }

    /// Handles a question and returns the answer; `None` for a question that has no answer.
    fn handle_question(
        &self,
        id: ProgramId,
        question: Option<Question>,
        source: QuestionSource<'_>,
    ) -> Option<(Status, Key)> {
        let nothing = Key([0; 16]);
        let serves = |addr: IpAddr| self.addrs.contains(&addr);
        let status = match question {
            None => Status::Invalid,
            Some(Question::Serves(addr) | Question::Claim(addr, _)) if !serves(addr) => {
                Status::NotServed
            }
            Some(Question::Register(at, _)) if !serves(at.ip()) => Status::NotServed,
            Some(Question::Serves(_)) => Status::Done,
            Some(Question::Claim(addr, claimed)) => self.state().table.claim(id, addr, claimed),
            Some(Question::Release(at)) => {
                self.state().table.release_socket(id, at);
                return None;
            }
            Some(Question::Register(at, kind)) => {
                return Some(self.register_socket(id, at, kind, source));
            }
        };
        Some((status, nothing))
    }

    /// Registers the socket that came with the question. The newest proof wins, so the socket is
    /// verified again if another one was registered in the meantime.
    fn register_socket(
        &self,
        program: ProgramId,
        at: SocketAddr,
        kind: SocketKind,
        QuestionSource { gateway_socket, file }: QuestionSource<'_>,
    ) -> (Status, Key) {
        let nothing = Key([0; 16]);
        let Ok(bytes) = host::unguessable_bytes() else { return (Status::Full, nothing) };
        let registration = Registration { program, kind, key: Key(bytes) };
        let Some(file) = file else { return (Status::NoSocket, nothing) };
        for _ in 0..PROOF_ATTEMPTS_MAX {
            let before = self.state().table.key_at(at);
            let Some(proof) = program_socket::prove_binding(file, at, gateway_socket) else {
                return (Status::NoSocket, nothing);
            };
            let mut state = self.state();
            if state.table.key_at(at) == before {
                let status = state.table.register_socket(at, registration, proof);
                return (status, if status == Status::Done { registration.key } else { nothing });
            }
        }
        (Status::Taken, nothing)
    }

    /// Unregisters a program and keeps its connections as orphans.
    fn leave(&self, id: ProgramId) {
        let mut state = self.state();
        let orphans = state.table.unregister_program(id);
        if !orphans.is_empty() {
            state.orphans.extend(orphans);
            let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
        }
    }
}
