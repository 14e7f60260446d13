//! The gain of many messages in flight, of large messages, of several endpoints and of several
//! threads.

use bench_record::cores::{Phase, are_apart};
use bench_record::spec::{Benchmark, EndpointKind, Operation, Window};
use bench_record::{Point, Run};
use report::significant;

use super::{Found, NEAR, WORTH, times};

/// The least number of depths that make a curve.
const DEPTHS_MIN: usize = 4;

/// A point of a stream of reliable messages.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stream {
    /// The index of the run.
    run: usize,
    pub(super) size_bytes: usize,
    pub(super) depth: usize,
    endpoints: usize,
    threads: usize,
    pub(super) post_list: usize,
    /// Whether threads took turns.
    pub(super) is_crowded: bool,
    pub(super) gbit_per_s: f64,
    pub(super) mmsg_per_s: f64,
    phase: Option<Phase>,
}

impl Stream {
    /// Returns whether the processors were elsewhere for one point than for the other.
    pub(super) fn is_apart(&self, other: &Self) -> bool {
        are_apart(self.phase, other.phase)
    }

    /// Returns whether one thread used one endpoint.
    pub(super) const fn is_single(&self) -> bool {
        self.endpoints == 1 && self.threads == 1
    }
}

/// Returns the streams of these runs in which each message is posted, completed and taken as it
/// comes.
pub(super) fn of(runs: &[&Run]) -> Vec<Stream> {
    let is_one = |run: &Run| {
        let flow = run.method.flow;
        (run.benchmark, run.operation) == (Benchmark::Bandwidth, Operation::Send)
            && run.endpoint == EndpointKind::Rdm
            && (flow.window, flow.complete_every) == (Window::Sliding, 1)
            && run.method.directions == 1
            && run.method.memory_bytes == 0
    };
    let numbered = runs.iter().enumerate().filter(|(_, run)| is_one(run));
    let points =
        numbered.flat_map(|(number, run)| run.points.iter().map(move |p| (number, *run, p)));
    points.filter_map(|(number, run, point)| stream(number, run, point)).collect()
}

fn stream(run_number: usize, run: &Run, point: &Point) -> Option<Stream> {
    let bandwidth = point.bandwidth.filter(|found| found.gbit_per_s > 0.0)?;
    let is_as_it_comes = point.order.is_any() && point.validated == 0;
    is_as_it_comes.then_some(Stream {
        run: run_number,
        size_bytes: point.size_bytes,
        depth: point.depth,
        endpoints: run.method.endpoints,
        threads: run.method.threads,
        post_list: run.method.flow.post_list,
        is_crowded: run.method.crowded,
        gbit_per_s: bandwidth.gbit_per_s,
        mmsg_per_s: bandwidth.mmsg_per_s,
        phase: point.phase(),
    })
}

/// Returns the values sorted, each once.
pub(super) fn distinct(values: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut values: Vec<usize> = values.collect();
    values.sort_unstable();
    values.dedup();
    values
}

/// Returns the best of `streams` by message rate.
pub(super) fn best<'a>(streams: impl Iterator<Item = &'a Stream>) -> Option<&'a Stream> {
    streams.max_by(|a, b| a.mmsg_per_s.total_cmp(&b.mmsg_per_s))
}

/// Returns the best of `ones` that has a partner with the processors in the same place, and the
/// best such partner.
fn best_pair<'a>(ones: &[&'a Stream], others: &[&'a Stream]) -> Option<(&'a Stream, &'a Stream)> {
    let mut ones = ones.to_vec();
    ones.sort_by(|a, b| b.mmsg_per_s.total_cmp(&a.mmsg_per_s));
    ones.into_iter().find_map(|one| {
        let alike = others.iter().copied().filter(|other| !other.is_apart(one));
        Some((one, best(alike)?))
    })
}

/// Finds how many messages must be in flight, for the smallest and the largest size for which that
/// is known.
pub(super) fn depth(streams: &[Stream]) -> Option<Found> {
    let single: Vec<Stream> =
        streams.iter().filter(|s| s.is_single() && s.post_list == 1).copied().collect();
    let sizes = distinct(single.iter().map(|s| s.size_bytes));
    let all: Vec<Result<Curve, Found>> =
        sizes.iter().filter_map(|size| Curve::of(*size, &single)).collect();
    let is_apart = !all.is_empty();
    let curves: Vec<Curve> = all.into_iter().filter_map(Result::ok).collect();
    let Some((small, large)) = curves.first().zip(curves.last()) else {
        return is_apart.then(Found::apart);
    };
    let mut measured = large.words(|s| format!("{} Gbit/s", significant(s.gbit_per_s)));
    if small.size_bytes != large.size_bytes {
        let rate = |s: &Stream| format!("{} M msg/s", significant(s.mmsg_per_s));
        measured = format!("{} {measured}", small.words(rate));
    }
    let advice = match large.needed.depth {
        1 => "One message in flight is nearly enough: fewer calls matter more than more of them."
            .into(),
        depth => format!(
            "Keep at least {depth} messages of {} B under way on an endpoint{}.",
            large.size_bytes,
            match small.needed.depth {
                _ if small.size_bytes == large.size_bytes => String::new(),
                least => format!(", of {} B {least}", small.size_bytes),
            }
        ),
    };
    Some(Found { measured, advice })
}

/// The rate of one size over the depth, in one run.
struct Curve {
    size_bytes: usize,
    first: Stream,
    best: Stream,
    /// The shallowest stream that is nearly as good as the best.
    needed: Stream,
    /// The stream before it, which is not; `None` if there is none.
    before: Option<Stream>,
    deepest: usize,
}

impl Curve {
    /// Returns the curve of the run that has most depths of this size, with the processors where
    /// they were for most of these; the finding that nobody can tell, if they are too few.
    fn of(size_bytes: usize, streams: &[Stream]) -> Option<Result<Self, Found>> {
        let of_size = || streams.iter().filter(|s| s.size_bytes == size_bytes);
        let runs = distinct(of_size().map(|s| s.run));
        let own = |run: usize| of_size().filter(move |s| s.run == run);
        let run = runs.into_iter().max_by_key(|run| own(*run).count())?;
        let depths = |curve: &[Stream]| distinct(curve.iter().map(|s| s.depth)).len();
        let all: Vec<Stream> = own(run).copied().collect();
        if depths(&all) < DEPTHS_MIN {
            return None;
        }
        let beside = |one: &Stream| -> Vec<Stream> {
            all.iter().filter(|other| !other.is_apart(one)).copied().collect()
        };
        let mut curve = all.iter().map(beside).max_by_key(|curve| depths(curve))?;
        if depths(&curve) < DEPTHS_MIN {
            return Some(Err(Found::apart()));
        }
        curve.sort_by_key(|s| s.depth);
        let best = *best(curve.iter())?;
        let at = curve.iter().position(|s| s.mmsg_per_s >= NEAR * best.mmsg_per_s)?;
        Some(Ok(Self {
            size_bytes,
            first: *curve.first()?,
            best,
            needed: curve[at],
            before: at.checked_sub(1).map(|at| curve[at]),
            deepest: curve.last()?.depth,
        }))
    }

    fn words(&self, rate: impl Fn(&Stream) -> String) -> String {
        let Self { size_bytes, first, best, needed, before, deepest } = self;
        let percent = |s: &Stream| format!("{:.0} %", s.mmsg_per_s * 100.0 / best.mmsg_per_s);
        let mut text = format!(
            "One endpoint moves {} of {size_bytes} B at best ({} in flight), {} of that with {}",
            rate(best),
            best.depth,
            percent(needed),
            needed.depth
        );
        if let Some(before) = before {
            text += &format!(", {} with {}", percent(before), before.depth);
            if before.depth != first.depth {
                text += &format!(", {} with {}", percent(first), first.depth);
            }
        }
        if needed.depth == *deepest {
            text += "; deeper windows, which were not tried, may carry more";
        }
        text + "."
    }
}

/// Finds the sizes at which several endpoints of one thread carry more than one.
pub(super) fn size(streams: &[Stream]) -> Option<Found> {
    let of_one_thread = |s: &&Stream| s.post_list == 1 && s.threads == 1;
    let streams: Vec<&Stream> = streams.iter().filter(of_one_thread).collect();
    let mut sizes_apart = 0;
    let mut gain = |size: usize| {
        let depths = distinct(streams.iter().filter(|s| s.size_bytes == size).map(|s| s.depth));
        let mut is_apart = false;
        let at = |depth: usize| {
            let own = streams.iter().filter(|s| (s.size_bytes, s.depth) == (size, depth)).copied();
            let (one, several): (Vec<&Stream>, Vec<&Stream>) = own.partition(|s| s.is_single());
            let pair = best_pair(&one, &several);
            is_apart |= pair.is_none() && !one.is_empty() && !several.is_empty();
            pair.map(|(one, several)| several.mmsg_per_s / one.mmsg_per_s)
        };
        // Both are taken from the deepest window with which both were measured.
        let gain = depths.into_iter().rev().find_map(at);
        sizes_apart += usize::from(is_apart && gain.is_none());
        Some((size, gain?))
    };
    let sizes = distinct(streams.iter().map(|s| s.size_bytes));
    let gains: Vec<(usize, f64)> = sizes.into_iter().filter_map(&mut gain).collect();
    if gains.len() < 2 {
        return (gains.len() + sizes_apart > 1).then(Found::apart);
    }
    let words = gains.iter().map(|(size, gain)| format!("{} at {size} B", times(*gain)));
    let measured = format!(
        "Several endpoints multiply the message rate of one with as many in flight each by {}.",
        words.collect::<Vec<_>>().join(", ")
    );
    let worth: Vec<String> =
        gains.iter().filter(|(_, gain)| *gain >= WORTH).map(|(size, _)| size.to_string()).collect();
    let advice = match worth.len() {
        0 => "One endpoint is enough at every measured size.".to_owned(),
        all if all == gains.len() => {
            "Spread messages of every measured size over several.".to_owned()
        }
        _ => format!("Spread messages of {} B over several; else one is enough.", worth.join(", ")),
    };
    Some(Found { measured, advice })
}

/// A way to do more at once.
struct Scaling {
    name: &'static str,
    count: fn(&Stream) -> usize,
    is_one: fn(&Stream) -> bool,
}

const SCALINGS: [Scaling; 2] = [
    Scaling {
        name: "Queue pairs of one thread",
        count: |s| s.endpoints,
        is_one: |s| s.threads == 1 && !s.is_crowded,
    },
    Scaling {
        name: "Threads",
        count: |s| s.threads,
        is_one: |s| s.endpoints == 1 && !s.is_crowded,
    },
];

/// Finds how many queue pairs or threads reach the peak of small messages.
pub(super) fn parallel(streams: &[Stream]) -> Option<Found> {
    let mut measured = Vec::new();
    let (mut advice, mut apart): (Option<(f64, String)>, Option<Found>) = (None, None);
    for way in &SCALINGS {
        let (words, gain, count) = match way.peak(streams) {
            Some(Ok(peak)) => peak,
            Some(Err(found)) => {
                apart = Some(found);
                continue;
            }
            None => continue,
        };
        measured.push(words);
        if gain >= WORTH && advice.as_ref().is_none_or(|(best, _)| gain > *best) {
            advice = Some((
                gain,
                format!("Use {count} {} where the message rate counts.", way.name.to_lowercase()),
            ));
        }
    }
    if measured.is_empty() {
        return apart;
    }
    let crowded = distinct(streams.iter().filter(|s| s.is_crowded).map(|s| s.threads));
    if let Some(least) = crowded.first() {
        measured.push(format!(
            "Not judged: {least} threads and more, which outnumber the processors and measure the \
             scheduler."
        ));
    }
    let one = "One thread with one queue pair is enough: more gain less than 10 %.".to_owned();
    Some(Found::new(measured.join(" "), advice.map_or(one, |(_, advice)| advice)))
}

/// The text, the gain of the best over one, and the number that is nearly as good.
type Peak = (String, f64, usize);

impl Scaling {
    /// Returns the peak at the smallest size at which the number was varied; the finding that
    /// nobody can tell, if the processors were elsewhere for one than for all others.
    fn peak(&self, streams: &[Stream]) -> Option<Result<Peak, Found>> {
        let own: Vec<&Stream> =
            streams.iter().filter(|s| s.post_list == 1 && (self.is_one)(s)).collect();
        let many = own.iter().filter(|s| (self.count)(s) > 1);
        let (size, depth) = many.map(|s| (s.size_bytes, s.depth)).min()?;
        let own = own.into_iter().filter(|s| (s.size_bytes, s.depth) == (size, depth));
        let (ones, more): (Vec<&Stream>, Vec<&Stream>) = own.partition(|s| (self.count)(s) == 1);
        best(ones.iter().copied())?;
        let Some((one, _)) = best_pair(&ones, &more) else { return Some(Err(Found::apart())) };
        let at = || ones.iter().chain(&more).copied().filter(|s| !s.is_apart(one));
        let one = one.mmsg_per_s;
        let peak = best(at())?;
        let near = at().filter(|s| s.mmsg_per_s >= NEAR * peak.mmsg_per_s);
        let enough = near.map(|s| (self.count)(s)).min()?;
        let count = (self.count)(peak);
        let mut words =
            format!("{} ({size} B, depth {depth}): {} M msg/s with 1", self.name, significant(one));
        words += &match count {
            1 => ", less with more.".to_owned(),
            _ => format!(", at best {} with {count}", significant(peak.mmsg_per_s)),
        };
        if count > 1 {
            words += &match enough {
                _ if enough == count => ".".to_owned(),
                _ => format!(", within 5 % of that with {enough}."),
            };
        }
        Some(Ok((words, peak.mmsg_per_s / one, enough)))
    }
}
