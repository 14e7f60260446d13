//! How long a post may wait for others to leave with it.
//!
//! A program that polls soon after posting loses nothing by waiting: the poll sends what was posted
//! in one burst. One that computes instead must not wait for the service thread's next look, 2 ms
//! later. Nobody else can look in between (both processors may be busy), so the past decides: posts
//! of a program that polled late go out at once until it has polled soon some times in a row.

use srd::Instant;

/// A poll that comes within this time after a post came soon. So did a later turn when the program took
/// a completion in each such time: it polled all along, and found the queue empty only now.
const SOON_NS: u64 = 20_000;
/// Turns that must come soon, one after the other, before posts wait: at first, and after as many
/// late ones as it takes to double that to the most.
const TRUST_MIN: u32 = 4;
const TRUST_MAX: u32 = 16;

/// Whether posts of a queue pair may wait.
#[derive(Debug)]
pub(super) struct Holding {
    /// When the first of the posts was made that no turn has seen, and how many completions the program
    /// had taken by then.
    since: Option<(Instant, u32)>,
    soon: u32,
    needed: u32,
}

impl Default for Holding {
    fn default() -> Self {
        Self { since: None, soon: 0, needed: TRUST_MIN }
    }
}

impl Holding {
    /// The program polls soon after it posts.
    #[inline]
    pub(super) fn may_wait(&self) -> bool {
        self.soon >= self.needed
    }

    /// Something was posted at the time that `now` tells; the program had taken so many completions.
    #[inline]
    pub(super) fn note_post(&mut self, now: impl FnOnce() -> Instant, taken: u32) {
        if self.since.is_none() {
            self.since = Some((now(), taken));
        }
    }

    /// A turn begins, of the program that polls or of somebody who stands in for it; the program has
    /// taken so many completions.
    #[inline]
    pub(super) fn note_turn(&mut self, now: Instant, is_polled: bool, taken: u32) {
        let Some((since, before)) = self.since.take() else { return };
        let polls = u64::from(taken.wrapping_sub(before)).max(1);
        if is_polled && now.ns_since(since) <= polls * SOON_NS {
            self.soon = (self.soon + 1).min(self.needed);
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
        let now = Instant::from_ns(1000 + after_ns);
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
        let mut holding = Holding::default();
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
    fn who_takes_completions_all_along_polls_soon() {
        let mut holding = Holding::default();
        polls_until_trusted(&mut holding);
        post_and_turn(&mut holding, 100 * SOON_NS, true, 100);
        assert!(holding.may_wait());
        post_and_turn(&mut holding, 100 * SOON_NS, true, 99);
        assert!(!holding.may_wait());
    }
}
