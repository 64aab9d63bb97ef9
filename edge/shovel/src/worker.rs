//! One shovel from its start to its end: connects, declares, forwards, and begins anew after a pause when a side fails.
//!
//! Refuses to know parameters but for deleting its own when all is moved.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use broker::{Broker, on_behalf_of};
use metadata::{ClearParameter, Command};
use tokio::sync::watch;
use wire::amqp091::Table;

use crate::amqp10::{Filters, Port10, Wish};
use crate::client::{Consuming, LinkError};
use crate::connect::{Local, connect};
use crate::definition::{AckMode, Amount, Definition, From, Protocol, To, Topology};
use crate::forward::{Ended, Failed, Forwarder, Side};
use crate::headers::{Passage, Stamps};
use crate::port::Port;
use crate::standing::Standing;
use crate::status::State;
use crate::uri::Uri;

/// The component of runtime parameters of shovels.
pub(crate) const COMPONENT: &str = "shovel";

/// The user who deletes a shovel that is done, in RabbitMQ's words.
const ACTOR: &str = "rmq-shovel";

/// Vhost and name of a shovel's parameter.
pub(crate) type Key = (String, String);

/// A shovel at work.
pub(crate) struct Worker {
    pub(crate) key: Key,
    pub(crate) definition: Arc<Definition>,
    pub(crate) broker: Broker,
    pub(crate) local: Local,
    pub(crate) standing: Standing,
    pub(crate) stop: watch::Receiver<bool>,
}

/// Two links with everything set up.
struct Connected {
    source: (Port, Uri),
    destination: (Port, Uri),
    /// The most messages to move, for a shovel with an end.
    length: Option<u64>,
}

impl Worker {
    /// Works until it is stopped, or until all is moved or its time is over: then its parameter is deleted.
    pub(crate) async fn run(mut self) {
        let lifetime = self.definition.source.lifetime;
        let over = async move {
            match lifetime {
                Some(lifetime) => tokio::time::sleep(lifetime).await,
                None => std::future::pending().await,
            }
        };
        let (end, ending) = watch::channel(false);
        let mut stop = std::mem::replace(&mut self.stop, ending);
        let (mut is_stopped, mut is_over) = (false, false);
        let ended = {
            let (mut over, mut work) = (pin!(over), pin!(self.work()));
            loop {
                tokio::select! {
                    ended = &mut work => break ended,
                    () = &mut over, if !is_over => is_over = true,
                    _ = stop.wait_for(|stop| *stop), if !is_stopped => is_stopped = true,
                }
                end.send_replace(true);
            }
        };
        if !is_stopped && (is_over || ended == Ended::Done) {
            self.delete().await;
        }
    }

    /// Life after life, until one ends in order or there is to be no other.
    async fn work(&mut self) -> Ended {
        let mut left = None;
        for attempt in 0.. {
            let began = Instant::now();
            match self.live(attempt, &mut left).await {
                Ok(ended) => return ended,
                Err(failed) => self.failed(&failed, began),
            }
            let pause = self.definition.reconnect_delay.unwrap_or(Duration::MAX);
            let stopped = tokio::time::timeout(pause, self.stop.wait_for(|stop| *stop)).await;
            if stopped.is_ok() {
                break;
            }
        }
        Ended::Stopped
    }

    fn failed(&self, failed: &Failure, began: Instant) {
        let (vhost, name) = &self.key;
        let reason = failed.to_string();
        tracing::warn!(vhost, name, after_ms = began.elapsed().as_millis(), "shovel: {reason}");
        self.standing.becomes(State::Terminated { reason });
    }

    /// One life: from connecting to an end.
    async fn live(&mut self, attempt: usize, left: &mut Option<u64>) -> Result<Ended, Failure> {
        let mut stop = self.stop.clone();
        let connected = tokio::select! {
            connected = self.connect(attempt) => connected?,
            _ = stop.wait_for(|stop| *stop) => return Ok(Ended::Stopped),
        };
        let Connected { source: (source, source_uri), destination: (destination, destination_uri), length } =
            connected;
        *left = match self.definition.source.amount {
            Amount::Unlimited => None,
            Amount::Messages(count) => Some(left.unwrap_or(count)),
            // Messages that came after the start are not asked for; messages that somebody else took will not come.
            Amount::QueueLength => Some(left.unwrap_or(u64::MAX).min(length.unwrap_or(0))),
        };
        let (vhost, name) = &self.key;
        let passage = Passage {
            name,
            vhost,
            cluster: &self.broker.cluster_name(),
            source_uri: source_uri.shown(),
            destination_uri: destination_uri.shown(),
        };
        let stamps = Stamps::new(&self.definition, &passage);
        let mut forwarder = Forwarder::new((source, destination), self.definition.clone(), stamps, *left);
        let standing = self.standing.clone();
        let show_progress = |forwarder: &Forwarder| {
            standing.becomes(State::Running(forwarder.progress(source_uri.shown(), destination_uri.shown())));
        };
        tracing::info!(
            vhost,
            name,
            source = source_uri.shown(),
            destination = destination_uri.shown(),
            "shovel: running"
        );
        let ended = forwarder.run(&mut stop, show_progress).await;
        *left = forwarder.left.map(|left| left.unsettled);
        ended.map_err(Failure::Running)
    }

    async fn connect(&self, attempt: usize) -> Result<Connected, Failure> {
        let definition = &*self.definition;
        let (source, destination) = (&definition.source, &definition.destination);
        let speaks = source.from.protocol();
        let (mut source, source_uri) = self.reach(Side::Source, (&source.uris, speaks), attempt).await?;
        let speaks = destination.to.protocol();
        let (mut destination, destination_uri) =
            self.reach(Side::Destination, (&destination.uris, speaks), attempt).await?;
        self.prepare_destination(&mut destination)
            .await
            .map_err(|error| Failure::topology(Side::Destination, error))?;
        let prepared = self.prepare_source(&mut source).await;
        let length = prepared.map_err(|error| Failure::topology(Side::Source, error))?;
        Ok(Connected { source: (source, source_uri), destination: (destination, destination_uri), length })
    }

    /// The first URI that answers, beginning with another one at every attempt.
    async fn reach(
        &self,
        side: Side,
        (uris, protocol): (&[Uri], Protocol),
        attempt: usize,
    ) -> Result<(Port, Uri), Failure> {
        let (vhost, name) = &self.key;
        let mut last = None;
        for at in 0..uris.len() {
            let uri = &uris[(attempt + at) % uris.len()];
            match connect((uri, protocol), vhost, &format!("Shovel {name}"), &self.local).await {
                Ok(port) => return Ok((port, uri.clone())),
                Err(error) => last = Some(Failure::Connecting { side, uri: uri.shown().to_owned(), error }),
            }
        }
        Err(last.unwrap_or(Failure::NoUri(side)))
    }

    /// Attaches the link to a node of AMQP 1.0; its queue is declared first, if that is wanted.
    async fn attach(
        &self,
        port: &mut Port10,
        (address, topology): (&str, Topology),
        filters: Option<&Filters>,
    ) -> Result<(), LinkError> {
        let is_queue = address.strip_prefix("/queues/").is_some_and(|name| !name.contains('/'));
        if topology == Topology::Declared && is_queue {
            port.declare(address).await?;
        }
        let (vhost, name) = &self.key;
        let chosen = &self.definition.source.consumer_tag;
        let end = if filters.is_some() { "receiver" } else { "sender" };
        let own = format!("shovel {vhost} {name} {end}");
        let mode = self.definition.ack_mode;
        let wish = Wish {
            name: if filters.is_some() && !chosen.is_empty() { chosen } else { &own },
            address,
            settled: if filters.is_some() { mode == AckMode::NoAck } else { mode != AckMode::OnConfirm },
            filters,
        };
        port.attach(&wish).await
    }

    async fn prepare_destination(&self, port: &mut Port) -> Result<(), LinkError> {
        let destination = &self.definition.destination;
        let link = match (port, &destination.to) {
            (Port::Amqp10(port), To::Address(address)) => {
                return self.attach(port, (address, destination.topology), None).await;
            }
            (port, _) => port.link(),
        };
        if let To::Queue(name) = &destination.to {
            match destination.topology {
                Topology::Predeclared => link.queue_length(name).await?,
                Topology::Declared => {
                    link.ensure_queue(name, Table::from_raw(&destination.queue_arguments)).await?
                }
            };
        }
        if self.definition.ack_mode == AckMode::OnConfirm {
            link.select_confirms().await?;
        }
        Ok(())
    }

    /// Gives the length of the queue.
    async fn prepare_source(&self, port: &mut Port) -> Result<Option<u64>, LinkError> {
        let source = &self.definition.source;
        let link = match (port, &source.from) {
            (Port::Amqp10(port), From::Address(address)) => {
                let filters = Filters::of(Table::from_raw(&source.consumer_arguments));
                self.attach(port, (address, source.topology), Some(&filters)).await?;
                port.ask_for(source.prefetch_count);
                return Ok(None);
            }
            (port, _) => port.link(),
        };
        let arguments = Table::from_raw(&source.queue_arguments);
        let (queue, length) = match (&source.from, source.topology) {
            (From::Queue(name), Topology::Predeclared) => (name.clone(), link.queue_length(name).await?),
            (From::Queue(name), Topology::Declared) => {
                (name.clone(), link.ensure_queue(name, arguments).await?)
            }
            (From::Exchange { name, key }, _) => (link.queue_of_exchange(name, key, arguments).await?, 0),
            (From::Address(_), _) => unreachable!("addresses are reached by AMQP 1.0"),
        };
        let consuming = Consuming {
            queue: &queue,
            tag: &source.consumer_tag,
            prefetch_count: source.prefetch_count,
            no_ack: self.definition.ack_mode == AckMode::NoAck,
            arguments: Table::from_raw(&source.consumer_arguments),
        };
        if !(source.amount == Amount::QueueLength && length == 0) {
            link.consume(&consuming).await?;
        }
        Ok(Some(length))
    }

    /// All is moved: the parameter goes, and with it the shovel.
    async fn delete(self) {
        let (vhost, name) = self.key;
        tracing::info!(vhost, name, "shovel: everything is moved, it deletes itself");
        let clear = ClearParameter {
            vhost: vhost.as_bytes().into(),
            component: COMPONENT.into(),
            name: name.as_str().into(),
        };
        let broker = self.broker;
        let cleared = tokio::task::spawn_blocking(move || {
            on_behalf_of(ACTOR, || broker.apply(Command::ClearParameter(clear)))?.wait()
        });
        match cleared.await {
            Ok(Ok(_)) => {}
            Ok(Err(refused)) => {
                tracing::warn!(vhost, name, ?refused, "the parameter of a shovel could not be deleted");
            }
            Err(error) => tracing::error!(%error, "deleting the parameter of a shovel has failed"),
        }
    }
}

/// Why a life ended.
#[derive(Debug)]
enum Failure {
    Connecting { side: Side, uri: String, error: LinkError },
    Topology { side: Side, error: LinkError },
    Running(Failed),
    NoUri(Side),
}

impl Failure {
    fn topology(side: Side, error: LinkError) -> Failure {
        Failure::Topology { side, error }
    }
}

/// RabbitMQ's words, and then what has happened.
impl std::fmt::Display for Failure {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Connecting { side, uri, error } => {
                write!(out, "failed to connect to {}: {uri}: {error}", side.name())
            }
            Failure::Topology { side, error } => {
                write!(out, "failed to set up topology at the {}: {error}", side.name())
            }
            Failure::Running(Failed { side, error }) => {
                write!(out, "{} connection lost: {error}", side.name())
            }
            Failure::NoUri(side) => write!(out, "the {} has no URI", side.name()),
        }
    }
}
