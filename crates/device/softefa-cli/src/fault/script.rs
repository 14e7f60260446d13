//! `--fault-script`: faults at given times, from a file.

use std::fs;
use std::io::Read;
use std::net::IpAddr;
use std::ops::Range;
use std::path::Path;

use serde::Deserialize;
use softefa::Config;
use softefa::fault::TimedFault;
use toml::Spanned;

use crate::failure::Failure;

/// The bytes of a script that are read.
const BYTES_MAX: u64 = 1 << 20;
/// The most steps of a script.
const STEPS_MAX: usize = 4096;

/// The contents of a script file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// The seed of the steps whose faults have none of their own.
    seed: Option<u64>,
    #[serde(default)]
    step: Vec<Step>,
}

/// A `[[step]]` of a script.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    at: Spanned<String>,
    fault: Spanned<String>,
    #[serde(rename = "for")]
    duration: Option<Spanned<String>>,
    device: Option<Spanned<String>>,
    peer: Option<Spanned<String>>,
}

/// An error in a script: what is wrong, with which key, and where.
struct Wrong {
    at: Range<usize>,
    key: &'static str,
    what: String,
}

impl Wrong {
    fn new(value: &Spanned<String>, key: &'static str, what: impl Into<String>) -> Self {
        Self { at: value.span(), key, what: what.into() }
    }
}

/// Reads the steps in `path`, for the devices of `config`.
///
/// # Errors
/// One line with the file, the line in it and the key.
pub(crate) fn read(path: &Path, config: &Config) -> Result<Vec<TimedFault>, Failure> {
    let shown = path.display();
    let mut text = String::new();
    let file = fs::File::open(path);
    let read = file.and_then(|file| file.take(BYTES_MAX + 1).read_to_string(&mut text));
    let read = read.map_err(|error| format!("fault script {shown} cannot be read: {error}"));
    if read.map_err(Failure::new)? as u64 > BYTES_MAX {
        let what = format!("fault script {shown} is longer than {BYTES_MAX} bytes");
        return Err(Failure::new(what));
    }
    parse(&text, config).map_err(|Wrong { at, key, what }| {
        let line = text[..at.start.min(text.len())].matches('\n').count() + 1;
        let key = if key.is_empty() { String::new() } else { format!("{key}: ") };
        Failure::new(format!("fault script {shown}, line {line}: {key}{what}"))
    })
}

fn parse(text: &str, config: &Config) -> Result<Vec<TimedFault>, Wrong> {
    let file: File = toml::from_str(text).map_err(|error| Wrong {
        at: error.span().unwrap_or(0..0),
        key: "",
        what: error.message().replace('\n', " "),
    })?;
    let whole = |what: String| Wrong { at: 0..0, key: "step", what };
    if file.step.is_empty() {
        return Err(whole(
            "there is none; write [[step]], at = \"2s\" and fault = \"loss=5%\"".into(),
        ));
    }
    if file.step.len() > STEPS_MAX {
        return Err(whole(format!("there are {}, at most {STEPS_MAX} can be", file.step.len())));
    }
    let mut steps: Vec<TimedFault> = Vec::with_capacity(file.step.len());
    for step in &file.step {
        let read = read_step(step, file.seed, config)?;
        if steps.last().is_some_and(|before| before.from_ns > read.from_ns) {
            let what = format!("'{}' is before the step above", step.at.as_ref());
            return Err(Wrong::new(&step.at, "at", what));
        }
        steps.push(read);
    }
    Ok(steps)
}

fn read_step(step: &Step, seed: Option<u64>, config: &Config) -> Result<TimedFault, Wrong> {
    let time = |value: &Spanned<String>, key| {
        TimedFault::parse_time(value.as_ref())
            .map_err(|error| Wrong::new(value, key, error.to_string()))
    };
    let from_ns = time(&step.at, "at")?;
    let for_ns = step.duration.as_ref().map(|value| time(value, "for")).transpose()?;
    let wrong_fault =
        |error: softefa::ConfigError| Wrong::new(&step.fault, "fault", error.to_string());
    let text = step.fault.as_ref();
    let mut spec = TimedFault::parse_spec(text).map_err(wrong_fault)?;
    let names_seed = text.split(',').any(|item| item.trim().starts_with("seed="));
    spec.seed = seed.filter(|_| !names_seed).unwrap_or(spec.seed);
    let device = step.device.as_ref().map(|name| device_of(name, config)).transpose()?;
    let peer = |value: &Spanned<String>| {
        let what = format!("'{}' is not an IP address", value.as_ref());
        value.as_ref().parse::<IpAddr>().map_err(|_| Wrong::new(value, "peer", what))
    };
    let peer = step.peer.as_ref().map(peer).transpose()?;
    let devices =
        config.devices.iter().filter(|spec| device.as_ref().is_none_or(|name| spec.name == *name));
    let meant =
        Config { faults: spec.clone(), devices: devices.cloned().collect(), ..config.clone() };
    meant.check().map_err(wrong_fault)?;
    Ok(TimedFault { spec, device, peer, from_ns, for_ns })
}

fn device_of(name: &Spanned<String>, config: &Config) -> Result<String, Wrong> {
    let known: Vec<&str> = config.devices.iter().map(|device| device.name.as_str()).collect();
    if known.contains(&name.as_ref().as_str()) {
        return Ok(name.as_ref().clone());
    }
    let what =
        format!("'{}' is no device of this run, which has {}", name.as_ref(), known.join(", "));
    Err(Wrong::new(name, "device", what))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(text: &str) -> Result<Vec<TimedFault>, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.toml");
        fs::write(&path, text).unwrap();
        let line = |failure: Failure| failure.to_string().replace(path.to_str().unwrap(), "s.toml");
        read(&path, &Config::default()).map_err(line)
    }

    #[test]
    fn a_script_that_is_too_long_is_refused_as_a_whole() {
        let step = "[[step]]\nat = \"2s\"\nfault = \"none\"\n";
        let long = step.to_owned() + &"#\n".repeat(1 << 19) + step;
        let error = steps(&long).unwrap_err();
        assert!(error.contains("s.toml is longer than 1048576 bytes"), "{error}");
    }

    #[test]
    fn steps_have_times_faults_and_the_seed_of_the_script() {
        let text = "seed = 7\n[[step]]\nat = \"2s\"\nfault = \"blackhole=all\"\nfor = \"500ms\"\n\
            [[step]]\nat = \"5s\"\nfault = \"loss=1%,seed=3\"\npeer = \"127.0.0.2\"\ndevice = \"rdmap0s6\"\n\
            [[step]]\nat = \"5s\"\nfault = \"none\"\n";
        let steps = steps(text).unwrap();
        let lines: Vec<String> = steps.iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                "from=2000000000 for=500000000 spec=blackhole=all@0ns,seed=7",
                "from=5000000000 device=rdmap0s6 peer=127.0.0.2 spec=loss=1%,seed=3",
                "from=5000000000 spec=none",
            ]
        );
    }

    #[test]
    fn mistakes_are_told_with_line_and_key() {
        let step = |rest: &str| {
            format!("# a script\n[[step]]\nat = \"2s\"\nfault = \"loss=5%\"\n{rest}\n")
        };
        for (text, line, words) in [
            (String::new(), 1, "step: there is none"),
            ("x = 1\n".into(), 1, "x"),
            ("[[step]]\nat = \"2s\"\n".into(), 1, "fault"),
            ("[[step]]\nat = 2\nfault = \"none\"".into(), 2, "string"),
            ("[[step]]\nat = \"2x\"\nfault = \"none\"".into(), 2, "at: time '2x'"),
            ("[[step]]\nat = \"1s\"\nfault = \"lose=1%\"".into(), 3, "fault: unknown fault 'lose'"),
            ("[[step]]\nat = \"1s\"\nfault = \"mtu=1400\"".into(), 3, "softefa run --fault"),
            ("[[step]]\nat = \"1s\"\nfault = \"blackhole=path:4\"".into(), 3, "path:4"),
            (
                step("device = \"roce0\""),
                5,
                "device: 'roce0' is no device of this run, which has rdmap0s6",
            ),
            (step("peer = \"host\""), 5, "peer: 'host'"),
            (step("for = \"-1s\""), 5, "for: time '-1s'"),
            (step("[[step]]\nat = \"1s\"\nfault = \"none\""), 6, "at: '1s' is before"),
            ("[[step]\n".into(), 1, ""),
        ] {
            let told = steps(&text).unwrap_err();
            let place = format!("fault script s.toml, line {line}: ");
            assert!(told.starts_with(&place) && told.contains(words), "{text:?}: {told}");
            assert_eq!(told.lines().count(), 1, "{told}");
        }
    }
}
