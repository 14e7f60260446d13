//! The time that a plan takes, announced before it begins.

use super::task::Task;

/// Returns the estimated time of these tasks in seconds.
pub(super) fn total_s<'a>(tasks: impl Iterator<Item = &'a Task>) -> f64 {
    tasks.map(|task| task.estimate_s).sum()
}

/// Renders a time: "40 s", "24 min".
pub(super) fn time(seconds: f64) -> String {
    if seconds < 100.0 { format!("{seconds:.0} s") } else { format!("{:.0} min", seconds / 60.0) }
}

/// Lists every command with its time, for `--dry-run`.
pub(super) fn listing(name: &str, tasks: &[Task]) -> String {
    let lines = tasks.iter().map(|task| format!("{:>6.1} s  {}\n", task.estimate_s, task.command));
    let all: String = lines.collect();
    let total = time(total_s(tasks.iter()));
    format!("{all}plan {name}: {} steps, about {total}\n", tasks.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short() {
        assert_eq!(
            [time(3.4), time(99.0), time(100.0), time(1500.0)],
            ["3 s", "99 s", "2 min", "25 min"]
        );
    }
}
