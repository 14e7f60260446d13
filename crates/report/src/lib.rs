//! Self-contained HTML reports: tables and SVG plots, no network
