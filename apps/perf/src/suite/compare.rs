//! Two results side by side: better figures and worse figures.

use super::results::{Measurement, Results};
use anyhow::Result;
use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// Changes below this are noise on a machine that does other things.
const NOISE: f64 = 0.10;

/// Prints how figures of the second result differ from those of the first, test by test.
///
/// # Errors
/// One of them cannot be read.
pub(crate) fn compare(before: &Path, after: &Path) -> Result<ExitCode> {
    let text = table(&Results::read(before)?, &Results::read(after)?);
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// The figures of a measurement that are compared: name, value, whether more is better.
fn figures(measurement: &Measurement) -> Vec<(&'static str, f64, bool)> {
    let Some(figures) = &measurement.figures else { return Vec::new() };
    let mut found = Vec::new();
    for (name, value) in [("sent/s", figures.sent_per_s), ("received/s", figures.received_per_s)] {
        if value > 0.0 {
            found.push((name, value, true));
        }
    }
    for (name, times) in
        [("p99 latency us", figures.latency_us), ("p99 confirm us", figures.confirm_latency_us)]
    {
        found.extend(times.map(|times| (name, times.p99, false)));
    }
    let broker_cpu = figures.broker.and_then(|broker| broker.cpu_us_per_message);
    found.extend(broker_cpu.map(|us| ("CPU us/msg", us, false)));
    found.extend(measurement.rss_max_mib().map(|mib| ("RSS MiB", mib, false)));
    found.extend(measurement.memory_per_message().map(|bytes| ("memory B/msg", bytes, false)));
    found
}

fn table(before: &Results, after: &Results) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(
        text,
        "{:25} {:>7} {:16} {:15} {:>14} {:>14} {:>8}",
        "test", "size", "broker", "figure", "before", "after", "change"
    );
    text += &differences(before, after);
    for new in &after.measurements {
        let Some(old) = before.find(&new.test, new.size, &new.broker) else {
            let _ = writeln!(text, "{:25} {:>7} {:16} only in the second", new.test, new.size, new.broker);
            continue;
        };
        let known = figures(old);
        for (name, value, more_is_better) in figures(new) {
            let Some((_, was, _)) = known.iter().find(|(known, ..)| *known == name) else { continue };
            let change = if *was > 0.0 { value / was - 1.0 } else { 0.0 };
            let verdict = match (change.abs() < NOISE, (change > 0.0) == more_is_better) {
                (true, _) => "",
                (false, true) => "better",
                (false, false) => "worse",
            };
            let percent = change * 100.0;
            let _ = writeln!(
                text,
                "{:25} {:>7} {:16} {name:15} {was:>14.2} {value:>14.2} {percent:>+7.1}% {verdict}",
                new.test, new.size, new.broker
            );
        }
        let seconds = new.notes.iter().filter_map(|(name, value)| {
            let (_, was) = old.notes.iter().find(|(known, _)| known == name)?;
            Some((name, was, value))
        });
        for (name, was, value) in seconds {
            let _ = writeln!(
                text,
                "{:25} {:>7} {:16} {name}: {was:.2} -> {value:.2}",
                new.test, new.size, new.broker
            );
        }
    }
    for old in &before.measurements {
        if after.find(&old.test, old.size, &old.broker).is_none() {
            let _ = writeln!(text, "{:25} {:>7} {:16} only in the first", old.test, old.size, old.broker);
        }
    }
    text
}

/// The differences that make two results hard to compare, a line each.
fn differences(before: &Results, after: &Results) -> String {
    let (one, two) = (&before.machine, &after.machine);
    let seconds = [before, after].map(|results| results.plan.seconds.to_string());
    let mut text = String::new();
    for (what, [first, second]) in [
        ("seconds per test", seconds),
        ("types of the queues", [before, after].map(|results| format!("{:?}", results.plan.queue_type))),
        ("processor", [one.cpu.clone(), two.cpu.clone()]),
        ("cores", [one.cores.to_string(), two.cores.to_string()]),
        ("kernel", [one.kernel.clone(), two.kernel.clone()]),
    ] {
        if first != second {
            let _ = writeln!(text, "note: {what} differ: {first} and {second}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::catalogue::QueueType;
    use crate::suite::results::{Machine, Plan};

    fn results(received_per_s: f64, cpu: f64) -> Results {
        let json = format!(
            r#"{{"id":"t","seconds":1,"sent":5,"received":5,"confirmed":0,"nacked":0,"returned":0,"sent_per_s":5,
            "received_per_s":{received_per_s},"confirmed_per_s":0,"latency_us":null,"confirm_latency_us":null,
            "lateness_us":null,"own_cpu_us_per_message":0.1,
            "broker":{{"cpu_us_per_message":{cpu},"cpu_s":1,"rss_kib":2048,"rss_max_kib":2048}}}}"#
        );
        let plan = Plan {
            seconds: 1,
            sizes: vec![12],
            tests: vec!["t".to_owned()],
            brokers: vec!["Warren".to_owned()],
            backlog_bytes_max: 1,
            connections_max: 1,
            queue_type: QueueType::Classic,
        };
        let mut results = Results::new(plan, Machine::here());
        let line = format!(r#"{{"test":"t","size":12,"broker":"Warren","commands":[],"figures":{json}}}"#);
        results.measurements.push(serde_json::from_str(&line).unwrap());
        results
    }

    #[test]
    fn better_and_worse_are_told_apart_from_noise() {
        let text = table(&results(100.0, 1.0), &results(150.0, 1.5));
        let line = |name| text.lines().find(|line| line.contains(name)).unwrap_or_default();
        assert!(line("received/s").ends_with("better"), "{text}");
        assert!(line("CPU us/msg").ends_with("worse") && line("CPU us/msg").contains("+50.0%"), "{text}");
        assert!(line("sent/s").trim_end().ends_with("+0.0%"), "{text}");
    }

    #[test]
    fn what_cannot_be_compared_is_said() {
        let (mut before, mut after) = (results(1.0, 1.0), results(1.0, 1.0));
        after.plan.seconds = 9;
        after.measurements.clear();
        let text = table(&before, &after);
        assert!(
            text.contains("seconds per test differ: 1 and 9") && text.contains("only in the first"),
            "{text}"
        );
        before.measurements.clear();
        after.plan.seconds = 1;
        assert_eq!(table(&before, &after).lines().count(), 1);
    }

    #[test]
    fn a_result_survives_being_written_and_read() {
        let path = std::env::temp_dir().join(format!("warren-bench-results-{}.json", std::process::id()));
        results(1.0, 2.0).write(&path).unwrap();
        let read = Results::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let mut found = read.measurements[0].clone();
        assert_eq!((found.rss_max_mib(), found.memory_per_message()), (Some(2.0), None));
        (found.rss_before_bytes, found.rss_after_bytes) = (Some(1000), Some(1500));
        assert_eq!(found.memory_per_message(), Some(100.0));
        assert!(Results::read(Path::new("/no/such/file")).is_err());
    }
}
