//! Usage errors in one line, and help.

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::{Cli, Command};
use crate::failure::Failure;

/// Help that was asked for is a success; help shown because nothing was given is a usage error.
pub(super) fn print_help(error: &clap::Error) -> Result<Option<Command>, Failure> {
    // A closed pipe (`softefa --help | head`) is no reason to complain.
    let _ = error.print();
    match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            Err(Failure::new("no command given; write for example: softefa run -- PROGRAM"))
        }
        _ => Ok(None),
    }
}

/// The help that knows the options of a command line.
fn help_of(words: impl Iterator<Item = String>) -> String {
    let mut help = "softefa".to_owned();
    let mut command = Cli::command();
    for word in words.skip(1) {
        let Some(subcommand) = command.find_subcommand(&word).cloned() else { break };
        help = help + " " + subcommand.get_name();
        command = subcommand;
    }
    help + " --help"
}

/// What clap reports of a command line, in one line: what is wrong, its tip when it has one, where
/// to read on.
pub(super) fn one_line(error: &clap::Error, words: impl Iterator<Item = String>) -> String {
    let help = help_of(words);
    if error.kind() == ErrorKind::MissingRequiredArgument {
        return missing(error, &help);
    }
    let text = error.to_string();
    let what = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
    let mut line = what.trim_end_matches(':').to_owned();
    for kind in [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand] {
        if let Some(suggestion) = error.get(kind) {
            line.push_str(&format!("; did you mean {suggestion}?"));
        }
    }
    if let Some(ContextValue::Strings(values)) = error.get(ContextKind::ValidValue) {
        if !values.is_empty() {
            line.push_str(&format!("; it is one of {}", values.join(", ")));
        }
    }
    line + "; see " + &help
}

fn missing(error: &clap::Error, help: &str) -> String {
    let Some(ContextValue::Strings(names)) = error.get(ContextKind::InvalidArg) else {
        return format!("an argument is missing; see {help}");
    };
    if names.iter().any(|name| name.contains("PROGRAM")) {
        return "no program given; usage: softefa run [OPTIONS] -- PROGRAM [ARGS]...".into();
    }
    format!("{} is missing; see {help}", names.join(" and "))
}
