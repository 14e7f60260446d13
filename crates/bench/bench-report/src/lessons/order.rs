//! The cost of receiving messages in the order in which they were posted, on a fabric that lets
//! them overtake each other.

use bench_record::cores::are_apart;
use bench_record::spec::{Benchmark, Order};
use bench_record::{Disorder, Point, Run};
use report::{Interval, ratio_interval, significant};

use super::{Found, WORTH, times};

/// An interval that contains 1 and begins below this tells nothing about a cost.
const UNCERTAIN: f64 = 0.75;

/// The cost of order at one size, measured without order and with it.
struct Cost {
    size_bytes: usize,
    depth: usize,
    disorder: Disorder,
    /// The rate in order, as a share of the rate without order.
    share: f64,
    interval: Option<Interval>,
    /// The rate with a number in each message, as a share of the rate without numbers.
    numbered_share: Option<f64>,
}

impl Cost {
    fn of(run: &Run, kept: &Point) -> Option<Self> {
        let like = |order: Order| {
            beside(run, kept, order).find(|point| !are_apart(point.phase(), kept.phase()))
        };
        let any = like(Order::Any)?;
        let share = |point: &Point| Some(point.bandwidth?.mmsg_per_s / any.bandwidth?.mmsg_per_s);
        Some(Self {
            size_bytes: kept.size_bytes,
            depth: kept.depth,
            disorder: kept.disorder?,
            share: share(kept)?,
            interval: ratio_interval(&any.blocks, &kept.blocks),
            numbered_share: like(Order::Numbered).and_then(share),
        })
    }

    fn words(&self) -> String {
        let Disorder { overtaken, farthest, held_most, .. } = self.disorder;
        let came = match overtaken {
            0 => "all came in order".to_owned(),
            _ => format!(
                "{} % came after a later one, by up to {farthest} messages, and {held_most} had to wait \
                 at once",
                significant(self.disorder.overtaken_percent())
            ),
        };
        let ends = |range: Interval| format!(" ({:.2} to {:.2})", range.low, range.high);
        let interval = self.interval.map_or_else(String::new, ends);
        let numbered = self
            .numbered_share
            .map_or_else(String::new, |share| format!(", numbers alone {} times", times(share)));
        format!(
            "{} B, depth {}: {came}; handing them on in order moves {} times as many{interval}{numbered}.",
            self.size_bytes,
            self.depth,
            times(self.share)
        )
    }

    /// Returns whether the blocks differ so much that nothing can be said.
    fn is_open(&self) -> bool {
        self.interval.is_some_and(|own| own.holds(1.0) && own.low < UNCERTAIN)
    }

    /// Returns whether order costs more than noise explains.
    fn is_dear(&self) -> bool {
        self.share * WORTH < 1.0 && self.interval.is_none_or(|interval| !interval.holds(1.0))
    }
}

/// Returns the points that were measured at the same place in another order.
fn beside<'a>(run: &'a Run, kept: &Point, order: Order) -> impl Iterator<Item = &'a Point> {
    let place = (kept.size_bytes, kept.depth);
    run.points.iter().filter(move |p| p.order == order && (p.size_bytes, p.depth) == place)
}

/// Computes the cost from streams that were measured as they come, numbered, and in order, in one
/// session.
pub(super) fn cost(runs: &[&Run]) -> Option<Found> {
    let streams = runs.iter().filter(|run| run.benchmark == Benchmark::Bandwidth);
    let points = streams.flat_map(|run| run.points.iter().map(move |point| (*run, point)));
    let kept = points.filter(|(_, point)| point.order == Order::Kept);
    let costs: Vec<Cost> = kept.clone().filter_map(|(run, point)| Cost::of(run, point)).collect();
    if costs.is_empty() {
        let is_apart = |(run, kept): (&Run, &Point)| {
            let mut phases = beside(run, kept, Order::Any).map(Point::phase).peekable();
            phases.peek().is_some() && phases.all(|phase| are_apart(phase, kept.phase()))
        };
        return kept.clone().any(is_apart).then(Found::apart);
    }
    if costs.iter().any(Cost::is_open) {
        let advice =
            "Measure longer, on a quiet machine: blocks differ by more than order may cost.";
        return Some(Found::new(all_words(&costs), advice));
    }
    let is_in_order = costs.iter().all(|cost| cost.disorder.overtaken == 0);
    let dear: Vec<String> =
        costs.iter().filter(|cost| cost.is_dear()).map(|c| format!("{} B", c.size_bytes)).collect();
    let advice = match (is_in_order, dear.is_empty()) {
        (true, true) => {
            "Nothing overtook here, and to make sure of it costs little. A fabric that promises no order \
             (SRD) may behave otherwise over several paths: number messages, or ask \
             softefa run --fault reorder=10%."
        }
        (false, true) => {
            "Put what comes early aside and hand messages on in order where that is needed: it costs \
             little here."
        }
        (_, false) => {
            "Take messages in any order where you can: restoring it costs more than a tenth of the rate \
             at"
        }
    };
    let advice =
        if dear.is_empty() { advice.to_owned() } else { format!("{advice} {}.", dear.join(", ")) };
    Some(Found::new(all_words(&costs), advice))
}

fn all_words(costs: &[Cost]) -> String {
    costs.iter().map(Cost::words).collect::<Vec<_>>().join(" ")
}
