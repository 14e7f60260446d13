//! `softefa top`: the activity of every running device of this user, refreshed.

mod history;
mod prompt;
mod queue_pairs;
mod sample;
mod screen;
mod table;

use std::io::{self, IsTerminal, Write, stdin, stdout};
use std::time::Instant;

use serde_json::{Value, json};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGWINCH};
use signal_hook::low_level::emulate_default_handler;

use crate::args::TopArgs;
use crate::failure::Failure;
use crate::wake::{Waker, Woken};
use history::History;
use prompt::{Prompt, Reaction};
use sample::{Rates, Sample};
use screen::Screen;

/// Shows the devices until the user ends it, or once.
///
/// # Errors
/// Standard output or the terminal cannot be used.
pub(crate) fn top(args: &TopArgs) -> Result<u8, Failure> {
    let is_live = !args.once && !args.json && stdout().is_terminal();
    let has_keys = is_live && stdin().is_terminal();
    let mut waker = Waker::new(&[SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH], has_keys)?;
    let screen = is_live.then(|| Screen::open(has_keys)).transpose()?;
    let mut before = Sample::take();
    let mut view = View::default();
    loop {
        let deadline = before.at + args.interval;
        if !wait(&mut waker, deadline, screen.as_ref(), &mut view)? {
            return Ok(0);
        }
        let now = Sample::take();
        view.rates = Rates::between(&before, &now);
        view.history.add(now.at, &view.rates.activities());
        before = now;
        let is_written = match &screen {
            Some(screen) => view.show(screen),
            None => print(&view, args.json),
        };
        match is_written {
            // A closed pipe (`softefa top | head`) is the end, not a failure.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(0),
            Err(error) => return Err(Failure::new(format!("standard output: {error}"))),
            Ok(()) if args.once => return Ok(0),
            Ok(()) => {}
        }
    }
}

/// The state of the screen.
#[derive(Debug, Default)]
struct View {
    rates: Rates,
    history: History,
    prompt: Prompt,
}

impl View {
    fn show(&self, screen: &Screen) -> io::Result<()> {
        screen.show(&self.rates, &self.history, &self.prompt)
    }
}

/// Waits until the next refresh; returns false if the user wants to leave.
fn wait(
    waker: &mut Waker,
    deadline: Instant,
    screen: Option<&Screen>,
    view: &mut View,
) -> Result<bool, Failure> {
    loop {
        match waker.wait_until(deadline) {
            Woken::Time => return Ok(true),
            Woken::Signal(SIGINT | SIGTERM | SIGHUP) => return Ok(false),
            Woken::Key(key) => match view.prompt.take(key) {
                Reaction::Leave => return Ok(false),
                // The next refresh reports a terminal that is gone.
                Reaction::Show => drop(screen.map(|screen| view.show(screen))),
                Reaction::None => {}
            },
            Woken::Signal(signal @ (SIGQUIT | SIGTSTP)) => {
                if let Some(screen) = screen {
                    screen.leave();
                }
                // Ends or stops here, and continues when the shell resumes it.
                let _ = emulate_default_handler(signal);
                if let Some(screen) = screen {
                    screen.enter()?;
                }
            }
            Woken::Signal(SIGWINCH) => {
                // The next refresh reports a terminal that is gone.
                let _ = screen.map(|screen| view.show(screen));
            }
            Woken::Signal(_) => {}
        }
    }
}

fn print(view: &View, as_json: bool) -> io::Result<()> {
    let text = if as_json {
        format!("{}\n", to_json(&view.rates))
    } else {
        screen::lines(&view.rates, &view.history, usize::MAX).join("\n") + "\n"
    };
    let mut out = stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// One line: `interval_s`, `devices` (each with `device`, `kind`, `address`, `pid`, `program`,
/// `fault`, the rates and `counters`) and `queue_pairs`.
fn to_json(rates: &Rates) -> Value {
    let devices: Vec<Value> = rates
        .rows
        .iter()
        .map(|row| {
            let mut device = json!({
                "device": row.device,
                "kind": row.adapter.name(),
                "address": row.addr.to_string(),
                "pid": row.pid,
                "program": row.program,
                "fault": row.fault,
                "counters": crate::counters::object(&row.totals),
            });
            for column in table::COLUMNS {
                device[column.key] = json!((column.value)(row));
            }
            device
        })
        .collect();
    let queue_pairs: Vec<Value> =
        rates.queue_pairs.iter().map(queue_pairs::QueuePair::to_json).collect();
    let interval_s = rates.interval.as_secs_f64();
    json!({ "interval_s": interval_s, "devices": devices, "queue_pairs": queue_pairs })
}
