//! The windows of several threads, and the work of all threads in a second.

use crate::spec::Limit;

/// The window of a thread, by a clock that all threads of its side share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    /// The moment at which the window opened, in s.
    pub opened_s: f64,
    pub seconds: f64,
}

impl Span {
    /// Returns the time for which several threads were measured, in s. Windows of a certain time
    /// lie within each other's work, and the longest counts; windows of a number of operations
    /// count from the first opening to the last end.
    pub fn seconds_of(limit: Limit, spans: &[Self]) -> f64 {
        match limit {
            Limit::DurationMs(_) => spans.iter().map(|span| span.seconds).fold(0.0, f64::max),
            Limit::Iterations(_) => Self::of_all(spans),
        }
    }

    /// Returns the time from the first opening to the last end in s; 0 if no window was open.
    fn of_all(spans: &[Self]) -> f64 {
        // The length of a single window is exact, without rounding.
        if let [alone] = spans {
            return alone.seconds;
        }
        let open = spans.iter().filter(|span| span.seconds > 0.0);
        let ends = open.map(|span| (span.opened_s, span.opened_s + span.seconds));
        let all = ends.reduce(|all, own| (all.0.min(own.0), all.1.max(own.1)));
        all.map_or(0.0, |(opened, closed)| closed - opened)
    }

    /// Returns the amount that several threads did in a second, from the amount that each did in
    /// its window.
    ///
    /// Rates are not added: threads that take turns at a processor open and close their windows
    /// while they have it, and the sum of their rates was never reached. The amount of all threads
    /// is divided by the longest window or, for a number of operations, by the time from the first
    /// opening to the last end.
    pub fn rate_of(limit: Limit, threads: &[(f64, Self)]) -> f64 {
        let open = || threads.iter().filter(|(_, span)| span.seconds > 0.0);
        let spans: Vec<Self> = open().map(|(_, span)| *span).collect();
        let amount: f64 = open().map(|(amount, _)| amount).sum();
        if spans.is_empty() { 0.0 } else { amount / Self::seconds_of(limit, &spans) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(opened_s: f64, seconds: f64) -> Span {
        Span { opened_s, seconds }
    }

    #[test]
    fn windows_last_from_the_first_opening_to_the_last_end() {
        assert_eq!(Span::of_all(&[]), 0.0);
        assert_eq!(Span::of_all(&[span(-7.1, 0.3)]), 0.3);
        assert_eq!(Span::of_all(&[span(2.0, 1.0), span(-1.0, 2.0)]), 4.0);
        let both = [span(2.0, 1.0), span(0.0, 0.0)];
        assert_eq!(Span::of_all(&both), 1.0, "one never opened");
        assert_eq!(Span::seconds_of(Limit::Iterations(9), &both), 1.0);
        let apart = [span(2.0, 1.0), span(5.0, 0.5)];
        assert_eq!(Span::seconds_of(Limit::DurationMs(1000), &apart), 1.0);
    }

    /// The rates of windows that do not overlap must not be added.
    #[test]
    fn a_number_of_operations_is_divided_by_the_time_of_all_threads() {
        let apart = [(1000.0, span(0.0, 1.0)), (1000.0, span(5.0, 1.0))];
        assert_eq!(Span::rate_of(Limit::Iterations(1000), &apart), 2000.0 / 6.0);
        assert_eq!(Span::rate_of(Limit::DurationMs(1000), &apart), 2000.0);
        // One thread took its turn at the processor for 5 ms, and the other one had to wait for its
        // end.
        let in_turn = [(50.0, span(0.0, 0.005)), (50.0, span(0.0, 0.02))];
        assert_eq!(Span::rate_of(Limit::DurationMs(5), &in_turn), 5000.0);
        assert_eq!(Span::rate_of(Limit::Iterations(1000), &apart[..1]), 1000.0);
        assert_eq!(Span::rate_of(Limit::Iterations(1), &[(0.0, span(0.0, 0.0))]), 0.0);
    }
}
