//! `cargo xtask test`: the steps of CI in order, each with the time it took, and a summary at the end. The tools of the suites are brought
//! meanwhile. Refuses to know what the steps check.

use anyhow::{Context, Result, bail};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::suites;

/// A name and the arguments of a call of cargo.
struct Step {
    name: &'static str,
    arguments: &'static [&'static str],
}

const STEPS: &[Step] = &[
    Step { name: "format", arguments: &["fmt", "--all", "--check"] },
    Step {
        name: "clippy",
        arguments: &["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"],
    },
    Step { name: "tidy", arguments: &["xtask", "tidy"] },
    Step { name: "unit tests", arguments: &["test", "--quiet", "--workspace"] },
    Step {
        name: "memory budgets",
        arguments: &["test", "--quiet", "--workspace", "--bench", "budgets", "--", "0.4", "objects"],
    },
    Step { name: "suites", arguments: &["xtask", "suites"] },
];

/// Runs every step; the first failure ends the run.
///
/// # Errors
/// The name of the step that failed.
pub(crate) fn test(root: &Path) -> Result<()> {
    let started = Instant::now();
    let mut setup = Some(begin_setup(root)?);
    let mut done: Vec<(&str, Duration)> = Vec::new();
    for (index, step) in STEPS.iter().enumerate() {
        say(&format!(
            "== [{}/{}] {} (after {})",
            index + 1,
            STEPS.len(),
            step.name,
            shown(started.elapsed())
        ))?;
        let step_started = Instant::now();
        if step.name == "suites" {
            // A failure shows when the suites call for the same: they say what is missing.
            setup.take().map(|mut setup| setup.wait()).transpose()?;
        }
        let passed = run(step, root);
        done.push((step.name, step_started.elapsed()));
        if !passed {
            say(&summary(&done, Some(step.name), started.elapsed()))?;
            if let Some(mut setup) = setup {
                setup.wait()?;
            }
            bail!("step `{}` failed; run it alone with: cargo {}", step.name, step.arguments.join(" "));
        }
    }
    say(&summary(&done, None, started.elapsed()))
}

/// Clients and tools come mostly from the network: they are brought while the compiler works.
fn begin_setup(root: &Path) -> Result<Child> {
    let logs = root.join(".cache/test-logs");
    std::fs::create_dir_all(&logs)?;
    let log = File::create(logs.join("setup.log"))?;
    say("== clients and tools for the suites come meanwhile (log: .cache/test-logs/setup.log)")?;
    let mut setup = suites::setup_of_tests(root);
    setup.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    setup.spawn().context("testing/setup.sh")
}

fn run(step: &Step, root: &Path) -> bool {
    let status = Command::new(env!("CARGO")).args(step.arguments).current_dir(root).status();
    status.is_ok_and(|status| status.success())
}

fn summary(done: &[(&str, Duration)], failed: Option<&str>, total: Duration) -> String {
    let mut text = String::from("== summary\n");
    for (name, time) in done {
        let verdict = if failed == Some(name) { "FAILED" } else { "ok" };
        text.push_str(&format!("{verdict:>7}  {:>8}  {name}\n", shown(*time)));
    }
    text.push_str(&format!("{:>7}  {:>8}\n", "total", shown(total)));
    let failed_count = usize::from(failed.is_some());
    text.push_str(&format!("steps: {} passed, {failed_count} failed", done.len() - failed_count));
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
        let done = [("format", Duration::from_secs(2)), ("clippy", Duration::from_secs(61))];
        let text = summary(&done, Some("clippy"), Duration::from_secs(63));
        assert!(text.contains("     ok     0m02s  format\n"), "{text}");
        assert!(text.contains(" FAILED     1m01s  clippy\n"), "{text}");
        assert!(text.ends_with("  total     1m03s\nsteps: 1 passed, 1 failed"), "{text}");
    }
}
