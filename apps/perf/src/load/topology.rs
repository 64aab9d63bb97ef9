//! The queues and the exchange of a run, their users, and declaring and deleting them.
//!
//! As with PerfTest, consumers without a named queue have one of their own each, and the exchange is durable. Queues are
//! durable, unlike PerfTest's without `-f persistent`: transient ones that are not exclusive are deprecated in RabbitMQ, and for
//! transient messages a durable classic queue costs the same. Objects that already existed (with `--predeclared`) stay, and so do
//! queues that do not go with their last consumer, as with PerfTest.

use super::link::{Closed, Link};
use super::moment::duration_s;
use super::options::{LeaderLocator, Objects, QUEUES_MAX};
use super::pairs;
use crate::io::read_bounded;
use anyhow::{Context, Result, bail, ensure};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wire::amqp091::methods::{exchange, queue};
use wire::amqp091::{Method, ShortStr, TableBuf};

/// A million names of 63 bytes, and their ends of lines.
const QUEUE_FILE_BYTES_MAX: u64 = 64 << 20;
/// Declarations on their way at one time.
const PIPELINE: usize = 500;
const NOT_FOUND: u16 = 404;
/// The limit that PerfTest declares streams with: a stream that one of the two has declared is the other's too.
const STREAM_BYTES_MAX: u64 = 20_000_000_000;
const STREAM_SEGMENT_BYTES_MAX: u64 = 500_000_000;
const MAX_LENGTH_BYTES: &str = "x-max-length-bytes";

/// Names of a run.
#[derive(Clone, Debug)]
pub(crate) struct Topology {
    /// Exchange; empty for the default one.
    pub(crate) exchange: String,
    exchange_type: String,
    queues: Vec<String>,
    reading: Reading,
    /// The key of everything, if it is not each queue's own name.
    key: Option<String>,
    arguments: TableBuf,
    auto_delete: bool,
    bind: bool,
    /// Whether everything is left in place at the end.
    stays: bool,
    /// The queues that existed before and must stay.
    kept_queues: Vec<String>,
    keep_exchange: bool,
    /// Queues of consumers that may outlive their connection.
    own: Arc<Mutex<Vec<String>>>,
}

/// Which queues a consumer reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// All of a list.
    List,
    /// One of a pattern or a file, in turn.
    Turns,
    /// One of its own, with a name from the server, as PerfTest does when no queue is named.
    Own { exclusive: bool },
}

impl Topology {
    /// The names that these options ask for.
    ///
    /// # Errors
    /// A name of more than 255 bytes, a pattern without `%d`, an argument without `=`, a file that cannot be read.
    pub(crate) fn new(options: &Objects, id: &str) -> Result<Self> {
        let queues = names(options)?;
        let exchange = options.exchange_name().to_owned();
        let own_names = exchange.is_empty() || options.takes_turns();
        let key = options.routing_key.clone().or_else(|| (!own_names).then(|| id.to_owned()));
        for name in queues.iter().chain(&key).chain([&exchange, &options.exchange_type]) {
            ensure!(name.len() <= 255, "a name of {} bytes, at most 255 are allowed: {name}", name.len());
        }
        let replicated = options.quorum_queue || options.stream_queue;
        Ok(Self {
            keep_exchange: exchange.is_empty() || exchange.starts_with("amq."),
            bind: !exchange.is_empty() && !options.skip_binding_queues,
            exchange,
            exchange_type: options.exchange_type.clone(),
            reading: match (options.takes_turns(), queues.is_empty()) {
                (true, _) => Reading::Turns,
                (false, false) => Reading::List,
                (false, true) => Reading::Own { exclusive: options.exclusive },
            },
            queues,
            own: Arc::default(),
            key,
            arguments: arguments(options)?,
            auto_delete: options.auto_delete.unwrap_or(true) && !replicated,
            stays: !options.clean_up
                && options.topology_only.is_none()
                && (replicated || options.auto_delete == Some(false)),
            kept_queues: Vec::new(),
        })
    }

    /// The queues that the n-th consumer reads: one of a pattern or a file, all of a list, none if it has one of its own.
    pub(crate) fn queues_of(&self, n: usize) -> &[String] {
        match self.reading {
            Reading::Turns => {
                let n = n % self.queues.len();
                &self.queues[n..=n]
            }
            Reading::List | Reading::Own { .. } => &self.queues,
        }
    }

    /// The routing key of the n-th publisher.
    pub(crate) fn routing_key(&self, n: usize) -> &str {
        match (&self.key, self.queues.len()) {
            (Some(key), _) => key,
            (None, 0) => "",
            (None, count) => &self.queues[n % count],
        }
    }

    /// The queues that the n-th consumer reads. One of its own is declared on this channel first, with its binding.
    ///
    /// # Errors
    /// The broker refuses something.
    pub(crate) fn queues_for(&self, link: &mut Link, channel: u16, n: usize) -> Result<Vec<String>> {
        match self.reading {
            Reading::Own { exclusive } => Ok(vec![self.declare_own(link, channel, n, exclusive)?]),
            Reading::List | Reading::Turns => Ok(self.queues_of(n).to_vec()),
        }
    }

    fn declare_own(&self, link: &mut Link, channel: u16, n: usize, exclusive: bool) -> Result<String> {
        let declare = queue::Declare {
            durable: !exclusive,
            exclusive,
            auto_delete: self.auto_delete,
            arguments: self.arguments.as_table(),
            ..Default::default()
        };
        link.send(channel, &[declare.into()])?;
        let name = match link.answer()?.1 {
            Method::QueueDeclareOk(answer) => answer.queue.str_lossy().into_owned(),
            method => bail!("{} instead of queue.declare-ok", method.name()),
        };
        if self.bind {
            let (queue, exchange) = (short(&name), short(&self.exchange));
            let routing_key = short(self.routing_key(n));
            link.send(channel, &[queue::Bind { queue, exchange, routing_key, ..Default::default() }.into()])?;
            link.expect(channel, "queue.bind-ok")?;
        }
        if !exclusive {
            self.own().push(name.clone());
        }
        Ok(name)
    }

    fn own(&self) -> MutexGuard<'_, Vec<String>> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many messages wait in all queues.
    ///
    /// # Errors
    /// The broker refuses something.
    pub(crate) fn ready_count(&self, link: &mut Link) -> Result<u64> {
        let mut ready = 0;
        let own = self.own().clone();
        for name in self.queues.iter().chain(&own) {
            let declare = queue::Declare { queue: short(name), passive: true, ..Default::default() };
            link.send(1, &[declare.into()])?;
            match link.answer()?.1 {
                Method::QueueDeclareOk(answer) => ready += u64::from(answer.message_count),
                method => bail!("{} instead of queue.declare-ok", method.name()),
            }
        }
        Ok(ready)
    }

    /// Declares exchange, queues and bindings; with `predeclared`, existing ones are taken as they are and remembered.
    ///
    /// # Errors
    /// The broker refuses something.
    pub(crate) fn declare(&mut self, connect: &dyn Fn() -> Result<Link>, predeclared: bool) -> Result<()> {
        if predeclared {
            self.look(connect)?;
        }
        self.declare_again(connect)
    }

    /// Declares once more what [`Topology::declare`] did: a broker that was away may have lost it.
    ///
    /// # Errors
    /// The broker refuses something.
    pub(crate) fn declare_again(&self, connect: &dyn Fn() -> Result<Link>) -> Result<()> {
        let mut link = connect()?;
        link.open_channels(1)?;
        if !self.keep_exchange {
            let (exchange, exchange_type) = (short(&self.exchange), short(&self.exchange_type));
            let declare = exchange::Declare { exchange, exchange_type, durable: true, ..Default::default() };
            link.send(1, &[declare.into()])?;
            link.expect(1, "exchange.declare-ok")
                .with_context(|| format!("declaring exchange {}", self.exchange))?;
        }
        let (arguments, auto_delete) = (self.arguments.as_table(), self.auto_delete);
        let fresh: Vec<Method<'_>> = self
            .fresh_queues()
            .map(|name| queue::Declare {
                queue: short(name),
                durable: true,
                auto_delete,
                arguments,
                ..Default::default()
            })
            .map(Method::from)
            .collect();
        pipelined(&mut link, &fresh, "queue.declare-ok")?;
        if self.bind {
            let bindings: Vec<Method<'_>> = (0..self.queues.len()).map(|n| self.binding(n)).collect();
            pipelined(&mut link, &bindings, "queue.bind-ok")?;
        }
        link.close()
    }

    fn binding(&self, n: usize) -> Method<'_> {
        let (queue, exchange, routing_key) =
            (short(&self.queues[n]), short(&self.exchange), short(self.routing_key(n)));
        queue::Bind { queue, exchange, routing_key, ..Default::default() }.into()
    }

    /// Deletes what [`Topology::declare`] created, unless it is to stay; an exchange that others have bound to since stays.
    ///
    /// # Errors
    /// The broker refuses something.
    pub(crate) fn delete(&self, connect: &dyn Fn() -> Result<Link>) -> Result<()> {
        if self.stays {
            return Ok(());
        }
        let mut link = connect()?;
        link.open_channels(1)?;
        let own = self.own().clone();
        let deletions: Vec<Method<'_>> = self
            .fresh_queues()
            .chain(&own)
            .map(|name| queue::Delete { queue: short(name), ..Default::default() }.into())
            .collect();
        pipelined(&mut link, &deletions, "queue.delete-ok")?;
        if !self.keep_exchange {
            let exchange = short(&self.exchange);
            link.send(1, &[exchange::Delete { exchange, if_unused: true, ..Default::default() }.into()])?;
            match link.expect(1, "exchange.delete-ok") {
                // In use: another run shares it.
                Err(error) if closed_with(&error).is_some_and(|closed| closed.channel > 0) => return Ok(()),
                outcome => outcome?,
            }
        }
        link.close()
    }

    /// Looks which of the names exist: each that does not costs a channel, since the broker closes it.
    fn look(&mut self, connect: &dyn Fn() -> Result<Link>) -> Result<()> {
        let exists = |method: Method<'_>, answer: &str| {
            let mut link = connect()?;
            link.open_channels(1)?;
            link.send(1, &[method])?;
            match link.expect(1, answer) {
                Ok(()) => link.close().map(|()| true),
                Err(error) if closed_with(&error).is_some_and(|closed| closed.code == NOT_FOUND) => Ok(false),
                Err(error) => Err(error),
            }
        };
        for name in &self.queues {
            let declare = queue::Declare { queue: short(name), passive: true, ..Default::default() };
            if exists(declare.into(), "queue.declare-ok")? {
                self.kept_queues.push(name.clone());
            }
        }
        if !self.keep_exchange {
            let (exchange, exchange_type) = (short(&self.exchange), short(&self.exchange_type));
            let declare = exchange::Declare { exchange, exchange_type, passive: true, ..Default::default() };
            self.keep_exchange = exists(declare.into(), "exchange.declare-ok")?;
        }
        Ok(())
    }

    fn fresh_queues(&self) -> impl Iterator<Item = &String> {
        self.queues.iter().filter(|name| !self.kept_queues.contains(name))
    }
}

/// Sends methods on channel 1, many at a time, and waits for an answer to each.
fn pipelined(link: &mut Link, methods: &[Method<'_>], answer: &str) -> Result<()> {
    for some in methods.chunks(PIPELINE) {
        link.send(1, some)?;
        for _ in some {
            link.expect(1, answer)?;
        }
    }
    Ok(())
}

fn closed_with(error: &anyhow::Error) -> Option<&Closed> {
    error.downcast_ref::<Closed>()
}

fn short(name: &str) -> ShortStr<'_> {
    ShortStr::bounded(name.as_bytes())
}

/// `%d`, or `%05d` for five digits, replaced by the number.
fn expand(pattern: &str, number: u32) -> Result<String> {
    let expanded = pattern.split_once('%').and_then(|(before, rest)| {
        let (width, after) = rest.split_once('d')?;
        let width =
            if width.is_empty() { 0 } else { width.parse::<usize>().ok().filter(|width| *width < 100)? };
        Some(format!("{before}{number:0width$}{after}"))
    });
    expanded.with_context(|| format!("the pattern {pattern} has no %d"))
}

/// Names of the queues; none if consumers have queues of their own.
fn names(options: &Objects) -> Result<Vec<String>> {
    if options.exclusive {
        return Ok(Vec::new());
    }
    if let Some(path) = &options.queue_file {
        let text = String::from_utf8(read_bounded(path, QUEUE_FILE_BYTES_MAX)?)
            .with_context(|| format!("{} is no text", path.display()))?;
        let names: Vec<String> =
            text.lines().map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
        ensure!(!names.is_empty(), "{} has no names of queues, one a line", path.display());
        ensure!(
            names.len() <= QUEUES_MAX as usize,
            "{} names {} queues, at most {QUEUES_MAX} are used",
            path.display(),
            names.len()
        );
        return Ok(names);
    }
    match (&options.queue_pattern, options.queue_pattern_to) {
        (Some(pattern), Some(to)) => {
            let numbers = options.queue_pattern_from..=to;
            numbers.map(|number| expand(pattern, number)).collect()
        }
        // No name, as from an empty variable, is none: the server gives one.
        _ => Ok(options.queue.iter().filter(|name| !name.is_empty()).cloned().collect()),
    }
}

/// Arguments of the queues: those of options of their own, then of `--queue-args` what these leave open, as with PerfTest.
fn arguments(options: &Objects) -> Result<TableBuf> {
    let mut table = TableBuf::new();
    if options.quorum_queue {
        table.push_str("x-queue-type", "quorum");
    }
    if options.stream_queue {
        table.push_str("x-queue-type", "stream");
    }
    match options.leader_locator {
        Some(LeaderLocator::ClientLocal) => drop(table.push_str("x-queue-leader-locator", "client-local")),
        Some(LeaderLocator::Balanced) => drop(table.push_str("x-queue-leader-locator", "balanced")),
        None => {}
    }
    let of_streams = |bytes| options.stream_queue.then_some(bytes);
    let length = options.max_length_bytes.or_else(|| of_streams(STREAM_BYTES_MAX));
    let segment = options.stream_max_segment_size_bytes.or_else(|| of_streams(STREAM_SEGMENT_BYTES_MAX));
    for (name, bytes) in [(MAX_LENGTH_BYTES, length), ("x-stream-max-segment-size-bytes", segment)] {
        if let Some(bytes) = bytes.filter(|bytes| *bytes > 0) {
            table.push_i64(name, i64::try_from(bytes).with_context(|| format!("{name} is too large"))?);
        }
    }
    if let Some(age) = &options.max_age {
        table.push_str("x-max-age", format!("{}s", duration_s(age)?));
    }
    let is_open =
        |name: &str| table.as_table().get(name).is_none() && (name != MAX_LENGTH_BYTES || length.is_none());
    let open = |pair: &&String| is_open(pair.split_once('=').map_or(pair.as_str(), |(name, _)| name));
    let pairs: Vec<String> = options.queue_args.iter().filter(open).cloned().collect();
    pairs::add_to(&mut table, &pairs)?;
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::options::Options;
    use std::ffi::OsString;

    fn topology(line: &str) -> Result<Topology> {
        let options = Options::parse_args(line.split_whitespace().map(OsString::from)).unwrap();
        Topology::new(&options.objects, "id")
    }

    #[test]
    fn a_pattern_spreads_publishers_and_consumers_over_its_queues() {
        let topology = topology("-qp q-%03d -qpf 9 -qpt 10").unwrap();
        assert_eq!([0, 1, 2].map(|n| topology.queues_of(n)[0].as_str()), ["q-009", "q-010", "q-009"]);
        assert_eq!(topology.routing_key(3), "q-010");
    }

    #[test]
    fn queues_of_a_file_are_taken_in_turn_with_their_names_as_keys() {
        let path = std::env::temp_dir().join(format!("warren-perf-queues-{}", std::process::id()));
        std::fs::write(&path, "one\n\n two\n").unwrap();
        let topology = topology(&format!("-qf {}", path.display())).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!([0, 1, 2].map(|n| topology.queues_of(n)), [["one"], ["two"], ["one"]]);
        assert_eq!((topology.routing_key(1), topology.exchange.as_str()), ("two", "direct"));
    }

    #[test]
    fn consumers_without_a_named_queue_have_one_of_their_own() {
        let reading = |line: &str| topology(line).unwrap().reading;
        assert_eq!(reading("-y 3"), Reading::Own { exclusive: false });
        assert_eq!(reading("-E"), Reading::Own { exclusive: true });
        assert_eq!(reading("-u a"), Reading::List);
        assert_eq!(topology("-y 3").unwrap().routing_key(2), "id");
        assert_eq!(reading("--queue="), Reading::Own { exclusive: false });
    }

    #[test]
    fn each_consumer_reads_all_queues_of_a_list() {
        let topology = topology("-u a,b").unwrap();
        assert_eq!(topology.queues_of(5), ["a", "b"]);
    }

    #[test]
    fn without_a_pattern_the_key_is_one_for_all_and_in_the_default_exchange_the_queue() {
        assert_eq!(topology("-u a,b").unwrap().routing_key(1), "id");
        assert_eq!(topology("-u a -k k").unwrap().routing_key(1), "k");
        let default = Options::parse_args(["-u", "a", "-e", ""].map(OsString::from)).unwrap();
        let default = Topology::new(&default.objects, "id").unwrap();
        assert_eq!(default.routing_key(5), "a");
        assert!(!default.bind && default.keep_exchange);
    }

    #[test]
    fn queues_that_do_not_go_by_themselves_stay_unless_cleaning_up_is_asked_for() {
        let stays = |line: &str| topology(line).unwrap().stays;
        assert_eq!(
            ["", "-ad true", "-ad false", "-ad false --clean-up"].map(stays),
            [false, false, true, false]
        );
        assert_eq!(["-qq", "-sq --clean-up", "-qq --topology-only delete"].map(stays), [true, false, false]);
    }

    #[test]
    fn streams_are_declared_as_perf_test_declares_them_and_options_win_over_arguments() {
        let sizes = |line: &str| {
            let arguments = topology(line).unwrap().arguments;
            ["x-max-length-bytes", "x-stream-max-segment-size-bytes"].map(|name| {
                match arguments.as_table().get(name)? {
                    wire::amqp091::Value::I64(bytes) => Some(bytes),
                    other => panic!("{name} is {other:?}"),
                }
            })
        };
        const ARGS: &str = "-qa x-max-length-bytes=5,x-stream-max-segment-size-bytes=7";
        let (length, segment) = (Some(20_000_000_000), Some(500_000_000));
        assert_eq!(sizes("-sq"), [length, segment]);
        assert_eq!(sizes("-sq -mlb 0"), [None, segment]);
        assert_eq!(sizes("-sq -mlb 10 -smssb 20"), [Some(10), Some(20)]);
        assert_eq!(sizes(&format!("-sq {ARGS}")), [length, segment]);
        assert_eq!(sizes(&format!("-sq -mlb 0 {ARGS}")), [None, segment]);
        assert_eq!(sizes(&format!("-mlb 10 {ARGS}")), [Some(10), Some(7)]);
        assert_eq!((sizes(""), sizes("-qq")), ([None, None], [None, None]));
        let named = topology("-qq -qa x-queue-type=classic,x-y=5").unwrap().arguments;
        assert_eq!(named.as_table().get("x-queue-type"), Some(wire::amqp091::Value::LongStr(b"quorum")));
        assert_eq!(named.as_table().get("x-y"), Some(wire::amqp091::Value::I64(5)));
    }

    #[test]
    fn impossible_names_and_arguments_are_refused() {
        assert!(topology("-qp q-%x -qpt 1").is_err());
        assert!(topology(&format!("-u {}", "q".repeat(256))).is_err());
        assert!(topology("-qa x-max-length").is_err() && topology("--queue-args=").is_ok());
        assert!(topology("-ma 5m").is_err());
        assert!(topology("-qf /no/such/file").unwrap_err().to_string().contains("/no/such/file"));
        let all = topology("-sq -ma PT1M -mlb 10 -smssb 20 -ll balanced -qa x-y=5").unwrap().arguments;
        let text = |name| all.as_table().get(name);
        assert_eq!(text("x-max-age"), Some(wire::amqp091::Value::LongStr(b"60s")));
        assert_eq!(text("x-queue-type"), Some(wire::amqp091::Value::LongStr(b"stream")));
    }
}
