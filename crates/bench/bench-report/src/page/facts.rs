//! The facts above a page: when, where and with what its figures were measured.

use bench_record::{Host, Results, cores};

use super::runs;

/// Settings that no reader of a page needs: the key that keeps strangers out of a run, and where
/// the run is.
const PRIVATE: [&str; 2] = ["SOFTEFA_LOCAL_KEY", "SOFTEFA_RUN_DIR"];

pub(super) fn facts(results: &Results) -> Vec<(String, String)> {
    let hosts = results.hosts();
    let mut facts = Vec::new();
    if !hosts.is_empty() {
        facts.push(("Date", results.date.clone()));
    }
    for host in &hosts {
        facts.extend(of_host(host));
    }
    facts.push(("Tool", tool(results, !hosts.is_empty())));
    facts.push(("Command", results.command.clone()));
    if let Some(plan) = &results.plan {
        facts.push(("Plan", runs::plan_fact(plan)));
    }
    let measured = results.runs.iter().filter(|run| run.source == "measured");
    let points = measured.flat_map(|run| &run.points);
    if points.clone().next().is_some() {
        facts.push(("Between the cores", cores::words(points)));
    }
    let environment = hosts.first().map(|host| environment(host));
    if let Some(words) = environment.filter(|words| !words.is_empty()) {
        facts.push(("Environment", words));
    }
    facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn of_host(host: &Host) -> [(&'static str, String); 3] {
    [
        ("Machine", format!("{}, {}, {} cores", host.name, host.cpu, host.cores)),
        ("Kernel", host.kernel.clone()),
        ("Clock read", format!("{} ns", host.clock_read_ns)),
    ]
}

fn environment(host: &Host) -> String {
    let own = host.environment.iter().filter(|(name, _)| !PRIVATE.contains(&name.as_str()));
    own.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
}

/// Names the tool that made the file, and the libfabric of what it measured.
fn tool(results: &Results, has_measured: bool) -> String {
    let tool = &results.tool;
    match results.libfabric.as_str() {
        _ if !has_measured => tool.clone(),
        "" => format!("{tool}, no libfabric"),
        version => format!("{tool}, libfabric {version}"),
    }
}

#[cfg(test)]
mod tests {
    use bench_record::spec::Benchmark;
    use bench_record::{Point, Run};

    use super::*;

    fn results(source: &str) -> Results {
        let run = Run::new("mine", Benchmark::Latency, vec![Point::new(8, 1)]);
        let mut results = Results::of(vec![Run { source: source.to_owned(), ..run }], Vec::new());
        "vm".clone_into(&mut results.host.name);
        "2.1".clone_into(&mut results.libfabric);
        results
    }

    fn names(results: &Results) -> Vec<String> {
        facts(results).into_iter().map(|(name, _)| name).collect()
    }

    /// The kernel and clock of the machine that read a file do not stand above what another one
    /// measured.
    #[test]
    fn an_imported_file_has_no_machine() {
        assert_eq!(names(&results("imported")), ["Tool", "Command"]);
        assert!(
            names(&results("measured")).starts_with(&["Date".to_owned(), "Machine".to_owned()])
        );
        let mut two = results("measured");
        two.other_hosts = vec![Host { name: "db2".to_owned(), ..Host::default() }];
        assert_eq!(names(&two).iter().filter(|name| *name == "Machine").count(), 2);
    }

    /// A page is published, and a reader who has the key of a run can send to its devices.
    #[test]
    fn keys_are_not_published() {
        let mut results = results("measured");
        for name in [&PRIVATE[..], &["FI_PROVIDER"]].concat() {
            results.host.environment.insert(name.to_owned(), "x".to_owned());
        }
        assert!(facts(&results).contains(&("Environment".to_owned(), "FI_PROVIDER=x".to_owned())));
    }
}
