//! The paper's experiments as scenarios of the repository with some fields set.

use crate::command::record::{Point, Run};
use crate::command::setting::{self, Choice, Setting};
use crate::command::source::Source;
use anyhow::Result;
use netsim::{Outcome, Scenario, Summary};

/// The size of a transfer, as a scenario spells it and in bytes.
#[derive(Clone, Copy)]
struct Size {
    word: &'static str,
    bytes: u64,
}

/// A scenario of the repository.
#[derive(Clone, Copy)]
struct File {
    name: &'static str,
    text: &'static str,
}

/// Transfer sizes of figure 2. The paper does not name them; these span the range that it states.
const SIZES: [Size; 9] = [
    Size { word: "64KB", bytes: 64_000 },
    Size { word: "128KB", bytes: 128_000 },
    Size { word: "256KB", bytes: 256_000 },
    Size { word: "512KB", bytes: 512_000 },
    Size { word: "1MB", bytes: 1_000_000 },
    Size { word: "2MB", bytes: 2_000_000 },
    Size { word: "4MB", bytes: 4_000_000 },
    Size { word: "8MB", bytes: 8_000_000 },
    Size { word: "16MB", bytes: 16_000_000 },
];
/// Transfer size of figure 3.
pub(super) const CDF_BYTES: u64 = 2_000_000;
/// Transfer sizes for which other buffers are tried.
pub(super) const BUFFER_SIZES: [u64; 4] = [64_000, 512_000, 2_000_000, 16_000_000];
const INCAST: File = File {
    name: "scenarios/incast4x12.toml",
    text: include_str!("../../../../../../scenarios/incast4x12.toml"),
};
const PERSISTENT: File = File {
    name: "scenarios/persistent-incast.toml",
    text: include_str!("../../../../../../scenarios/persistent-incast.toml"),
};
const RACK: File = File {
    name: "scenarios/rack8x16.toml",
    text: include_str!("../../../../../../scenarios/rack8x16.toml"),
};
const RACK_FEW: File = File {
    name: "scenarios/rack8x4.toml",
    text: include_str!("../../../../../../scenarios/rack8x4.toml"),
};
const RACK_CUT: File = File {
    name: "scenarios/rack8x16-cut.toml",
    text: include_str!("../../../../../../scenarios/rack8x16-cut.toml"),
};
/// Number of intervals of a second.
const INTERVALS: usize = 10;
/// Time at which the cable breaks.
pub(super) const CUT_AT_US: u32 = 500;
/// Time from then until all of routing knows of it: the paper says 2 to 3 orders of magnitude after
/// SRD has changed the path, which takes it a few round trips of 9 us.
pub(super) const CONVERGED_AFTER_US: u32 = 5000;
/// Buffer of a port under incast. The ports of a switch share their memory, so the one that is
/// under load has some MB; published simulations give each 0.5 MB. The effect of the choice on the
/// results is measured, too.
const BUFFER: &str = "2MB";
const OTHER_BUFFERS: [&str; 4] = ["539500", "1MB", "4MB", "8MB"];

/// The part of the paper that an experiment repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Figure {
    /// Figures 2 and 3: 48 flows to one host, all at once.
    Burst,
    /// The bursts with other buffers, which show what the results depend on.
    Buffers,
    /// Figure 4: the same flows without an end.
    Persistent,
    /// Figure 6: rack to rack at half of the uplinks.
    Imbalance,
    /// The load of figure 6 in fewer, larger flows, which hashes spread less evenly.
    FewFlows,
    /// Section II: a cable breaks, routing does not learn of it.
    Failure,
}

/// The protocol of the flows. The paper says "TCP", with what its kernel has by default, and not
/// which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Srd,
    /// TCP with CUBIC.
    Cubic,
    NewReno,
    /// CUBIC with losses found by time (RFC 8985), as in Linux since 2018.
    Rack,
}

impl Protocol {
    pub(super) const ALL: [Self; 4] = [Self::Srd, Self::Cubic, Self::NewReno, Self::Rack];
    pub(super) const TCP: [Self; 3] = [Self::Cubic, Self::NewReno, Self::Rack];
    /// Protocols of experiments in which kinds of TCP do not differ.
    pub(super) const TWO: [Self; 2] = [Self::Srd, Self::Cubic];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Srd => "SRD",
            Self::Cubic => "TCP CUBIC",
            Self::NewReno => "TCP NewReno",
            Self::Rack => "TCP RACK",
        }
    }

    /// Returns the fields of a scenario file that select it.
    const fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Srd => &["transport.kind=srd"],
            Self::Cubic => &["transport.kind=tcp"],
            Self::NewReno => &["transport.kind=tcp", "transport.tcp.congestion=newreno"],
            Self::Rack => &["transport.kind=tcp", "transport.tcp.rack=true"],
        }
    }
}

/// One scenario and its runs.
#[derive(Clone, Debug)]
pub(super) struct Experiment {
    pub(super) figure: Figure,
    pub(super) protocol: Protocol,
    /// Number of bytes of a flow.
    pub(super) bytes: u64,
    /// Number of bytes of a run, by which its duration is estimated.
    pub(super) cost_bytes: u64,
    pub(super) scenario: Scenario,
    pub(super) seeds: Vec<u64>,
    /// Buffer of a port, as it was set; empty when it is the scenario's.
    pub(super) buffer: String,
    /// The runs, when they have been made.
    pub(super) point: Point,
}

impl Experiment {
    fn new(figure: Figure, protocol: Protocol, file: File, fields: &[String]) -> Result<Self> {
        let fields = protocol.fields().iter().copied().chain(fields.iter().map(String::as_str));
        let settings = fields.map(Setting::single).collect::<Result<Vec<_>>>()?;
        let combinations = setting::combinations(&settings);
        let chosen = combinations.first().map_or(&[][..], Vec::as_slice);
        let (scenario, point) = Source::new(file.name, file.text)?.point(chosen)?;
        let seeds = scenario.seeds();
        let buffer = point.settings.iter().find(|(field, _)| field == "network.buffer_bytes");
        let buffer = buffer.map_or_else(String::new, |(_, value)| value.clone());
        let (bytes, cost_bytes) = (0, 0);
        Ok(Self { figure, protocol, bytes, cost_bytes, scenario, seeds, buffer, point })
    }

    /// Returns its name, for progress and tables.
    pub(super) fn name(&self) -> String {
        format!("{} {}", self.point.file, self.point.name())
    }

    /// Returns the point that is kept in the result file.
    pub(super) fn point(&self) -> Point {
        let light = |run: &Run| Run { outcome: None, samples: None, ..run.clone() };
        Point { runs: self.point.runs.iter().map(light).collect(), ..self.point.clone() }
    }

    pub(super) fn outcomes(&self) -> impl Iterator<Item = &Outcome> {
        self.point.runs.iter().filter_map(|run| run.outcome.as_ref())
    }

    pub(super) fn summaries(&self) -> impl Iterator<Item = &Summary> {
        self.point.runs.iter().filter_map(|run| run.summary.as_ref())
    }

    /// Returns the interval at which throughput is measured; 0 where it is not.
    pub(super) fn interval_ms(&self) -> u32 {
        let of = |(field, _): &&Choice| field == "workload.interval_ms";
        self.point.settings.iter().find(of).and_then(|(_, ms)| ms.parse().ok()).unwrap_or(0)
    }

    /// Returns the length of what is called a second in figure 4; quick experiments have shorter
    /// ones.
    pub(super) fn second_s(&self) -> f64 {
        f64::from(self.interval_ms()) * INTERVALS as f64 / 1000.0
    }

    /// Returns the number of its seeds, in words.
    pub(super) fn seeds_text(&self) -> String {
        match self.seeds.len() {
            1 => "one seed".to_owned(),
            count => format!("{count} seeds"),
        }
    }

    /// Returns the largest completion time over the ideal one, of the worst seed; `None` when flows
    /// are open.
    pub(super) fn worst(&self) -> Option<f64> {
        let complete = self.point.is_complete();
        self.summaries().map(|s| s.max_to_ideal).reduce(f64::max).filter(|_| complete)
    }
}

/// Returns all experiments; with `quick` few and short ones, which show that they work and little
/// more.
pub(super) fn all(quick: bool) -> Result<Vec<Experiment>> {
    let mut all = Vec::new();
    for protocol in Protocol::ALL {
        all.extend(bursts(protocol, quick)?);
        all.push(persistent(protocol, quick)?);
        all.push(failure(protocol, quick)?);
    }
    for protocol in Protocol::TWO {
        if !quick {
            all.extend(buffers(protocol)?);
        }
        for (figure, scenario) in [(Figure::Imbalance, RACK), (Figure::FewFlows, RACK_FEW)] {
            let limit = "limit_ms=20000".to_owned();
            let mut imbalance = Experiment::new(figure, protocol, scenario, &[limit])?;
            imbalance.seeds = (1..=if quick { 1 } else { 10 }).collect();
            imbalance.cost_bytes = 128 * 2_000_000;
            all.push(imbalance);
        }
    }
    Ok(all)
}

/// Creates the experiment in which a cable breaks. SRD is not told; TCP cannot do without, so
/// routing learns of it late.
fn failure(protocol: Protocol, quick: bool) -> Result<Experiment> {
    let detect_us = 100;
    let converge_us = CONVERGED_AFTER_US - detect_us;
    let repair = format!("fault.repair={{detect_us={detect_us}, converge_us={converge_us}}}");
    let late = [format!("fault.at_us={CUT_AT_US}"), repair, "limit_ms=20000".to_owned()];
    let fields = if protocol == Protocol::Srd { &late[..1] } else { &late[..] };
    let mut failure = Experiment::new(Figure::Failure, protocol, RACK_CUT, fields)?;
    failure.seeds.truncate(if quick { 1 } else { usize::MAX });
    failure.cost_bytes = 128 * 2_000_000;
    Ok(failure)
}

fn burst(figure: Figure, protocol: Protocol, size: Size, buffer: &str) -> Result<Experiment> {
    let Size { word, bytes } = size;
    let fields = [
        format!("workload.bytes={word}"),
        format!("network.buffer_bytes={buffer}"),
        // TCP waits for time-outs, which double; the limit must not cut them off.
        "limit_ms=20000".to_owned(),
    ];
    let mut burst = Experiment::new(figure, protocol, INCAST, &fields)?;
    (burst.bytes, burst.cost_bytes) = (bytes, 48 * bytes);
    Ok(burst)
}

fn buffers(protocol: Protocol) -> Result<Vec<Experiment>> {
    let mut all = Vec::new();
    for buffer in OTHER_BUFFERS {
        for size in SIZES.into_iter().filter(|size| BUFFER_SIZES.contains(&size.bytes)) {
            all.push(burst(Figure::Buffers, protocol, size, buffer)?);
        }
    }
    Ok(all)
}

fn bursts(protocol: Protocol, quick: bool) -> Result<Vec<Experiment>> {
    let mut all = Vec::new();
    let wanted = |size: &Size| !quick || [64_000, CDF_BYTES].contains(&size.bytes);
    for size in SIZES.into_iter().filter(wanted) {
        let mut burst = burst(Figure::Burst, protocol, size, BUFFER)?;
        let seeds = match (quick, size.bytes) {
            (true, _) => 1,
            (false, CDF_BYTES) => 10,
            (false, _) => 3,
        };
        burst.seeds = (1..=seeds).collect();
        all.push(burst);
    }
    Ok(all)
}

fn persistent(protocol: Protocol, quick: bool) -> Result<Experiment> {
    // Quick: seconds of 10 ms.
    let (until_ms, interval_ms) = if quick { (20, 1) } else { (5000, 100) };
    let fields = [
        format!("workload.until_ms={until_ms}"),
        format!("workload.interval_ms={interval_ms}"),
        format!("network.buffer_bytes={BUFFER}"),
        format!("limit_ms={until_ms}"),
    ];
    let mut persistent = Experiment::new(Figure::Persistent, protocol, PERSISTENT, &fields)?;
    persistent.cost_bytes = 12_500_000 * until_ms;
    Ok(persistent)
}

/// Returns the throughput of each flow in Gbit/s, interval by interval.
pub(super) fn rates(run: &Run) -> Vec<Vec<f64>> {
    let shares = run.outcome.as_ref().and_then(|outcome| outcome.shares.as_ref());
    let Some(shares) = shares else { return Vec::new() };
    let ns = f64::from(shares.interval_ms) * 1e6;
    let rate = |bytes: &u64| *bytes as f64 * 8.0 / ns;
    shares.flows.iter().map(|flow| flow.bytes.iter().map(rate).collect()).collect()
}

/// Returns the throughput of each flow in each second of figure 4, which has ten intervals.
pub(super) fn each_second(run: &Run) -> Vec<Vec<f64>> {
    let second = |ten: &[f64]| ten.iter().sum::<f64>() / ten.len() as f64;
    let flows = rates(run);
    flows.iter().map(|flow| flow.chunks_exact(INTERVALS).map(second).collect()).collect()
}
