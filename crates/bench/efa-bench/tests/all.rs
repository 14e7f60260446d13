//! All tests in one program, which takes less time to build than one program for each file.

mod allocations;
mod atomics;
mod bidirectional;
mod browser;
mod cluster;
mod collectives;
mod command;
mod common;
mod connections;
mod events;
mod fabrics;
mod floors;
mod groups;
mod honesty;
mod importers;
mod incast;
mod libraries;
mod matrix;
mod mpi;
mod plans;
mod ranks;
mod receives;
mod shuffle;
mod slurm;
mod stopped;
mod workloads;
