//! Self-contained HTML reports: text, tables and SVG plots in one file.
//!
//! A report needs no network: it opens from a file, from a mail, in ten years. Its one script sorts
//! tables and unfolds what a link leads to; without it all is there. It is readable in light and
//! dark, by keyboard and by screen reader: every plot has a title, a description and a data table
//! with the same numbers, and series differ by colour, marker and dash. [`html`] and [`markdown`]
//! render the same [`Page`]; [`write_atomic`] puts the result on disk whole or not at all.
#![forbid(unsafe_code)]

/// The program of the README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod axis;
mod bundle;
mod chart;
mod csv;
mod distinct;
mod dots;
mod escape;
mod fairness;
mod file;
mod interval;
mod markdown;
mod page;
mod progress;
mod shell;
mod sparkline;
mod style;
mod svg;
mod table;
mod verdict;

pub use axis::{Axis, Scale};
pub use bundle::markdown_files;
pub use chart::{Chart, Series, Stroke, significant};
pub use csv::csv_line;
pub use distinct::distinct;
pub use dots::{Dot, Dots};
pub use escape::without_controls;
pub use fairness::jain;
pub use file::{Destination, WriteError, create_new, open_stream, write_atomic};
pub use interval::{Interval, are_enough, middle, middle_interval, ratio_interval};
pub use markdown::{COLUMNS, markdown, wrapped};
pub use page::{Layout, Page, Section, html};
pub use progress::{Progress, Voice, print, say};
pub use shell::shell_word;
pub use sparkline::sparkline;
pub use style::LOOKS;
pub use table::{Align, Column, Table};
pub use verdict::{Better, Change};
