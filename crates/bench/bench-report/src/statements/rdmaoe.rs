//! Subramoni et al., "RDMA over Ethernet: A Preliminary Study" (2009): verbs, MPI and a file
//! transfer over InfiniBand, RDMA over Ethernet, `IPoIB` and TCP.

use report::significant;

use super::judged::{Both, Judged, Verdict, ahead, size};
use super::measured::{Figure, Measured, Quantity, Subject};
use super::{Judge, Statement, Study};
use crate::lessons::times;

const RC: Subject = Subject::Bare("verbs RC", "verbs RC");
const TCP: Subject = Subject::Bare("TCP sockets", "TCP sockets");
const MPI_RC: Subject = Subject::Mpi("ucx:rc_v", "MPI over RC");
const MPI_TCP: Subject = Subject::Mpi("mpi:tcp", "MPI over TCP");

/// The greatest size in bytes of the small and medium messages in the study's figures.
const MEDIUM_MAX_BYTES: usize = 8192;
/// The factor from which a subject does "not perform well": half as good again, at least.
const CLEARLY: f64 = 1.5;
/// The least factor by which several pairs gain, if they gain anything.
const GAIN: f64 = 1.1;
const ANY: std::ops::RangeInclusive<usize> = 0..=usize::MAX;

const WITHOUT_INFINIBAND: &str =
    "It takes an InfiniBand network beside an Ethernet one, and here is neither.";

pub(super) const STUDY: Study = Study {
    plan: "rdmaoe",
    title: "RDMA over Ethernet, a preliminary study",
    citation: "H. Subramoni, P. Lai, M. Luo, D. K. Panda (Ohio State): RDMA over Ethernet - A Preliminary \
               Study",
    statements: &[
        Statement {
            says: "TCP does not perform well for small and medium messages beside RDMA",
            place: "III.B, figures 3 and 4 (verbs)",
            judge: Judge::By(|m| {
                ahead(m, Quantity::Latency { pairs: 1 }, [RC, TCP], 1..=MEDIUM_MAX_BYTES, CLEARLY)
            }),
        },
        Statement {
            says: "RDMA over Ethernet is close to native InfiniBand: encapsulation costs little",
            place: "III.B, figures 3 and 4",
            judge: Judge::Never(WITHOUT_INFINIBAND),
        },
        Statement {
            says: "TCP's processor time is amortised as messages grow",
            place: "III.B, figure 5",
            judge: Judge::By(is_amortised),
        },
        Statement {
            says: "A smaller MTU costs RDMA over Ethernet more",
            place: "III.B, figure 5 (suspected there)",
            judge: Judge::By(|m| {
                let [wide, narrow] = [
                    Subject::BareMtu("verbs RC", 4096, "RC with an MTU of 4,096"),
                    Subject::BareMtu("verbs RC", 1024, "RC with an MTU of 1,024"),
                ];
                ahead(m, Quantity::Goodput { pairs: 1 }, [wide, narrow], 8192..=usize::MAX, GAIN)
            }),
        },
        Statement {
            says: "MPI has its worst bandwidth over TCP",
            place: "III.C, figure 6 (a)",
            judge: Judge::By(|m| {
                ahead(m, Quantity::Goodput { pairs: 1 }, [MPI_RC, MPI_TCP], ANY, 1.0)
            }),
        },
        Statement {
            says: "RDMA over Ethernet has 25 to 30 % less of MPI's bandwidth than native InfiniBand",
            place: "III.C, figure 6",
            judge: Judge::Never(WITHOUT_INFINIBAND),
        },
        Statement {
            says: "Several pairs help TCP and do not help RDMA",
            place: "III.C, figure 6 (b)",
            judge: Judge::By(pairs_help_tcp),
        },
        Statement {
            says: "In both directions at once TCP is behind, too",
            place: "III.C, figure 6 (c)",
            judge: Judge::By(|m| ahead(m, Quantity::BothWays, [MPI_RC, MPI_TCP], ANY, 1.0)),
        },
        Statement {
            says: "MPI's latency over RDMA is much better than over TCP",
            place: "III.C, figure 7",
            judge: Judge::By(|m| {
                ahead(m, Quantity::Latency { pairs: 1 }, [MPI_RC, MPI_TCP], ANY, CLEARLY)
            }),
        },
        Statement {
            says: "The same holds for several pairs at once",
            place: "III.C, figure 8",
            judge: Judge::By(|m| {
                ahead(m, Quantity::Latency { pairs: 2 }, [MPI_RC, MPI_TCP], ANY, CLEARLY)
            }),
        },
        Statement {
            says: "MPI_Allgather is faster over RDMA, as point to point is",
            place: "III.C, figure 9",
            judge: Judge::By(|m| {
                ahead(m, Quantity::Together("allgather"), [MPI_RC, MPI_TCP], ANY, 1.0)
            }),
        },
        Statement {
            says: "MPI_Allreduce is faster over RDMA, as point to point is",
            place: "III.C, figure 10",
            judge: Judge::By(|m| {
                ahead(m, Quantity::Together("allreduce"), [MPI_RC, MPI_TCP], ANY, 1.0)
            }),
        },
        Statement {
            says: "NAS applications run 3 to 4 times as fast over RDMA as over TCP on average",
            place: "III.C, figure 11",
            judge: Judge::By(nas),
        },
        Statement {
            says: "A file is fetched much faster over RDMA than over TCP",
            place: "III.D, figure 12",
            judge: Judge::By(|m| ahead(m, Quantity::FileGet, [RC, TCP], ANY, CLEARLY)),
        },
    ],
};

/// Judges the processor time of a call for each byte, at the shortest and the longest size.
fn is_amortised(measured: &Measured<'_>) -> Option<Judged> {
    let all = measured.all(Quantity::CallCost, TCP);
    let (first, last) = (*all.first()?, *all.last().filter(|_| all.len() > 1)?);
    let per_byte_ns = |at: &Figure| at.value * 1e3 / at.size_bytes as f64;
    let alike: Vec<_> = all.windows(2).filter(|two| !two[0].is_apart(&two[1])).collect();
    if alike.is_empty() || first.is_apart(&last) {
        return Some(Judged::apart(Quantity::CallCost, [TCP, TCP]));
    }
    let fell = alike.iter().filter(|two| per_byte_ns(&two[1]) < per_byte_ns(&two[0])).count();
    let of = |at: Figure| {
        let (us, per_byte) = (significant(at.value), significant(per_byte_ns(&at)));
        format!(
            "a call of {} takes {us} µs of both processors, {per_byte} ns for each byte",
            size(at.size_bytes)
        )
    };
    let evidence = format!("TCP: {}; {}. Both ends poll.", of(first), of(last));
    Some(Judged { verdict: Verdict::of(fell, alike.len()), evidence })
}

/// Returns the goodput of two pairs as a multiple of that of one; the verdict if they may not be
/// compared.
fn gain(measured: &Measured<'_>, subject: Subject) -> Option<Result<f64, Judged>> {
    let [one, two] = [1, 2].map(|pairs| measured.all(Quantity::Goodput { pairs }, subject));
    match Both::of(&two, &one) {
        Both::NotMeasured => None,
        Both::Apart => Some(Err(Judged::apart(Quantity::Goodput { pairs: 2 }, [subject, subject]))),
        Both::At(both) => {
            let ratios = both.iter().map(|(two, one)| two.value / one.value);
            mean(&ratios.collect::<Vec<f64>>()).map(Ok)
        }
    }
}

/// Returns the geometric mean.
fn mean(ratios: &[f64]) -> Option<f64> {
    let sum: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
    (!ratios.is_empty()).then(|| (sum / ratios.len() as f64).exp())
}

fn pairs_help_tcp(measured: &Measured<'_>) -> Option<Judged> {
    let (tcp, rc) = match (gain(measured, MPI_TCP)?, gain(measured, MPI_RC)?) {
        (Ok(tcp), Ok(rc)) => (tcp, rc),
        (Err(apart), _) | (_, Err(apart)) => return Some(apart),
    };
    let evidence = format!(
        "Two pairs together have {} times the goodput of one over TCP, {} times over RC. Where four \
         ranks share two processors this is bound by them.",
        times(tcp),
        times(rc)
    );
    let true_parts = usize::from(tcp >= GAIN) + usize::from(rc < GAIN);
    Some(Judged { verdict: Verdict::of(true_parts, 2), evidence })
}

/// Judges both kernels, in all classes.
fn nas(measured: &Measured<'_>) -> Option<Judged> {
    const TIMES: f64 = 3.0;
    let mut ratios = Vec::new();
    let (mut words, mut apart) = (Vec::new(), None);
    for (test, name) in [("nas-is", "IS"), ("nas-ft", "FT")] {
        let (quantity, subjects) = (Quantity::Together(test), [MPI_RC, MPI_TCP]);
        let [rc, tcp] = subjects.map(|own| measured.all(quantity, own));
        let both = match Both::of(&rc, &tcp) {
            Both::NotMeasured => continue,
            Both::Apart => {
                apart = Some(Judged::apart(quantity, subjects));
                continue;
            }
            Both::At(both) => both,
        };
        for (rc, tcp) in both {
            ratios.push(tcp.value / rc.value);
            let (rc_us, tcp_us) = (significant(rc.value), significant(tcp.value));
            words.push(format!("{name} of {} {rc_us} µs and {tcp_us}", size(rc.size_bytes)));
        }
    }
    let Some(average) = mean(&ratios) else { return apart };
    let verdict = match average {
        times if times >= TIMES => Verdict::Holds,
        times if times >= GAIN => Verdict::Partly,
        _ => Verdict::DoesNotHold,
    };
    let evidence = format!(
        "An iteration over RC and TCP: {}; {} times as fast on average.",
        words.join("; "),
        times(average)
    );
    Some(Judged { verdict, evidence })
}
