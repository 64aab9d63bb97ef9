//! `cargo xtask test`: the steps of CI, each with the time it took, and a summary at the end. Refuses to know
//! what the steps check.
//!
//! The steps run in order, but for the last two: suites mostly wait, and unit tests fill that time.

use anyhow::{Result, bail};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A name and the arguments of a call of cargo.
struct Step {
    name: &'static str,
    arguments: &'static [&'static str],
}

/// What runs before the suites.
const FIRST: &[Step] = &[
    Step { name: "format", arguments: &["fmt", "--all", "--check"] },
    Step {
        name: "clippy",
        arguments: &["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"],
    },
    Step { name: "tidy", arguments: &["xtask", "tidy"] },
    Step {
        name: "memory budgets",
        arguments: &["test", "--quiet", "--package", "net", "--bench", "budgets", "--", "0.4", "objects"],
    },
    Step { name: "release build", arguments: &["build", "--quiet", "--release", "--package", "warren"] },
];

/// Runs beside the suites, with its output in a file.
const UNIT_TESTS: Step = Step { name: "unit tests", arguments: &["test", "--quiet", "--workspace"] };

const SUITES: Step = Step { name: "suites", arguments: &["xtask", "suites"] };

/// A step that has ended.
struct Done {
    name: &'static str,
    time: Duration,
    is_passed: bool,
}

/// Runs every step. A failure ends the run, after the unit tests and suites that run beside each other.
///
/// # Errors
/// The names of the steps that failed.
pub(crate) fn test(root: &Path) -> Result<()> {
    let started = Instant::now();
    let mut done: Vec<Done> = Vec::new();
    for step in FIRST {
        say(&format!("== {} (after {})", step.name, shown(started.elapsed())))?;
        done.push(timed(step, || passes(step, root)));
        if done.iter().any(|step| !step.is_passed) {
            return finish(&done, started);
        }
    }
    let log = unit_tests_log(root)?;
    say(&format!(
        "== suites, and unit tests beside them (after {}; log of the unit tests: {})",
        shown(started.elapsed()),
        log.display()
    ))?;
    let (unit_tests, suites) = std::thread::scope(|scope| {
        let unit_tests = scope.spawn(|| timed(&UNIT_TESTS, || passes_into(&UNIT_TESTS, root, &log)));
        // Not through cargo, which would wait until the unit tests are built.
        let suites = timed(&SUITES, || suites_pass(root));
        (unit_tests.join(), suites)
    });
    let unit_tests =
        unit_tests.unwrap_or(Done { name: UNIT_TESTS.name, time: Duration::ZERO, is_passed: false });
    say(&results_in(&log))?;
    if !unit_tests.is_passed {
        say(&format!("== the unit tests failed; the end of {}:\n{}", log.display(), end_of(&log)))?;
    }
    done.extend([unit_tests, suites]);
    finish(&done, started)
}

fn finish(done: &[Done], started: Instant) -> Result<()> {
    say(&summary(done, started.elapsed()))?;
    let failed: Vec<&str> = done.iter().filter(|step| !step.is_passed).map(|step| step.name).collect();
    let Some(first) = failed.first() else { return Ok(()) };
    let steps = FIRST.iter().chain([&UNIT_TESTS, &SUITES]);
    let again = steps.filter(|step| step.name == *first).flat_map(|step| step.arguments).copied();
    bail!(
        "failed: {}; run the first alone with: cargo {}",
        failed.join(", "),
        again.collect::<Vec<_>>().join(" ")
    );
}

fn timed(step: &Step, run: impl FnOnce() -> bool) -> Done {
    let started = Instant::now();
    let is_passed = run();
    Done { name: step.name, time: started.elapsed(), is_passed }
}

fn passes(step: &Step, root: &Path) -> bool {
    cargo(step, root).status().is_ok_and(|status| status.success())
}

/// The same, with the output in a file.
fn passes_into(step: &Step, root: &Path, log: &Path) -> bool {
    let Ok(file) = File::create(log) else { return false };
    let Ok(errors) = file.try_clone() else { return false };
    cargo(step, root).stdout(file).stderr(errors).status().is_ok_and(|status| status.success())
}

fn suites_pass(root: &Path) -> bool {
    let outcome = crate::suites::run(root, &[]);
    if let Err(problem) = &outcome {
        let _ = say(&format!("suites: {problem:#}"));
    }
    outcome.is_ok()
}

fn cargo(step: &Step, root: &Path) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.args(step.arguments).current_dir(root).stdin(Stdio::null());
    command
}

fn unit_tests_log(root: &Path) -> Result<PathBuf> {
    let logs = root.join(".cache/test-logs");
    std::fs::create_dir_all(&logs)?;
    Ok(logs.join("unit-tests.log"))
}

/// What each program of unit tests reports.
fn results_in(log: &Path) -> String {
    let text = String::from_utf8_lossy(&std::fs::read(log).unwrap_or_default()).into_owned();
    let ran = |line: &&str| line.starts_with("test result:") && !line.contains(" 0 passed; 0 failed");
    text.lines().filter(ran).collect::<Vec<_>>().join("\n")
}

/// The last 200 lines of a file.
fn end_of(path: &Path) -> String {
    let text = String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(200)..].join("\n")
}

fn summary(done: &[Done], total: Duration) -> String {
    let mut text = String::from("== summary\n");
    for Done { name, time, is_passed } in done {
        let verdict = if *is_passed { "ok" } else { "FAILED" };
        text.push_str(&format!("{verdict:>7}  {:>8}  {name}\n", shown(*time)));
    }
    text.push_str(&format!("{:>7}  {:>8}\n", "total", shown(total)));
    let failed = done.iter().filter(|step| !step.is_passed).count();
    text.push_str(&format!("steps: {} passed, {failed} failed", done.len() - failed));
    text
}

fn shown(time: Duration) -> String {
    format!("{}m{:02}s", time.as_secs() / 60, time.as_secs() % 60)
}

fn say(text: &str) -> Result<()> {
    Ok(writeln!(std::io::stdout(), "{text}")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_names_the_step_that_failed() {
        let step = |name, seconds, is_passed| Done { name, time: Duration::from_secs(seconds), is_passed };
        let text = summary(&[step("format", 2, true), step("clippy", 61, false)], Duration::from_secs(63));
        assert!(text.contains("     ok     0m02s  format\n"), "{text}");
        assert!(text.contains(" FAILED     1m01s  clippy\n"), "{text}");
        assert!(text.ends_with("  total     1m03s\nsteps: 1 passed, 1 failed"), "{text}");
    }
}
