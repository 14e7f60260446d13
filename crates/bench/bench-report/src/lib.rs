//! Reports of measured results: tables, pages, verdicts, lessons, and readers for the output of
//! other tools. This crate measures nothing and needs no fabric.
#![forbid(unsafe_code)]
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "figures for people: 53 bits of a counter are plenty"
)]

/// The program of the README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod compare;
pub mod comparisons;
pub mod figures;
mod held;
pub mod import;
pub mod judge;
mod kinds;
pub mod lessons;
pub mod output;
pub mod page;
pub mod paper;
pub mod settings;
pub mod shown;
mod sound;
pub mod statements;
mod tails;
mod timelines;
pub mod verdicts;
