//! The statements of studies about their hardware, judged by what was measured here.
//!
//! Each statement holds, holds partly or does not hold. If it cannot be judged, the report says
//! why.
//!
//! Machines and adapters here are not those of the studies: a statement that holds on two processes
//! of one machine may hold for another reason, so the figures stand beside each verdict.

mod judged;
mod measured;
mod rdmaoe;
#[cfg(test)]
mod tests;
mod ucx;

use bench_record::wire::Wire;
use bench_record::{Results, Run};
use report::{Layout, Section, Table};

use judged::Judged;
use measured::Measured;

/// A statement of a study.
struct Statement {
    /// The statement in our words.
    says: &'static str,
    /// The place of the statement in the study.
    place: &'static str,
    judge: Judge,
}

/// The way in which a statement is judged.
enum Judge {
    /// By figures; `None` if they were not measured.
    By(fn(&Measured<'_>) -> Option<Judged>),
    /// No measurement here can tell, for this reason.
    Never(&'static str),
}

/// A study whose statements are judged.
struct Study {
    /// The plan that measures what is needed.
    plan: &'static str,
    title: &'static str,
    citation: &'static str,
    statements: &'static [Statement],
}

const STUDIES: [&Study; 2] = [&ucx::STUDY, &rdmaoe::STUDY];

/// Returns the table of the study whose plan the results are of; `None` if they are of no study.
pub fn table(results: &Results) -> Option<Table> {
    study(results).map(|study| judge(study, &results.runs))
}

/// Returns the table as the first section of a page.
pub(crate) fn section(results: &Results, runs: &[Run]) -> Option<Section> {
    let study = study(results)?;
    Some(Section {
        title: study.title.to_owned(),
        layout: Layout::Lead,
        text: vec![format!(
            "{}. Its machines were others: a verdict says whether the statement is true of what was \
             measured here.",
            study.citation
        )],
        tables: vec![judge(study, runs)],
        ..Section::default()
    })
}

fn study(results: &Results) -> Option<&'static Study> {
    let plan = results.plan.as_ref()?;
    STUDIES.into_iter().find(|study| study.plan == plan.name)
}

fn judge(study: &Study, runs: &[Run]) -> Table {
    let [udp, memory] = WIRES.map(|(_, name)| format!("here, {name}"));
    let titles = ["statement (where)", &udp, &memory, "measured"];
    let caption = format!("What the study says, and here: {}", study.title);
    let mut table = Table::new(&caption, &titles, titles.len());
    table = table.with_prose(0).with_prose(3);
    let measured = WIRES.map(|(wire, _)| Measured::over(wire, runs));
    for statement in study.statements {
        let found = measured.each_ref().map(|over| verdict(statement, over));
        let named = found.iter().zip(WIRES).filter_map(|((_, evidence), (_, name))| {
            Some(format!("{}: {}", capital(name), evidence.as_ref()?))
        });
        let why = match (&statement.judge, &found) {
            (Judge::Never(why), _) => (*why).to_owned(),
            // The statement is about neither wire.
            (Judge::By(_), [(_, Some(one)), (_, Some(other))]) if one == other => one.clone(),
            (Judge::By(_), _) => named.collect::<Vec<_>>().join(" "),
        };
        let [udp, memory] = found.map(|(verdict, _)| verdict.to_owned());
        let says = format!("{} ({})", statement.says, statement.place);
        table.push(vec![says, udp, memory, why]);
    }
    table
}

/// The wires that the software device is asked to use, and their names for people. An adapter does
/// without the kernel, as memory does; UDP has what a network has.
const WIRES: [(Wire, &str); 2] = [(Wire::Udp, "over UDP"), (Wire::Shm, "in memory")];

fn verdict(statement: &Statement, measured: &Measured<'_>) -> (&'static str, Option<String>) {
    match statement.judge {
        Judge::Never(_) => ("cannot be told", None),
        Judge::By(judge) => match judge(measured) {
            Some(Judged { verdict, evidence }) => (verdict.words(), Some(evidence)),
            None => ("not measured", None),
        },
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Renders the table for a terminal: each statement and its verdicts, then the figures.
pub fn text(results: &Results) -> Option<String> {
    let study = study(results)?;
    let mut lines = vec![format!("What the study says, and here: {}", study.title)];
    for row in judge(study, &results.runs).rows {
        let [says, udp, memory, why] = &row[..] else { continue };
        let verdicts = match udp == memory {
            true => udp.clone(),
            false => format!("{udp} over UDP, {memory} in memory"),
        };
        lines.push(report::wrapped(&format!("{says}: {verdicts}"), "", "  "));
        if !why.is_empty() {
            lines.push(report::wrapped(why, "    ", "    "));
        }
    }
    Some(lines.join("\n") + "\n")
}
