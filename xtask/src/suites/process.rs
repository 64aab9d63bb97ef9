//! Processes of a run: a script with a time limit, and whatever carries the mark of the run. Refuses to know suites.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// The variable that everything carries in its environment that a run has started.
pub(crate) const MARK: &str = "WARREN_TEST_RUN";

/// How often a process is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How long a process may take to end when it is asked to.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// The outcome of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    /// Its exit code; 128 and the signal's number if a signal ended it.
    Failed(i32),
    TookTooLong,
}

/// Runs a command in a process group of its own, with its output in a file.
///
/// # Errors
/// It cannot be started.
pub(crate) fn run(command: &mut Command, log: &Path, timeout: Duration) -> Result<Outcome> {
    let output = File::create(log).with_context(|| log.display().to_string())?;
    let errors = output.try_clone()?;
    let mut child = command
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        .spawn()
        .context("bash")?;
    let ended = wait(&mut child, timeout)?;
    if ended.is_none() {
        signal_group(&child, "-TERM");
        wait(&mut child, END_TIMEOUT)?;
    }
    // Processes that it left in its group would disturb the next suite.
    signal_group(&child, "-KILL");
    child.wait()?;
    Ok(match ended {
        None => Outcome::TookTooLong,
        Some(0) => Outcome::Passed,
        Some(code) => Outcome::Failed(code),
    })
}

fn wait(child: &mut Child, timeout: Duration) -> Result<Option<i32>> {
    use std::os::unix::process::ExitStatusExt;
    let begin = Instant::now();
    while begin.elapsed() < timeout {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())));
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(None)
}

fn signal_group(child: &Child, signal: &str) {
    let group = format!("-{}", child.id());
    let _gone = Command::new("kill").args([signal, "--", &group]).stderr(Stdio::null()).status();
}

/// Processes that carry the mark: their ids and command lines.
pub(crate) fn marked(mark: &str) -> Vec<(u32, String)> {
    let wanted = format!("{MARK}={mark}");
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_marked = |id: &u32| {
        let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        *id != std::process::id() && environment.split(|byte| *byte == 0).any(|it| it == wanted.as_bytes())
    };
    let line = |id: u32| {
        let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        (id, String::from_utf8_lossy(&line).replace('\0', " "))
    };
    ids.filter(is_marked).map(line).collect()
}

/// Kills what carries the mark, also what that starts meanwhile.
pub(crate) fn kill_marked(mark: &str) {
    for _ in 0..50 {
        let left = marked(mark);
        if left.is_empty() {
            return;
        }
        let ids = left.iter().map(|(id, _)| id.to_string());
        let _gone = Command::new("kill").arg("-KILL").args(ids).stderr(Stdio::null()).status();
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Starts the watcher of a run: a process that outlives it by a moment. It goes by the pipe that it holds for reading.
///
/// # Errors
/// It cannot be started.
pub(crate) fn start_watcher(mark: &str, folder: &Path) -> Result<Child> {
    let program = std::env::current_exe()?;
    let mut command = Command::new(program);
    command.arg("watch-suites").arg(mark).arg(folder).stdin(Stdio::piped()).process_group(0);
    command.spawn().context("the watcher of the run")
}

/// The watcher: waits until the run has ended, however it ended, then kills what it left and removes its folder.
pub(crate) fn watch(mark: &str, folder: &str) {
    let _ended = std::io::stdin().read_to_end(&mut Vec::new());
    kill_marked(mark);
    let _gone = fs::remove_dir_all(folder);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bash(script: &str, timeout: Duration) -> Outcome {
        let log = std::env::temp_dir().join(format!("xtask-process-{}-{}", std::process::id(), script.len()));
        let outcome = run(Command::new("bash").args(["-c", script]), &log, timeout).unwrap();
        fs::remove_file(log).unwrap();
        outcome
    }

    #[test]
    fn the_exit_code_of_a_script_is_told() {
        assert_eq!(bash("true", Duration::from_secs(60)), Outcome::Passed);
        assert_eq!(bash("exit 3", Duration::from_secs(60)), Outcome::Failed(3));
        assert_eq!(bash("kill -KILL $$", Duration::from_secs(60)), Outcome::Failed(137));
    }

    #[test]
    fn a_script_that_takes_too_long_is_ended_with_what_it_started() {
        let begin = Instant::now();
        assert_eq!(bash("sleep 600 & sleep 600", Duration::from_millis(300)), Outcome::TookTooLong);
        assert!(begin.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn what_carries_the_mark_is_found_and_killed() {
        let mark = format!("test-{}", std::process::id());
        let mut child = Command::new("sleep").arg("600").env(MARK, &mark).process_group(0).spawn().unwrap();
        while marked(&mark).is_empty() {
            std::thread::sleep(LOOK_EVERY);
        }
        kill_marked(&mark);
        assert!(!child.wait().unwrap().success());
    }
}
