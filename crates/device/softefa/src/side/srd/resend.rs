//! Repetition of messages whose memory may be gone.
//!
//! A program may know that a message arrived before its adapter does: the peer has answered it, and
//! only the acknowledgement was lost. It may then free the memory, and libfabric 2.5 lets it.
//! Hardware pins registered memory and reads it regardless; this adapter runs in the program and
//! would fault. So a repetition is read through the kernel, and one that cannot be read is replaced
//! by the question whether the message has arrived (SRD-6.7). A READ of memory that is gone fails.

use srd::wire::DataRepr;
use srd::{HEADER_MAX, Instant, Transmit};

use super::rdma::{Block, Body, Part};
use super::{OP_GONE, SrdSide, socket_addr};
use crate::counters::Counter;
use crate::own_memory;
use crate::status::Status;
use crate::wire::Via;

impl SrdSide {
    /// Returns true if a repetition of `part` takes bytes from a program's memory.
    pub(super) fn may_be_gone(&self, part: Part) -> bool {
        match part {
            Part::Send(index) | Part::Write(index, _) => {
                self.shell.sq.get(index).is_some_and(|slot| !slot.is_inline())
            }
            Part::ReadData(..) => true,
            _ => false,
        }
    }

    /// Repeats `part`.
    pub(super) fn send_again(
        &mut self,
        now: Instant,
        out: &Transmit,
        header: &[u8; HEADER_MAX],
        part: Part,
    ) {
        if self.shell.is_traced() {
            self.trace_transmit(out, header);
        }
        let mut bytes = std::mem::take(&mut self.again);
        bytes.clear();
        let (mut block, is_there) = self.read_again(part, &mut bytes);
        let block_len = Block::LEN.min(out.payload_len as usize);
        let mut headers = [0; HEADER_MAX + Block::LEN];
        headers[..out.header_len].copy_from_slice(&header[..out.header_len]);
        let mut len = out.header_len;
        if !is_there {
            bytes.clear();
            bytes.resize(out.payload_len as usize - block_len, 0);
            if let (Part::ReadData(..), Some(block)) = (part, &mut block) {
                block.key = u32::from(Status::RemoteBadAddress.code());
            } else {
                self.note_gone(part);
                DataRepr::replace_op(&mut headers[..len], OP_GONE);
                // An operation that is no SEND has a block, which counts as a header.
                block = Some(Block::default());
            }
        }
        if let Some(block) = block {
            headers[len..][..block_len].copy_from_slice(&block.emit()[..block_len]);
            len += block_len;
        }
        let to = socket_addr(out.addr.host, out.addr.qpn);
        let bytes_of = own_memory::whole(&bytes);
        let pushed = self.shell.push(to, Via::Kernel(out.path.0), &headers[..len], bytes_of);
        assert!(pushed.is_ok(), "the bytes are a copy of ours");
        self.leaving.push(out.peer.map(|peer| (peer, out.msg)));
        if !self.shell.batch().is_copied(bytes.len()) {
            // What was read stays only until the next one.
            self.send_batch(now);
        }
        self.again = bytes;
    }

    /// Reads the bytes of `part`; returns its block, and whether the bytes are there.
    fn read_again(&mut self, part: Part, bytes: &mut Vec<u8>) -> (Option<Block>, bool) {
        let is_ours = match part {
            Part::Send(index) | Part::Write(index, _) => self
                .shell
                .sq
                .get(index)
                .is_some_and(|slot| slot.is_readable(&mut self.shell.send_mrs)),
            _ => true,
        };
        if let Part::Send(index) = part {
            return (None, is_ours && own_memory::append(self.shell.sq.payload(index), bytes));
        }
        let (block, body) = self.rdma_part(part);
        let is_there = match body {
            Body::Bytes(piece) => own_memory::append([piece].into_iter(), bytes),
            Body::Empty | Body::Source(_) => true,
        };
        (Some(block), is_ours && is_there)
    }

    fn note_gone(&mut self, part: Part) {
        self.shell.device.counters.add(Counter::RetransGonePkts, 1);
        let (Part::Send(index) | Part::Write(index, _)) = part else { return };
        if let Some(slot) = self.shell.sq.get_mut(index) {
            slot.is_gone = true;
        }
    }
}
