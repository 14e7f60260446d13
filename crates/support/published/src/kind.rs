//! The vocabulary of the data file.

use std::str::FromStr;

/// Defines an enum of the words of a column, with conversions in both directions.
macro_rules! words {
    ($(#[$about:meta])* $name:ident: $($(#[$each:meta])* $variant:ident = $word:literal,)+) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$each])* $variant,)+
        }

        impl $name {
            /// Returns the word of the data file.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(format!("`{text}` is none of {}", [$($word),+].join(", "))),
                }
            }
        }
    };
}

words! {
    /// The column of the published tables.
    Fabric:
    /// EFA: SRD, and UD where a row says datagram.
    Efa = "efa",
    /// RDMA over InfiniBand, reliable connections.
    Rc = "rc",
    /// TCP sockets.
    Tcp = "tcp",
}

words! {
    /// The operation that moved bytes.
    Operation:
    /// A message.
    Send = "send",
    /// A message with a tag (libfabric).
    Tagged = "tagged",
    /// A message copied by its call (libfabric).
    Inject = "inject",
    /// Either a message with a tag or one without, copied by its call.
    TaggedInject = "tagged_inject",
    /// An unreliable message (UD).
    Datagram = "datagram",
    /// A write of the peer's memory, emulated by libfabric.
    Write = "write",
    /// A read of the peer's memory, emulated by libfabric.
    Read = "read",
}

words! {
    /// The unit and meaning of a figure.
    Unit:
    /// Payload in 2^20 bytes a second, which the thesis calls MB/s.
    MibPerS = "mib_per_s",
    /// 10^6 bytes a second of the adapter's counters, headers included.
    WireMbPerS = "wire_mb_per_s",
    /// 10^6 bytes a second of background load, all generators together.
    LoadMbPerS = "load_mb_per_s",
    /// 10^6 messages a second.
    MmsgPerS = "mmsg_per_s",
    /// Mean of half a round trip, in microseconds.
    MeanUs = "mean_us",
    /// Least half round trip, in microseconds.
    MinUs = "min_us",
    /// Median of half a round trip, in microseconds.
    P50Us = "p50_us",
    /// 99th percentile of half a round trip, in microseconds.
    P99Us = "p99_us",
}

words! {
    /// The reason why a row is not what its label says, or cannot be compared with others.
    Anomaly:
    /// See [`Anomaly::why`].
    Rounding = "rounding",
    /// See [`Anomaly::why`].
    OtherRun = "other-run",
    /// See [`Anomaly::why`].
    UnknownRun = "unknown-run",
    /// See [`Anomaly::why`].
    Oversubscribed = "oversubscribed",
    /// See [`Anomaly::why`].
    Retransmissions = "retransmissions",
    /// See [`Anomaly::why`].
    FasterThanOne = "faster-than-one",
    /// See [`Anomaly::why`].
    Step = "step",
    /// See [`Anomaly::why`].
    Misprint = "misprint",
}

impl Unit {
    /// Returns the name that tables have for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::MibPerS => "MiB/s",
            Self::WireMbPerS => "MB/s wire",
            Self::LoadMbPerS => "MB/s load",
            Self::MmsgPerS => "M msg/s",
            Self::MeanUs => "mean us",
            Self::MinUs => "min us",
            Self::P50Us => "p50 us",
            Self::P99Us => "p99 us",
        }
    }
}

impl Anomaly {
    /// Returns the anomaly in words.
    #[must_use]
    pub const fn why(self) -> &'static str {
        match self {
            Self::Rounding => "printed with so few digits that rounding alone may be more than 3 %",
            Self::OtherRun => {
                "table C.3 has the same measurement from another run, up to 13 % higher"
            }
            Self::UnknownRun => {
                "RDMA columns of C.5 agree with none of the runs the author published"
            }
            Self::Oversubscribed => {
                "32 busy threads on 36 cores: the rate falls, in some runs of the author only"
            }
            Self::Retransmissions => {
                "counts packets; 4.5 % of them are retransmissions to a receiver that was not ready"
            }
            Self::FasterThanOne => {
                "two messages under way complete faster than one alone does in the same setup"
            }
            Self::Step => "2.2 us between 64 and 512 bytes that no other table shows",
            Self::Misprint => "4473.72 is printed, the author's file says 5473.72",
        }
    }
}
