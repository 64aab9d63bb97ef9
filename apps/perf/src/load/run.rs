//! One run from end to end: declare, connect, publish and consume, report, close, delete.

use super::consumer::{ConsumerPlan, ConsumerThread};
use super::ending::{self, Ending};
use super::figures::Figures;
use super::lines::Lines;
use super::link::Link;
use super::options::{Options, TopologyOnly};
use super::prometheus::Endpoint;
use super::publisher::{PublisherPlan, PublisherThread};
use super::recovery::{Opening, Recovery, recovery};
use super::report::{Interval, Moment, Report, Summary};
use super::seats::{Seat, Seats};
use super::topology::Topology;
use crate::io::{Socket, WatchedProcess, WatchedUse, is_interrupted, watch_interrupts};
use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Signal, set_parent_process_death_signal};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// Connections that are opened or closed at one time.
const CONNECTING_AT_ONCE: usize = 16;
/// How often the end of a run is looked for.
const LOOK: Duration = Duration::from_millis(20);
/// How long a broker may take to start all consumers.
const CONSUMERS_TIMEOUT: Duration = Duration::from_secs(60);

/// Connections of one kind, dealt out to threads.
type Dealt<P> = Vec<Vec<Seat<P>>>;

/// Runs what the options say and prints the outcome.
///
/// # Errors
/// The broker cannot be reached, refuses something, or ends a connection. Queues and exchange are deleted even so.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let id = options.running.id.clone().unwrap_or_else(|| format!("perf-{}", std::process::id()));
    for name in options.connecting.ignored().into_iter().chain(options.metrics.ignored()) {
        writeln!(std::io::stderr(), "note: {name} does nothing here")?;
    }
    if !options.from_environment.is_empty() {
        let names = options.from_environment.join(", ");
        writeln!(std::io::stderr(), "note: taken from the environment: {names}")?;
    }
    watch_interrupts()?;
    if options.running.end_with_parent {
        set_parent_process_death_signal(Some(Signal::TERM)).context("watching the parent")?;
    }
    // Where that is not enough, opening the connection that is one too many says so.
    let _ = platform::open_files::allow_most();
    let mut topology = Topology::new(&options.objects, &id)?;
    let connect = || Link::open(&options.connecting, 0, &id);
    await_brokers(options, &id)?;
    match options.objects.topology_only {
        Some(TopologyOnly::Declare) => topology.declare(&connect, options.objects.predeclared)?,
        Some(TopologyOnly::Delete) => topology.delete(&connect)?,
        None => {
            topology.declare(&connect, options.objects.predeclared)?;
            let seats = Seats::new(options, &id, &topology);
            let outcome = seats.and_then(|seats| Run::new(options, &id, &topology, &seats)?.measure());
            let deleted = topology.delete(&connect);
            let (summary, text) = outcome?;
            tell(options, &summary, &text)?;
            deleted?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Waits until as many brokers as needed can be reached, if that is asked for.
fn await_brokers(options: &Options, id: &str) -> Result<()> {
    let connecting = &options.connecting;
    let Some(seconds) = connecting.servers_startup_timeout else { return Ok(()) };
    let count = connecting.brokers().len();
    let needed = connecting.servers_up_limit.unwrap_or(count).min(count);
    let began = Instant::now();
    loop {
        let outcomes = (0..count).map(|n| Link::open(connecting, n, id)?.close());
        let outcomes: Vec<Result<()>> = outcomes.collect();
        if outcomes.iter().filter(|outcome| outcome.is_ok()).count() >= needed {
            return Ok(());
        }
        ensure!(!is_interrupted(), "stopped while waiting for brokers");
        if began.elapsed() >= Duration::from_secs(seconds) {
            let error = outcomes.into_iter().find_map(Result::err);
            let error = error.unwrap_or_else(|| anyhow::anyhow!("no broker"));
            return Err(
                error.context(format!("{needed} of {count} brokers were not there in {seconds} seconds"))
            );
        }
        std::thread::sleep(Duration::from_millis(500));
    }
}

fn tell(options: &Options, summary: &Summary, text: &str) -> Result<()> {
    if options.running.json {
        std::io::stderr().write_all(text.as_bytes())?;
        writeln!(std::io::stdout(), "{}", summary.json())?;
    } else {
        std::io::stdout().write_all(text.as_bytes())?;
    }
    Ok(())
}

struct Run<'a> {
    options: &'a Options,
    id: &'a str,
    topology: &'a Topology,
    seats: &'a Seats<'a>,
    lines: Lines,
    output: Option<BufWriter<File>>,
    endpoint: Option<Endpoint>,
}

impl<'a> Run<'a> {
    fn new(options: &'a Options, id: &'a str, topology: &'a Topology, seats: &'a Seats<'a>) -> Result<Self> {
        let lines = Lines::new(options, id);
        let output = options.running.output_file.as_ref().map(|path| -> Result<_> {
            let named = || format!("cannot write {}", path.display());
            let mut output = BufWriter::new(File::create(path).with_context(named)?);
            writeln!(output, "{}", lines.csv_head()).with_context(named)?;
            Ok(output)
        });
        let (output, endpoint) = (output.transpose()?, Endpoint::start(options)?);
        if let Some(endpoint) = &endpoint {
            writeln!(std::io::stderr(), "metrics: {}", endpoint.place())?;
        }
        Ok(Self { options, id, topology, seats, lines, output, endpoint })
    }

    /// Connects, makes load and closes; gives the outcome, and its words.
    fn measure(mut self) -> Result<(Summary, String)> {
        let watched = self.options.running.watch_pid.map(WatchedProcess::new);
        watched.map(WatchedProcess::sample).transpose()?; // a wrong process id is told before anything is done
        let figures = Figures::default();
        let (publishers, consumers) = self.connect()?;
        let before = Moment::of(&figures, watched.map(WatchedProcess::sample).transpose()?);
        let (summary, sockets) = std::thread::scope(|scope| -> Result<_> {
            let figures = &figures;
            let handles = self.start(scope, figures, (publishers, consumers));
            // The threads that did start must end.
            let handles = handles.inspect_err(|_| figures.stopped.store(true, Relaxed))?;
            let summary = self.observe(figures, (before, watched), &handles);
            figures.stopped.store(true, Relaxed);
            let sockets = handles.into_iter().flat_map(|handle| handle.join().unwrap_or_default());
            Ok((summary, sockets.collect::<Vec<_>>()))
        })?;
        // A broker that is far behind need not say goodbye; the figures are taken.
        let patience = Duration::from_secs(self.options.connecting.shutdown_timeout);
        let _ = in_parallel(sockets, |socket| Link::take_back(socket, patience)?.close());
        figures.take_failure().map_or(summary, Err)
    }

    /// Opens all connections and deals them out to threads.
    fn connect(&self) -> Result<(Dealt<PublisherPlan>, Dealt<ConsumerPlan>)> {
        let (options, threads) = (self.options, usize::from(self.options.running.threads));
        let goes_on = || -> Result<()> {
            ensure!(!is_interrupted(), "stopped while connecting");
            Ok(())
        };
        let publishers = (0..options.publishing.producers).collect();
        let publishers = in_parallel(publishers, |n| goes_on().and_then(|()| self.seats.publisher(n)))?;
        let consumers = (0..options.consuming.consumers).collect();
        let consumers = in_parallel(consumers, |n| goes_on().and_then(|()| self.seats.consumer(n)))?;
        Ok((dealt(publishers, threads), dealt(consumers, threads)))
    }

    /// Starts the threads with load, and those that open connections again.
    fn start<'scope>(
        &self,
        scope: &'scope Scope<'scope, '_>,
        figures: &'scope Figures,
        (publishers, consumers): (Dealt<PublisherPlan>, Dealt<ConsumerPlan>),
    ) -> Result<Vec<ScopedJoinHandle<'scope, Vec<Socket>>>>
    where
        'a: 'scope,
    {
        let (seats, mut handles) = (self.seats, Vec::new());
        for connections in consumers {
            let recovery = self.reopener(scope, figures, "consuming connections", |n| seats.consumer(n));
            let thread = ConsumerThread::new(connections, seats.heartbeat_ns(), recovery, figures)?;
            handles.push(scope.spawn(move || thread.run()));
        }
        for connections in publishers {
            let recovery = self.reopener(scope, figures, "publishing connections", |n| seats.publisher(n));
            let thread = PublisherThread::new(connections, seats.thread_settings(), recovery, figures)?;
            handles.push(scope.spawn(move || thread.run()));
        }
        Ok(handles)
    }

    /// Starts a thread that opens connections again, if that is wanted; it ends with the one that gets the recovery.
    fn reopener<'scope, S: Send + 'scope>(
        &self,
        scope: &'scope Scope<'scope, '_>,
        figures: &'scope Figures,
        what: &'static str,
        open: impl Fn(usize) -> Result<S> + Send + Sync + 'scope,
    ) -> Option<Recovery<S>>
    where
        'a: 'scope,
    {
        let pause = self.options.connecting.recovery_pause()?;
        let (options, id, topology) = (self.options, self.id, self.topology);
        let (recovery, reopener) = recovery();
        scope.spawn(move || {
            let connect = || Link::open(&options.connecting, 0, id);
            let (prepare, is_over) = (|| topology.declare_again(&connect), || figures.is_stopped());
            reopener.run(&Opening { what, pause, prepare: &prepare, open: &open, is_over: &is_over });
        });
        Some(recovery)
    }

    /// Starts publishing once all consumers are there, and reports until the run is over.
    fn observe(
        &mut self,
        figures: &Figures,
        (before, watched): (Moment, Option<WatchedProcess>),
        handles: &[ScopedJoinHandle<'_, Vec<Socket>>],
    ) -> Result<(Summary, String)> {
        self.await_consumers(figures)?;
        let sample = || -> Result<Option<WatchedUse>> { watched.map(WatchedProcess::sample).transpose() };
        let mut report = Report::new(self.id);
        // Without publishers the run begins with its consumers: some may have received a lot by now.
        let start = match self.options.publishing.producers {
            0 => before,
            _ => Moment::of(figures, sample()?),
        };
        figures.started.store(true, Relaxed);
        handles.iter().for_each(|handle| handle.thread().unpark());
        let every = Duration::from_secs_f64(self.options.running.interval);
        let (began, mut last, mut quiet) = (Instant::now(), start, (0, Instant::now()));
        let mut next = every;
        self.say_head()?;
        loop {
            std::thread::sleep(LOOK.min(every));
            let received = figures.received.load(Relaxed);
            if received != quiet.0 {
                quiet = (received, Instant::now());
            }
            let ending = self.ending(figures, began.elapsed(), quiet.1.elapsed());
            let over = ending.is_some() || figures.is_stopped();
            if over || began.elapsed() >= next {
                next = began.elapsed().max(next) + every;
                let now = Moment::of(figures, sample()?);
                let interval = report.interval(figures, &start, &last, &now);
                self.say(&interval)?;
                self.endpoint.iter().for_each(|endpoint| endpoint.tell(&interval, report.totals()));
                last = now;
            }
            if over {
                if ending.is_some_and(Ending::is_of_silence) && last.received > 0 {
                    // The time in which nothing came any more is not part of the run, however many intervals it had.
                    last.at_ns = figures.received_last_ns.load(Relaxed).max(start.at_ns + 1);
                }
                let why = ending.map_or("a connection failed", Ending::text);
                return self.sum_up(report, (&start, &last), why);
            }
        }
    }

    fn sum_up(
        &mut self,
        report: Report,
        (start, end): (&Moment, &Moment),
        why: &str,
    ) -> Result<(Summary, String)> {
        if let Some(output) = &mut self.output {
            output.flush()?;
        }
        let mut summary = report.summary(start, end);
        let text = self.lines.summary(&summary, why);
        if let Some(path) = &self.options.running.histogram {
            std::fs::write(path, report.percentile_distribution())
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        if self.options.running.series {
            summary.series = report.into_series();
        }
        Ok((summary, text))
    }

    fn say_head(&self) -> Result<()> {
        match self.lines.head() {
            Some(head) if !self.options.running.quiet => self.say_line(&head),
            _ => Ok(()),
        }
    }

    fn say(&mut self, interval: &Interval) -> Result<()> {
        if let Some(output) = &mut self.output {
            writeln!(output, "{}", self.lines.csv(interval))?;
        }
        // The rest of an interval that is nearly nothing has no rate worth telling.
        if self.options.running.quiet {
            return Ok(());
        }
        self.say_line(&self.lines.line(interval))
    }

    fn say_line(&self, line: &str) -> Result<()> {
        if self.options.running.json {
            writeln!(std::io::stderr(), "{line}")?;
        } else {
            writeln!(std::io::stdout(), "{line}")?;
        }
        Ok(())
    }

    fn ending(&self, figures: &Figures, elapsed: Duration, idle: Duration) -> Option<Ending> {
        if is_interrupted() {
            return Some(Ending::Interrupted);
        }
        let mut is_empty = || {
            let ready = Link::open(&self.options.connecting, 0, self.id).and_then(|mut link| {
                link.open_channels(1)?;
                let ready = self.topology.ready_count(&mut link)?;
                link.close()?;
                Ok(ready)
            });
            // A queue that is gone is empty too.
            ready.unwrap_or(0) == 0
        };
        ending::of(self.options, figures, (elapsed, idle), &mut is_empty)
    }

    fn await_consumers(&self, figures: &Figures) -> Result<()> {
        let consuming = &self.options.consuming;
        if consuming.consumer_start_delay > 0 {
            return Ok(());
        }
        let queues = if consuming.polling { 1 } else { self.topology.queues_of(0).len().max(1) };
        let count = consuming.all() * queues;
        let slow = if consuming.slow_start { consuming.all() as u64 } else { 0 };
        let (began, limit) = (Instant::now(), CONSUMERS_TIMEOUT + Duration::from_secs(slow));
        while figures.consumers_ready.load(Relaxed) < count as u64 {
            if let Some(error) = figures.take_failure() {
                return Err(error);
            }
            ensure!(!is_interrupted(), "stopped before all consumers were there");
            ensure!(began.elapsed() < limit, "the broker did not start all consumers in time");
            std::thread::sleep(LOOK);
        }
        Ok(())
    }
}

/// Deals items out to at most `hands` lists that differ by one in length; no list is empty.
fn dealt<T>(items: Vec<T>, hands: usize) -> Vec<Vec<T>> {
    let mut lists: Vec<Vec<T>> = (0..hands.min(items.len())).map(|_| Vec::new()).collect();
    let count = lists.len();
    for (n, item) in items.into_iter().enumerate() {
        lists[n % count].push(item);
    }
    lists
}

/// Does something slow with every item, several at a time; the results are in no particular order.
fn in_parallel<T: Send, R: Send>(items: Vec<T>, work: impl Fn(T) -> Result<R> + Sync) -> Result<Vec<R>> {
    let lists = dealt(items, CONNECTING_AT_ONCE);
    let outcomes: Vec<Result<Vec<R>>> = std::thread::scope(|scope| {
        let work = &work;
        let handles: Vec<_> =
            lists.into_iter().map(|list| scope.spawn(move || list.into_iter().map(work).collect())).collect();
        handles
            .into_iter()
            .map(|handle| handle.join().unwrap_or_else(|_| bail!("a thread panicked")))
            .collect()
    });
    let lists: Vec<Vec<R>> = outcomes.into_iter().collect::<Result<_>>()?;
    Ok(lists.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::null_broker::{NullOptions, Server};
    use clap::Parser;
    use std::ffi::OsString;

    /// Runs against a null broker of its own, which lives as long as the test process.
    fn measured(deliver: &str, line: &str) -> serde_json::Value {
        let options = NullOptions::parse_from(["null-broker", "--deliver", deliver]);
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut server = Server::listen(&options).unwrap();
            tell.send(server.address().unwrap()).unwrap();
            while server.turn().is_ok() {}
        });
        let uri = format!("amqp://{}", told.recv().unwrap());
        let args = ["-h", &uri, "--quiet"].into_iter().chain(line.split_whitespace());
        let options = Options::parse_args(args.map(OsString::from)).unwrap();
        let mut topology = Topology::new(&options.objects, "t").unwrap();
        let connect = || Link::open(&options.connecting, 0, "t");
        topology.declare(&connect, options.objects.predeclared).unwrap();
        let seats = Seats::new(&options, "t", &topology).unwrap();
        let (summary, _) = Run::new(&options, "t", &topology, &seats).unwrap().measure().unwrap();
        topology.delete(&connect).unwrap();
        serde_json::from_str(&summary.json()).unwrap()
    }

    #[test]
    fn everything_that_is_sent_is_confirmed_received_and_timed() {
        let figures = measured("round-robin", "-C 500 -D 500 -c 7 -q 100 -A 10 -f persistent");
        assert_eq!(
            (&figures["sent"], &figures["received"], &figures["confirmed"]),
            (&500.into(), &500.into(), &500.into())
        );
        assert!(figures["latency_us"]["p50"].as_f64() > Some(0.0));
        assert!(figures["confirm_latency_us"]["max"].as_f64() > Some(0.0));
    }

    #[test]
    fn many_connections_channels_queues_and_frames_add_up() {
        let line = "-p -qp q-%d -qpt 3 -x 3 -X 2 -y 3 -Y 2 -s 300000 -r 500 -C 10 -D 60 --threads 2";
        let figures = measured("all", line);
        assert_eq!((&figures["sent"], &figures["received"]), (&60.into(), &360.into()));
        assert!(figures["lateness_us"]["max"].as_f64().is_some());
    }

    #[test]
    fn a_broker_that_is_not_there_is_named() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let options = Options::parse_args(["-h".into(), format!("amqp://{free}").into()]).unwrap();
        assert!(run(&options).unwrap_err().to_string().contains(&free.to_string()));
    }

    #[test]
    fn items_are_dealt_evenly() {
        assert_eq!(dealt((0..5).collect(), 2), [vec![0, 2, 4], vec![1, 3]]);
        assert_eq!(dealt(vec![1], 4), [vec![1]]);
        assert!(dealt(Vec::<u8>::new(), 4).is_empty());
    }

    #[test]
    fn everything_is_done_once_and_one_failure_is_the_outcome() {
        let mut done = in_parallel((0..100).collect(), Ok).unwrap();
        done.sort_unstable();
        assert_eq!(done, (0..100).collect::<Vec<_>>());
        assert!(in_parallel(vec![1, 2], |n| if n == 2 { bail!("no") } else { Ok(n) }).is_err());
    }
}
