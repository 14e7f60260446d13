//! Published figures of EFA hardware, InfiniBand and TCP, as typed rows.
//!
//! Each [`Measurement`] is one number of a table of the thesis in [`CITATION`], as printed, with
//! what recomputation shows its [`Unit`] to be and, where it is not what its label says, the
//! [`Anomaly`]. [`rows`] has all of them; conversions to messages a second and payload bytes are
//! methods of a row, so that there is one of each.
#![forbid(unsafe_code)]

/// The program of the README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod kind;
mod measurement;

pub use kind::{Anomaly, Fabric, Operation, Unit};
pub use measurement::{Measurement, rows};

/// The source of every row.
pub const CITATION: &str = "Dwarakanandan B.M, Elastic Fabric Adapter: A Viable Alternative to RDMA over InfiniBand \
    for DBMS?, master thesis, TU Darmstadt 2022, appendix C";
