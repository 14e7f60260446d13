//! Messages: sending and receiving, plain and tagged, with immediate data.

use std::ptr;

use fabric_sys::{self as sys, call};

use crate::address::Peer;
use crate::buffers::Operation;
use crate::endpoint::Endpoint;
use crate::error::{Error, check};
use crate::hints::MessageKind;
use crate::post::{Post, PostOptions};

impl Endpoint {
    /// Posts the first `len_bytes` of `slot`; the slot is busy until its completion. `tag` is
    /// ignored by endpoints for plain messages.
    ///
    /// # Errors
    /// Returns [`Error::OtherVector`], [`Error::SlotBusy`], [`Error::NoSuchSlot`],
    /// [`Error::TooLong`] or [`Error::Call`].
    #[inline]
    pub fn send(
        &mut self,
        slot: usize,
        len_bytes: usize,
        peer: Peer,
        tag: u64,
    ) -> Result<Post, Error> {
        let to = self.number_of(peer)?;
        let claim = self.claim(slot, len_bytes)?;
        let (start, len) = (claim.start.cast(), self.wire_len(len_bytes));
        let (desc, context) = (claim.descriptor, claim.context);
        // SAFETY: the slot is free and stays untouched until its completion (`posted` makes it
        // busy); its memory, registration and context live until the endpoint is closed.
        let ret = unsafe {
            match self.messages() {
                MessageKind::Plain => call::fi_send(claim.ep, start, len, desc, to, context),
                MessageKind::Tagged => call::fi_tsend(claim.ep, start, len, desc, to, tag, context),
            }
        };
        self.posted("fi_send", ret, slot, Some(Operation::Send))
    }

    /// Sends as [`Endpoint::send`] does, with immediate data or another moment of completion.
    ///
    /// # Errors
    /// Fails as [`Endpoint::send`] does.
    pub fn send_with(
        &mut self,
        slot: usize,
        len_bytes: usize,
        peer: Peer,
        tag: u64,
        options: PostOptions,
    ) -> Result<Post, Error> {
        let addr = self.number_of(peer)?;
        let claim = self.claim_source(slot, len_bytes, options)?;
        let iov = sys::fi_iovec { iov_base: claim.start.cast(), iov_len: self.wire_len(len_bytes) };
        let (mut desc, data) = (claim.descriptor, options.data.unwrap_or(0));
        let (msg_iov, desc, iov_count) = (&raw const iov, &raw mut desc, 1);
        let (context, flags) = (claim.context, options.flags());
        // SAFETY: as in `send`; the arguments themselves are read during the call only.
        let ret = unsafe {
            match self.messages() {
                MessageKind::Plain => {
                    let msg = sys::fi_msg { msg_iov, desc, iov_count, addr, context, data };
                    call::fi_sendmsg(claim.ep, &raw const msg, flags)
                }
                MessageKind::Tagged => {
                    let ignore = 0;
                    let msg = sys::fi_msg_tagged {
                        msg_iov,
                        desc,
                        iov_count,
                        addr,
                        tag,
                        ignore,
                        context,
                        data,
                    };
                    call::fi_tsendmsg(claim.ep, &raw const msg, flags)
                }
            }
        };
        self.posted("fi_sendmsg", ret, slot, Some(Operation::Send))
    }

    /// Sends the first `len_bytes` of `slot` by copy: the slot is free again on return and no
    /// completion follows. `len_bytes` is at most `Info::inject_bytes`.
    ///
    /// # Errors
    /// Fails as [`Endpoint::send`] does.
    #[inline]
    pub fn inject(
        &mut self,
        slot: usize,
        len_bytes: usize,
        peer: Peer,
        tag: u64,
    ) -> Result<Post, Error> {
        let to = self.number_of(peer)?;
        let claim = self.claim(slot, len_bytes)?;
        let (start, len) = (claim.start.cast(), self.wire_len(len_bytes));
        // SAFETY: the slot is free; the provider does not touch it after the call.
        let ret = unsafe {
            match self.messages() {
                MessageKind::Plain => call::fi_inject(claim.ep, start, len, to),
                MessageKind::Tagged => call::fi_tinject(claim.ep, start, len, to, tag),
            }
        };
        self.posted("fi_inject", ret, slot, None)
    }

    /// Offers `slot` to the next message of any peer (with tag bits `tag` where `ignore` has zeros,
    /// for tagged endpoints); busy until its completion.
    ///
    /// # Errors
    /// Fails as [`Endpoint::send`] does.
    #[inline]
    pub fn receive(&mut self, slot: usize, tag: u64, ignore: u64) -> Result<Post, Error> {
        let claim = self.claim(slot, 0)?;
        let (start, len) = (claim.start.cast(), self.wire_len(self.max_payload_bytes()));
        let (desc, context) = (claim.descriptor, claim.context);
        let from = sys::FI_ADDR_UNSPEC;
        // SAFETY: as in `send`.
        let ret = unsafe {
            match self.messages() {
                MessageKind::Plain => call::fi_recv(claim.ep, start, len, desc, from, context),
                MessageKind::Tagged => {
                    call::fi_trecv(claim.ep, start, len, desc, from, tag, ignore, context)
                }
            }
        };
        self.posted("fi_recv", ret, slot, Some(Operation::Receive))
    }

    /// Offers `slot` to as many messages as find room in it, one behind the other; busy until the
    /// completion that says [`is_free`](crate::Completion::is_free). Read the messages with
    /// [`Buffers::message`](crate::Buffers::message). This is for plain messages of endpoints with
    /// [`Features::MULTI_RECEIVE`](crate::Features::MULTI_RECEIVE).
    ///
    /// # Errors
    /// Fails as [`Endpoint::send`] does.
    pub fn receive_many(&mut self, slot: usize) -> Result<Post, Error> {
        let claim = self.claim(slot, 0)?;
        let iov = sys::fi_iovec {
            iov_base: claim.start.cast(),
            iov_len: self.wire_len(self.max_payload_bytes()),
        };
        let mut desc = claim.descriptor;
        let msg = sys::fi_msg {
            msg_iov: &raw const iov,
            desc: &raw mut desc,
            iov_count: 1,
            addr: sys::FI_ADDR_UNSPEC,
            context: claim.context,
            data: 0,
        };
        let flags = sys::FI_MULTI_RECV | sys::FI_COMPLETION;
        // SAFETY: as in `send_with`.
        let ret = unsafe { call::fi_recvmsg(claim.ep, &raw const msg, flags) };
        self.posted("fi_recvmsg", ret, slot, Some(Operation::ReceiveMany))
    }

    /// Sets the free bytes that a slot of [`Endpoint::receive_many`] needs to take a further
    /// message: no message that comes may be longer.
    ///
    /// # Errors
    /// Returns [`Error::Call`].
    pub fn set_longest_of_many(&mut self, len_bytes: usize) -> Result<(), Error> {
        let value = ptr::from_ref(&len_bytes).cast();
        // SAFETY: the endpoint is alive and the option is one size_t, read during the call.
        check("fi_setopt(FI_OPT_MIN_MULTI_RECV)", unsafe {
            let name = sys::FI_OPT_MIN_MULTI_RECV;
            call::fi_setopt(self.raw(), name, value, size_of_val(&len_bytes))
        })
    }
}
