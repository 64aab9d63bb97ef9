//! Output of a run: a line when a suite begins and when it ends, the end of a log that failed, and a table. Refuses to run anything.

use std::time::Duration;

/// Lines of a log that are shown when its suite has failed.
const LOG_LINES_SHOWN: usize = 40;

/// Characters shown of what a suite says of itself.
const SUMMARY_CHARS_MAX: usize = 100;

/// Words of the line in which a suite says how much it ran.
const SUMMARY_WORDS: [&str; 7] = [
    " passed",
    "pass ",
    "test result: ",
    "confirmed messages, none lost",
    "confirmed messages came",
    "SKIPPED",
    "ok  \t",
];

/// The outcome of a suite.
pub(crate) struct Done {
    pub(crate) name: String,
    pub(crate) time: Duration,
    /// Why it failed, if it did.
    pub(crate) failure: Option<String>,
    /// The summary that it gives of itself.
    pub(crate) summary: String,
}

/// One line, with how far the run is, and the end of the log if the suite failed.
pub(crate) fn ended(done: &Done, log: &str, progress: &str) -> String {
    let (name, time) = (&done.name, shown(done.time));
    match &done.failure {
        None => format!("ok    {name:<16} {time:>7}   [{progress}]   {}", done.summary),
        Some(why) => {
            let lines: Vec<&str> = log.lines().collect();
            let tail = lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].iter();
            let tail: String = tail.map(|line| format!("\n      | {line}")).collect();
            format!(
                "FAIL  {name:<16} {time:>7}   [{progress}]   {why}; .cache/test-logs/{name}.log ends with:{tail}"
            )
        }
    }
}

/// All suites, the slowest first, and how many passed.
pub(crate) fn table(all: &mut [Done], total: Duration) -> String {
    all.sort_by_key(|done| std::cmp::Reverse(done.time));
    let mut text = String::from("== suites, the slowest first\n");
    for done in &*all {
        let verdict = if done.failure.is_some() { "FAILED" } else { "ok" };
        text.push_str(&format!(
            "{verdict:>7}  {:>7}  {:<16}  {}\n",
            shown(done.time),
            done.name,
            done.summary
        ));
    }
    let failed = all.iter().filter(|done| done.failure.is_some()).count();
    text.push_str(&format!("{:>7}  {:>7}\n", "total", shown(total)));
    text.push_str(&format!("suites: {} passed, {failed} failed", all.len() - failed));
    text
}

/// The last line of a log in which a suite says how much it ran.
pub(crate) fn summary(log: &str) -> String {
    let line = log.lines().rfind(|line| SUMMARY_WORDS.iter().any(|words| line.contains(words)));
    let line = line.unwrap_or_default().trim_matches(|it: char| it == '=' || it == 'ℹ' || it.is_whitespace());
    line.chars().map(|it| if it == '\t' { ' ' } else { it }).take(SUMMARY_CHARS_MAX).collect()
}

/// Minutes and seconds.
pub(crate) fn shown(time: Duration) -> String {
    format!("{}m{:02}s", time.as_secs() / 60, time.as_secs() % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(name: &str, seconds: u64, failure: Option<&str>) -> Done {
        let (name, failure) = (name.to_owned(), failure.map(str::to_owned));
        Done { name, time: Duration::from_secs(seconds), failure, summary: "3 passed".into() }
    }

    #[test]
    fn the_table_has_the_slowest_first_and_ends_with_counts() {
        let mut all = [done("ctl", 2, None), done("kill9", 61, Some("exit code 1"))];
        let text = table(&mut all, Duration::from_secs(61));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].starts_with(" FAILED    1m01s  kill9"), "{text}");
        assert_eq!(lines[4], "suites: 1 passed, 1 failed");
    }

    #[test]
    fn a_failure_shows_the_end_of_its_log() {
        let log: String = (0..100).map(|line| format!("line {line}\n")).collect();
        let text = ended(&done("ctl", 2, Some("exit code 1")), &log, "1 of 2");
        assert!(
            text.contains("| line 60\n") && text.ends_with("| line 99") && !text.contains("line 59\n"),
            "{text}"
        );
        assert!(!ended(&done("ctl", 2, None), &log, "1 of 2").contains("line"));
    }

    #[test]
    fn what_a_suite_says_of_itself_is_found_in_its_log() {
        for (log, says) in [
            ("x\n=== 5 passed in 3 s ===\n", "5 passed in 3 s"),
            ("ℹ pass 7\nℹ fail 0\n", "pass 7"),
            ("test result: ok. 3 passed; 0 failed\n", "test result: ok. 3 passed; 0 failed"),
            ("ok  \tclients\t12.3s\n", "ok   clients 12.3s"),
            ("nothing\n", ""),
        ] {
            assert_eq!(summary(log), says, "{log}");
        }
    }
}
