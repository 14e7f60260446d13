//! The terminal while the table is shown: the alternate screen, no echo, and keys without delay.

use std::io::{self, Write, stdin, stdout};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use super::history::History;
use super::prompt::Prompt;
use super::sample::Rates;
use super::{queue_pairs, table};
use crate::failure::Failure;

const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
const HOME: &str = "\x1b[H";
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";
/// The size that is used if the terminal does not report one.
const USUAL_SIZE: (usize, usize) = (80, 24);

/// The terminal, which is restored when this is dropped.
pub(super) struct Screen {
    /// The settings to restore; `None` if standard input is not the terminal.
    settings: Option<Termios>,
}

impl Screen {
    /// Takes the terminal over, with its keys if `has_keys`.
    ///
    /// # Errors
    /// The terminal cannot be set or written.
    pub(super) fn open(has_keys: bool) -> Result<Self, Failure> {
        let settings = has_keys.then(|| tcgetattr(stdin())).transpose();
        let screen = Self { settings: settings.map_err(|error| failure(&error.into()))? };
        screen.enter()?;
        Ok(screen)
    }

    /// Switches to the alternate screen.
    ///
    /// # Errors
    /// The terminal cannot be set or written.
    pub(super) fn enter(&self) -> Result<(), Failure> {
        if let Some(settings) = &self.settings {
            let mut keys = settings.clone();
            keys.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
            tcsetattr(stdin(), OptionalActions::Now, &keys)
                .map_err(|error| failure(&error.into()))?;
        }
        write(ENTER).map_err(|error| failure(&error))
    }

    /// Switches back to the previous screen.
    pub(super) fn leave(&self) {
        // A terminal that is gone needs no cleaning.
        let _ = write(LEAVE);
        if let Some(settings) = &self.settings {
            let _ = tcsetattr(stdin(), OptionalActions::Now, settings);
        }
    }

    /// Shows as much of the table as fits, below the text of `prompt`.
    pub(super) fn show(&self, rates: &Rates, history: &History, prompt: &Prompt) -> io::Result<()> {
        let (columns, rows) = size();
        let mut text = String::from(HOME);
        let title = format!(
            "softefa top: {} devices in use, every {:.1} s; f sets a fault, c clears it, q leaves",
            rates.rows.len(),
            rates.interval.as_secs_f64()
        );
        let head = [title, prompt.text()].into_iter();
        let lines = fit(head.chain(lines(rates, history, columns)).collect(), rows);
        for (index, line) in lines.iter().enumerate() {
            if index > 0 {
                text += "\r\n";
            }
            text.extend(line.chars().take(columns));
            text += CLEAR_LINE;
        }
        write(&(text + CLEAR_BELOW))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Returns the lines of devices and then of queue pairs, as wide as there is room.
pub(super) fn lines(rates: &Rates, history: &History, width: usize) -> Vec<String> {
    let mut lines = table::lines(rates, history, width);
    let queue_pairs = queue_pairs::lines(&rates.queue_pairs, history, width);
    if !queue_pairs.is_empty() {
        lines.push(String::new());
        lines.extend(queue_pairs);
    }
    lines
}

/// Keeps as many lines as there is room for; the last one says how many are missing.
fn fit(mut lines: Vec<String>, rows: usize) -> Vec<String> {
    if lines.len() > rows && rows > 0 {
        let hidden = lines.len() + 1 - rows;
        lines.truncate(rows - 1);
        lines.push(format!("... {hidden} more lines; a higher terminal shows them"));
    }
    lines
}

fn size() -> (usize, usize) {
    match tcgetwinsize(stdout()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
        _ => USUAL_SIZE,
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut out = stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

fn failure(error: &io::Error) -> Failure {
    Failure::new(format!("the terminal cannot be used: {error}; try softefa top --once"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_room_is_counted() {
        let all = |count: usize| (0..count).map(|at| at.to_string()).collect::<Vec<String>>();
        assert_eq!(fit(all(3), 3), all(3));
        let cut = fit(all(10), 4);
        assert_eq!((cut.len(), &cut[2][..]), (4, "2"));
        assert!(cut[3].contains(" 7 more"), "{cut:?}");
        assert_eq!(fit(all(3), 0), all(3), "a terminal without a size");
    }
}
