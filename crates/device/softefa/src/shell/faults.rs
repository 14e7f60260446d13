//! Injected faults that a queue pair applies itself: those in force, and their counts.

use std::fmt::Write;
use std::net::IpAddr;

use srd::Instant;

use super::Shell;
use crate::counters::{Counter, FaultSource};
use crate::device::Device;
use crate::fault::{FaultControl, InForce, Lapses, Refusals, Seen, TimedFault};
use crate::host;
use crate::trace::TraceEvent;
use crate::wire::{DatagramFaults, Faulty, Unplugged};

/// The faults that a queue pair applies besides its wire.
#[derive(Debug)]
pub(crate) struct Faults {
    refusals: Refusals,
    pub(crate) lapses: Lapses,
    /// The random stream that decides its faults.
    stream: u64,
    /// The faults in force, by source and time.
    of: (FaultSource, Instant),
    /// They change something.
    is_active: bool,
    /// They were injected while the device was open, and change something.
    is_live: bool,
    seen: Seen,
}

impl Faults {
    /// Returns the faults that are in force on `device` at `now`.
    pub(super) fn new(device: &Device, now: Instant, stream: u64) -> (Self, InForce) {
        let (fault, seen) = device.fault_control.poll(now, &device.counters);
        (Self::of(&fault, seen, stream), fault)
    }

    fn of(fault: &InForce, seen: Seen, stream: u64) -> Self {
        Self {
            refusals: Refusals::new(fault, stream),
            lapses: Lapses::new(fault, stream),
            stream,
            of: (fault.source, fault.from),
            is_active: fault.spec.is_active(),
            is_live: fault.source != FaultSource::Start && fault.spec.is_active(),
            seen,
        }
    }
}

impl Shell {
    /// Takes over faults that were injected since the last check. The wire must not be lent.
    #[inline]
    pub(super) fn update_faults(&mut self, now: Instant) {
        if FaultControl::is_due(self.faults.seen, now, &self.device.counters) {
            self.change_faults(now);
        }
    }

    #[cold]
    fn change_faults(&mut self, now: Instant) {
        let (fault, seen) = self.device.fault_control.poll(now, &self.device.counters);
        self.faults.seen = seen;
        if self.faults.of == (fault.source, fault.from) {
            return;
        }
        self.faults = Faults::of(&fault, seen, self.faults.stream);
        let mut of_wire = DatagramFaults::new(&fault, self.faults.stream);
        let is_taken = self.wire.set_faults(now, &mut of_wire);
        if let Some(of_wire) = of_wire.filter(|_| !is_taken) {
            let inner = std::mem::replace(&mut self.wire, Box::new(Unplugged));
            let layout = self.framing.layout();
            self.wire = Box::new(Faulty::new(inner, self.tap.clone(), layout, of_wire));
        }
        if self.is_traced() {
            self.trace_fault(&fault);
        }
    }

    /// Traces a fault that is in force from now on.
    pub(super) fn trace_fault(&mut self, fault: &InForce) {
        let (spec, source) = (TimedFault::format_spec(&fault.spec), fault.source.name());
        let peer = fault.peer.map(|peer| format!(" peer={peer}")).unwrap_or_default();
        // Not by the clock of the turn, which was read before.
        let late_ns = host::now().ns_since(fault.from);
        self.write_trace(
            TraceEvent::Fault,
            None,
            format_args!("is=set by={source} spec={spec}{peer} late_ns={late_ns}"),
        );
    }

    /// Returns true if faults were injected while the device was open: then everything must use the
    /// wire, and nothing is copied locally.
    #[inline]
    pub(crate) fn keeps_to_the_wire(&self) -> bool {
        self.faults.is_live
    }

    /// Returns true if some fault is in force.
    #[inline]
    pub(crate) fn has_faults(&self) -> bool {
        self.faults.is_active
    }

    /// Returns true if a fault fails this send; `to` returns its receiver.
    #[inline]
    pub(crate) fn deal_internal_error(&mut self, to: impl FnOnce() -> Option<IpAddr>) -> bool {
        let hit = self.faults.refusals.may_fail() && self.faults.refusals.is_internal_error(to());
        if hit {
            self.deal(&[(Counter::FaultInternal, 1)]);
        }
        hit
    }

    /// Returns true if a fault makes the message find no receive.
    #[inline]
    pub(crate) fn deal_not_ready(&mut self) -> bool {
        let hit = self.faults.refusals.is_not_ready(self.arriving_from);
        if hit {
            self.deal(&[(Counter::FaultRnr, 1)]);
        }
        hit
    }

    /// Counts the applied faults, and traces them.
    #[cold]
    pub(crate) fn deal(&mut self, dealt: &[(Counter, u64)]) {
        let is_traced = self.is_traced();
        let mut text = String::new();
        for (counter, count) in dealt.iter().filter(|(_, count)| *count > 0) {
            self.device.counters.add(*counter, *count);
            if is_traced {
                // Writing to a string does not fail.
                let _ = write!(text, " {}={count}", counter.name());
            }
        }
        if !text.is_empty() {
            self.write_trace(TraceEvent::Fault, None, format_args!("is=dealt{text}"));
        }
    }
}
