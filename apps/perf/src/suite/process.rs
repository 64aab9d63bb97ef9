//! Processes of this machine: the listener on a port, the output of a broker, and running a command to its end.

use crate::io::is_interrupted;
use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{read_dir, read_link, read_to_string};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How often the end of a process is looked for.
const LOOK: Duration = Duration::from_millis(20);
/// How long a helper that was asked to end may take for it.
const ENDING: Duration = Duration::from_secs(5);

/// The process that listens on this TCP port, if it is on this machine and may be looked at.
pub(crate) fn listener_on(port: u16) -> Option<u32> {
    let inodes: Vec<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .into_iter()
        .filter_map(|path| read_to_string(path).ok())
        .flat_map(|table| listening_inodes(&table, port))
        .map(|inode| format!("socket:[{inode}]"))
        .collect();
    let pids = read_dir("/proc").ok()?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.into_iter().find(|pid: &u32| {
        let Ok(files) = read_dir(format!("/proc/{pid}/fd")) else { return false };
        let mut links = files.filter_map(|file| read_link(file.ok()?.path()).ok());
        links.any(|link| link.to_str().is_some_and(|link| inodes.iter().any(|inode| inode == link)))
    })
}

/// Inodes of sockets that listen on this port, from a table as `/proc/net/tcp` (`proc(5)`).
fn listening_inodes(table: &str, port: u16) -> Vec<String> {
    let lines = table.lines().skip(1).filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (local, state, inode) = (fields.get(1)?, fields.get(3)?, fields.get(9)?);
        let (_, local_port) = local.rsplit_once(':')?;
        let listens = *state == "0A" && u16::from_str_radix(local_port, 16).ok()? == port;
        listens.then(|| (*inode).to_owned())
    });
    lines.collect()
}

/// Bytes that a process has caused to be written to disk so far; `None` if it may not be looked at.
pub(crate) fn disk_written_bytes(pid: u32) -> Option<u64> {
    let text = read_to_string(format!("/proc/{pid}/io")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("write_bytes: "))?.trim().parse().ok()
}

/// Resident memory of a process in bytes; `None` if it is gone.
pub(crate) fn resident_bytes(pid: u32) -> Option<u64> {
    let used = crate::io::WatchedProcess::new(pid).sample().ok()?;
    Some(used.rss_kib * 1024)
}

/// Runs a command to its end and gives its standard output.
///
/// # Errors
/// It cannot be started, fails (the last line that it said is the reason), or takes longer than `limit`; then it is killed.
pub(crate) fn output_of(command: &mut Command, limit: Duration) -> Result<String> {
    // A group of its own: Ctrl-C on a terminal reaches this process only, which asks the child once.
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn()?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let read = |stream: Option<Box<dyn Read + Send>>| {
        std::thread::spawn(move || {
            let mut text = Vec::new();
            stream.map(|mut stream| stream.read_to_end(&mut text));
            String::from_utf8_lossy(&text).into_owned()
        })
    };
    let out = read(out.map(|stream| Box::new(stream) as Box<dyn Read + Send>));
    let err = read(err.map(|stream| Box::new(stream) as Box<dyn Read + Send>));
    let ended = wait_or_stop(&mut child, limit)?;
    let (out, err) = (out.join().unwrap_or_default(), err.join().unwrap_or_default());
    match ended {
        None => bail!("it did not end in {} seconds", limit.as_secs()),
        Some(true) => Ok(out),
        Some(false) => bail!("{}", reason(&err)),
    }
}

/// Waits for a child to end; `None` if the time was over first, then it is killed. When somebody wants this process to end,
/// the child is asked to end in its own order. An earlier request means the work until then, not this child, which tidies up.
fn wait_or_stop(child: &mut Child, limit: Duration) -> Result<Option<bool>> {
    let (began, mut asked) = (Instant::now(), is_interrupted());
    loop {
        if let Some(ended) = wait(child, LOOK)? {
            return Ok(Some(ended));
        }
        if is_interrupted() && !asked {
            asked = true;
            ask_to_end(child)?;
        }
        if began.elapsed() >= limit {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
    }
}

fn ask_to_end(child: &Child) -> Result<()> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    Ok(kill_process(pid.context("a process id is positive")?, Signal::TERM)?)
}

/// Waits for a child that only helps, for as long as it is wanted: then it is asked to end, and killed when it does not.
///
/// # Errors
/// The process cannot be waited for.
pub(crate) fn wait_while_wanted(
    child: &mut Child,
    limit: Duration,
    is_wanted: impl Fn() -> bool,
) -> Result<()> {
    let began = Instant::now();
    while is_wanted() && began.elapsed() < limit {
        if wait(child, LOOK)?.is_some() {
            return Ok(());
        }
    }
    ask_to_end(child)?;
    if wait(child, ENDING)?.is_none() {
        child.kill()?;
        child.wait()?;
    }
    Ok(())
}

/// Lets time pass, as much of it as nobody wants this process to end in.
pub(crate) fn rest(time: Duration) {
    let began = Instant::now();
    while began.elapsed() < time && !is_interrupted() {
        std::thread::sleep(LOOK);
    }
}

/// Processes whose command line has this text in it.
pub(crate) fn commanded_with(text: &str) -> Vec<u32> {
    let Ok(processes) = read_dir("/proc") else { return Vec::new() };
    let pids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let has = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|word| word == text.as_bytes())
    };
    pids.filter(has).collect()
}

/// The reason in what a failed command said: anyhow's first line and its causes, without where in the code.
fn reason(said: &str) -> String {
    let lines = said.lines().take_while(|line| !line.starts_with("Stack backtrace"));
    let lines = lines
        .map(str::trim)
        .filter(|line| !line.is_empty() && *line != "Caused by:" && !line.starts_with("id: "));
    let reason = lines.collect::<Vec<_>>().join(": ");
    if reason.is_empty() { "it failed and said nothing".to_owned() } else { reason }
}

/// Waits for a process to end; says whether it succeeded, `None` if the time was over first.
///
/// # Errors
/// The process cannot be waited for.
pub(crate) fn wait(child: &mut Child, limit: Duration) -> Result<Option<bool>> {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait().context("waiting for a process")? {
            return Ok(Some(status.success()));
        }
        if began.elapsed() >= limit {
            return Ok(None);
        }
        std::thread::sleep(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_listener_of_a_port_is_found_and_only_it() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(listener_on(port), Some(std::process::id()));
        drop(listener);
        assert_eq!(listener_on(port), None);
    }

    #[test]
    fn a_process_is_known_by_a_word_of_its_command() {
        let word = format!("warren-bench-word-{}", std::process::id());
        let mut child = Command::new("sh").args(["-c", "exec sleep 60", &word]).spawn().unwrap();
        let found = commanded_with(&word);
        let _ = child.kill();
        child.wait().unwrap();
        // A shell that has become another program has lost its words; then there is none.
        assert!(found.iter().all(|pid| *pid == child.id()), "{found:?}");
        assert!(commanded_with(&word[1..]).is_empty());
    }

    #[test]
    fn a_command_gives_its_output_or_the_reason_why_not() {
        let limit = Duration::from_secs(20);
        let sh = |script: &str, limit| output_of(Command::new("sh").args(["-c", script]), limit);
        assert_eq!(sh("echo yes", limit).unwrap(), "yes\n");
        let said = "echo 'Error: cannot reach a broker' >&2; echo >&2; echo 'Caused by:' >&2; echo '   refused' >&2; exit 3";
        assert_eq!(sh(said, limit).unwrap_err().to_string(), "Error: cannot reach a broker: refused");
        assert!(
            sh("exec sleep 60", Duration::from_millis(50)).unwrap_err().to_string().contains("did not end")
        );
    }

    #[test]
    fn a_helper_that_is_wanted_no_more_is_ended_also_one_that_does_not_listen() {
        use std::os::unix::process::ExitStatusExt;
        let ended = |script: &str, is_wanted: bool| {
            let mut command = Command::new("sh");
            let mut child = command.args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
            // It has said that it is as deaf as it is going to be.
            child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
            wait_while_wanted(&mut child, Duration::from_secs(600), || is_wanted).unwrap();
            child.wait().unwrap()
        };
        assert_eq!(ended("echo; exec sleep 900", false).signal(), Some(Signal::TERM.as_raw()));
        assert_eq!(ended("trap '' TERM; echo; exec sleep 900", false).signal(), Some(Signal::KILL.as_raw()));
        assert_eq!(ended("echo; exit 3", true).code(), Some(3));
    }
}
