//! Which queues and exchange a run uses, who uses which, and declaring and deleting them.
//!
//! Queues are declared durable, unlike PerfTest's: RabbitMQ 4.3 refuses transient ones that are not exclusive, and for
//! transient messages a durable classic queue costs the same. What already existed (with `--predeclared`) stays.

use super::link::{Closed, Link};
use super::options::Options;
use anyhow::{Context, Result, ensure};
use wire::amqp091::methods::{exchange, queue};
use wire::amqp091::{Method, ShortStr, TableBuf};

/// Declarations on their way at one time.
const PIPELINE: usize = 500;
const NOT_FOUND: u16 = 404;

/// Names of a run.
#[derive(Clone, Debug)]
pub(crate) struct Topology {
    /// Exchange; empty for the default one.
    pub(crate) exchange: String,
    exchange_type: String,
    queues: Vec<String>,
    /// The key of everything, if it is not each queue's own name.
    key: Option<String>,
    arguments: TableBuf,
    auto_delete: bool,
    bind: bool,
    /// What existed before and must stay.
    kept_queues: Vec<String>,
    keep_exchange: bool,
}

impl Topology {
    /// The names that these options ask for.
    ///
    /// # Errors
    /// A name of more than 255 bytes, a pattern without `%d`, an argument without `=`.
    pub(crate) fn new(options: &Options, id: &str) -> Result<Self> {
        let queues = match (&options.queue_pattern, options.queue_pattern_to) {
            (Some(pattern), Some(to)) => {
                let numbers = options.queue_pattern_from..=to;
                numbers.map(|number| expand(pattern, number)).collect::<Result<_>>()?
            }
            _ if options.queue.is_empty() => vec![id.to_owned()],
            _ => options.queue.clone(),
        };
        let exchange = options.exchange.clone();
        let own_names = exchange.is_empty() || options.queue_pattern.is_some();
        let key = options.routing_key.clone().or_else(|| (!own_names).then(|| id.to_owned()));
        for name in queues.iter().chain(&key).chain([&exchange, &options.exchange_type]) {
            ensure!(name.len() <= 255, "a name of {} bytes, at most 255 are allowed: {name}", name.len());
        }
        Ok(Self {
            keep_exchange: exchange.is_empty() || exchange.starts_with("amq."),
            bind: !exchange.is_empty() && !options.skip_binding_queues,
            exchange,
            exchange_type: options.exchange_type.clone(),
            queues,
            key,
            arguments: arguments(&options.queue_args)?,
            auto_delete: options.auto_delete,
            kept_queues: Vec::new(),
        })
    }

    /// The queue that the n-th consumer reads.
    pub(crate) fn queue(&self, n: usize) -> &str {
        &self.queues[n % self.queues.len()]
    }

    /// The routing key of the n-th publisher.
    pub(crate) fn routing_key(&self, n: usize) -> &str {
        self.key.as_deref().unwrap_or_else(|| self.queue(n))
    }

    /// Declares exchange, queues and bindings; with `predeclared`, what exists is taken as it is and remembered.
    ///
    /// # Errors
    /// The broker refuses something.
    pub(crate) fn declare(&mut self, connect: &dyn Fn() -> Result<Link>, predeclared: bool) -> Result<()> {
        if predeclared {
            self.look(connect)?;
        }
        let mut link = connect()?;
        link.open_channels(1)?;
        if !self.keep_exchange {
            let (exchange, exchange_type) = (short(&self.exchange), short(&self.exchange_type));
            link.send(1, &[exchange::Declare { exchange, exchange_type, ..Default::default() }.into()])?;
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
            (short(self.queue(n)), short(&self.exchange), short(self.routing_key(n)));
        queue::Bind { queue, exchange, routing_key, ..Default::default() }.into()
    }

    /// Deletes what [`Topology::declare`] created; an exchange that others have bound to since stays.
    ///
    /// # Errors
    /// The broker refuses something.
    pub(crate) fn delete(&self, connect: &dyn Fn() -> Result<Link>) -> Result<()> {
        let mut link = connect()?;
        link.open_channels(1)?;
        let deletions: Vec<Method<'_>> = self
            .fresh_queues()
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

fn arguments(pairs: &[String]) -> Result<TableBuf> {
    let mut table = TableBuf::new();
    for pair in pairs {
        let (name, value) = pair.split_once('=').with_context(|| format!("the argument {pair} has no ="))?;
        ensure!(name.len() <= 255, "an argument's name of {} bytes, at most 255 are allowed", name.len());
        match value.parse() {
            Ok(number) => table.push_i64(name, number),
            Err(_) => table.push_str(name, value),
        };
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    fn topology(line: &str) -> Result<Topology> {
        let options = Options::parse_args(line.split_whitespace().map(OsString::from)).unwrap();
        Topology::new(&options, "id")
    }

    #[test]
    fn a_pattern_spreads_publishers_and_consumers_over_its_queues() {
        let topology = topology("-qp q-%03d -qpf 9 -qpt 10").unwrap();
        assert_eq!((topology.queue(0), topology.queue(1), topology.queue(2)), ("q-009", "q-010", "q-009"));
        assert_eq!(topology.routing_key(3), "q-010");
    }

    #[test]
    fn without_a_pattern_the_key_is_one_for_all_and_in_the_default_exchange_the_queue() {
        assert_eq!(topology("-u a,b").unwrap().routing_key(1), "id");
        assert_eq!(topology("-u a -k k").unwrap().routing_key(1), "k");
        let default = Options::parse_args(["-u", "a", "-e", ""].map(OsString::from)).unwrap();
        let default = Topology::new(&default, "id").unwrap();
        assert_eq!(default.routing_key(5), "a");
        assert!(!default.bind && default.keep_exchange);
    }

    #[test]
    fn impossible_names_and_arguments_are_refused() {
        assert!(topology("-qp q-%x -qpt 1").is_err());
        assert!(topology(&format!("-u {}", "q".repeat(256))).is_err());
        assert!(topology("-qa x-max-length").is_err());
        assert!(topology("-qa x-max-length=5,x-queue-type=quorum").is_ok());
    }
}
