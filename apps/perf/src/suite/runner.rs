//! Running the suite: every group of tests, for every size, against every broker in turn; results are kept after each test.

use super::catalogue::{Bounds, Figure, GROUPS, Group, Needs, Test};
use super::contender::{Contender, is_loopback, name_of};
use super::options::SuiteOptions;
use super::process::{
    commanded_with, disk_written_bytes, output_of, resident_bytes, rest, wait_while_wanted,
};
use super::results::{Machine, Measurement, Plan, Results, number};
use super::{report, restart};
use crate::io::{INTERRUPTED, is_interrupted, watch_interrupts};
use crate::load::{Summary, Uri};
use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

/// Beyond the measured seconds: connecting thousands of times and deleting thousands of queues.
const PATIENCE: Duration = Duration::from_secs(300);
/// Files that a broker and the load generator have open beside connections, generously.
const OTHER_FILES: u64 = 200;
/// Seconds of a test beside its own, roughly: starting, connecting, deleting.
const OVERHEAD_S: u64 = 4;
/// How long a broker gets to come to rest before the memory of its backlog is read. Warren gives back what was freed when it had nothing to
/// do for up to ten seconds.
const REST: Duration = Duration::from_secs(12);
/// Longer runs have a flame graph of their beginning.
const PROFILE_SECONDS_MAX: u64 = 120;
/// Flame graphs of a report take no more than this together; tests after that have none.
const FLAMES_BYTES_MAX: usize = 16 << 20;
/// How long deleting what a test declared may take.
const DELETION_LIMIT: Duration = Duration::from_secs(180);

/// A broker to measure.
#[derive(Clone, Debug)]
enum Candidate {
    /// A Warren that is started for each group of tests.
    Own(PathBuf),
    /// One that runs.
    Peer(Uri),
}

/// Runs what the options say.
///
/// # Errors
/// A peer cannot be reached or is not on this machine, a result of another plan is in the way, or results cannot be written.
/// A test that fails is part of the results.
pub(crate) fn run(options: &SuiteOptions) -> Result<ExitCode> {
    if options.list {
        for test in GROUPS.iter().flat_map(|group| group.tests) {
            writeln!(std::io::stdout(), "{:26} {}", test.name, test.what)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    watch_interrupts()?;
    let mut suite = Suite::new(options)?;
    suite.run()?;
    let file = options.output.join("suite.html");
    if is_interrupted() {
        let done = suite.results.measurements.len();
        say(&format!(
            "stopped after {done} of {}: the same command goes on. report: {}",
            suite.count,
            file.display()
        ))?;
        return Ok(ExitCode::from(INTERRUPTED));
    }
    say(&format!("report: {}   figures: {}", file.display(), suite.file.display()))?;
    Ok(ExitCode::SUCCESS)
}

struct Suite<'a> {
    options: &'a SuiteOptions,
    /// This program, which makes the load.
    perf: PathBuf,
    candidates: Vec<(String, Candidate)>,
    results: Results,
    file: PathBuf,
    done: usize,
    count: usize,
    /// Connections that the limit on open files leaves to the load generator, and to a broker that has the same limit.
    open_max: u32,
}

impl<'a> Suite<'a> {
    fn new(options: &'a SuiteOptions) -> Result<Self> {
        let minutes = options.minutes_per_test;
        ensure!(
            (0.0..=600.0).contains(&minutes) && minutes > 0.0,
            "--minutes-per-test is above 0 and at most 600"
        );
        ensure!(!options.sizes.is_empty(), "--sizes names no size");
        let perf = std::env::current_exe().context("this program's own path")?;
        let candidates = candidates(options, &perf)?;
        let plan = Plan {
            seconds: options.seconds(),
            sizes: options.sizes.clone(),
            tests: chosen(&options.tests)?.into_iter().map(|test| test.name.to_owned()).collect(),
            brokers: candidates.iter().map(|(name, _)| name.clone()).collect(),
            backlog_bytes_max: options.backlog_bytes_max,
            connections_max: options.connections_max,
            queue_type: options.queue_type,
        };
        std::fs::create_dir_all(&options.output)
            .with_context(|| format!("cannot make {}", options.output.display()))?;
        let file = options.output.join("suite.json");
        let results = results_for(plan, &file, options)?;
        remove_stale(&options.output);
        let sizes = results.plan.sizes.len();
        let runs = |group: &Group| group.tests.len() * if group.needs == Needs::Control { 1 } else { sizes };
        let open_max = platform::open_files::allow_most().saturating_sub(OTHER_FILES);
        let open_max = u32::try_from(open_max).unwrap_or(u32::MAX);
        let mut suite = Self { options, perf, candidates, results, file, done: 0, count: 0, open_max };
        suite.count = suite.groups().iter().map(|group| runs(group) * suite.candidates.len()).sum();
        Ok(suite)
    }

    /// The groups with a test that was chosen.
    fn groups(&self) -> Vec<Group> {
        let chosen = |test: &Test| self.results.plan.tests.iter().any(|name| name == test.name);
        GROUPS.iter().filter(|group| group.tests.iter().any(chosen)).copied().collect()
    }

    fn run(&mut self) -> Result<()> {
        let known = self.results.measurements.len();
        if known > 0 {
            say(&format!("going on with {}: {known} of {} done", self.file.display(), self.count))?;
        }
        for group in self.groups() {
            // A group that does not depend on a broker's size of messages is measured once.
            let sizes = match group.needs {
                Needs::Control => vec![0],
                Needs::Address => self.results.plan.sizes.clone(),
            };
            for size in sizes {
                for (name, candidate) in self.candidates.clone() {
                    if is_interrupted() {
                        return report::write(&self.results, &self.options.output.join("suite.html"));
                    }
                    self.group(group, size, &name, &candidate)?;
                    self.results.write(&self.file)?;
                }
                report::write(&self.results, &self.options.output.join("suite.html"))?;
            }
        }
        report::write(&self.results, &self.options.output.join("suite.html"))
    }

    /// Runs the tests of a group against one broker, unless that was done.
    fn group(&mut self, group: Group, size: u32, name: &str, candidate: &Candidate) -> Result<()> {
        // A failed test is tried again, unless only our own broker can be asked to run it.
        let controlled = group.needs == Needs::Control && matches!(candidate, Candidate::Peer(_));
        let is_done = |test: &Test| {
            let found = self.results.find(test.name, size, name);
            found.is_some_and(|found| found.failure.is_none() || controlled)
        };
        if group.tests.iter().all(is_done) {
            self.done += group.tests.len();
            return Ok(());
        }
        self.results
            .measurements
            .retain(|found| !(found.size == size && found.broker == name && has(&group, &found.test)));
        let bounds = self.bounds(size);
        let contender = match candidate {
            Candidate::Own(program) => Contender::start(program, &self.data_folder()?),
            Candidate::Peer(uri) => Ok(Contender::peer(uri)),
        };
        let mut contender = match contender {
            Ok(contender) => contender,
            Err(error) => return self.fail(group, size, name, &format!("{error:#}")),
        };
        for test in group.tests {
            // An interrupted suite may have left something.
            if test.name == group.tests[0].name && contender.data().is_none() {
                self.delete(&contender, test, bounds);
            }
            if is_interrupted() {
                break; // while the broker started
            }
            self.announce(test, size, name);
            let measurement = self.measure(test, &mut contender, bounds, name);
            if is_interrupted() {
                break; // a test that was cut short is no measurement
            }
            self.note(measurement)?;
        }
        if contender.data().is_none() {
            group.tests.iter().for_each(|test| self.delete(&contender, test, bounds));
        }
        Ok(())
    }

    /// Says on a terminal what is running and about how long the rest takes; the line is written over by the outcome.
    fn announce(&self, test: &Test, size: u32, broker: &str) {
        if std::io::stderr().is_terminal() {
            let left = (self.count - self.done) as u64 * (self.results.plan.seconds + OVERHEAD_S);
            let (number, name) = (self.done + 1, test.name);
            // Nobody is left to tell when the terminal is gone.
            let _ = write!(
                std::io::stderr(),
                "[{number:3}/{}] {name:25} {size:6} B  {broker:16} running, about {} minutes to go\r",
                self.count,
                left.div_ceil(60)
            );
        }
    }

    fn fail(&mut self, group: Group, size: u32, broker: &str, failure: &str) -> Result<()> {
        for test in group.tests {
            let mut measurement = Measurement::empty(test.name, size, broker);
            measurement.failure = Some(failure.to_owned());
            self.note(measurement)?;
        }
        Ok(())
    }

    fn bounds(&self, size: u32) -> Bounds {
        let Plan { seconds, backlog_bytes_max, connections_max, queue_type, .. } = self.results.plan;
        Bounds { seconds, size, backlog_bytes_max, connections_max, open_max: self.open_max, queue_type }
    }

    /// A folder beside the results, because a temporary folder may be memory.
    fn data_folder(&self) -> Result<PathBuf> {
        let folder = std::path::absolute(&self.options.output)?;
        Ok(folder.join(format!("data-{}", std::process::id())))
    }

    /// Tells and keeps a measurement.
    fn note(&mut self, measurement: Measurement) -> Result<()> {
        self.done += 1;
        let Measurement { test, size, broker, .. } = &measurement;
        let outcome = match (&measurement.failure, &measurement.figures) {
            (Some(failure), _) => format!("not measured: {failure}"),
            (None, Some(figures)) => in_short(figures),
            (None, None) => {
                measurement.notes.iter().map(|(name, value)| format!("{name} {value:.2}  ")).collect()
            }
        };
        // The announced line may be longer.
        let end = if std::io::stderr().is_terminal() { "\x1b[K" } else { "" };
        say(&format!("[{:3}/{}] {test:25} {size:6} B  {broker:16} {outcome}{end}", self.done, self.count))?;
        if let Some(cut) = &measurement.cut {
            say(&format!("          {cut}"))?;
        }
        self.results.measurements.push(measurement);
        Ok(())
    }

    fn measure(&self, test: &Test, contender: &mut Contender, bounds: Bounds, broker: &str) -> Measurement {
        let arguments = test.arguments(bounds);
        let mut measurement = Measurement::empty(test.name, bounds.size, broker);
        measurement.cut = test.cut(bounds);
        let more = if test.figure == Figure::Restart { Vec::new() } else { self.telling(contender) };
        measurement.commands = vec![format!(
            "warren perf -h {} {}",
            shown(&contender.uri),
            arguments.iter().chain(&more).map(String::as_str).collect::<Vec<_>>().join(" ")
        )];
        let outcome = if test.figure == Figure::Restart {
            self.restart(contender, &arguments, &mut measurement)
        } else {
            self.load(contender, arguments, &mut measurement)
        };
        if let (Figure::Memory, Some(pid)) = (test.figure, contender.pid) {
            rest(REST);
            measurement.rss_after_bytes = resident_bytes(pid);
        }
        let outcome = outcome.and_then(|()| self.check_backlog(test, bounds, &measurement));
        measurement.failure = outcome.err().map(|error| format!("{error:#}"));
        if measurement.failure.is_some() {
            // It would be compared with others.
            measurement.figures = None;
        }
        measurement
    }

    /// A test that empties the queue of the one before is a measurement only if it found there what that one had published.
    fn check_backlog(&self, test: &Test, bounds: Bounds, found: &Measurement) -> Result<()> {
        let Some((before, emptied)) = test.empties().zip(found.figures.as_ref()) else { return Ok(()) };
        let grown = self.results.find(before.name, found.size, &found.broker);
        let grown = grown.and_then(|grown| grown.figures.as_ref());
        let grown =
            grown.with_context(|| format!("{} was not measured, whose queue it empties", before.name))?;
        check_emptied(grown, emptied, bounds.patience())
    }

    fn restart(
        &self,
        contender: &mut Contender,
        declaration: &[String],
        into: &mut Measurement,
    ) -> Result<()> {
        ensure!(contender.data().is_some(), "only a Warren that the suite has started is restarted");
        into.notes = restart::measure(&self.perf, contender, declaration)?;
        Ok(())
    }

    fn load(&self, contender: &Contender, arguments: Vec<String>, into: &mut Measurement) -> Result<()> {
        let mut command = self.perf();
        command.args(["-h", &contender.uri]).args(arguments).args(self.telling(contender));
        let written = || contender.pid.and_then(disk_written_bytes);
        into.rss_before_bytes = contender.pid.and_then(resident_bytes);
        let before = written();
        let flame = self.start_profile(contender);
        let limit = PATIENCE + Duration::from_secs(self.results.plan.seconds * 4);
        let outcome = output_of(&mut command, limit);
        into.disk_written_bytes = before.zip(written()).map(|(before, after)| after.saturating_sub(before));
        into.flame = flame.and_then(Flame::finish);
        let figures: Summary = serde_json::from_str(outcome?.trim()).context("warren perf's figures")?;
        into.figures = Some(figures);
        Ok(())
    }

    /// The load generator, which takes no options from the environment: the suite's commands are what the report says.
    fn perf(&self) -> Command {
        let mut command = Command::new(&self.perf);
        // A suite that is killed leaves no load behind.
        command
            .args(["perf", "--end-with-parent"])
            .env("RABBITMQ_PERF_TEST_ENV_PREFIX", "WARREN_BENCH_SUITE_HAS_NONE");
        command
    }

    /// Arguments that say how a run is told; a broker that goes away ends it.
    fn telling(&self, contender: &Contender) -> Vec<String> {
        let interval = if self.results.plan.seconds < 10 { "0.5" } else { "1" };
        let mut words = vec!["-dcr", "-d", "warren-bench", "--json", "--series", "--quiet", "-i", interval];
        let pid = contender.pid.map(|pid| pid.to_string());
        if let Some(pid) = &pid {
            words.extend(["--watch-pid", pid]);
        }
        words.into_iter().map(str::to_owned).collect()
    }

    /// Has our own broker take a flame graph of the run. It looks for names of functions when the run is over, unless the run is
    /// long: that takes 100 MiB and half a second, which would be in the figures.
    fn start_profile(&self, contender: &Contender) -> Option<Flame> {
        let (program, data) = contender.program().zip(contender.data())?;
        let graphs = self.results.measurements.iter().filter_map(|one| one.flame.as_ref());
        if graphs.map(String::len).sum::<usize>() >= FLAMES_BYTES_MAX {
            return None;
        }
        let file = data.with_extension("svg");
        let seconds = match self.results.plan.seconds {
            seconds if seconds <= PROFILE_SECONDS_MAX => seconds + 1,
            _ => PROFILE_SECONDS_MAX,
        };
        let seconds = seconds.to_string();
        let mut command = Command::new(program);
        command.args(["ctl", "--data-dir"]).arg(data).args(["profile", "cpu", "--seconds", &seconds, "-o"]);
        command.arg(&file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Some(Flame { child: command.spawn().ok()?, file })
    }

    /// Deletes the objects that a test declares; a missing one is no error.
    fn delete(&self, contender: &Contender, test: &Test, bounds: Bounds) {
        let mut command = self.perf();
        command.args(["-h", &contender.uri, "--quiet"]).args(test.deletion(bounds));
        // A broker that is gone has nothing to delete; one that refuses says so in the test.
        let _ = output_of(&mut command, DELETION_LIMIT);
    }
}

/// A profile that is being taken.
struct Flame {
    child: Child,
    file: PathBuf,
}

impl Flame {
    /// The picture, if there is one: a broker that cannot be profiled has none. Of a run that was cut short none is waited for.
    fn finish(mut self) -> Option<String> {
        let limit = Duration::from_secs(PROFILE_SECONDS_MAX + 30);
        // One that cannot be waited for has left a picture or has not.
        let _ = wait_while_wanted(&mut self.child, limit, || !is_interrupted());
        let picture = std::fs::read_to_string(&self.file).ok();
        // It may never have been there.
        let _ = std::fs::remove_file(&self.file);
        picture.filter(|picture| picture.contains("<svg"))
    }
}

impl Measurement {
    fn empty(test: &str, size: u32, broker: &str) -> Self {
        Self {
            test: test.to_owned(),
            size,
            broker: broker.to_owned(),
            commands: Vec::new(),
            cut: None,
            failure: None,
            figures: None,
            disk_written_bytes: None,
            rss_before_bytes: None,
            rss_after_bytes: None,
            notes: Vec::new(),
            flame: None,
        }
    }
}

/// Ends Warrens of suites that were killed, and removes their folders: the names end with the number of a process that is
/// gone.
fn remove_stale(output: &Path) {
    let Ok(entries) = std::fs::read_dir(output) else { return };
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        let name = path.file_stem().and_then(|name| name.to_str());
        let pid = name.and_then(|name| name.strip_prefix("data-")?.parse::<u32>().ok());
        if pid.is_none_or(|pid| Path::new("/proc").join(pid.to_string()).exists()) {
            continue;
        }
        let folder = std::path::absolute(&path).unwrap_or_else(|_| path.clone());
        for pid in folder.to_str().map(commanded_with).unwrap_or_default() {
            // One that is gone meanwhile, or not ours, is let alone.
            let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
            let _ = pid.map(|pid| kill_process(pid, Signal::KILL));
        }
        // A file that cannot be removed is in nobody's way.
        let _ = if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
    }
}

/// Whether a queue was emptied of its published messages: a message of the last moment may be unconfirmed and there.
fn check_emptied(grown: &Summary, emptied: &Summary, patience: u64) -> Result<()> {
    let out_of_time = emptied.seconds >= number(patience) * 0.95;
    let lacks = emptied.received < grown.confirmed - grown.confirmed / 100 && !out_of_time;
    let has_more = emptied.received > grown.sent + grown.sent / 100;
    ensure!(
        !lacks && !has_more,
        "the queue did not give back the published messages: {} messages came of {} sent and {} confirmed in the test before \
         (a policy or another user of the broker takes or adds some?)",
        emptied.received,
        grown.sent,
        grown.confirmed
    );
    Ok(())
}

fn has(group: &Group, test: &str) -> bool {
    group.tests.iter().any(|known| known.name == test)
}

/// The tests of these names with all tests of their groups; all without names.
fn chosen(names: &[String]) -> Result<Vec<&'static Test>> {
    let unknown = names.iter().find(|name| !GROUPS.iter().any(|group| has(group, name)));
    ensure!(unknown.is_none(), "there is no test {}: --list shows them", unknown.map_or("", String::as_str));
    let wanted = |group: &&Group| names.is_empty() || names.iter().any(|name| has(group, name));
    Ok(GROUPS.iter().filter(wanted).flat_map(|group| group.tests).collect())
}

/// The brokers that are measured, by name; Warren first.
fn candidates(options: &SuiteOptions, perf: &Path) -> Result<Vec<(String, Candidate)>> {
    let mut candidates = Vec::new();
    if !options.only_peers {
        let program = options.warren.clone().unwrap_or_else(|| perf.to_owned());
        candidates.push(("Warren".to_owned(), Candidate::Own(program)));
    }
    for uri in &options.peer {
        ensure!(
            options.yes_this_host || is_loopback(uri)?,
            "{} is not this machine: the suite loads a broker as hard as it can. --yes-this-host if that is what you want",
            uri.host
        );
        let name = name_of(uri)?;
        let twice = candidates.iter().filter(|(known, _)| known.starts_with(&name)).count();
        let name = if twice == 0 { name } else { format!("{name} ({})", twice + 1) };
        candidates.push((name, Candidate::Peer(uri.clone())));
    }
    Ok(candidates)
}

/// Results to go on with, or new ones.
fn results_for(plan: Plan, file: &Path, options: &SuiteOptions) -> Result<Results> {
    if file.exists() && !options.fresh {
        let results = Results::read(file)?;
        ensure!(
            results.plan == plan,
            "{} is of another plan (sizes, time, tests or brokers): --fresh forgets it, --output puts this one elsewhere",
            file.display()
        );
        return Ok(results);
    }
    Ok(Results::new(plan, Machine::here()))
}

/// One line about a run.
fn in_short(figures: &Summary) -> String {
    let mut line = format!("{:>9.0} sent/s {:>9.0} received/s", figures.sent_per_s, figures.received_per_s);
    let latency = figures.latency_us.or(figures.confirm_latency_us);
    if let Some(latency) = latency {
        line += &format!("  p99 {:>9.1} ms", latency.p99 / 1000.0);
    }
    if let Some(us) = figures.broker.and_then(|broker| broker.cpu_us_per_message) {
        line += &format!("  {us:>7.2} us/msg");
    }
    line
}

/// An address without its password.
fn shown(uri: &str) -> String {
    uri.parse::<Uri>().map_or_else(|_| uri.to_owned(), |uri| uri.shown())
}

fn say(line: &str) -> Result<()> {
    Ok(writeln!(std::io::stderr(), "{line}")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_needs_the_one_before_brings_it_along() {
        let names = |wanted: &str| {
            let found = chosen(&[wanted.to_owned()]).unwrap();
            found.iter().map(|test| test.name).collect::<Vec<_>>()
        };
        assert_eq!(names("drain"), ["growing", "drain"]);
        assert_eq!(names("stream-backlog"), ["stream-publish", "stream-backlog"]);
        assert_eq!(names("max-rate"), ["max-rate"]);
        assert_eq!(chosen(&[]).unwrap().len(), 21);
        assert!(chosen(&["nope".to_owned()]).unwrap_err().to_string().contains("--list"));
    }

    #[test]
    fn a_queue_that_held_something_else_than_was_published_is_no_measurement() {
        let run = |sent: u64, confirmed: u64, received: u64, seconds: f64| -> Summary {
            let text = format!(
                r#"{{"id":"t","seconds":{seconds},"sent":{sent},"received":{received},"confirmed":{confirmed},"nacked":0,"returned":0,
                "sent_per_s":1,"received_per_s":1,"confirmed_per_s":1,"latency_us":null,"confirm_latency_us":null,"lateness_us":null,
                "own_cpu_us_per_message":0.1,"broker":null,"series":[]}}"#
            );
            serde_json::from_str(&text).unwrap()
        };
        let grown = run(80_254, 74_254, 0, 5.0);
        let outcome = |received, seconds| check_emptied(&grown, &run(0, 0, received, seconds), 60);
        assert!(outcome(80_254, 3.0).is_ok() && outcome(74_254, 3.0).is_ok());
        let told = outcome(5, 0.004).unwrap_err().to_string();
        assert!(told.contains("5 messages came of 80254 sent and 74254 confirmed"), "{told}");
        assert!(outcome(90_000, 3.0).is_err() && outcome(70_000, 3.0).is_err());
        // A broker that is too slow to be done in time has a rate nevertheless.
        assert!(outcome(70_000, 60.0).is_ok());
        let emptied = |name: &str| {
            let mut tests = GROUPS.iter().flat_map(|group| group.tests);
            tests.find(|test| test.name == name).unwrap().empties().map(|test| test.name)
        };
        assert_eq!(["drain", "nack", "growing"].map(emptied), [Some("growing"), Some("fill"), None]);
    }

    #[test]
    fn passwords_are_not_shown() {
        assert_eq!(shown("amqp://u:secret@h:5/v"), "amqp://u@h:5/v");
        assert_eq!(shown("amqp://h:5"), "amqp://h:5");
    }
}
