//! One run from end to end: declare, connect, publish and consume, report, close, delete.

use super::block::Shape;
use super::consumer::{ConsumerPlan, ConsumerThread, Settle};
use super::figures::Figures;
use super::link::Link;
use super::options::{Flag, Options, TopologyOnly};
use super::publisher::{PublisherPlan, PublisherThread, Schedule};
use super::report::{Moment, Report, Summary};
use super::topology::Topology;
use crate::io::{Socket, WatchedProcess, WatchedUse};
use anyhow::{Result, bail, ensure};
use std::io::Write;
use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};
use wire::amqp091::methods::{basic, confirm};

/// Connections that are opened or closed at one time.
const CONNECTING_AT_ONCE: usize = 16;
/// How often the end of a run is looked for.
const LOOK: Duration = Duration::from_millis(20);
const INTERVAL: Duration = Duration::from_secs(1);
/// A run whose publishers are done ends when nothing has arrived for this long.
const IDLE: Duration = Duration::from_secs(1);
/// How long a broker may take to start all consumers.
const CONSUMERS_TIMEOUT: Duration = Duration::from_secs(60);

type PublisherSeat = (Socket, Vec<PublisherPlan>);
type ConsumerSeat = (Socket, Vec<ConsumerPlan>);

/// Runs what the options say and prints the outcome.
///
/// # Errors
/// The broker cannot be reached, refuses something, or ends a connection. Queues and exchange are deleted even so.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let id = options.id.clone().unwrap_or_else(|| format!("perf-{}", std::process::id()));
    let mut topology = Topology::new(options, &id)?;
    let connect = || Link::open(&options.uri, &id);
    match options.topology_only {
        Some(TopologyOnly::Declare) => topology.declare(&connect, options.predeclared)?,
        Some(TopologyOnly::Delete) => topology.delete(&connect)?,
        None => {
            topology.declare(&connect, options.predeclared)?;
            let summary = Run { options, id: &id, topology: &topology }.measure();
            let deleted = topology.delete(&connect);
            let summary = summary?;
            tell(options, &summary)?;
            deleted?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn tell(options: &Options, summary: &Summary) -> Result<()> {
    if options.json {
        std::io::stderr().write_all(summary.text().as_bytes())?;
        writeln!(std::io::stdout(), "{}", summary.json())?;
    } else {
        std::io::stdout().write_all(summary.text().as_bytes())?;
    }
    Ok(())
}

struct Run<'a> {
    options: &'a Options,
    id: &'a str,
    topology: &'a Topology,
}

impl Run<'_> {
    fn measure(&self) -> Result<Summary> {
        let watched = self.options.watch_pid.map(WatchedProcess::new);
        watched.map(WatchedProcess::sample).transpose()?; // a wrong process id is told before anything is done
        let publishers = in_parallel((0..self.options.producers).collect(), |n| self.publisher_seat(n))?;
        let consumers = in_parallel((0..self.options.consumers).collect(), |n| self.consumer_seat(n))?;
        let figures = Figures::default();
        let threads = usize::from(self.options.threads);
        let consumers =
            dealt(consumers, threads).into_iter().map(|seats| ConsumerThread::new(seats, &figures));
        let consumers = consumers.collect::<Result<Vec<_>>>()?;
        let publishers =
            dealt(publishers, threads).into_iter().map(|seats| PublisherThread::new(seats, &figures));
        let publishers = publishers.collect::<Result<Vec<_>>>()?;
        let (summary, sockets) = std::thread::scope(|scope| {
            let mut handles = Vec::new();
            handles.extend(consumers.into_iter().map(|thread| scope.spawn(move || thread.run())));
            handles.extend(publishers.into_iter().map(|thread| scope.spawn(move || thread.run())));
            let summary = self.observe(&figures, watched, &handles);
            figures.stopped.store(true, Relaxed);
            let sockets = handles.into_iter().flat_map(|handle| handle.join().unwrap_or_default());
            (summary, sockets.collect::<Vec<_>>())
        });
        // A broker that is far behind need not say goodbye; the figures are taken.
        let _ = in_parallel(sockets, |socket| Link::take_back(socket)?.close());
        figures.take_failure().map_or(summary, Err)
    }

    fn publisher_seat(&self, n: usize) -> Result<PublisherSeat> {
        let mut link = Link::open(&self.options.uri, &format!("{} publisher {n}", self.id))?;
        let channels = self.options.producer_channel_count;
        link.open_channels(channels)?;
        if self.options.confirm.is_some() {
            for channel in 1..=channels {
                link.send(channel, &[confirm::Select::default().into()])?;
                link.expect(channel, "confirm.select-ok")?;
            }
        }
        let first = n * usize::from(channels);
        let plans = (1..=channels)
            .zip(first..)
            .map(|(channel, n)| self.publisher_plan(channel, n, link.frame_size_max));
        let plans = plans.collect();
        Ok((link.into_socket()?, plans))
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "publishers are few, and an interval between messages is far below 2^52 ns"
    )]
    fn publisher_plan(&self, channel: u16, n: usize, frame_size_max: usize) -> PublisherPlan {
        let options = self.options;
        let count = options.producers * usize::from(options.producer_channel_count);
        PublisherPlan {
            shape: Shape {
                channel,
                exchange: self.topology.exchange.clone(),
                routing_key: self.topology.routing_key(n).to_owned(),
                mandatory: options.has(Flag::Mandatory),
                persistent: options.has(Flag::Persistent),
                body_bytes: options.size as usize,
                frame_size_max,
            },
            window: options.confirm.map(|window| window as usize),
            schedule: options.rate.map(|rate| {
                let interval_ns = 1e9 / rate;
                Schedule { interval_ns, offset_ns: (interval_ns * n as f64 / count as f64) as u64 }
            }),
            count_max: options.pmessages.unwrap_or(u64::MAX),
        }
    }

    fn consumer_seat(&self, n: usize) -> Result<ConsumerSeat> {
        let options = self.options;
        let mut link = Link::open(&options.uri, &format!("{} consumer {n}", self.id))?;
        let channels = options.consumer_channel_count;
        link.open_channels(channels)?;
        if options.qos > 0 {
            for channel in 1..=channels {
                link.send(
                    channel,
                    &[basic::Qos { prefetch_count: options.qos, ..Default::default() }.into()],
                )?;
                link.expect(channel, "basic.qos-ok")?;
            }
        }
        let settle = match (options.autoack, options.multi_ack_every) {
            (true, _) => Settle::Auto,
            (false, 0 | 1) => Settle::Each,
            (false, count) => Settle::Every(count),
        };
        let count_max = options.cmessages.unwrap_or(u64::MAX);
        let first = n * usize::from(channels);
        let queues = (first..).take(usize::from(channels)).map(|n| self.topology.queue(n).to_owned());
        let plans = queues.map(|queue| ConsumerPlan { queue, settle, count_max }).collect();
        Ok((link.into_socket()?, plans))
    }

    /// Starts publishing once all consumers are there, and reports until the run is over.
    fn observe(
        &self,
        figures: &Figures,
        watched: Option<WatchedProcess>,
        handles: &[ScopedJoinHandle<'_, Vec<Socket>>],
    ) -> Result<Summary> {
        self.await_consumers(figures)?;
        let sample = || -> Result<Option<WatchedUse>> { watched.map(WatchedProcess::sample).transpose() };
        let mut report = Report::new(self.id);
        let start = Moment::of(figures, sample()?);
        figures.started.store(true, Relaxed);
        handles.iter().for_each(|handle| handle.thread().unpark());
        let (began, mut last, mut quiet) = (Instant::now(), start, (0, Instant::now()));
        loop {
            std::thread::sleep(LOOK);
            let received = figures.received.load(Relaxed);
            if received != quiet.0 {
                quiet = (received, Instant::now());
            }
            let over = figures.is_stopped() || self.is_over(figures, began.elapsed(), quiet.1.elapsed());
            if over || began.elapsed() >= INTERVAL.mul_f64(last.seconds_since(&start).round() + 1.0) {
                // What the watched process used is only of interest at the end.
                let mut now = Moment::of(figures, if over { sample()? } else { None });
                if over && quiet.1.elapsed() >= IDLE && now.received > 0 {
                    // The second in which nothing came any more is not part of the run.
                    now.at_ns = figures.received_last_ns.load(Relaxed).max(last.at_ns);
                }
                let line = report.interval(figures, &start, &last, &now);
                if !self.options.quiet {
                    writeln!(std::io::stderr(), "{line}")?;
                }
                last = now;
            }
            if over {
                return Ok(report.summary(figures, &start, &last));
            }
        }
    }

    fn await_consumers(&self, figures: &Figures) -> Result<()> {
        let began = Instant::now();
        let count = self.options.consumers * usize::from(self.options.consumer_channel_count);
        while figures.consumers_ready.load(Relaxed) < count as u64 {
            if let Some(error) = figures.take_failure() {
                return Err(error);
            }
            ensure!(began.elapsed() < CONSUMERS_TIMEOUT, "the broker did not start all consumers in time");
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    fn is_over(&self, figures: &Figures, elapsed: Duration, idle: Duration) -> bool {
        let options = self.options;
        if options.time.is_some_and(|seconds| elapsed >= Duration::from_secs(seconds)) {
            return true;
        }
        let publishers = options.producers as u64 * u64::from(options.producer_channel_count);
        let consumers = options.consumers as u64 * u64::from(options.consumer_channel_count);
        let published = figures.publishers_done.load(Relaxed) == publishers;
        let consumed = figures.consumers_done.load(Relaxed) == consumers;
        match (options.pmessages.filter(|_| publishers > 0), options.cmessages.filter(|_| consumers > 0)) {
            (None, None) => false,
            (None, Some(_)) => consumed,
            (Some(_), Some(_)) => published && consumed,
            (Some(_), None) => published && (consumers == 0 || idle >= IDLE),
        }
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
        let mut topology = Topology::new(&options, "t").unwrap();
        let connect = || Link::open(&options.uri, "t");
        topology.declare(&connect, options.predeclared).unwrap();
        let summary = Run { options: &options, id: "t", topology: &topology }.measure().unwrap();
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
