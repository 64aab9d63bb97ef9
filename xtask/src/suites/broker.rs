//! Brokers that suites find: started on a free port by `testing/crash/broker.py`, stopped at the end. Refuses to know suites.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use super::process::MARK;

/// Where everything of a run is.
pub(crate) struct Place {
    pub(crate) root: PathBuf,
    /// The folder of the tools that `testing/setup.sh` has brought.
    pub(crate) cache: PathBuf,
    pub(crate) logs: PathBuf,
    /// Data and states of brokers; removed at the end.
    pub(crate) work: PathBuf,
    /// See [`MARK`].
    pub(crate) mark: String,
    /// The binary; none against a URL.
    pub(crate) warren: Option<PathBuf>,
}

impl Place {
    pub(crate) fn python(&self) -> PathBuf {
        self.cache.join("venv/bin/python")
    }

    fn broker_tool(&self) -> Command {
        let mut command = Command::new(self.python());
        command.arg(self.root.join("testing/crash/broker.py")).env(MARK, &self.mark);
        // A suite that tests the HTTP API asks for a port of its own.
        command.env("WARREN_MANAGEMENT_LISTEN", "none").current_dir(&self.root);
        command
    }
}

/// A broker that runs, by its file of state.
pub(crate) struct Running<'a> {
    place: &'a Place,
    state: PathBuf,
    /// `amqp://...`
    pub(crate) url: String,
    /// `http://...`, if it serves the HTTP API.
    pub(crate) management_url: Option<String>,
    /// A command like `rabbitmqctl`, for a Warren.
    pub(crate) ctl: Option<String>,
    /// A shell command that restarts it on its port.
    pub(crate) restart: String,
}

impl<'a> Running<'a> {
    /// A Warren with a fresh folder and these arguments.
    ///
    /// # Errors
    /// It does not get ready.
    pub(crate) fn warren(place: &'a Place, name: &str, arguments: &[&str]) -> Result<Self> {
        let Some(warren) = &place.warren else { bail!("no Warren is started against a URL") };
        let (warren, data) = (shown(warren), shown(&place.work.join(format!("{name}-data"))));
        let mut line = vec![&*warren, "server"];
        line.extend(arguments);
        line.extend(["--listen", "127.0.0.1:{port}", "--data-dir", &data]);
        let mut running = Self::start(place, name, &line)?;
        running.ctl = Some(format!("{warren} ctl --data-dir {data}"));
        Ok(running)
    }

    /// A relay before the broker of a URL: restarting it looks like a restart of that broker.
    ///
    /// # Errors
    /// It does not get ready.
    pub(crate) fn relay(place: &'a Place, name: &str, url: &str) -> Result<Self> {
        let address = url.rsplit_once('@').map_or(url, |(_, address)| address);
        let address = address.split('/').next().unwrap_or(address);
        let (python, tool) = (shown(&place.python()), shown(&place.root.join("testing/crash/broker.py")));
        Self::start(place, name, &[&python, &tool, "gate", "--port", "{port}", "--to", address])
    }

    fn start(place: &'a Place, name: &str, line: &[&str]) -> Result<Self> {
        let (state, log) =
            (place.work.join(format!("{name}.state")), place.logs.join(format!("{name}-broker.log")));
        let _older = std::fs::remove_file(&log);
        let mut command = place.broker_tool();
        command.arg("start").arg("--state").arg(&state).arg("--log").arg(&log).arg("--").args(line);
        output(&mut command)?;
        let url = output(place.broker_tool().arg("url").arg("--state").arg(&state))?.trim().to_owned();
        let (python, tool) = (shown(&place.python()), shown(&place.root.join("testing/crash/broker.py")));
        let restart = format!("'{python}' '{tool}' restart --state '{}'", state.display());
        let management_url = management_url(&std::fs::read_to_string(&log).unwrap_or_default());
        Ok(Self { place, state, url, management_url, ctl: None, restart })
    }

    /// Stops it in order.
    ///
    /// # Errors
    /// It does not end in time, or it had ended on its own.
    pub(crate) fn stop(self) -> Result<()> {
        output(self.place.broker_tool().arg("stop").arg("--state").arg(&self.state)).map(drop)
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// The last `ready` line of a log names the address of the HTTP API.
fn management_url(log: &str) -> Option<String> {
    let ready = log.lines().rfind(|line| line.starts_with("ready "))?;
    let address = ready.split(' ').find_map(|word| word.strip_prefix("http="))?;
    Some(format!("http://{address}"))
}

fn output(command: &mut Command) -> Result<String> {
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        bail!("{text}{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_the_http_api_is_in_the_last_ready_line() {
        let log = "ready amqp=127.0.0.1:1 http=127.0.0.1:2 pid=3\nx\nready amqp=127.0.0.1:1 http=127.0.0.1:4 pid=5\n";
        assert_eq!(management_url(log).as_deref(), Some("http://127.0.0.1:4"));
        assert_eq!(management_url("ready amqp=127.0.0.1:1 pid=3\n"), None);
    }
}
