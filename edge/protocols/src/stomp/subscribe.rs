//! SUBSCRIBE and UNSUBSCRIBE: which queue, how it is declared and bound, and the end of it. Queues for replies, which SEND asks for.
//!
//! Refuses to know how messages are written.

use std::sync::Arc;

use broker::Queue;
use wire::amqp091::{SHORT_STR_BYTES_MAX, TableBuf};
use wire::stomp::Headers;

use super::deliver::{AckMode, Subscription};
use super::destination::{Destination, escape, not_for};
use super::errors::Trouble;
use super::headers::{consumer_arguments, flag, number, queue_arguments};
use super::running::{Done, Handled, Running};
use super::work::{Consumption, Declaration, Work};
use crate::unacked::Unacked;

/// Subscriptions of one connection, at most.
const SUBSCRIPTIONS_MAX: usize = 4_096;

/// A subscription's tag has at most so many bytes: two before the client's id or destination.
const TAG_BYTES_MAX: usize = 1_026;

/// Begins the names of queues that are made for subscriptions to exchanges.
const SUBSCRIPTION_QUEUES: &[u8] = b"stomp-subscription-";

/// A subscription that is to be made.
pub(crate) struct Wanted {
    /// `None` for a queue that must be there.
    declaration: Option<Declaration>,
    /// The queue, if it is not declared.
    queue: Box<[u8]>,
    /// Exchange and key to bind it to.
    binding: Option<(Box<[u8]>, Box<[u8]>)>,
    consumption: Consumption,
    receipt: Option<Box<[u8]>>,
    /// The name of the queue for replies that this is.
    temp_queue: Option<Box<[u8]>>,
}

/// A subscription that was made.
pub(crate) struct Subscribed {
    pub(crate) token: u32,
    pub(crate) queue: Arc<Queue>,
    pub(crate) receipt: Option<Box<[u8]>>,
    pub(crate) temp_queue: Option<Box<[u8]>>,
    /// The queue of `/queue/NAME` that was declared.
    pub(crate) declared: Option<Box<[u8]>>,
}

/// Makes it. The consumer is paused.
pub(crate) async fn subscribe(work: Arc<Work>, wanted: Wanted) -> Result<Subscribed, Trouble> {
    let Wanted { declaration, mut queue, binding, consumption, receipt, temp_queue } = wanted;
    let mut declared = None;
    if let Some(declaration) = declaration {
        queue = work.declare(&declaration).await?;
        declared = (binding.is_none() && temp_queue.is_none()).then(|| queue.clone());
    }
    if let Some((exchange, key)) = binding {
        work.bind(&queue, &exchange, &key).await?;
    }
    let queue = work.consume(&queue, &consumption).await?;
    Ok(Subscribed { token: consumption.token, queue, receipt, temp_queue, declared })
}

/// The tag of a subscription, and the id that the client gave it.
fn tag_of(headers: Headers<'_>) -> Option<(Box<[u8]>, Option<Box<[u8]>>)> {
    if let Some(id) = headers.get(b"id") {
        return Some(([b"T_", &*id].concat().into(), Some(id.into())));
    }
    let destination = headers.get(b"destination")?;
    Some(([b"Q_", &*destination].concat().into(), None))
}

/// The name of the queue of a subscription that outlives its connection, of destination and id: the first slash parts them.
fn lasting_name(destination: &[u8], id: &[u8]) -> Result<Box<[u8]>, Trouble> {
    let mut name = SUBSCRIPTION_QUEUES.to_vec();
    escape(id, &mut name);
    name.extend_from_slice(destination);
    if name.len() > SHORT_STR_BYTES_MAX {
        return Err(Trouble::told(
            "Invalid header",
            "destination and id are too long for a durable subscription\n",
        ));
    }
    Ok(name.into())
}

/// Whether a subscription is to outlive its connection.
fn is_lasting(headers: Headers<'_>) -> Result<bool, Trouble> {
    Ok(flag(headers, "durable")?.or(flag(headers, "persistent")?).unwrap_or(false))
}

/// The queue of `/queue/NAME`, with the properties that headers give it.
pub(crate) fn named_queue(name: Box<[u8]>, headers: Headers<'_>) -> Result<Declaration, Trouble> {
    let durable = flag(headers, "durable")?.unwrap_or(true);
    let exclusive = flag(headers, "exclusive")?.unwrap_or(!durable);
    Ok(Declaration {
        name,
        durable: durable && !exclusive,
        exclusive,
        auto_delete: flag(headers, "auto-delete")?.unwrap_or(!durable),
        arguments: queue_arguments(headers)?,
    })
}

/// The queue of a subscription to an exchange.
fn bound_queue(destination: &[u8], headers: Headers<'_>) -> Result<Declaration, Trouble> {
    let lasts = is_lasting(headers)?;
    let id = headers.get(b"id");
    let name = match (headers.get(b"x-queue-name"), lasts, &id) {
        (Some(name), ..) => name.into(),
        (None, true, Some(id)) => lasting_name(destination, id)?,
        (None, true, None) => {
            return Err(Trouble::told("Missing Header", "Header 'id' is required for durable subscriptions"));
        }
        // The broker makes a name that nobody else has.
        (None, false, _) => Box::default(),
    };
    let exclusive = flag(headers, "exclusive")?.unwrap_or(!lasts);
    Ok(Declaration {
        name,
        durable: lasts && !exclusive,
        exclusive,
        auto_delete: flag(headers, "auto-delete")?.unwrap_or(true),
        arguments: queue_arguments(headers)?,
    })
}

impl Running {
    /// SUBSCRIBE.
    pub(crate) fn subscribe(&mut self, headers: Headers<'_>) -> Result<Handled, Trouble> {
        let missing =
            || Trouble::told("Missing destination", "\"SUBSCRIBE\" must include a 'destination' header\n");
        let destination = headers.get(b"destination").ok_or_else(missing)?;
        let (tag, id) = tag_of(headers).ok_or_else(missing)?;
        let mode = match headers.get(b"ack").as_deref() {
            None | Some(b"auto") => AckMode::Auto,
            Some(b"client") => AckMode::Client,
            Some(b"client-individual") => AckMode::Individual,
            Some(_) => return Err(Trouble::invalid_value("ack")),
        };
        let topics = self.work.settings.topic_exchange.as_bytes();
        let (declaration, queue, binding) = match Destination::parse(&destination)? {
            // As in RabbitMQ, a connection declares a queue once.
            Destination::Queue(name) if self.has_declared(&name) => (None, name, None),
            Destination::Queue(name) => (Some(named_queue(name, headers)?), Box::default(), None),
            Destination::Existing(name) => (None, name, None),
            Destination::Topic(key) => {
                (Some(bound_queue(&destination, headers)?), Box::default(), Some((topics.into(), key)))
            }
            Destination::Exchange(name, key) => {
                (Some(bound_queue(&destination, headers)?), Box::default(), Some((name, key)))
            }
            Destination::TempQueue => return Err(not_for(&destination, "SUBSCRIBE")),
        };
        let arguments = consumer_arguments(headers)?;
        let prefetch = number(headers, "prefetch-count")?.unwrap_or(0);
        let priority = number(headers, "x-priority")?.unwrap_or(0);
        let receipt = headers.get(b"receipt").map(Into::into);
        let token = self.add_subscription(tag.clone(), id, mode)?;
        let ack_required = mode != AckMode::Auto;
        let consumption = Consumption { token, tag, ack_required, prefetch, priority, arguments };
        self.submit();
        let wanted = Wanted { declaration, queue, binding, consumption, receipt, temp_queue: None };
        let work = self.work.clone();
        Ok(Handled::Waits(Box::pin(async move { Done::Subscribed(subscribe(work, wanted).await) })))
    }

    /// A queue for replies to this connection, under the name that the client gives it.
    pub(crate) fn make_temp_queue(&mut self, name: &[u8]) -> Result<Handled, Trouble> {
        let tag: Box<[u8]> = [b"T_", name].concat().into();
        let token = self.add_subscription(tag.clone(), Some(name.into()), AckMode::Auto)?;
        let declaration = Declaration { exclusive: true, auto_delete: true, ..Declaration::default() };
        let arguments = TableBuf::new();
        let consumption =
            Consumption { token, tag, ack_required: false, prefetch: 0, priority: 0, arguments };
        let wanted = Wanted {
            declaration: Some(declaration),
            queue: Box::default(),
            binding: None,
            consumption,
            receipt: None,
            temp_queue: Some(name.into()),
        };
        let work = self.work.clone();
        Ok(Handled::Prepares(Box::pin(async move { Done::Subscribed(subscribe(work, wanted).await) })))
    }

    fn add_subscription(
        &mut self,
        tag: Box<[u8]>,
        id: Option<Box<[u8]>>,
        mode: AckMode,
    ) -> Result<u32, Trouble> {
        if self.by_tag.contains_key(&tag) {
            let text =
                format!("A subscription identified by '{}' already exists.", String::from_utf8_lossy(&tag));
            return Err(Trouble::ending("Duplicated subscription identifier", text));
        }
        if tag.len() > TAG_BYTES_MAX {
            let text = format!("the id of a subscription has at most {} bytes\n", TAG_BYTES_MAX - 2);
            return Err(Trouble::told("Invalid header", text));
        }
        if self.by_tag.len() >= SUBSCRIPTIONS_MAX {
            let text = format!("a connection has at most {SUBSCRIPTIONS_MAX} subscriptions\n");
            return Err(Trouble::told("Too many subscriptions", text));
        }
        self.token_latest = self.token_latest.checked_add(1).expect("fewer than 4 billion subscriptions");
        let token = self.token_latest;
        self.by_tag.insert(tag.clone(), token);
        let subscription = Subscription { tag, id, mode, unacked: Unacked::default(), paused: false };
        self.work.with_side(|side| side.subscriptions.insert(token, subscription));
        Ok(token)
    }

    /// A subscription was made: its messages may come.
    pub(crate) fn subscribed(&mut self, subscribed: Subscribed) {
        let Subscribed { token, queue, receipt, temp_queue, declared } = subscribed;
        if let Some(name) = declared {
            self.declared(name);
        }
        if let Some(name) = temp_queue {
            self.temp_queues.insert(name, queue.name().into());
        }
        self.settlements.attach(token, queue.clone(), Some(self.work.consumer(token)));
        if let Some(receipt) = receipt {
            self.write_receipt(&receipt);
        }
        queue.resume(self.work.consumer(token));
        self.count_consumers();
    }

    /// UNSUBSCRIBE. What is not acknowledged goes back to the queue.
    pub(crate) fn unsubscribe(&mut self, headers: Headers<'_>) -> Result<Handled, Trouble> {
        let missing = || {
            Trouble::told(
                "Missing destination or id",
                "UNSUBSCRIBE must include a 'destination' or 'id' header",
            )
        };
        let (tag, _) = tag_of(headers).ok_or_else(missing)?;
        let ends = is_lasting(headers)?;
        let Some(token) = self.by_tag.get(&tag).copied() else { return Err(no_subscription(headers)) };
        let receipt: Option<Box<[u8]>> = headers.get(b"receipt").map(Into::into);
        let queue = self.settlements.queue(token).cloned();
        let cancelled = self.release_subscription(token, broker::SettleHow::Requeue);
        let work = self.work.clone();
        Ok(Handled::Waits(Box::pin(async move {
            if let Some(call) = cancelled {
                call.await;
            }
            let made = queue.filter(|queue| ends && queue.name().starts_with(SUBSCRIPTION_QUEUES));
            let deleted = match made {
                Some(queue) => work.delete(queue.name()).await,
                None => Ok(()),
            };
            Done::Unsubscribed(deleted.map(|()| receipt).map_err(Trouble::from))
        })))
    }
}

fn no_subscription(headers: Headers<'_>) -> Trouble {
    let of = |name: &str| {
        headers.get(name.as_bytes()).map(|value| format!("{name}='{}'", String::from_utf8_lossy(&value)))
    };
    let which = of("id").or_else(|| of("destination")).unwrap_or_default();
    Trouble::told(
        "No subscription found",
        format!(
            "UNSUBSCRIBE must refer to an existing subscription.\nSubscription to \"{which}\" not found.\n"
        ),
    )
}
