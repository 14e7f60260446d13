//! A fabric of a plan, and how processes on it are started.

use std::path::{Path, PathBuf};

use bench_record::fabric_name::FabricName;
use bench_record::failure::Failure;
use bench_record::wire::Wire;

use super::options::PlanArgs;
use super::source::{FabricSource, Runner};

use crate::softefa_device;

/// One fabric of a plan.
#[derive(Debug, Clone)]
pub(super) struct Fabric {
    /// The name that the reader of the result sees.
    pub(super) name: String,
    pub(super) fabric: FabricName,
    pub(super) start: Start,
    /// Whether only steps that name the fabric go with it.
    pub(super) is_by_name: bool,
}

/// The way in which processes on a fabric are started.
#[derive(Debug, Clone)]
pub(super) enum Start {
    /// Without any prefix.
    Plain,
    /// Behind these words.
    Prefix(Vec<String>),
    /// Behind `softefa run`, with counters, and with what goes wrong on purpose.
    Softefa(Softefa),
}

/// `softefa run` for a fabric.
#[derive(Debug, Clone, Default)]
pub(super) struct Softefa {
    pub(super) program: PathBuf,
    pub(super) fault: Option<String>,
    pub(super) wire: Option<Wire>,
    /// Path MTU of a RoCE device in bytes.
    pub(super) mtu: Option<u32>,
}

impl Softefa {
    /// Returns the command line before the program's, with these additional options.
    fn words(&self, options: &[String]) -> Vec<String> {
        let mut words = vec![self.program.display().to_string(), "run".to_owned()];
        words.extend_from_slice(options);
        words.extend(Wire::words(self.wire));
        words.extend(self.fault.iter().flat_map(|fault| ["--fault".to_owned(), fault.clone()]));
        words.push("--".to_owned());
        words
    }
}

/// A side of a measurement; for Soft-EFA, each side is a host of its own.
#[derive(Debug, Clone, Copy)]
pub(super) enum Side {
    Server,
    Client,
}

impl Fabric {
    /// Parses a fabric such as "tcp", "libfabric:shm" or "libfabric:efa=softefa run --".
    pub(super) fn parse(text: &str) -> Result<Self, Failure> {
        let (fabric, prefix) = text.split_once('=').unwrap_or((text, ""));
        let fabric: FabricName = fabric.parse().map_err(|reason| {
            Failure::Usage(format!("--fabric {text}: {reason}, or FABRIC='COMMAND --'"))
        })?;
        let words: Vec<String> = prefix.split_whitespace().map(str::to_owned).collect();
        let start = if words.is_empty() { Start::Plain } else { Start::Prefix(words) };
        Ok(Self { name: fabric.label(), fabric, start, is_by_name: false })
    }

    /// Returns the words before the command line of one side.
    pub(super) fn prefix(&self, side: Side, counters: &Path) -> Vec<String> {
        match &self.start {
            Start::Plain => Vec::new(),
            Start::Prefix(words) => words.clone(),
            Start::Softefa(softefa) => {
                let address = match side {
                    Side::Server => "127.0.0.1",
                    Side::Client => "127.0.0.2",
                };
                let device = match &self.fabric {
                    FabricName::Libfabric(_) if self.fabric.needs_roce() => self.short_options(),
                    fabric if fabric.needs_roce() => {
                        let mtu = softefa.mtu.map(|bytes| format!(",mtu={bytes}"));
                        let mtu = mtu.unwrap_or_default();
                        vec!["--device".to_owned(), format!("roce0={address},profile=roce{mtu}")]
                    }
                    _ => vec!["--device".to_owned(), format!("rdmap0s6={address}")],
                };
                let counters = ["--counters".to_owned(), counters.display().to_string()];
                softefa.words(&[device, counters.into()].concat())
            }
        }
    }

    /// Returns the words before a command line that is shown to people.
    pub(super) fn short_prefix(&self) -> Vec<String> {
        match &self.start {
            Start::Plain => Vec::new(),
            Start::Prefix(words) => words.clone(),
            Start::Softefa(softefa) => softefa.words(&self.short_options()),
        }
    }

    /// Returns the options of the device that both ends may share.
    fn short_options(&self) -> Vec<String> {
        match &self.start {
            Start::Softefa(Softefa { mtu: Some(bytes), .. }) => {
                vec!["--device".to_owned(), format!("roce0=127.0.0.1,profile=roce,mtu={bytes}")]
            }
            _ if self.fabric.needs_roce() => vec!["--roce".to_owned()],
            _ => Vec::new(),
        }
    }

    /// Returns whether two threads of one process are both sides of the fabric.
    pub(super) const fn is_floor(&self) -> bool {
        matches!(self.fabric, FabricName::Floor(_))
    }

    pub(super) const fn is_softefa(&self) -> bool {
        matches!(self.start, Start::Softefa(_))
    }

    /// Returns the wire of the fabric's messages, if it was given.
    pub(super) const fn wire(&self) -> Option<Wire> {
        match &self.start {
            Start::Softefa(softefa) => softefa.wire,
            Start::Plain | Start::Prefix(_) => None,
        }
    }

    /// Returns whether a step for `pattern` ("tcp", "libfabric:*", "*", or the name) is for this
    /// fabric. If things go wrong on purpose, or if the plan says so, only the name matches.
    pub(super) fn fits(&self, pattern: &str) -> bool {
        let is_odd = matches!(&self.start, Start::Softefa(softefa) if softefa.fault.is_some());
        if is_odd || self.is_by_name || self.name == pattern {
            return self.name == pattern;
        }
        // The same fabric may be written in several ways.
        if pattern.parse::<FabricName>().is_ok_and(|own| own == self.fabric) {
            return true;
        }
        let name = self.fabric.to_string();
        pattern.strip_suffix('*').map_or(name == pattern, |start| name.starts_with(start))
    }
}

/// Returns the requested fabrics, else those of the plan. Each has a name of its own, because
/// results tell fabrics apart by nothing else.
pub(super) fn all(plan: &[FabricSource], options: &PlanArgs) -> Result<Vec<Fabric>, Failure> {
    let all = named(plan, options)?;
    for (number, fabric) in all.iter().enumerate() {
        if all[..number].iter().any(|before| before.name == fabric.name) {
            let name = &fabric.name;
            return Err(Failure::Usage(format!(
                "two fabrics are called `{name}`, and their figures would be taken for those of \
                 one: give one of them another name = \"...\" in its [[fabric]] of a plan file, \
                 or measure each by itself"
            )));
        }
    }
    Ok(all)
}

/// Returns the requested fabrics, else those of the plan, whatever their names.
fn named(plan: &[FabricSource], options: &PlanArgs) -> Result<Vec<Fabric>, Failure> {
    if !options.fabric.is_empty() {
        return options.fabric.iter().map(|text| Fabric::parse(text)).collect();
    }
    if plan.is_empty() {
        let text = "this plan names no fabric: name one with --fabric";
        return Err(Failure::Usage(text.to_owned()));
    }
    let softefa = match plan.iter().any(|fabric| fabric.on == Runner::Softefa) {
        true => softefa(options)?,
        false => PathBuf::new(),
    };
    let start = |source: &FabricSource| match source.on {
        Runner::Softefa => Start::Softefa(Softefa {
            program: softefa.clone(),
            fault: source.fault.clone(),
            wire: source.wire,
            mtu: source.mtu,
        }),
        Runner::Nothing => Start::Plain,
    };
    let one = |source: &FabricSource| Fabric {
        name: source.name.clone(),
        fabric: source.fabric.clone(),
        start: start(source),
        is_by_name: source.is_by_name,
    };
    Ok(plan.iter().map(one).collect())
}

/// Finds the `softefa` command.
fn softefa(options: &PlanArgs) -> Result<PathBuf, Failure> {
    match &options.softefa {
        // Nothing is started, so the name will do.
        None if options.dry_run => {
            Ok(softefa_device::find(None).unwrap_or_else(|_| "softefa".into()))
        }
        named => softefa_device::find(named.as_deref()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fabrics_are_parsed() {
        let plain = Fabric::parse("tcp").expect("tcp");
        assert!(matches!(plain.start, Start::Plain));
        let prefixed = Fabric::parse("libfabric:efa=softefa run --").expect("efa");
        assert_eq!(prefixed.name, "libfabric efa");
        assert_eq!(prefixed.prefix(Side::Client, Path::new("x")), ["softefa", "run", "--"]);
        assert!(Fabric::parse("=x").is_err());
    }

    /// Their points would be shown as one measurement.
    #[test]
    fn two_fabrics_of_one_name_are_refused() {
        let asked_for = |fabrics: &[&str]| {
            let fabric = fabrics.iter().map(|text| (*text).to_owned()).collect();
            all(&[], &PlanArgs { fabric, ..PlanArgs::for_tests() })
        };
        assert!(asked_for(&["tcp", "udp"]).is_ok_and(|all| all.len() == 2));
        let twice = asked_for(&["libfabric:efa", "tcp", "libfabric:efa=softefa run --"]);
        let error = twice.expect_err("refused");
        assert_eq!(error.exit_code(), 2);
        let words = ["`libfabric efa`", "another name"];
        assert!(words.iter().all(|word| error.to_string().contains(word)), "{error}");
    }

    #[test]
    fn patterns_are_names_or_starts_of_names() {
        let tcp = Fabric::parse("tcp").expect("tcp");
        for (pattern, fits) in
            [("tcp", true), ("sockets:tcp", true), ("sockets:*", true), ("udp", false)]
        {
            assert_eq!(tcp.fits(pattern), fits, "{pattern}");
        }
        let efa = Fabric::parse("libfabric:efa").expect("efa");
        for (pattern, fits) in [
            ("*", true),
            ("libfabric:*", true),
            ("libfabric:efa", true),
            ("libfabric:ef", false),
            ("verbs:*", false),
            ("tcp", false),
        ] {
            assert_eq!(efa.fits(pattern), fits, "{pattern}");
        }
        let lossy = Softefa {
            program: "softefa".into(),
            fault: Some("loss=1%".into()),
            ..Softefa::default()
        };
        let odd = Fabric { name: "lossy".to_owned(), start: Start::Softefa(lossy), ..efa.clone() };
        assert!(odd.fits("lossy") && !odd.fits("*") && !odd.fits("libfabric:*"));
        assert_eq!(odd.short_prefix(), ["softefa", "run", "--fault", "loss=1%", "--"]);
        let named = Fabric { name: "mine".to_owned(), is_by_name: true, ..efa };
        assert!(named.fits("mine") && !named.fits("*") && !named.fits("libfabric:efa"));
    }

    #[test]
    fn both_sides_run_over_the_wire_of_the_fabric() {
        let efa = Fabric::parse("libfabric:efa").expect("efa");
        let over = |wire| {
            let program = "softefa".into();
            let start = Start::Softefa(Softefa { program, wire, ..Softefa::default() });
            Fabric { start, ..efa.clone() }
        };
        let words = over(Some(Wire::Udp)).prefix(Side::Server, Path::new("c.json")).join(" ");
        let expected = "softefa run --device rdmap0s6=127.0.0.1 --counters c.json --wire udp --";
        assert_eq!(words, expected);
        assert_eq!(over(Some(Wire::Shm)).short_prefix().join(" "), "softefa run --wire shm --");
        assert_eq!(over(None).short_prefix().join(" "), "softefa run --");
        assert_eq!((over(Some(Wire::Udp)).wire(), efa.wire()), (Some(Wire::Udp), None));
        let rc = Fabric { fabric: "verbs:rc".parse().expect("rc"), ..over(None) };
        let words = rc.prefix(Side::Client, Path::new("c.json")).join(" ");
        let device = "--device roce0=127.0.0.2,profile=roce";
        assert_eq!(words, format!("softefa run {device} --counters c.json --"));
        assert_eq!(rc.short_prefix().join(" "), "softefa run --roce --");
        let start = Start::Softefa(Softefa {
            program: "softefa".into(),
            mtu: Some(1024),
            ..Softefa::default()
        });
        let narrow = Fabric { start, ..rc };
        let device = "--device roce0=127.0.0.1,profile=roce,mtu=1024";
        let words = narrow.prefix(Side::Server, Path::new("c.json")).join(" ");
        assert_eq!(words, format!("softefa run {device} --counters c.json --"));
        assert_eq!(narrow.short_prefix().join(" "), format!("softefa run {device} --"));
    }
}
