//! The fenced blocks of a page that a reader runs.
//!
//! * ```` ```console ```` holds commands after `$ `, continued by lines after `> `, and what they
//!   print.
//! * ```` ```console figures ```` is the same where the numbers of the output differ from run to
//!   run.
//! * ```` ```console server=PORT ```` holds one command for a first terminal. It listens on that
//!   port while the next block runs, and ends with it.
//! * ```` ```sh ```` is one script, which must succeed.
//!
//! A block with `not-run` in its first line is left out. So are blocks of other languages.

use std::fs;
use std::path::Path;

use crate::promise::{self, Numbers};
use crate::terminal::Output;

/// A block of commands that belong together.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) commands: Vec<Command>,
    /// The port on which the only command listens, if it is for a first terminal.
    pub(crate) server_port: Option<u16>,
    numbers: Numbers,
}

/// A command as a reader types it, and the output that the page promises.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Command {
    /// The line of the page, for messages.
    line: usize,
    pub(crate) text: String,
    /// The promised output; `None` for scripts, whose output the page does not show.
    promised: Option<Vec<String>>,
}

impl Block {
    /// Asserts that a command succeeded, and that it printed what the page promises.
    #[track_caller]
    pub(crate) fn check(&self, page: &str, command: &Command, output: &Output) {
        let place = format!("{page}:{}: $ {}", command.line, command.text);
        assert_eq!(output.code, 0, "{place}\nexit code {}\n{}", output.code, output.text);
        let Some(promised) = &command.promised else { return };
        if let Err(why) = promise::check(promised, &output.text, self.numbers) {
            panic!("{place}\n{why}\nIt printed:\n{}", output.text);
        }
    }
}

/// All blocks of a page that a reader runs.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) blocks: Vec<Block>,
}

impl Page {
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        Self::parse(&text).map_err(|why| format!("{}:{why}", path.display()))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut blocks = Vec::new();
        let mut lines = (1..).zip(text.lines());
        while let Some((number, line)) = lines.next() {
            let Some(info) = line.strip_prefix("```") else { continue };
            let body: Vec<_> = lines.by_ref().take_while(|(_, line)| *line != "```").collect();
            if let Some(block) = block(info, number, &body)? {
                blocks.push(block);
            }
        }
        Ok(Self { blocks })
    }
}

/// Returns the block of a fence `info` in line `number`; `None` if it is not run.
fn block(info: &str, number: usize, body: &[(usize, &str)]) -> Result<Option<Block>, String> {
    let mut words = info.split_whitespace();
    let language = words.next().unwrap_or_default();
    let mut block = Block { commands: Vec::new(), server_port: None, numbers: Numbers::Same };
    for word in words {
        match word.split_once('=') {
            _ if word == "not-run" => return Ok(None),
            _ if word == "figures" => block.numbers = Numbers::Any,
            Some(("server", port)) => {
                block.server_port =
                    Some(port.parse().map_err(|_| format!("{number}: no port: {port}"))?);
            }
            _ => return Err(format!("{number}: unknown word in the fence: {word}")),
        }
    }
    block.commands = match language {
        "console" => commands(body)?,
        "sh" => {
            let lines: Vec<&str> = body.iter().map(|(_, line)| *line).collect();
            vec![Command { line: number + 1, text: lines.join("\n"), promised: None }]
        }
        _ => return Ok(None),
    };
    if block.server_port.is_some() && block.commands.len() != 1 {
        return Err(format!("{number}: a server is one command"));
    }
    Ok(Some(block))
}

fn commands(body: &[(usize, &str)]) -> Result<Vec<Command>, String> {
    let mut commands: Vec<Command> = Vec::new();
    for &(number, line) in body {
        if let Some(text) = line.strip_prefix("$ ") {
            commands.push(Command {
                line: number,
                text: text.to_owned(),
                promised: Some(Vec::new()),
            });
            continue;
        }
        let Some(Command { text, promised: Some(promised), .. }) = commands.last_mut() else {
            return Err(format!("{number}: output before the first command"));
        };
        match line.strip_prefix("> ").filter(|_| promised.is_empty()) {
            Some(more) => *text = format!("{text}\n{more}"),
            None => promised.push(line.to_owned()),
        }
    }
    Ok(commands)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Vec<Block> {
        Page::parse(text).unwrap().blocks
    }

    #[test]
    fn commands_and_what_they_promise() {
        let blocks = parse("Text\n```console\n$ echo a\na\n$ cat <<E\n> b\n> E\nb\n```\nMore\n");
        let [one, two] = &blocks[0].commands[..] else { panic!("{blocks:?}") };
        assert_eq!((one.line, one.text.as_str()), (3, "echo a"));
        assert_eq!(one.promised, Some(vec!["a".to_owned()]));
        assert_eq!(two.text, "cat <<E\nb\nE");
        assert_eq!(two.promised, Some(vec!["b".to_owned()]));
    }

    #[test]
    fn what_is_not_run() {
        assert_eq!(
            parse("```toml\na = 1\n```\n```sh not-run\nfalse\n```\n```\n$ false\n```\n"),
            []
        );
    }

    #[test]
    fn words_of_a_fence() {
        let blocks = parse("```console figures server=18515\n$ serve\n```\n");
        assert_eq!((blocks[0].server_port, blocks[0].numbers), (Some(18515), Numbers::Any));
        for wrong in
            ["```console figure\n```\n", "```console server=x\n$ a\n```\n", "```console\na\n```\n"]
        {
            assert!(Page::parse(wrong).is_err(), "{wrong}");
        }
        assert!(Page::parse("```console server=1\n$ a\n$ b\n```\n").is_err());
    }
}
