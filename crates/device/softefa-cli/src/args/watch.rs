//! What looks at running devices: `softefa top` and `softefa pcap`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, value_parser};

/// `softefa top`.
#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// Seconds between two samples, 0.1 to 86400.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse_seconds)]
    pub(crate) interval: Duration,
    /// Print the rates of one interval and exit.
    #[arg(long)]
    pub(crate) once: bool,
    /// Print JSON, one line per sample.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `softefa pcap`.
#[derive(Debug, Args)]
pub(crate) struct PcapArgs {
    /// The file to write (pcapng); - is standard output, for example into wireshark -k -i -.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) write: PathBuf,
    /// Stop after this many seconds [default: at Ctrl-C].
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub(crate) duration: Option<Duration>,
    /// Stop after this many packets.
    #[arg(long, value_name = "N")]
    pub(crate) count: Option<u64>,
    /// Capture only devices of this name; may be repeated.
    #[arg(long = "device", value_name = "NAME")]
    pub(crate) devices: Vec<String>,
    /// Decrypt packets with the key in this file.
    ///
    /// Packets that cannot be decrypted, and those that --snaplen has cut, are written as they were
    /// captured. Also SOFTEFA_KEY_FILE.
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
    /// Capture only packets that this queue pair sends or receives; may be repeated.
    ///
    /// Packets of a RoCE connection name only their receiver.
    #[arg(long = "qp", value_name = "NUMBER")]
    pub(crate) qpns: Vec<u32>,
    /// Capture this many bytes of each packet, without IP and UDP headers.
    #[arg(long, value_name = "BYTES", default_value = "65535", value_parser = value_parser!(u32).range(64..=65535))]
    pub(crate) snaplen: u32,
}

/// Reads a time in seconds, 0.1 to a day.
fn parse_seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=86_400.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("write seconds from 0.1 to 86400".to_owned()),
    }
}
