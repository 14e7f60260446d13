//! Manual pages and shell completions of a command line.
//!
//! Each program calls [`check`] in a test. Programs therefore do not carry the generators, and
//! pages cannot fall behind the options. `packaging/build` runs these tests with [`ENV_DIR`] set
//! and packs what they write.
#![forbid(unsafe_code)]

/// The program of the README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Command;
use clap_complete::{Shell, generate};

/// Name of the environment variable for the directory to write to; below it the layout is that of
/// `/usr/share`.
pub const ENV_DIR: &str = "SOFTEFA_MANUAL_DIR";

/// Directories below `/usr/share` in which the shells look for a program's completions.
const COMPLETIONS: [(Shell, &str); 3] = [
    (Shell::Bash, "bash-completion/completions/{}"),
    (Shell::Zsh, "zsh/site-functions/_{}"),
    (Shell::Fish, "fish/vendor_completions.d/{}.fish"),
];

/// Asserts that everything a user can write has a description, and writes pages and completions to
/// the directory that [`ENV_DIR`] names, or to a temporary one.
///
/// # Panics
/// Panics if a description is missing or a file cannot be written.
#[allow(clippy::needless_pass_by_value, reason = "reads as check(Cli::command())")]
pub fn check(command: Command) {
    let missing = undocumented(&command);
    assert!(missing.is_empty(), "no description: {}", missing.join(", "));
    let aside = tempfile::tempdir().unwrap_or_else(|error| panic!("temporary directory: {error}"));
    let dir = std::env::var_os(ENV_DIR).map_or_else(|| aside.path().to_owned(), PathBuf::from);
    if let Err(error) = write(&command, &dir) {
        panic!("{}: {error}", dir.display());
    }
}

/// Writes a page for the program and each of its commands, and a completion for each shell.
///
/// # Errors
/// Returns an error if a directory or file cannot be written.
pub fn write(command: &Command, dir: &Path) -> io::Result<()> {
    let pages = dir.join("man/man1");
    fs::create_dir_all(&pages)?;
    clap_mangen::generate_to(command.clone(), &pages)?;
    for page in fs::read_dir(&pages)? {
        let page = page?.path();
        fs::write(&page, keep_lines(&fs::read_to_string(&page)?))?;
    }
    let name = command.get_name();
    for (shell, place) in COMPLETIONS {
        let mut text = Vec::new();
        generate(shell, &mut command.clone(), name, &mut text);
        let path = dir.join(place.replace("{}", name));
        fs::create_dir_all(path.parent().unwrap_or(dir))?;
        fs::write(path, text)?;
    }
    Ok(())
}

/// Keeps the lines of a page's last section, which stands below the options of `--help`: it holds
/// tables and examples.
fn keep_lines(page: &str) -> String {
    let heading = ".SH EXTRA\n";
    let Some((before, notes)) = page.split_once(heading) else { return page.to_owned() };
    let (notes, after) = notes.split_at(notes.find("\n.SH ").map_or(notes.len(), |at| at + 1));
    format!("{before}.SH NOTES\n.nf\n{notes}.fi\n{after}")
}

/// Returns the commands and options that have no description.
fn undocumented(command: &Command) -> Vec<String> {
    let name = command.get_name();
    let options = command.get_arguments().filter(|option| !option.is_hide_set());
    let bare = options.filter(|option| option.get_help().is_none());
    let mut missing: Vec<String> =
        bare.map(|option| format!("{name} {}", option.get_id())).collect();
    if command.get_about().is_none() {
        missing.push(name.to_owned());
    }
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        missing.extend(undocumented(below).iter().map(|what| format!("{name} {what}")));
    }
    missing
}

#[cfg(test)]
mod tests {
    use clap::Arg;

    use super::*;

    fn program() -> Command {
        let run =
            Command::new("run").about("Runs.").arg(Arg::new("fault").long("fault").help("Faults."));
        Command::new("tool").about("A tool.").subcommand(run)
    }

    #[test]
    fn there_is_a_page_for_each_command_and_a_completion_for_each_shell() {
        let dir = tempfile::tempdir().unwrap();
        write(&program(), dir.path()).unwrap();
        let read = |path: &str| fs::read_to_string(dir.path().join(path)).unwrap();
        assert!(read("man/man1/tool.1").contains("A tool."));
        assert!(read("man/man1/tool-run.1").contains("\\-\\-fault"));
        for completion in [
            "bash-completion/completions/tool",
            "zsh/site-functions/_tool",
            "fish/vendor_completions.d/tool.fish",
        ] {
            assert!(read(completion).contains("fault"), "{completion}");
        }
    }

    #[test]
    fn notes_keep_their_lines() {
        let page = ".SH OPTIONS\na\n.SH EXTRA\n  b\n  c\n.SH VERSION\nd\n";
        let kept = ".SH OPTIONS\na\n.SH NOTES\n.nf\n  b\n  c\n.fi\n.SH VERSION\nd\n";
        assert_eq!(keep_lines(page), kept);
        assert_eq!(keep_lines(kept), kept);
    }

    #[test]
    fn what_has_no_description_is_named() {
        let bare = Command::new("bare").arg(Arg::new("silent").long("silent"));
        let hidden = Arg::new("inner").long("inner").hide(true);
        let missing = undocumented(&program().subcommand(bare).arg(hidden));
        assert_eq!(missing, ["tool bare silent", "tool bare"]);
    }
}
