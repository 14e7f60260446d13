//! How long a post may wait for others to leave with it.
//!
//! A program that polls soon after posting loses nothing by waiting: the poll sends what was posted
//! in one burst. One that computes instead must not wait for the service thread's next look, 2 ms
//! later. Nobody else can look in between (both processors may be busy), so the past decides: posts
//! of a program that polled late go out at once until it has polled soon some times in a row. So
//! the first post after a change of habit may wait those 2 ms. A device that sends at once lets
//! none wait.

use srd::Instant;

/// A poll that comes within this time after a post came soon. So did a later turn when the program
/// took a completion in each such time: it polled all along, and found the queue empty only now.
const SOON_NS: u64 = 20_000;
/// A post takes no longer, so that one who posted a hundred before a poll did nothing else in
/// between.
const POST_NS: u64 = 1000;
/// Turns that must come soon, one after the other, before posts wait: at first, and after as many
/// late ones as it takes to double that to the most.
const TRUST_MIN: u32 = 4;
const TRUST_MAX: u32 = 16;
/// More turns than are counted.
const NEVER: u32 = TRUST_MAX + 1;

/// Whether posts of a queue pair may wait.
#[derive(Debug)]
pub(super) struct Holding {
    /// When the program was last seen to post: the last time that a post left at once, or the first
    /// of those since then that wait for a turn. And how many completions the program had taken by
    /// then.
    since: Option<(Instant, u32)>,
    /// How many wait.
    posts: u32,
    /// Two posts since the last turn were so far apart that the first could not have waited for the
    /// second.
    is_slow: bool,
    soon: u32,
    needed: u32,
}

impl Holding {
    /// Nothing is known yet. With `sends_at_once` nothing ever will be.
    pub(super) fn new(sends_at_once: bool) -> Self {
        let needed = if sends_at_once { NEVER } else { TRUST_MIN };
        Self { since: None, posts: 0, is_slow: false, soon: 0, needed }
    }

    /// The program polls soon after it posts.
    #[inline]
    pub(super) fn may_wait(&self) -> bool {
        self.soon >= self.needed
    }

    /// Something was posted and leaves at once; the program had taken so many completions.
    #[inline]
    pub(super) fn note_sent(&mut self, now: Instant, taken: u32) {
        self.is_slow |= self.since.is_some() && !self.is_soon(now, taken);
        (self.since, self.posts) = (Some((now, taken)), 0);
    }

    /// The program has done nothing but posting and polling since it was last seen.
    fn is_soon(&self, now: Instant, taken: u32) -> bool {
        self.since.is_some_and(|(since, before)| {
            let polls = u64::from(taken.wrapping_sub(before)).max(1);
            now.ns_since(since) <= polls * SOON_NS + u64::from(self.posts) * POST_NS
        })
    }

    /// Something was posted at the time that `now` tells, and waits; the program had taken so many
    /// completions.
    #[inline]
    pub(super) fn note_post(&mut self, now: impl FnOnce() -> Instant, taken: u32) {
        if self.since.is_none() {
            (self.since, self.posts) = (Some((now(), taken)), 0);
        }
        self.posts += 1;
    }

    /// A turn begins, of the program that polls or of somebody who stands in for it; the program
    /// has taken so many completions.
    #[inline]
    pub(super) fn note_turn(&mut self, now: Instant, is_polled: bool, taken: u32) {
        if self.since.is_none() {
            return;
        }
        let is_soon = !std::mem::take(&mut self.is_slow) && self.is_soon(now, taken);
        self.since = None;
        if is_polled && is_soon {
            self.soon = (self.soon + 1).min(TRUST_MAX);
        } else {
            if self.may_wait() {
                self.needed = (self.needed * 2).min(TRUST_MAX);
            }
            self.soon = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A post, and a turn so much later, after so many completions.
    fn post_and_turn(holding: &mut Holding, after_ns: u64, is_polled: bool, taken: u32) {
        holding.note_post(|| Instant::from_ns(1000), u32::MAX);
        // What waits takes a moment to be posted, too.
        let now = Instant::from_ns(1000 + after_ns.saturating_add(POST_NS));
        holding.note_turn(now, is_polled, u32::MAX.wrapping_add(taken));
    }

    fn polls_until_trusted(holding: &mut Holding) -> u32 {
        let mut polls = 0;
        while !holding.may_wait() {
            post_and_turn(holding, SOON_NS, true, 0);
            polls += 1;
        }
        polls
    }

    #[test]
    fn posts_wait_only_for_those_who_poll_soon() {
        let mut holding = Holding::new(false);
        assert_eq!(polls_until_trusted(&mut holding), TRUST_MIN);
        post_and_turn(&mut holding, SOON_NS + 1, true, 1);
        assert!(!holding.may_wait(), "it polled late");
        assert_eq!(polls_until_trusted(&mut holding), 2 * TRUST_MIN);
        post_and_turn(&mut holding, 5, false, 0);
        assert!(!holding.may_wait(), "somebody else had to look");
        for _ in 0..9 {
            polls_until_trusted(&mut holding);
            post_and_turn(&mut holding, u64::MAX >> 1, true, 0);
        }
        assert_eq!(polls_until_trusted(&mut holding), TRUST_MAX);
        holding.note_turn(Instant::from_ns(u64::MAX), false, 0);
        assert!(holding.may_wait(), "nothing was posted");
    }

    #[test]
    fn no_post_waits_where_all_leave_at_once() {
        let mut holding = Holding::new(true);
        for _ in 0..100 {
            post_and_turn(&mut holding, 5, true, 0);
            assert!(!holding.may_wait());
        }
    }

    #[test]
    fn posts_in_a_row_may_take_their_time_and_pauses_may_not() {
        let mut holding = Holding::new(false);
        let at = Instant::from_ns;
        for round in 0..u64::from(TRUST_MIN) {
            let start = round * 1_000_000;
            (0..100).for_each(|post| holding.note_sent(at(start + post * 5000), 0));
            holding.note_turn(at(start + 100 * 5000), true, 0);
        }
        assert!(holding.may_wait(), "it did nothing but posting");
        for pause_ns in [SOON_NS, SOON_NS + 1] {
            let mut holding = Holding { soon: TRUST_MIN, ..Holding::new(false) };
            holding.note_sent(at(0), 0);
            holding.note_sent(at(pause_ns), 0);
            holding.note_turn(at(pause_ns + 1), true, 0);
            assert_eq!(holding.may_wait(), pause_ns == SOON_NS);
        }
    }

    #[test]
    fn who_takes_completions_all_along_polls_soon() {
        let mut holding = Holding::new(false);
        polls_until_trusted(&mut holding);
        post_and_turn(&mut holding, 100 * SOON_NS, true, 100);
        assert!(holding.may_wait());
        post_and_turn(&mut holding, 100 * SOON_NS, true, 99);
        assert!(!holding.may_wait());
    }
}
