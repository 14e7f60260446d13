//! Verbs, libfabric and MPI compared on the same adapter.

use bench_record::Run;
use report::significant;

use super::streams::{self, Stream};
use super::{Found, WORTH, times};

/// Returns the interface that a run on an EFA device used; `None` for another fabric.
fn interface_of(run: &Run) -> Option<&'static str> {
    let provider = run.fabric.as_ref().map(|f| f.provider.to_lowercase());
    match provider.as_deref() {
        Some("verbs srd") => Some("verbs"),
        Some(provider) if provider.starts_with("efa") => Some("libfabric"),
        // Of the runs of `efa-bench mpi`, only those on this adapter count.
        Some("mpi") => run.fabric.as_ref().filter(|f| f.domain == "libfabric:efa").map(|_| "MPI"),
        _ => run.citation.as_ref().filter(|title| title.contains("MPI")).map(|_| "MPI"),
    }
}

/// Compares rates at the smallest size and the deepest window with which verbs and libfabric were
/// measured, where calls cost most.
pub(super) fn compare(runs: &[Run]) -> Option<Found> {
    // Both must have gone over the same wire.
    let over = |in_memory: bool| {
        let own: Vec<&Run> = runs.iter().filter(|run| run.is_in_memory() == in_memory).collect();
        compare_over_one_wire(&own)
    };
    let found: Vec<Found> = [false, true].into_iter().filter_map(over).collect();
    let told = found.iter().position(|own| *own != Found::apart()).unwrap_or(0);
    found.into_iter().nth(told)
}

fn compare_over_one_wire(runs: &[&Run]) -> Option<Found> {
    let of = |wanted: &str| {
        let own: Vec<&Run> =
            runs.iter().copied().filter(|run| interface_of(run) == Some(wanted)).collect();
        let mut found = streams::of(&own);
        found.retain(|stream| stream.is_single() && stream.post_list == 1);
        found
    };
    let (verbs, libfabric, mpi) = (of("verbs"), of("libfabric"), of("MPI"));
    let at = |streams: &[Stream], size: usize, depth: usize| {
        let own = |s: &&Stream| (s.size_bytes, s.depth) == (size, depth);
        streams.iter().find(own).copied()
    };
    let mut places: Vec<(usize, usize)> = verbs.iter().map(|s| (s.size_bytes, s.depth)).collect();
    places.sort_by_key(|(size, depth)| (*size, std::cmp::Reverse(*depth)));
    let both = |(size, depth): (usize, usize)| {
        Some((at(&verbs, size, depth)?, at(&libfabric, size, depth)?))
    };
    let all: Vec<(Stream, Stream)> = places.into_iter().filter_map(both).collect();
    let Some((one, other)) = all.iter().find(|(one, other)| !one.is_apart(other)) else {
        return (!all.is_empty()).then(Found::apart);
    };
    let (size, depth) = (one.size_bytes, one.depth);
    let mpi = at(&mpi, size, depth).filter(|own| !own.is_apart(one));
    let mpi = mpi.map_or_else(String::new, |own| format!(", MPI {}", significant(own.mmsg_per_s)));
    let (verbs, libfabric) = (one.mmsg_per_s, other.mmsg_per_s);
    let ratio = verbs / libfabric;
    let measured = format!(
        "{size} B, depth {depth}: verbs moves {} M msg/s, libfabric {}{mpi}; verbs {} times as many as \
         libfabric.",
        significant(verbs),
        significant(libfabric),
        times(ratio)
    );
    let advice = match ratio > WORTH {
        true => "Use verbs where the message rate counts.",
        false => "Choose libfabric for its interface: it costs nothing here.",
    };
    Some(Found::new(measured, advice))
}
