//! The counters of the gateway.

macro_rules! counts {
    ($($field:ident $name:literal $doc:literal;)*) => {
        /// Counts of datagrams by their fate, and of requests.
        #[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
        pub struct Counts { $(#[doc = $doc] pub $field: u64,)* }

        impl Counts {
            /// Returns names and values, in the order of this list.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$(($name, self.$field)),*].into_iter()
            }
        }
    };
}

counts! {
    packets "rx_pkts" "Datagrams that came to the port.";
    bytes "rx_bytes" "Their bytes, from the base transport header on.";
    overruns "rx_overruns" "Not among them: those that came when the buffers of the gateway's own sockets were full.";
    forwarded "forwarded_pkts" "Of what came, what the operating system took for a queue pair; its socket may still be full.";
    messages "forwarded_cm_msgs" "What it took for a connection manager.";
    answered "answered_cm_msgs" "Those that were for no program, and that the gateway answered itself, or that ended its farewells.";
    malformed "drop_malformed" "Dropped: too short, too long, of another version or opcode, or no message of the connection manager where only these go.";
    icrc "drop_icrc" "Dropped: the ICRC is wrong, or cannot be checked without the right to see IP headers.";
    no_queue_pair "drop_no_queue_pair" "Dropped: no program here has such a queue pair.";
    no_connection "drop_no_connection" "Dropped: messages of the connection manager that are nobody's and ask for no answer.";
    no_room "drop_no_room" "Dropped: the operating system did not take them for the program.";
    farewells "tx_farewells" "Connections of programs that were gone, whose peers were told so.";
    refused "refused_requests" "What programs wanted and were refused.";
}
