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
    /// The first post since the last turn: when it came, and how many completions the program had
    /// taken by then.
    since: Option<(Instant, u32)>,
    /// Posts since then.
    posts: u32,
    /// The last of them that left at once.
    sent_at: Instant,
    /// How long the adapter sent since then, which the program cannot help.
    sending_ns: u64,
    soon: u32,
    needed: u32,
}

impl Holding {
    /// Nothing is known yet. With `sends_at_once` nothing ever will be.
    pub(super) fn new(sends_at_once: bool) -> Self {
        let needed = if sends_at_once { NEVER } else { TRUST_MIN };
        let (since, sent_at) = (None, Instant::ZERO);
        Self { since, posts: 0, sent_at, sending_ns: 0, soon: 0, needed }
    }

    /// The program polls soon after it posts.
    #[inline]
    pub(super) fn may_wait(&self) -> bool {
        self.soon >= self.needed
    }

    /// Something was posted and leaves at once; the program had taken so many completions.
    #[inline]
    pub(super) fn note_sent(&mut self, now: Instant, taken: u32) {
        self.note_post(|| now, taken);
        self.sent_at = now;
    }

    /// What [`Holding::note_sent`] told of has left at the time that `now` tells.
    #[inline]
    pub(super) fn note_left(&mut self, now: impl FnOnce() -> Instant) {
        // A single message, as in a ping-pong, takes less time than matters.
        if self.posts > 1 || !self.may_wait() {
            self.sending_ns += now().ns_since(self.sent_at);
        }
    }

    /// The program has done nothing but posting and polling since it was last seen.
    fn is_soon(&self, now: Instant, taken: u32) -> bool {
        self.since.is_some_and(|(since, before)| {
            let polls = u64::from(taken.wrapping_sub(before)).max(1);
            let own_ns = now.ns_since(since).saturating_sub(self.sending_ns);
            own_ns <= polls * SOON_NS + u64::from(self.posts) * POST_NS
        })
    }

    /// Something was posted at the time that `now` tells, and waits; the program had taken so many
    /// completions.
    #[inline]
    pub(super) fn note_post(&mut self, now: impl FnOnce() -> Instant, taken: u32) {
        if self.since.is_none() {
            (self.since, self.posts, self.sending_ns) = (Some((now(), taken)), 0, 0);
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
        if !is_polled && self.is_soon(now, taken) {
            // Somebody looked while the program was still posting: its own poll will tell.
            return;
        }
        let is_soon = self.is_soon(now, taken);
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
        post_and_turn(&mut holding, SOON_NS + 1, false, 0);
        assert!(!holding.may_wait(), "somebody else had to look");
        for _ in 0..9 {
            polls_until_trusted(&mut holding);
            post_and_turn(&mut holding, u64::MAX >> 1, true, 0);
        }
        assert_eq!(polls_until_trusted(&mut holding), TRUST_MAX);
        holding.note_turn(Instant::from_ns(u64::MAX), false, 0);
        assert!(holding.may_wait(), "nothing was posted");
    }

    /// A program that posted a hundred at a time was looked after by the service thread now and
    /// then, and never trusted: each of its posts left alone.
    #[test]
    fn who_is_looked_after_while_it_posts_may_still_poll_soon() {
        let mut holding = Holding::new(false);
        polls_until_trusted(&mut holding);
        let at = Instant::from_ns;
        for round in 0..u64::from(TRUST_MAX) {
            let start = round * 1_000_000;
            (0..50).for_each(|_| holding.note_post(|| at(start), 0));
            holding.note_turn(at(start + 50 * POST_NS), false, 0);
            assert!(holding.may_wait());
            (50..100).for_each(|post| holding.note_post(|| at(start + post * POST_NS), 0));
            holding.note_turn(at(start + SOON_NS + 100 * POST_NS), true, 0);
            assert!(holding.may_wait(), "round {round}");
        }
        holding.note_post(|| at(0), 0);
        holding.note_turn(at(SOON_NS + POST_NS + 1), false, 0);
        assert!(!holding.may_wait(), "it posted and did not poll");
    }

    #[test]
    fn no_post_waits_where_all_leave_at_once() {
        let mut holding = Holding::new(true);
        for _ in 0..100 {
            post_and_turn(&mut holding, 5, true, 0);
            assert!(!holding.may_wait());
        }
    }

    /// A kernel that takes long now and then made a program look like one that computes.
    #[test]
    fn sending_may_take_its_time_and_pauses_may_not() {
        // A hundred posts that leave at once, each after so much of the program's own time.
        let post_and_poll = |holding: &mut Holding, own_ns: u64| {
            let mut now_ns = 1000;
            for post in 0..100 {
                now_ns += own_ns;
                holding.note_sent(Instant::from_ns(now_ns), 0);
                now_ns += if post % 10 == 0 { 90_000 } else { 5000 };
                holding.note_left(|| Instant::from_ns(now_ns));
            }
            holding.note_turn(Instant::from_ns(now_ns + own_ns), true, 0);
        };
        let mut holding = Holding::new(false);
        (0..TRUST_MIN).for_each(|_| post_and_poll(&mut holding, POST_NS));
        assert!(holding.may_wait(), "it did nothing but posting");
        let mut holding = Holding::new(false);
        (0..TRUST_MAX).for_each(|_| post_and_poll(&mut holding, 2 * POST_NS));
        assert!(!holding.may_wait(), "it did something else, too");
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
