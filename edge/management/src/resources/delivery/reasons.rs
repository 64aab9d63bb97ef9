//! Words for what holds a consumer, a publisher or a whole queue. Refuses to know where the facts come from.

use broker::{ConsumerHold, Head, Intake, Raised, SessionHold, Standing, StorageState, StreamConsumer};
use queues::ConsumerStats;

use super::DeliveryExplanation;

/// Where the next message is.
pub(super) fn head(head: Head) -> &'static str {
    match head {
        Head::None => "none",
        Head::InMemory => "memory",
        Head::OnDisk => "disk",
    }
}

/// Why a consumer is served or not: a word for programs and a sentence for people.
pub(super) fn of_consumer(consumer: &ConsumerStats, hold: ConsumerHold) -> (&'static str, String) {
    let unacked = consumer.unacked;
    match (hold.standing, hold.session) {
        (Standing::Inactive, _) => {
            ("inactive", "waits: another consumer is the single active one (x-single-active-consumer)".into())
        }
        (_, SessionHold::Gone) => {
            ("gone", "not served: it was cancelled, or its channel has just ended".into())
        }
        (Standing::PrefetchFull, _) if consumer.spec.by_credit => (
            "no_credit",
            format!(
                "not served: its link has used up its credit; its client asks for more with a flow frame; {unacked} unsettled"
            ),
        ),
        (Standing::PrefetchFull, _) => (
            "prefetch_full",
            format!(
                "not served: its prefetch of {} is used up by {unacked} deliveries that it has not acked; ack, or raise basic.qos",
                consumer.spec.prefetch
            ),
        ),
        (_, SessionHold::ChannelPrefetch { unacked, prefetch }) => (
            "channel_prefetch_full",
            format!(
                "not served: the prefetch of its channel, {prefetch} for all consumers together, is used up by {unacked} unacked deliveries"
            ),
        ),
        (_, SessionHold::Output { pending_bytes }) => (
            "socket_full",
            format!(
                "not served for now: the client reads too slowly, {pending_bytes} bytes wait for its socket"
            ),
        ),
        (_, SessionHold::LargeMessages { held_bytes }) => (
            "large_messages",
            format!(
                "not served for now: {held_bytes} bytes of large messages (above 1 MiB) wait for the sockets of other clients that read slowly"
            ),
        ),
        (_, SessionHold::Unannounced) if consumer.spec.by_credit => {
            ("starting", "not served yet: its client has no answer to its attach frame".into())
        }
        (_, SessionHold::Unannounced) => {
            ("starting", "not served yet: its client has no answer to basic.consume".into())
        }
        (Standing::LowerPriority, SessionHold::None) => {
            ("lower_priority", "is served when consumers of higher priority cannot take more".into())
        }
        (Standing::Paused, SessionHold::None) => {
            ("paused", "is about to be served: its session can take more".into())
        }
        (Standing::InLine, SessionHold::None) if consumer.spec.by_credit => {
            ("in_line", format!("is served, its link has credit; {unacked} unsettled"))
        }
        (Standing::InLine, SessionHold::None) if consumer.spec.ack_required => {
            ("in_line", format!("is served; {unacked} unacked{}", of_prefetch(consumer.spec.prefetch)))
        }
        (Standing::InLine, SessionHold::None) => ("in_line", "is served, without acks".into()),
    }
}

/// The same of a consumer of the stream protocol, for the socket of which so many bytes wait.
pub(super) fn of_subscription(consumer: &StreamConsumer, pending_bytes: u64) -> (&'static str, String) {
    match consumer {
        StreamConsumer { is_active: false, .. } => {
            ("inactive", "waits: another member of its group is the active one".into())
        }
        StreamConsumer { credits: 0, .. } => (
            "no_credit",
            "not served: it has used up its credit; its client gives more for each chunk it has worked through".into(),
        ),
        StreamConsumer { credits, .. } => {
            let waits = match pending_bytes {
                0 => String::new(),
                bytes => format!("; {bytes} bytes wait for the socket of its connection"),
            };
            ("in_line", format!("is served; credit for {credits} chunks{waits}"))
        }
    }
}

/// How things stand with the consumers of a stream.
fn of_stream(of: &DeliveryExplanation, lag: u64, served: usize) -> String {
    match (lag, served) {
        (0, _) => match of.consumers.iter().filter(|it| it.reason != "inactive").count() {
            1 => "The active consumer is at the end of the stream.".into(),
            active => format!("All {active} active consumers are at the end of the stream."),
        },
        (_, 0) => format!("No consumer can take more, and one is {lag} messages behind: {}.", common(of)),
        _ => format!(
            "Messages are being delivered to {served} of {} consumers; one is {lag} messages behind.",
            of.consumers.len()
        ),
    }
}

fn of_prefetch(prefetch: u32) -> String {
    if prefetch == 0 { ", no prefetch limit".into() } else { format!(" of at most {prefetch}") }
}

/// The reasons why a queue holds its publishers.
pub(super) fn of_intake(intake: Intake) -> impl Iterator<Item = &'static str> {
    let full = intake.is_inbox_full.then_some("the queue has more messages to take than it can");
    let paced =
        intake.is_paced.then_some("they are faster than the consumers, and wait for milliseconds at a time");
    full.into_iter().chain(paced)
}

/// The reasons why the node holds publishers.
pub(super) fn of_node(raised: Raised, storage: &StorageState) -> Vec<&'static str> {
    let reasons = [
        (raised.has(Raised::MEMORY), "the memory alarm is on"),
        (raised.has(Raised::DISK), "the disk alarm is on"),
        (storage.failure.is_some(), "storage has failed; nothing durable is accepted"),
        (storage.waits_for_room.is_some(), "the log waits for room on the disk"),
        (storage.holds_publishers, "the disk is slower than the publishers"),
    ];
    reasons.into_iter().filter(|(holds, _)| *holds).map(|(_, words)| words).collect()
}

/// A shorter standstill is not worth a word: queues take turns.
const STILL_MS_MIN: u64 = 1000;

/// Since when nothing has moved, which is not a fault yet.
fn since(of: &DeliveryExplanation) -> String {
    match of.still_ms {
        still_ms if still_ms < STILL_MS_MIN => String::new(),
        still_ms => format!("; nothing was delivered for {} s", still_ms / 1000),
    }
}

/// The most important thing in one sentence.
pub(super) fn verdict(of: &DeliveryExplanation) -> String {
    let served = of.consumers.iter().filter(|consumer| consumer.is_served).count();
    match of.state {
        "crashed" => "The queue has crashed and is out of service; the log of the node says why. Persistent messages are read back, at the latest by a restart.".into(),
        "stopped" => "The queue is being deleted.".into(),
        "silent" => "The queue did not answer within five seconds: something keeps it busy; the log of the node may say what.".into(),
        _ if let Some(why) = &of.delivery_waits_for => format!("Nothing is delivered for now: {why}."),
        _ if of.stalled_ms > 0 => format!(
            "Messages are ready, {served} consumers could take them, and nothing was delivered for {} s: a fault of the node or of its disk.",
            of.stalled_ms / 1000
        ),
        _ if of.letters_await_room => format!(
            "Messages that expired, were rejected, are over a limit or are due wait until the disk alarm clears: {}purge or delete a queue whose messages nobody needs, make room on the disk, or lower disk_free_limit. {} ready, {} unacked.",
            emptied(&of.room_held_by),
            of.ready,
            of.unacked
        ),
        _ if of.consumers.is_empty() && of.ready == 0 && !of.publishers_held_by.is_empty() => format!(
            "The queue has no message and no consumer; publishers wait, because {}.",
            of.publishers_held_by.join(", ")
        ),
        _ if of.consumers.is_empty() && of.ready == 0 => "The queue has no message and no consumer.".into(),
        _ if of.consumers.is_empty() => format!("Nobody consumes: {} messages wait.", of.ready),
        _ if let Some(lag) = of.consumers.iter().filter_map(|it| it.offset_lag).max() => of_stream(of, lag, served),
        _ if of.ready == 0 && !of.publishers_held_by.is_empty() => {
            format!("No message is ready: publishers wait, because {}.", of.publishers_held_by.join(", "))
        }
        _ if of.ready == 0 && of.delivered_total == 0 && of.expired_total > 0 => {
            format!("No message is ready, and none was delivered: {} expired before.", of.expired_total)
        }
        _ if of.ready == 0 && of.unacked > 0 => format!(
            "Everything is delivered: no message is ready, and consumers have yet to ack {}.",
            of.unacked
        ),
        _ if of.ready == 0 && of.expired_total + of.dropped_total > 0 => "No message is ready: all messages were delivered, expired or dropped.".into(),
        _ if of.ready == 0 => "Everything is delivered: no message is ready.".into(),
        _ if served == 0 => format!("{} messages wait, and no consumer can take one: {}.", of.ready, common(of)),
        _ if of.head == "disk" => format!("Messages are on their way from disk to consumers{}.", since(of)),
        _ if of.still_ms >= STILL_MS_MIN => {
            format!("Messages are ready for {served} of {} consumers{}.", of.consumers.len(), since(of))
        }
        _ => format!("Messages are being delivered to {served} of {} consumers.", of.consumers.len()),
    }
}

/// Messages that left the queue without being delivered, and messages that will.
pub(super) fn left_without_delivery(of: &DeliveryExplanation) -> impl Iterator<Item = String> {
    let ttl = of.message_ttl_ms.map(|ms| {
        format!("messages live for {ms} ms at most (x-message-ttl, or message-ttl of a policy): older messages expire")
    });
    let expired = (of.expired_total > 0)
        .then(|| format!("{} messages expired since the node started", of.expired_total));
    let dropped = (of.dropped_total > 0).then(|| {
        format!(
            "{} messages were dropped or refused by a length limit since the node started",
            of.dropped_total
        )
    });
    [ttl, expired, dropped].into_iter().flatten()
}

/// The reason that holds most of the consumers.
fn common(of: &DeliveryExplanation) -> String {
    let count = |reason| of.consumers.iter().filter(|consumer| consumer.reason == reason).count();
    let known = [
        ("prefetch_full", "have used up their prefetch and must ack"),
        ("channel_prefetch_full", "have used up the prefetch of their channel and must ack"),
        ("socket_full", "read too slowly"),
        ("large_messages", "wait until others have read their large messages"),
        ("no_credit", "have used up their credit"),
        ("inactive", "wait behind the single active consumer"),
        ("starting", "are starting"),
        ("gone", "are ending"),
    ];
    let held =
        known.into_iter().map(|(reason, words)| (count(reason), words)).filter(|(count, _)| *count > 0);
    held.map(|(count, words)| format!("{count} {words}")).collect::<Vec<_>>().join(", ")
}

/// Advice about queues that hold the messages that use the room.
fn emptied(holding: &[String]) -> String {
    if holding.is_empty() {
        String::new()
    } else {
        format!("consume and ack, or purge, what {} hold, ", holding.join(", "))
    }
}
