//! SENDs that are repeated, when their memory may be gone.
//!
//! A program may know that a message arrived before its adapter does: the peer answered it, and
//! only the acknowledgement was lost. It may then give the memory back, and libfabric 2.5 lets it.
//! Hardware pins registered memory and reads it regardless; this adapter runs in the program and
//! would fault. So a repetition is read through the kernel, and one that cannot be read asks in its
//! place whether the message has arrived (SRD-6.7).

use srd::wire::DataRepr;
use srd::{HEADER_MAX, Instant, Transmit};

use super::{Core, OP_GONE};
use crate::own_memory;
use crate::qp::socket_addr;
use crate::status::Status;
use crate::wire::RDMA_BLOCK_BYTES;

impl Core {
    /// Sends SEND `index` again, at once: what was read stays only until the next one.
    pub(super) fn send_again(
        &mut self,
        now: Instant,
        out: &Transmit,
        header: &[u8; HEADER_MAX],
        index: u32,
    ) {
        if self.trace.is_some() {
            self.trace_transmit(out, header);
        }
        let mut bytes = std::mem::take(&mut self.again);
        bytes.clear();
        let header = &header[..out.header_len];
        let is_ours = self.sq.get(index).is_some_and(|slot| slot.is_readable(&mut self.send_mrs));
        let to = socket_addr(out.addr.host, out.addr.qpn);
        if is_ours && own_memory::append(self.sq.payload(index), &mut bytes) {
            self.batch.push(to, out.path.0, header, own_memory::whole(&bytes));
        } else {
            if let Some(slot) = self.sq.get_mut(index) {
                slot.fault = Some(Status::LocalInvalidLkey);
            }
            let payload_len = out.payload_len as usize;
            // Every operation but a SEND has a block, which counts as a header.
            let block_len = payload_len.min(RDMA_BLOCK_BYTES);
            let mut question = [0; HEADER_MAX + RDMA_BLOCK_BYTES];
            question[..header.len()].copy_from_slice(header);
            DataRepr::replace_op(&mut question[..header.len()], OP_GONE);
            bytes.resize(payload_len - block_len, 0);
            let headers = &question[..header.len() + block_len];
            self.batch.push(to, out.path.0, headers, own_memory::whole(&bytes));
        }
        self.batch.tag_last(out.peer.zip(out.msg));
        self.send_batch(now);
        self.again = bytes;
    }
}
