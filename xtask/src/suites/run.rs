//! A run: the tools are brought, the lanes run, and nothing is left behind. Refuses to know what suites check.

use std::collections::VecDeque;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::HELP;
use super::arguments::{Asked, read};
use super::broker::{Place, Running};
use super::list::{Broker, PRELUDE, SHARED_ARGUMENTS, SUITES, Suite};
use super::process::{self, MARK, Outcome};
use super::report::{Done, ended, shown, summary, table};

/// Cargo chooses the same features of libraries for it as for `cargo test --workspace`; a build of one package compiles them again.
const BUILD_OF_TESTS: &[&str] = &["build", "--quiet", "--workspace", "--bins", "--tests"];

/// Runs what the arguments name.
///
/// # Errors
/// A suite failed, a process was left behind, or the run cannot begin.
pub(crate) fn run(root: &Path, arguments: &[&str]) -> Result<()> {
    match read(arguments)? {
        Asked::Help => say(HELP.trim_end()),
        Asked::List => {
            let line =
                |suite: &Suite| format!("{:<20} {}", suite.name, if suite.is_soak { "soak" } else { "test" });
            say(&SUITES.iter().map(line).collect::<Vec<_>>().join("\n"))
        }
        Asked::Run { suites, is_against_url } => {
            let place = prepare(root, &suites, is_against_url)?;
            let watcher = process::start_watcher(&place.mark, &place.work)?;
            let outcome = Run::begin(&place, suites).and_then(Run::finish);
            // Its end of the pipe closes: it kills what is left and removes the folder.
            let mut watcher = watcher;
            drop(watcher.stdin.take());
            watcher.wait()?;
            outcome
        }
    }
}

fn say(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}")?;
    Ok(out.flush()?)
}

/// Brings what the suites need, and builds the broker unless `WARREN_BIN` names one.
fn prepare(root: &Path, suites: &[&Suite], is_against_url: bool) -> Result<Place> {
    let cache = root.join(".cache");
    let logs = cache.join("test-logs");
    fs::create_dir_all(&logs)?;
    if is_against_url && std::env::var_os("AMQP_URL").is_none() {
        bail!("--against-url needs AMQP_URL");
    }
    let is_soak = suites.iter().any(|suite| suite.is_soak);
    let warren = if is_against_url { None } else { Some(warren(root, is_soak)?) };
    if !setup(root, suites).status().context("testing/setup.sh")?.success() {
        bail!("testing/setup.sh failed");
    }
    let mark = format!("warren-test-{}", std::process::id());
    let work = std::env::temp_dir().join(&mark);
    let _older = fs::remove_dir_all(&work);
    fs::create_dir_all(&work)?;
    Ok(Place { root: root.to_owned(), cache, logs, work, mark, warren })
}

/// The command that brings what suites need: clients, browsers, tools.
fn setup(root: &Path, suites: &[&Suite]) -> Command {
    let mut needs: Vec<&str> = suites.iter().flat_map(|suite| suite.needs.iter().copied()).collect();
    needs.sort_unstable();
    needs.dedup();
    let mut command = Command::new("testing/setup.sh");
    command.arg("python").args(&needs).current_dir(root);
    command
}

/// The command that brings what all suites of `make test` need.
pub(crate) fn setup_of_tests(root: &Path) -> Command {
    let tests: Vec<&Suite> = SUITES.iter().filter(|suite| !suite.is_soak).collect();
    setup(root, &tests)
}

/// The broker that the suites test: a release for campaigns, otherwise the one of the unit tests, with assertions.
fn warren(root: &Path, is_soak: bool) -> Result<PathBuf> {
    let path = if let Some(path) = std::env::var_os("WARREN_BIN") {
        PathBuf::from(path)
    } else {
        let (build, binary): (&[&str], _) = if is_soak {
            (&["build", "--quiet", "--release", "--package", "warren"], "release/warren")
        } else {
            (BUILD_OF_TESTS, "debug/warren")
        };
        if !Command::new(env!("CARGO")).args(build).current_dir(root).status()?.success() {
            bail!("the broker does not build");
        }
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from).join(binary)
    };
    fs::canonicalize(&path).with_context(|| format!("no broker at {}", path.display()))
}

/// A run under way.
struct Run<'a> {
    place: &'a Place,
    suites: Vec<&'static Suite>,
    left: Mutex<VecDeque<&'static Suite>>,
    shared: Option<Running<'a>>,
    began: Instant,
    done: Mutex<Vec<Done>>,
}

impl<'a> Run<'a> {
    fn begin(place: &'a Place, suites: Vec<&'static Suite>) -> Result<Self> {
        let wants_shared = suites.iter().any(|suite| suite.broker == Broker::Shared);
        let shared = (wants_shared && place.warren.is_some())
            .then(|| Running::warren(place, "shared", SHARED_ARGUMENTS))
            .transpose()?;
        let names: Vec<&str> = suites.iter().map(|suite| suite.name).collect();
        say(&format!("suites: {}", names.join(" ")))?;
        let left = Mutex::new(suites.iter().copied().collect());
        Ok(Self { place, suites, left, shared, began: Instant::now(), done: Mutex::default() })
    }

    /// Runs the lanes and looks for what they left.
    fn finish(self) -> Result<()> {
        std::thread::scope(|scope| {
            scope.spawn(|| self.lane(VecDeque::pop_front));
            // A campaign has the machine for itself.
            if !self.suites.iter().any(|suite| suite.is_soak) {
                scope.spawn(|| self.lane(VecDeque::pop_back));
                scope.spawn(|| self.lane(VecDeque::pop_back));
            }
        });
        let mut done = self.done.into_inner().unwrap_or_default();
        if let Some(Err(problem)) = self.shared.map(Running::stop) {
            done.push(failed(
                "shared-broker",
                Duration::ZERO,
                format!("it did not stop as it should: {problem:#}"),
            ));
        }
        let left = process::marked(&self.place.mark);
        let watcher = |line: &str| line.contains(" watch-suites ");
        for (id, line) in left.iter().filter(|(_, line)| !watcher(line)) {
            done.push(failed("processes", Duration::ZERO, format!("left behind: {id} {line}")));
        }
        for problem in done.iter().filter(|done| done.time.is_zero()) {
            say(&format!("FAIL  {}: {}", problem.name, problem.failure.as_deref().unwrap_or_default()))?;
        }
        say(&table(&mut done, self.began.elapsed()))?;
        let failed: Vec<&str> =
            done.iter().filter(|it| it.failure.is_some()).map(|it| it.name.as_str()).collect();
        if failed.is_empty() { Ok(()) } else { bail!("failed: {}", failed.join(" ")) }
    }

    /// Runs suites until none is left, those that `next` takes.
    fn lane(&self, next: impl Fn(&mut VecDeque<&'static Suite>) -> Option<&'static Suite>) {
        loop {
            let suite = next(&mut self.left.lock().unwrap_or_else(PoisonError::into_inner));
            let Some(suite) = suite else { return };
            let began = Instant::now();
            let _screen = say(&format!("      {:<16} begins", suite.name));
            let log = self.place.logs.join(format!("{}.log", suite.name));
            let failure = self.suite(suite, &log).unwrap_or_else(|problem| Some(format!("{problem:#}")));
            let text = String::from_utf8_lossy(&fs::read(&log).unwrap_or_default()).into_owned();
            let done =
                Done { name: suite.name.into(), time: began.elapsed(), failure, summary: summary(&text) };
            let mut all = self.done.lock().unwrap_or_else(PoisonError::into_inner);
            let progress =
                format!("{} of {}, {}", all.len() + 1, self.suites.len(), shown(self.began.elapsed()));
            let _screen = say(&ended(&done, &text, &progress));
            all.push(done);
        }
    }

    /// Runs one suite with its broker; why it failed, if it did.
    fn suite(&self, suite: &Suite, log: &Path) -> Result<Option<String>> {
        fs::write(log, "")?;
        let url = std::env::var("AMQP_URL").ok().filter(|_| self.place.warren.is_none());
        let own = match (suite.broker, &url) {
            (Broker::Nobody | Broker::Shared, _) => None,
            (Broker::Restarted, Some(url)) => Some(Running::relay(self.place, suite.name, url)?),
            (Broker::Restarted, None) => Some(Running::warren(self.place, suite.name, &[])?),
            (Broker::Own(arguments), _) => Some(Running::warren(self.place, suite.name, arguments)?),
        };
        let mut command = self.command(suite);
        if let Some(url) = url {
            command.env("AMQP_URL", url).env("CTL", std::env::var("BROKER_CTL").unwrap_or_default());
        }
        let shared = self.shared.as_ref().filter(|_| suite.broker == Broker::Shared);
        if let Some(broker) = own.as_ref().or(shared) {
            command.env("AMQP_URL", &broker.url).env("CTL", broker.ctl.clone().unwrap_or_default());
            command.envs(broker.management_url.as_ref().map(|url| ("MANAGEMENT_URL", url)));
        }
        command.envs(own.as_ref().map(|broker| ("BROKER_RESTART", &broker.restart)));
        let outcome = process::run(&mut command, log, Duration::from_secs(60 * suite.minutes_max));
        let stopped = own.map_or(Ok(()), Running::stop);
        Ok(match (outcome?, stopped) {
            (Outcome::Failed(code), _) => Some(format!("exit code {code}")),
            (Outcome::TookTooLong, _) => Some(format!("not through after {} minutes", suite.minutes_max)),
            (Outcome::Passed, Err(problem)) => {
                Some(format!("its broker did not stop as it should: {problem:#}"))
            }
            (Outcome::Passed, Ok(())) => None,
        })
    }

    fn command(&self, suite: &Suite) -> Command {
        let place = self.place;
        let mut command = Command::new("bash");
        command.arg("-c").arg(format!("{PRELUDE}{}", suite.script)).current_dir(&place.root);
        command
            .env(MARK, &place.mark)
            .env("PYTHON", place.python())
            .env("CACHE", &place.cache)
            .env("LOGS", &place.logs);
        command.env("WARREN_MANAGEMENT_LISTEN", "none").env_remove("AMQP_URL").env_remove("CTL");
        let seed = std::env::var("TEST_SEED").map(|seed| format!("--seed {seed}")).unwrap_or_default();
        command.env("SEED", seed).stdin(Stdio::null());
        match &place.warren {
            Some(warren) => {
                command.env("WARREN_BIN", warren).env("BROKER_FLAVOR", "warren").env_remove("BROKER_PID")
            }
            None => {
                let flavor = std::env::var("BROKER_FLAVOR").unwrap_or_else(|_| "warren".into());
                command.env_remove("WARREN_BIN").env("BROKER_FLAVOR", flavor)
            }
        };
        command
    }
}

fn failed(name: &str, time: Duration, why: String) -> Done {
    Done { name: name.into(), time, failure: Some(why), summary: String::new() }
}
