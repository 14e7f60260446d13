//! The line in which the user writes a fault, and its result.

use crate::fault;

/// The action of a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reaction {
    /// Leave.
    Leave,
    /// Show what has changed.
    Show,
    /// No action.
    None,
}

/// The length of the longest line.
const LINE_MAX: usize = 200;
const ESCAPE: u8 = 0x1b;
const BACKSPACES: [u8; 2] = [0x08, 0x7f];
const CTRL_U: u8 = 0x15;

/// The line that is being written, or the last result.
#[derive(Debug, Default)]
pub(super) struct Prompt {
    line: Option<String>,
    said: String,
}

impl Prompt {
    /// Handles a key; sets or clears faults if the line is complete.
    pub(super) fn take(&mut self, key: u8) -> Reaction {
        let Some(line) = &mut self.line else { return self.take_command(key) };
        match key {
            ESCAPE => self.line = None,
            b'\n' | b'\r' => {
                let line = std::mem::take(line);
                self.line = None;
                self.said = fault::set_line(&line);
            }
            CTRL_U => line.clear(),
            _ if BACKSPACES.contains(&key) => drop(line.pop()),
            b' '..=b'~' if line.len() < LINE_MAX => line.push(key.into()),
            _ => return Reaction::None,
        }
        Reaction::Show
    }

    fn take_command(&mut self, key: u8) -> Reaction {
        match key {
            b'q' | b'Q' => return Reaction::Leave,
            b'f' => (self.line, self.said) = (Some(String::new()), String::new()),
            b'c' => self.said = fault::clear_line(),
            _ => return Reaction::None,
        }
        Reaction::Show
    }

    /// Returns the text below the title.
    pub(super) fn text(&self) -> String {
        match &self.line {
            Some(line) => format!("fault set (Enter sets, Esc leaves it): {line}_"),
            None => self.said.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn type_in(prompt: &mut Prompt, keys: &[u8]) {
        keys.iter().for_each(|key| assert_eq!(prompt.take(*key), Reaction::Show));
    }

    #[test]
    fn a_line_is_written_corrected_and_left() {
        let mut prompt = Prompt::default();
        type_in(&mut prompt, b"floss=5");
        assert!(prompt.text().ends_with(": loss=5_"), "{}", prompt.text());
        assert_eq!(prompt.take(b'q'), Reaction::Show, "a letter like others");
        type_in(&mut prompt, b"\x7f\x7f");
        assert!(prompt.text().ends_with(": loss=_"));
        type_in(&mut prompt, b"\x15none");
        assert!(prompt.text().ends_with(": none_"));
        assert_eq!(prompt.take(0xc3), Reaction::None, "no letter of a fault");
        type_in(&mut prompt, b"\x1b");
        assert_eq!((prompt.text(), prompt.take(b'q')), (String::new(), Reaction::Leave));
    }

    #[test]
    fn a_mistake_is_said_and_the_line_has_an_end() {
        let mut prompt = Prompt::default();
        type_in(&mut prompt, b"flose=5%\n");
        assert!(prompt.text().contains("unknown fault 'lose'"), "{}", prompt.text());
        type_in(&mut prompt, b"f");
        for _ in 0..1_000 {
            prompt.take(b'x');
        }
        assert!(prompt.text().len() < LINE_MAX + 100);
    }
}
