//! Translates the program's attributes into those of the engine.

use rc::{Access, Config, Endpoint, Mtu, Psn, ReceiveAttr, SendAttr, Service};
use srd::Instant;
use std::net::SocketAddr;

use super::{RcSide, time};
use crate::address::NOWHERE;
use crate::completion::Sender;
use crate::device::Device;
use crate::qp_state::{QpKind, QpQuery, QpState};

pub(super) fn new_endpoint(device: &Device, qpn: u32, kind: QpKind) -> Endpoint {
    let config = if device.is_strict { Config::strict() } else { Config::socket() };
    let service = match kind {
        QpKind::Uc => Service::Uc,
        QpKind::XrcInitiator => Service::XrcInitiator,
        QpKind::XrcTarget => Service::XrcTarget,
        QpKind::Rc | QpKind::Srd | QpKind::Ud => Service::Rc,
    };
    Endpoint::new(config, service, qpn)
}

/// Returns the path MTU of `bytes`, which were checked.
fn mtu(bytes: u32) -> Mtu {
    match bytes {
        256 => Mtu::B256,
        512 => Mtu::B512,
        2048 => Mtu::B2048,
        4096 => Mtu::B4096,
        _ => Mtu::B1024,
    }
}

fn access(attrs: &QpQuery) -> Access {
    let of = attrs.access;
    Access {
        write: of.remote_write,
        read: of.remote_read,
        atomic: of.remote_atomic,
        flush: of.remote_flush,
    }
}

fn send_attr(attrs: &QpQuery) -> SendAttr {
    SendAttr {
        sq_psn: Psn::new(attrs.sq_psn),
        max_rd_atomic: attrs.max_rd_atomic,
        timeout: attrs.timeout,
        retry_cnt: attrs.retry_cnt,
        rnr_retry: attrs.rnr_retry,
    }
}

impl RcSide {
    pub(super) fn connect(&mut self, now: Instant, from: QpState, to: QpState) {
        use QpState::{Init, ReadyToReceive, ReadyToSend, SendQueueDrained, SendQueueError};
        let attrs = self.shell.attrs;
        match (from, to) {
            (Init, ReadyToReceive) => {
                self.aim();
                self.forget_refusals(now);
                self.endpoint.ready_to_receive(ReceiveAttr {
                    dest_qpn: attrs.dest_qpn,
                    path_mtu: mtu(attrs.path_mtu_bytes),
                    rq_psn: Psn::new(attrs.rq_psn),
                    max_dest_rd_atomic: attrs.max_dest_rd_atomic,
                    min_rnr_timer: attrs.min_rnr_timer,
                    access: access(&attrs),
                });
            }
            (ReadyToReceive, ReadyToSend) => self.endpoint.ready_to_send(send_attr(&attrs)),
            (ReadyToSend, SendQueueDrained) => {
                self.endpoint.drain(time(now));
                // A queue without work is drained at once, and nothing else may come to tell it.
                self.harvest(now);
            }
            (SendQueueDrained | SendQueueError, ReadyToSend) => self.endpoint.resume(time(now)),
            (SendQueueDrained, SendQueueDrained) => {
                self.aim();
                self.endpoint.set_send_attr(send_attr(&attrs));
                self.endpoint.set_max_dest_rd_atomic(attrs.max_dest_rd_atomic);
            }
            _ => {}
        }
        if !matches!(to, QpState::Reset | Init | QpState::Error) {
            self.endpoint.set_access(access(&attrs));
            self.endpoint.set_min_rnr_timer(attrs.min_rnr_timer);
        }
    }

    /// Looks up the address of the peer, whose path was checked.
    fn aim(&mut self) {
        let (attrs, device) = (&self.shell.attrs, &self.shell.device);
        let port = device.numbering().port_of_peer(attrs.dest_qpn);
        let addr = device.addr_of(attrs.path.dgid);
        self.peer = addr.map(|addr| SocketAddr::new(addr, port));
        self.peer_name = Sender { addr: addr.unwrap_or(NOWHERE), qpn: attrs.dest_qpn };
        if let Some(sealed) = self.shell.framing.sealed_mut() {
            sealed.listen_to(self.peer);
        }
    }
}
