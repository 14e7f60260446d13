//! Faults on purpose, as far as a queue pair deals them: those in force, and what was dealt.

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

/// What a queue pair deals besides what its wire does.
#[derive(Debug)]
pub(crate) struct Faults {
    refusals: Refusals,
    pub(crate) lapses: Lapses,
    /// Whose fates are dealt to it.
    stream: u64,
    /// Which are in force.
    of: (FaultSource, Instant),
    /// They break something.
    is_active: bool,
    /// They came while the device was open, and break something.
    is_live: bool,
    seen: Seen,
}

impl Faults {
    /// Those that are in force on `device` at `now`, and them.
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
    /// Takes over what was asked for since it looked last. The wire must not be lent.
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

    /// A fault is in force from now on.
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

    /// Faults that came while the device was open want to see what the wire does: nothing is copied
    /// past it.
    #[inline]
    pub(crate) fn keeps_to_the_wire(&self) -> bool {
        self.faults.is_live
    }

    /// Something is broken on purpose.
    #[inline]
    pub(crate) fn has_faults(&self) -> bool {
        self.faults.is_active
    }

    /// A fault wants this send to fail; `to` answers where it goes.
    #[inline]
    pub(crate) fn has_internal_error(&mut self, to: impl FnOnce() -> Option<IpAddr>) -> bool {
        let hit = self.faults.refusals.may_fail() && self.faults.refusals.is_internal_error(to());
        if hit {
            self.deal(&[(Counter::FaultInternal, 1)]);
        }
        hit
    }

    /// A fault wants the message that arrives to find no receive.
    #[inline]
    pub(crate) fn is_not_ready_on_purpose(&mut self) -> bool {
        let hit = self.faults.refusals.is_not_ready(self.arriving_from);
        if hit {
            self.deal(&[(Counter::FaultRnr, 1)]);
        }
        hit
    }

    /// Counts faults that were dealt, and traces them.
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
