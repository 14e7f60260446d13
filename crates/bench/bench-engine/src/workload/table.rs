//! A service that answers gets and puts from a store.

use std::ops::Range;

use bench_record::workload::KEY_BYTES;

use super::message::{Code, HEADER_BYTES, Header};
use super::server::{Answer, Service};

use super::store::{self, Store};
use crate::pattern;

/// A store that answers calls.
pub(super) struct Table<'a> {
    pub(super) store: &'a mut Store,
    /// True if the contents of all calls are checked.
    pub(super) validate: bool,
}

impl Service for Table<'_> {
    #[inline]
    fn handle(&mut self, call: &[u8]) -> Answer {
        let key = call.get(HEADER_BYTES..).and_then(|rest| rest.first_chunk::<KEY_BYTES>());
        let (Some(header), Some(key)) = (Header::read(call), key) else {
            return Answer::damaged(call);
        };
        let body = &call[HEADER_BYTES + KEY_BYTES..];
        let is_damaged = self.validate
            && match header.code {
                Code::Get => pattern::check(body).is_err(),
                _ => !store::is_value(body, store::index(key)),
            };
        let (code, place) = match header.code {
            Code::Get | Code::Put if is_damaged => (Code::Damaged, None),
            Code::Get => {
                let place = self.store.find(key);
                (place.as_ref().map_or(Code::Missing, |_| Code::Done), place)
            }
            Code::Put if self.store.put(key, body) => (Code::Done, None),
            Code::Put => (Code::Missing, None),
            _ => return Answer::damaged(call),
        };
        Answer { call: header.call, code, body: place.unwrap_or(0..0), operations: 1 }
    }

    #[inline]
    fn body(&self, place: Range<usize>) -> &[u8] {
        self.store.value(place)
    }
}
