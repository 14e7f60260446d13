//! How long a post may wait for others to leave with it.
//!
//! A program that polls soon after posting loses nothing by waiting: the poll sends all posts in
//! one burst. A program that computes instead must not wait for the service thread's next tick, 2
//! ms later. No other thread can check in between (both processors may be busy), so the past
//! decides: posts of a program that polled late leave at once until it has polled soon several
//! times in a row. So the first post after a change of habit may wait those 2 ms. On a device that
//! sends at once, no post waits.

use srd::Instant;

/// A poll within this time after a post is soon. So is a later turn if the program took a
/// completion in each such interval: then it polled all along, and only now found the queue empty.
const SOON_NS: u64 = 20_000;
/// The longest time of a post. A program that posted a hundred within a hundred times this did
/// nothing else in between.
const POST_NS: u64 = 1000;
/// The number of consecutive soon turns before posts wait, at first.
const TRUST_MIN: u32 = 4;
/// The most such turns that are needed; late turns double their number up to this.
const TRUST_MAX: u32 = 16;
/// More turns than are counted.
const NEVER: u32 = TRUST_MAX + 1;

/// Whether posts of a queue pair may wait.
#[derive(Debug)]
pub(super) struct Holding {
    /// The first post since the last turn: its time, and how many completions the program had taken
    /// by then.
    since: Option<(Instant, u32)>,
    /// The number of posts since then.
    posts: u32,
    /// The time of the last of these posts that left at once.
    sent_at: Instant,
    /// The time that the adapter has spent sending since then, which is not the program's.
    sending_ns: u64,
    soon: u32,
    needed: u32,
}

impl Holding {
    /// Makes the state without a past. With `sends_at_once` posts never wait.
    pub(super) fn new(sends_at_once: bool) -> Self {
        let needed = if sends_at_once { NEVER } else { TRUST_MIN };
        let (since, sent_at) = (None, Instant::ZERO);
        Self { since, posts: 0, sent_at, sending_ns: 0, soon: 0, needed }
    }

    /// Returns true if the program polls soon after it posts.
    #[inline]
    pub(super) fn may_wait(&self) -> bool {
        self.soon >= self.needed
    }

    /// Notes a post that leaves at once, and how many completions the program had taken.
    #[inline]
    pub(super) fn note_sent(&mut self, now: Instant, taken: u32) {
        self.note_post(|| now, taken);
        self.sent_at = now;
    }

    /// Notes that the post of [`Holding::note_sent`] has left at the time that `now` returns.
    #[inline]
    pub(super) fn note_left(&mut self, now: impl FnOnce() -> Instant) {
        // A single message, as in a ping-pong, takes less time than matters.
        if self.posts > 1 || !self.may_wait() {
            self.sending_ns += now().ns_since(self.sent_at);
        }
    }

    /// Returns true if the program has only posted and polled since the first post after the last
    /// turn.
    fn is_soon(&self, now: Instant, taken: u32) -> bool {
        self.since.is_some_and(|(since, before)| {
            let polls = u64::from(taken.wrapping_sub(before)).max(1);
            let own_ns = now.ns_since(since).saturating_sub(self.sending_ns);
            own_ns <= polls * SOON_NS + u64::from(self.posts) * POST_NS
        })
    }

    /// Notes a post that waits from the time that `now` returns, and how many completions the
    /// program had taken.
    #[inline]
    pub(super) fn note_post(&mut self, now: impl FnOnce() -> Instant, taken: u32) {
        if self.since.is_none() {
            (self.since, self.posts, self.sending_ns) = (Some((now(), taken)), 0, 0);
        }
        self.posts += 1;
    }

    /// Notes that a turn begins, of a polling program or of a thread in its place, and how many
    /// completions the program has taken.
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

    /// Makes a post, and a turn that much later, after that many completions.
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

    /// A program that posts a hundred at a time sometimes has its queue pair driven by the service
    /// thread. It still counts as one that polls soon.
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

    /// A kernel that sometimes takes long must not make a program look like one that computes.
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
