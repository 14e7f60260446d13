//! Figures and the references that they are compared with, both measured by a plan in every round.

use serde::{Deserialize, Serialize};

use crate::Point;
use crate::cores::Phase;

/// A figure and its reference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The heading above the comparison; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub section: String,
    /// The name of the figure: "`ib_send_lat` 64 B".
    pub what: String,
    pub figure: Figure,
    pub ours: Vec<Block>,
    /// The name of the reference; empty: there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub beside: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reference: Vec<Block>,
    pub bound: Bound,
    /// The aim beyond the bound: a limit of the same quantity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aim: Option<f64>,
}

/// The figure of one round.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Block {
    /// The number of the round, from 0.
    pub round: usize,
    pub figure: f64,
    /// The distance of the processors; `None`: it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
}

/// The figure of a point that is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// The median of half round trips in µs; the mean, if there is no median.
    Median,
    /// The mean of half round trips in µs.
    Mean,
    /// Goodput in Gbit/s.
    Goodput,
    /// Messages in millions per second.
    Rate,
    /// Connections per second.
    Connections,
}

impl Figure {
    /// All figures.
    pub const ALL: [Self; 5] =
        [Self::Median, Self::Mean, Self::Goodput, Self::Rate, Self::Connections];

    /// Returns the name of the figure in plans.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Median => "median",
            Self::Mean => "mean",
            Self::Goodput => "goodput",
            Self::Rate => "rate",
            Self::Connections => "connections",
        }
    }

    /// Returns the unit of the figure.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Median | Self::Mean => "µs",
            Self::Goodput => "Gbit/s",
            Self::Rate => "M/s",
            Self::Connections => "/s",
        }
    }

    /// Returns this figure of a point; `None` if the point has none.
    #[must_use]
    pub fn of(self, point: &Point) -> Option<f64> {
        match self {
            Self::Median => point.latency.map(|latency| latency.middle_us()),
            Self::Mean => point.latency.map(|latency| latency.mean_us),
            Self::Goodput => point.bandwidth.map(|found| found.gbit_per_s),
            Self::Rate => point.bandwidth.map(|found| found.mmsg_per_s),
            Self::Connections => point.connections.as_ref().map(|found| found.per_s),
        }
    }
}

/// The bound that a figure must keep.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// The ratio to the reference must not be above this.
    RatioAtMost(f64),
    /// The ratio to the reference must not be below this.
    RatioAtLeast(f64),
    /// The figure itself must not be below this.
    AtLeast(f64),
    /// The ratio to the reference must not be farther from one than this. It is the ratio within a
    /// round, in which both figures are measured one right after the other.
    RatioWithin(f64),
    /// There is no bound: the figure is only for information.
    Nothing,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bandwidth, Latency};

    #[test]
    fn figures_are_those_of_the_point() {
        let latency = Latency { mean_us: 3.0, ..Latency::default() };
        let point = Point {
            latency: Some(latency),
            bandwidth: Some(Bandwidth::new(2_000_000, 16_000_000_000, 1.0)),
            ..Point::new(8_000, 1)
        };
        let found = Figure::ALL.map(|figure| figure.of(&point));
        assert_eq!(found, [Some(3.0), Some(3.0), Some(128.0), Some(2.0), None]);
    }

    #[test]
    fn a_comparison_is_read_as_it_was_written() {
        let block = |round, phase| Block { round, figure: 1.5, phase };
        let own = Comparison {
            section: String::new(),
            what: "latency".to_owned(),
            figure: Figure::Median,
            ours: vec![block(0, Some(Phase::Near)), block(2, None)],
            beside: "bare UDP".to_owned(),
            reference: vec![block(0, Some(Phase::Far))],
            bound: Bound::RatioAtMost(1.35),
            aim: Some(1.2),
        };
        let text = serde_json::to_string(&own).expect("JSON");
        assert!(text.contains(r#""bound":{"ratio_at_most":1.35}"#), "{text}");
        assert_eq!(serde_json::from_str::<Comparison>(&text).expect("the same"), own);
    }
}
