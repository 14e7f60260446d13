//! Mirsadeghi et al., "UCX on AWS: Adding Support for Amazon EFA": slides of measurements between
//! two p4d instances.

use super::judged::{Judged, Verdict, ahead, no_worse, size};
use super::measured::{Figure, Measured, Quantity, Subject};
use super::{Judge, Statement, Study};

const SRD: Subject = Subject::Mpi("ucx:srd", "MPI over UCX SRD");
const UD: Subject = Subject::Mpi("ucx:ud_v", "MPI over UCX UD");
const TCP: Subject = Subject::Mpi("ucx:tcp", "MPI over UCX TCP");
const LIBFABRIC: Subject = Subject::Mpi("libfabric:efa", "MPI over libfabric");
const VERBS_SRD: Subject = Subject::Bare("verbs SRD", "verbs SRD");
const VERBS_UD: Subject = Subject::Bare("verbs UD", "verbs UD");

const LATENCY: Quantity = Quantity::Latency { pairs: 1 };
const GOODPUT: Quantity = Quantity::Goodput { pairs: 1 };

/// The greatest size in bytes of the small and medium messages on the slides.
const MEDIUM_MAX_BYTES: usize = 8192;
/// The greatest size in bytes of the small messages.
const SMALL_MAX_BYTES: usize = 512;
/// The least size in bytes of the large messages.
const LARGE_MIN_BYTES: usize = 64 << 10;

/// The factor on the last slide.
const TIMES_TCP: f64 = 10.0;
/// The factor over UD, of which a flow could have 10 Gbit/s of the link's 100.
const TIMES_UD: f64 = 2.0;

pub(super) const STUDY: Study = Study {
    plan: "ucx",
    title: "UCX on AWS: adding support for Amazon EFA",
    citation: "H. Mirsadeghi, A. Venkatesh, J. Dinan, S. Potluri (NVIDIA): UCX on AWS: Adding Support for \
               Amazon EFA",
    statements: &[
        Statement {
            says: "UCX over UD has a lower latency than UCX over TCP for small and medium messages",
            place: "UCX+UD over EFA, latency",
            judge: Judge::By(|m| ahead(m, LATENCY, [UD, TCP], 1..=MEDIUM_MAX_BYTES, 1.0)),
        },
        Statement {
            says: "UCX over UD is very close to the latency of bare verbs",
            place: "UCX+UD over EFA, latency",
            judge: Judge::By(|m| no_worse(m, LATENCY, [UD, VERBS_UD], 1..=SMALL_MAX_BYTES)),
        },
        Statement {
            says: "The bandwidth of UD saturates low, far below that of SRD",
            place: "UCX+UD over EFA, bandwidth",
            judge: Judge::By(|m| {
                ahead(m, GOODPUT, [SRD, UD], LARGE_MIN_BYTES..=usize::MAX, TIMES_UD)
            }),
        },
        Statement {
            says: "UCX over SRD is close to the latency of bare verbs for small messages",
            place: "UCX+SRD over EFA, latency",
            judge: Judge::By(|m| no_worse(m, LATENCY, [SRD, VERBS_SRD], 1..=SMALL_MAX_BYTES)),
        },
        Statement {
            says: "UCX over SRD has a lower or similar latency than libfabric between hosts",
            place: "UCX+SRD over EFA, latency",
            judge: Judge::By(|m| no_worse(m, LATENCY, [SRD, LIBFABRIC], 1..=usize::MAX)),
        },
        Statement {
            says: "UCX over SRD saturates the link",
            place: "UCX+SRD over EFA, bandwidth",
            judge: Judge::By(saturates),
        },
        Statement {
            says: "UCX over SRD has ten times the bandwidth of UCX over TCP",
            place: "Bandwidth versus TCP; conclusion",
            judge: Judge::By(ten_times),
        },
        Statement {
            says: "Messages between GPUs over SRD are as fast as between hosts when they are large, and \
                   over UD they are very slow",
            place: "UCX+UD, UCX+SRD over EFA",
            judge: Judge::Never(
                "It takes GPUs, and memory of GPUs that the adapter reads: neither is here.",
            ),
        },
    ],
};

fn best(measured: &Measured<'_>, subject: Subject) -> Option<Figure> {
    let all = measured.all(GOODPUT, subject).into_iter();
    all.max_by(|one, other| one.value.total_cmp(&other.value))
}

/// Judges saturation. There is no link here, so the goodput that bare verbs get out of the device
/// is what there is to saturate.
fn saturates(measured: &Measured<'_>) -> Option<Judged> {
    const SATURATED: f64 = 0.9;
    const HALF: f64 = 0.5;
    let (ours, theirs) = (best(measured, SRD)?, best(measured, VERBS_SRD)?);
    if ours.is_apart(&theirs) {
        return Some(Judged::apart(GOODPUT, [SRD, VERBS_SRD]));
    }
    let (own, bare) = (ours.value, theirs.value);
    let verdict = match own / bare {
        share if share >= SATURATED => Verdict::Holds,
        share if share >= HALF => Verdict::Partly,
        _ => Verdict::DoesNotHold,
    };
    let percent = 100.0 * own / bare;
    let evidence = format!(
        "{} reaches {own:.1} Gbit/s at {}, {percent:.0} % of the {bare:.1} that {} gets out of the device \
         at {}.",
        SRD.name(),
        size(ours.size_bytes),
        VERBS_SRD.name(),
        size(theirs.size_bytes)
    );
    Some(Judged { verdict, evidence })
}

/// Judges the factor of ten: the statement holds partly if SRD is merely ahead of TCP.
fn ten_times(measured: &Measured<'_>) -> Option<Judged> {
    let sizes = || LARGE_MIN_BYTES..=usize::MAX;
    let judged = ahead(measured, GOODPUT, [SRD, TCP], sizes(), TIMES_TCP)?;
    let is_ahead = ahead(measured, GOODPUT, [SRD, TCP], sizes(), 1.0)?;
    let verdict = match (judged.verdict, is_ahead.verdict) {
        (Verdict::DoesNotHold, Verdict::Holds) => Verdict::Partly,
        (verdict, _) => verdict,
    };
    Some(Judged { verdict, ..judged })
}
