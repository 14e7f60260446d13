//! Inspection of a stream's messages at the receiver. It checks their contents, reads their
//! numbers, or hands them on in the order in which they were posted.

use bench_record::ReceiverCount;
use bench_record::failure::Failure;
use bench_record::spec::Order;
use bench_record::spec::PointSpec;

use super::reorder::Reorder;
use crate::pattern::{self, Overtaken, Seen};

/// The inspector of each message of a point.
pub(super) struct Inspector {
    size_bytes: usize,
    /// The messages seen, if contents are checked.
    seen: Option<Seen>,
    /// The order of messages, if they are handed on in order.
    reorder: Option<Reorder>,
    overtaken: Overtaken,
    found: ReceiverCount,
}

impl Inspector {
    /// Makes an inspector; `None` if messages are only counted.
    pub(super) fn new(point: PointSpec) -> Result<Option<Self>, Failure> {
        if !point.validate && point.order == Order::Any {
            return Ok(None);
        }
        let is_kept = point.order == Order::Kept;
        Ok(Some(Self {
            size_bytes: point.size_bytes,
            seen: point.validate.then(Seen::new),
            reorder: is_kept.then(|| Reorder::new(point.size_bytes)).transpose()?,
            overtaken: Overtaken::default(),
            found: ReceiverCount::default(),
        }))
    }

    /// Inspects a message. Returns how many messages may be handed on now: none, or this one and
    /// those that waited for it.
    #[inline]
    pub(super) fn take(&mut self, payload: &[u8]) -> Result<u64, Failure> {
        let number = match &mut self.seen {
            None => pattern::number(payload),
            Some(seen) => {
                self.found.validated += 1;
                match pattern::check(payload) {
                    Ok(number) if payload.len() == self.size_bytes => {
                        number.inspect(|number| seen.note(*number))
                    }
                    _ => {
                        self.found.wrong += 1;
                        return Ok(1);
                    }
                }
            }
        };
        let Some(number) = number else { return Ok(1) };
        self.found.numbered += 1;
        self.overtaken.note(number);
        match &mut self.reorder {
            None => Ok(1),
            Some(reorder) => reorder.take(number, payload),
        }
    }

    /// Adds the findings to the count.
    pub(super) fn add_to(self, count: ReceiverCount) -> Result<ReceiverCount, Failure> {
        let Self { seen, reorder, overtaken, found, .. } = self;
        let twice = reorder.as_ref().map_or(0, |reorder| reorder.duplicates);
        // A damaged message has no place in the order.
        if let Some(reorder) = reorder.as_ref().filter(|_| found.wrong == 0) {
            reorder.check_end()?;
        }
        Ok(ReceiverCount {
            validated: found.validated,
            wrong: found.wrong,
            duplicates: seen.map_or(0, |seen| seen.duplicates).max(twice),
            numbered: found.numbered,
            overtaken: overtaken.count,
            farthest: overtaken.farthest,
            held: reorder.as_ref().map_or(0, |reorder| reorder.held),
            held_most: reorder.as_ref().map_or(0, |reorder| reorder.held_most),
            ..count
        })
    }
}
