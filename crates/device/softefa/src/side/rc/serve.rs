//! Serving packets: filling receives, writing and reading memory.

use rc::wire::Feth;
use rc::{
    Arrival, Atomic, Range, ReadData, Reject, SendData, Verify, WrId, WriteData, WriteReceive,
};

use super::RcSide;
use crate::completion::CompletionOp;
use crate::counters::Counter;
use crate::datagram::Payload;
use crate::memory::{self, Gone};
use crate::mr::{MwBind, RemoteRange, Right, WindowUser};
use crate::rq::RecvWqe;
use crate::status::Status;

/// Programs take the last bytes of a WRITE as a sign that the others are there, so these are stored
/// last.
const LAST_BYTES: usize = 8;

/// The refusal of what memory of this side cannot take or give.
const LOCAL: Reject = Reject::Local(rc::Status::LocalProtection);

impl RcSide {
    /// Does what the packet asks for; returns the former value for an atomic.
    pub(super) fn serve(
        &mut self,
        arrival: &Arrival,
        payload: Payload<'_>,
    ) -> Result<Option<u64>, Reject> {
        match *arrival {
            Arrival::Send(data) => self.serve_send(&data, payload)?,
            Arrival::Write(data) => self.serve_write(&data, payload)?,
            Arrival::Read(range) => {
                self.check(range, Right::Read)?;
                self.has_long |= range.len > self.shell.attrs.path_mtu_bytes;
                let bytes = u64::from(range.len);
                self.shell.device.counters.add(Counter::RdmaReadRespBytes, bytes);
            }
            Arrival::Atomic(atomic) => return self.serve_atomic(&atomic).map(Some),
            Arrival::AtomicWrite(to) => {
                let memory = self.check(Range { remote: to, len: 8 }, Right::Write)?;
                let mut word = [0; 8];
                let here = word.as_mut_ptr() as usize as u64;
                payload.split_at(8).0.copy_to(here).map_err(|Gone| Reject::Access)?;
                let word = u64::from_ne_bytes(word);
                in_one_step(memory)?;
                memory::update(memory, |_| word).map_err(|Gone| Reject::Access)?;
                self.is_written = true;
            }
            Arrival::Flush(range, extent) => self.check_flush(range, extent)?,
            Arrival::Verify(verify) => self.verify(&verify)?,
            Arrival::ReadData(data) => self.take_read_data(&data, payload)?,
            Arrival::AtomicData { id, original } => {
                let bytes = original.to_ne_bytes();
                let len = bytes.len() as u32;
                self.take_read_data(&ReadData { id, offset: 0, len }, (&bytes[..]).into())?;
            }
        }
        Ok(None)
    }

    fn serve_send(&mut self, data: &SendData, payload: Payload<'_>) -> Result<(), Reject> {
        if data.is_start && self.current.is_none() {
            if self.serve_short(data, payload)? {
                return Ok(());
            }
            self.current = Some(self.next_request().ok_or(Reject::NotReady)?);
        }
        let placed = self.place_part(data, payload);
        if placed == Err(LOCAL) && !self.is_reliable {
            if let Some(wqe) = self.current.take() {
                // The connection goes on, and this receive would lose each message that comes.
                self.shell.fail_recv(&wqe, Status::LocalInvalidLkey);
            }
        }
        placed?;
        let Some(end) = data.end else { return Ok(()) };
        let gone = end.invalidate.map(|key| self.invalidate(key));
        if gone == Some(false) {
            return Err(Reject::Invalidate);
        }
        if let Some(wqe) = self.current.take() {
            let total = end.total as usize;
            self.shell.complete_recv(wqe.wr_id, &self.peer_name, total, end.imm, false);
            if let Some(done) = self.shell.recvs_done.last_mut() {
                (done.invalidated, done.is_solicited) = (end.invalidate, end.is_solicited);
            }
        }
        Ok(())
    }

    /// Puts a message of one packet into the first receive of the queue pair's own queue, in place.
    /// Returns false if the general path is needed; then nothing has happened yet.
    fn serve_short(&mut self, data: &SendData, payload: Payload<'_>) -> Result<bool, Reject> {
        let Some(end) = data.end.filter(|end| end.invalidate.is_none()) else { return Ok(false) };
        if !self.fits_first_receive(end.total) {
            return Ok(false);
        }
        self.takes_receives = true;
        if self.shell.deal_not_ready() {
            return Err(Reject::NotReady);
        }
        Ok(self.fill_first_receive(end.total, payload, end.imm, end.is_solicited))
    }

    /// Returns true if a message of `len` bytes can go into the first receive of the queue pair's
    /// own queue.
    #[inline]
    pub(super) fn fits_first_receive(&mut self, len: u32) -> bool {
        let shell = &mut self.shell;
        if !shell.has_own_receives() {
            return false;
        }
        let Some(wqe) = shell.rq.front() else { return false };
        len <= wqe.capacity && wqe.is_writable_at(&mut shell.recv_mrs, 0, len as usize)
    }

    /// Completes the first receive, which takes it, with a message. Returns false if its memory is
    /// gone.
    #[inline]
    pub(super) fn fill_first_receive(
        &mut self,
        len: u32,
        payload: Payload<'_>,
        imm: Option<u32>,
        is_solicited: bool,
    ) -> bool {
        let shell = &mut self.shell;
        let Some(wqe) = shell.rq.front() else { return false };
        if wqe.fill(0, payload.split_at(len as usize).0).is_err() {
            return false;
        }
        self.carried.received_bytes += u64::from(len);
        let wr_id = wqe.wr_id;
        shell.rq.drop_first();
        shell.complete_recv(wr_id, &self.peer_name, len as usize, imm, false);
        if let Some(done) = shell.recvs_done.last_mut() {
            done.is_solicited = is_solicited;
        }
        true
    }

    /// Puts a part of a message into its receive.
    fn place_part(&mut self, data: &SendData, payload: Payload<'_>) -> Result<(), Reject> {
        // The engine lets no message begin elsewhere.
        let wqe = self.current.as_ref().ok_or(Reject::Invalid)?;
        if u64::from(data.offset) + u64::from(data.len) > u64::from(wqe.capacity) {
            return Err(Reject::TooLong);
        }
        if data.len > 0 {
            let (offset, len) = (data.offset as usize, data.len as usize);
            if !wqe.is_writable_at(&mut self.shell.recv_mrs, offset, len) {
                return Err(LOCAL);
            }
            let bytes = payload.split_at(len).0;
            wqe.fill(offset, bytes).map_err(|Gone| LOCAL)?;
            self.carried.received_bytes += u64::from(data.len);
        }
        Ok(())
    }

    fn serve_write(&mut self, data: &WriteData, payload: Payload<'_>) -> Result<(), Reject> {
        // That of a message that was lost on the way is still there.
        if data.receive.is_some() && self.current.is_none() {
            self.current = Some(self.next_request().ok_or(Reject::NotReady)?);
        }
        let memory = self.check(data.range, Right::Write)?;
        if data.len > 0 {
            let bytes = payload.split_at(data.len as usize).0;
            let placed = self.place_written(memory + u64::from(data.offset), bytes);
            placed.map_err(|Gone| Reject::Access)?;
        }
        if let Some(WriteReceive { imm, is_solicited, .. }) = data.receive {
            if let Some(wqe) = self.current.take() {
                let len = data.range.len as usize;
                self.shell.complete_recv(wqe.wr_id, &self.peer_name, len, Some(imm), false);
                if let Some(done) = self.shell.recvs_done.last_mut() {
                    (done.op, done.is_solicited) = (CompletionOp::RecvWrite, is_solicited);
                }
            }
        }
        Ok(())
    }

    /// Puts bytes that the peer writes to `to`, which it may write.
    #[inline]
    pub(super) fn place_written(&mut self, to: u64, bytes: Payload<'_>) -> Result<(), Gone> {
        place(bytes, to)?;
        let len = bytes.len() as u64;
        self.is_written = true;
        self.carried.received_bytes += len;
        self.shell.device.counters.add(Counter::RdmaWriteRecvBytes, len);
        Ok(())
    }

    fn serve_atomic(&mut self, atomic: &Atomic) -> Result<u64, Reject> {
        let Atomic { remote, op } = *atomic;
        let memory = self.check(Range { remote, len: 8 }, Right::Atomic)?;
        in_one_step(memory)?;
        self.is_written = true;
        memory::update(memory, |found| op.apply(found)).map_err(|Gone| Reject::Access)
    }

    fn verify(&mut self, verify: &Verify) -> Result<(), Reject> {
        if verify.needs_receive && self.current.is_none() {
            self.current = Some(self.next_request().ok_or(Reject::NotReady)?);
        }
        if let Some((range, right)) = verify.memory {
            let right = match right {
                rc::Right::Read => Right::Read,
                rc::Right::Write => Right::Write,
                rc::Right::Atomic => Right::Atomic,
            };
            self.check(range, right)?;
        }
        Ok(())
    }

    /// Scatters the bytes of the peer's memory over the entries of the work request.
    fn take_read_data(&mut self, data: &ReadData, payload: Payload<'_>) -> Result<(), Reject> {
        let index = index_of(data.id);
        let slot = self.shell.sq.get(index).ok_or(LOCAL)?;
        if data.len > 0 && !slot.is_writable(&mut self.shell.send_mrs) {
            return Err(LOCAL);
        }
        let mut rest = payload.split_at(data.len as usize).0;
        for piece in self.shell.sq.part(index, data.offset, data.len) {
            let (bytes, later) = rest.split_at(piece.len);
            place(bytes, piece.addr).map_err(|Gone| LOCAL)?;
            rest = later;
        }
        self.carried.received_bytes += u64::from(data.len);
        Ok(())
    }

    /// Takes the next receive without checking its memory: a message that cannot be stored there
    /// ends the connection.
    fn next_request(&mut self) -> Option<RecvWqe> {
        self.takes_receives = true;
        if self.shell.deal_not_ready() {
            return None;
        }
        let wqe = self.shell.take_receive();
        if wqe.is_none() {
            self.lint_no_receive();
        }
        wqe
    }

    /// Binds a window; returns false if that is impossible.
    pub(super) fn bind(&self, bind: &MwBind) -> bool {
        let shell = &self.shell;
        shell.device.mrs.bind(bind, WindowUser { pd: shell.pd, qp: shell.id }).is_ok()
    }

    /// Invalidates a window; returns false if that is impossible.
    pub(super) fn invalidate(&self, key: u32) -> bool {
        let shell = &self.shell;
        shell.device.mrs.invalidate(key, WindowUser { pd: shell.pd, qp: shell.id }).is_ok()
    }

    /// Handles a FLUSH. Writes are visible at once. No memory here survives a loss of power, so
    /// none may be registered for persistence.
    fn check_flush(&mut self, range: Range, extent: Feth) -> Result<(), Reject> {
        if extent.is_persistent {
            return Err(Reject::Access);
        }
        if !extent.is_whole_region {
            return self.check(range, Right::Flush).map(drop);
        }
        let is_granted = self.shell.remote_mrs.grants_whole(range.remote.rkey, Right::Flush);
        if is_granted { Ok(()) } else { Err(Reject::Access) }
    }

    /// Returns where the bytes of `range` lie, all of which the peer may use. No bytes need no
    /// permission.
    pub(super) fn check(&mut self, range: Range, right: Right) -> Result<u64, Reject> {
        if range.len == 0 {
            return Ok(range.remote.va);
        }
        let (key, addr) = (range.remote.rkey, range.remote.va);
        let asked = RemoteRange { key, addr, len: range.len };
        let found = self.shell.remote_mrs.grant(asked, right, self.shell.id);
        if found.is_none() {
            self.lint_access(range, right);
        }
        found.map(|grant| grant.addr).ok_or(Reject::Access)
    }
}

/// Returns the slot of a work request.
#[expect(clippy::cast_possible_truncation, reason = "names of work requests are slots")]
pub(super) fn index_of(id: WrId) -> u32 {
    id.0 as u32
}

/// Copies `bytes` to `to`, the last ones last.
fn place(bytes: Payload<'_>, to: u64) -> Result<(), Gone> {
    let body = bytes.len().saturating_sub(LAST_BYTES);
    let (body, last) = bytes.split_at(body);
    let last_at = to + body.len() as u64;
    body.copy_to(to)?;
    last.copy_to(last_at)
}

/// Refuses memory that no instruction can change atomically. The engine has checked the address
/// that the peer names, which may be relative to a window.
fn in_one_step(memory: u64) -> Result<(), Reject> {
    if memory % 8 == 0 { Ok(()) } else { Err(Reject::Access) }
}
