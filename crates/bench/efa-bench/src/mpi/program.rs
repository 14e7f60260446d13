//! The started ranks: one line asks rank 0 for a measurement, and one line answers.

use std::io::Write;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use bench_engine::interrupt;
use bench_record::failure::Failure;
use bench_record::spec::{Benchmark, Limit, PointSpec};
use bench_record::{Bandwidth, Collective, Distribution, Latency, Point};
use serde::Deserialize;

use crate::child;

use super::Test;

/// The time that ranks may take to end when nothing is asked any more.
const END_TIMEOUT: Duration = Duration::from_secs(20);
/// The number of lines of a failed launcher that are shown as the reason.
const REASON_LINES_MAX: usize = 3;

/// The first message of rank 0.
#[derive(Deserialize)]
struct Ready {
    ranks: usize,
}

/// Times of operations, or a stream's count.
#[derive(Deserialize)]
#[serde(untagged)]
enum Answer {
    Times {
        count: u64,
        mean_us: f64,
        #[serde(default)]
        overlap_percent: Option<f64>,
        #[serde(default)]
        alone_us: Option<f64>,
        #[serde(flatten)]
        distribution: Distribution,
        #[serde(flatten)]
        checks: Checks,
    },
    Stream {
        messages: u64,
        seconds: f64,
        #[serde(flatten)]
        checks: Checks,
    },
}

#[derive(Clone, Copy, Deserialize)]
struct Checks {
    validated: u64,
    wrong: u64,
}

/// The running ranks; dropping the value ends them.
pub(super) struct Program {
    launcher: String,
    child: Child,
    stdin: Option<ChildStdin>,
    answers: mpsc::Receiver<String>,
    errors: mpsc::Receiver<String>,
    ranks: usize,
    timeout: Duration,
}

impl Program {
    /// Starts the ranks and waits until all of them are there.
    pub(super) fn start(
        words: &[String],
        environment: &[(&'static str, String)],
        ranks: usize,
        timeout: Duration,
    ) -> Result<Self, Failure> {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).envs(environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A terminal's Ctrl-C is for this process, which ends after the point that is measured.
        let mut child = child::spawn(interrupt::apart(&mut command))?;
        let (to_answers, answers) = mpsc::channel();
        let (to_errors, errors) = mpsc::channel();
        if let Some(stdout) = child.stdout.take() {
            child::forward_lines(stdout, to_answers);
        }
        if let Some(stderr) = child.stderr.take() {
            child::forward_lines(stderr, to_errors);
        }
        let stdin = child.stdin.take();
        let launcher = words.join(" ");
        let mut this = Self { launcher, child, stdin, answers, errors, ranks, timeout };
        let line = this.answer("starting the ranks")?;
        let ready: Ready = parsed(&line)?;
        if ready.ranks != ranks {
            return Err(Failure::Check(format!(
                "the program was started with {} ranks instead of {ranks}: look at --mpirun; mpicc and \
                 mpirun may be of different MPIs",
                ready.ranks
            )));
        }
        Ok(this)
    }

    /// Measures one point once.
    pub(super) fn measure(&mut self, test: Test, spec: PointSpec) -> Result<Point, Failure> {
        let (iterations, duration_ms) = match spec.limit {
            Limit::Iterations(count) => (count, 0),
            Limit::DurationMs(ms) => (0, ms),
        };
        let line = format!(
            "{} {} {} {iterations} {duration_ms} {} {}\n",
            test.name(),
            spec.size_bytes,
            spec.depth,
            spec.warmup_ms,
            u8::from(spec.validate)
        );
        let doing = format!("measuring {} of {} B", test.name(), spec.size_bytes);
        let written = self
            .stdin
            .as_mut()
            .map(|stdin| stdin.write_all(line.as_bytes()).and_then(|()| stdin.flush()));
        if !matches!(written, Some(Ok(()))) {
            return Err(self.gone(&doing));
        }
        let line = self.answer(&doing)?;
        point(test, spec, self.ranks, &parsed(&line)?)
    }

    /// Lets the ranks end, as they do when nothing more is asked.
    pub(super) fn end(&mut self) -> Result<(), Failure> {
        // Not every launcher passes on the end of its input. A launcher that is gone tells why
        // below.
        let _ = self.stdin.take().map(|mut stdin| stdin.write_all(b"end\n"));
        let deadline = Instant::now() + END_TIMEOUT;
        while Instant::now() < deadline {
            match self.child.try_wait() {
                Ok(None) => std::thread::sleep(Duration::from_millis(5)),
                Ok(Some(status)) if status.success() => return Ok(()),
                _ => return Err(self.gone("ending the ranks")),
            }
        }
        let seconds = END_TIMEOUT.as_secs_f64();
        Err(Failure::Timeout { doing: "waiting for the ranks to end".to_owned(), seconds })
    }

    /// Returns the next line of JSON, and skips whatever else a launcher prints.
    fn answer(&mut self, doing: &str) -> Result<String, Failure> {
        let deadline = Instant::now() + self.timeout;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.answers.recv_timeout(left) {
                Ok(line) if line.starts_with('{') => return Ok(line),
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => {
                    let doing = format!("{doing}{}", self.reason());
                    return Err(Failure::Timeout { doing, seconds: self.timeout.as_secs_f64() });
                }
                Err(RecvTimeoutError::Disconnected) => return Err(self.gone(doing)),
            }
        }
    }

    /// Returns the failure of ranks that have ended by themselves.
    fn gone(&mut self, doing: &str) -> Failure {
        self.stdin = None;
        let status = self.child.wait().map_or_else(|e| e.to_string(), |status| status.to_string());
        let reason = format!("`{}` ended with {status}{}", self.launcher, self.reason());
        Failure::PeerGone { doing: doing.to_owned(), reason }
    }

    /// Returns what was written to standard error, without ornaments.
    fn reason(&self) -> String {
        let is_word = |line: &String| line.chars().any(char::is_alphanumeric);
        let lines: Vec<String> = self.errors.try_iter().filter(is_word).collect();
        let lines = lines.iter().take(REASON_LINES_MAX).map(|line| line.trim());
        let said = lines.collect::<Vec<_>>().join(" ");
        if said.is_empty() { said } else { format!("; it said: {said}") }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.stdin = None;
        if matches!(self.child.try_wait(), Ok(None)) {
            // A launcher that is asked to end takes its ranks along; one that is killed may not.
            let pid = rustix::process::Pid::from_child(&self.child);
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            let deadline = Instant::now() + Duration::from_secs(5);
            while Instant::now() < deadline && matches!(self.child.try_wait(), Ok(None)) {
                std::thread::sleep(Duration::from_millis(5));
            }
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

fn parsed<T: serde::de::DeserializeOwned>(line: &str) -> Result<T, Failure> {
    serde_json::from_str(line).map_err(|error| {
        Failure::Check(format!("rank 0 said something that is no result ({error}): {line}"))
    })
}

/// Makes a point of an answer.
fn point(test: Test, spec: PointSpec, ranks: usize, answer: &Answer) -> Result<Point, Failure> {
    let (Answer::Times { checks, .. } | Answer::Stream { checks, .. }) = answer;
    if checks.wrong > 0 {
        return Err(Failure::Data(format!(
            "{} of {} results of {} of {} bytes were wrong",
            checks.wrong,
            checks.validated,
            test.name(),
            spec.size_bytes
        )));
    }
    let PointSpec { size_bytes, depth, warmup_ms, .. } = spec;
    let plain = Point { validated: checks.validated, warmup_ms, ..Point::new(size_bytes, depth) };
    match *answer {
        Answer::Stream { messages, seconds, .. } => {
            if messages == 0 || seconds <= 0.0 {
                return Err(Failure::Check(format!(
                    "no message of {size_bytes} B came within the measured time: raise --duration"
                )));
            }
            let bandwidth = Bandwidth::new(messages, messages * size_bytes as u64, seconds);
            Ok(Point { rx_depth: depth, bandwidth: Some(bandwidth), ..plain })
        }
        Answer::Times { count, mean_us, distribution, overlap_percent, alone_us, .. } => {
            if test.benchmark() == Benchmark::Latency {
                let distribution = Some(distribution.divided(2.0));
                let latency =
                    Latency { round_trips: Some(count), mean_us: mean_us / 2.0, distribution };
                return Ok(Point { latency: Some(latency), ..plain });
            }
            let pattern = test.pattern();
            let bus_gbit_per_s =
                pattern.and_then(|own| own.bus_gbit_per_s(size_bytes, ranks, mean_us / 1e6));
            let operations = Some(count);
            let collective = Collective {
                ranks,
                operations,
                mean_us,
                bus_gbit_per_s,
                overlap_percent,
                alone_us,
            };
            Ok(Point { collective: Some(collective), operation_time: Some(distribution), ..plain })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: PointSpec =
        PointSpec { validate: true, ..PointSpec::new(1_000_000, 1, Limit::Iterations(2)) };
    const TIMES: &str = r#"{"count":2,"mean_us":1000.0,"min_us":900.0,"p50_us":1000.0,"p90_us":1100.0,
        "p99_us":1100.0,"p999_us":1100.0,"p9999_us":1100.0,"max_us":1100.0,"validated":8,"wrong":0}"#;

    #[test]
    fn times_are_half_round_trips_or_whole_operations() {
        let answer: Answer = serde_json::from_str(TIMES).expect("an answer");
        let latency =
            point(Test::Latency, SPEC, 2, &answer).expect("a point").latency.expect("times");
        assert_eq!((latency.round_trips, latency.mean_us), (Some(2), 500.0));
        assert_eq!(latency.distribution.map(|d| (d.min_us, d.max_us)), Some((450.0, 550.0)));
        let whole = point(Test::Bcast, SPEC, 4, &answer).expect("a point");
        let collective = whole.collective.expect("a collective");
        assert_eq!((collective.ranks, collective.mean_us), (4, 1000.0));
        assert!(collective.bus_gbit_per_s.is_some_and(|rate| (rate - 8.0).abs() < 1e-9));
        assert_eq!(whole.figure(), Some(1000.0));
    }

    #[test]
    fn wrong_results_and_empty_windows_are_failures() {
        let wrong = TIMES.replace("\"wrong\":0", "\"wrong\":1");
        let answer: Answer = serde_json::from_str(&wrong).expect("an answer");
        assert_eq!(point(Test::Bcast, SPEC, 2, &answer).unwrap_err().exit_code(), 9);
        let empty = r#"{"messages":0,"seconds":0.0,"validated":0,"wrong":0}"#;
        let answer: Answer = serde_json::from_str(empty).expect("an answer");
        let error = point(Test::Bandwidth, SPEC, 2, &answer).unwrap_err();
        assert!(error.to_string().contains("--duration"), "{error}");
    }
}
