//! `explain_route`: the way of a message in words; and the ring of a consistent-hash exchange. Refuses to know how routing
//! works.

use std::fmt::Write as _;

use broker::{Broker, Imagined, QueueRef};
use routing::{Came, Destination, End, Exchange, MatchedBinding, Miss, Step};
use wire::amqp091::{PropertiesBuf, Table, TableBuf, Value};

use crate::commands::{Outcome, arguments, refused, usage};
use crate::protocol::{Answer, Exit, Failure, Request};
use crate::values;

/// Queues named in the last line.
const QUEUES_NAMED_MAX: usize = 20;

fn name(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A ring with more buckets is listed by ranges.
const BUCKETS_LISTED_MAX: u64 = 20_000;

/// `EXCHANGE KEY [header=value ...]`: where a message with that key and these headers would go. Values are `true`, `false`,
/// numbers or texts; `@message_id`, `@correlation_id` and `@timestamp` name properties.
pub(crate) fn explain_route(broker: &Broker, request: &Request) -> Outcome {
    let [exchange, key, fields @ ..] = &request.args[..] else { return Err(usage("not enough arguments.")) };
    let exchange = if exchange == "amq.default" { "" } else { exchange };
    if key.len() > usize::from(u8::MAX) {
        return Err(usage("a routing key has at most 255 bytes."));
    }
    let properties = properties(fields)?;
    let message =
        Imagined { exchange: exchange.as_bytes(), routing_key: key.as_bytes(), properties: &properties };
    let explained = broker.explain_route(request.vhost(), message).map_err(refused)?;
    let mut text = String::new();
    for (index, step) in explained.explanation.steps.iter().enumerate() {
        // Writing to a string does not fail.
        let _ = tell(&mut text, index + 1, step);
    }
    if explained.explanation.more_steps > 0 {
        let _ = writeln!(text, "and {} exchanges more", explained.explanation.more_steps);
    }
    let _ = conclude(&mut text, &explained.explanation.queues, explained.route_ns);
    Ok(Answer::Done { ok: text })
}

fn properties(fields: &[String]) -> Result<Vec<u8>, Failure> {
    let mut properties = PropertiesBuf::default();
    let mut headers = TableBuf::new();
    for field in fields {
        let (name, value) =
            field.split_once('=').ok_or_else(|| usage(&format!("'{field}' is no header=value.")))?;
        match name {
            "@message_id" => properties.message_id = Some(value.into()),
            "@correlation_id" => properties.correlation_id = Some(value.into()),
            "@timestamp" => {
                let seconds = value.parse().map_err(|_| usage("a timestamp is a number of seconds."))?;
                properties.timestamp = Some(seconds);
            }
            _ if name.len() > usize::from(u8::MAX) => return Err(usage("a header's name is too long.")),
            _ => drop(match (value.parse::<bool>(), value.parse::<i64>(), value.parse::<f64>()) {
                (Ok(flag), ..) => headers.push_bool(name, flag),
                (_, Ok(number), _) => headers.push_i64(name, number),
                (.., Ok(number)) => headers.push(name, Value::F64(number)),
                _ => headers.push_str(name, value),
            }),
        }
    }
    if !headers.is_empty() {
        properties.headers = Some(headers);
    }
    let mut raw = Vec::new();
    properties.encode(&mut raw).map_err(|error| usage(&error.to_string()))?;
    Ok(raw)
}

fn exchange_name(exchange: &Exchange<QueueRef>) -> String {
    if exchange.name.is_empty() {
        "the default exchange".into()
    } else {
        format!("exchange '{}'", name(&exchange.name))
    }
}

fn tell(text: &mut String, number: usize, step: &Step<QueueRef>) -> std::fmt::Result {
    let kind = step.exchange.kind.name();
    let came = match &step.came {
        Came::Published => "published here".into(),
        Came::Bound(from) => format!("bound to '{}'", name(from)),
        Came::Alternate(of) => format!("alternate exchange of '{}'", name(of)),
    };
    writeln!(text, "{number}. {} ({kind}), {came}", exchange_name(&step.exchange))?;
    if step.end == End::Passed {
        return writeln!(text, "   was passed before, and each exchange is passed once");
    }
    let matched = step.matched.len() + step.more_matched;
    writeln!(text, "   {matched} of {} bindings match", matched + step.missed)?;
    for binding in &step.matched {
        writeln!(text, "   + {}", line(binding))?;
    }
    if step.more_matched > 0 {
        writeln!(text, "   + and {} more", step.more_matched)?;
    }
    for missed in &step.nearest {
        writeln!(text, "   - {}: {}", line(&missed.binding), why(&missed.why))?;
    }
    if step.missed > step.nearest.len() {
        writeln!(text, "   - and {} more that do not", step.missed - step.nearest.len())?;
    }
    match &step.end {
        End::ToAlternate(to) => {
            writeln!(text, "   nothing matches: on to the alternate exchange '{}'", name(to))
        }
        End::NoSuchAlternate(to) => {
            writeln!(text, "   nothing matches, and the alternate exchange '{}' does not exist", name(to))
        }
        End::DeadEnd => writeln!(text, "   nothing matches, and there is no alternate exchange: a dead end"),
        End::Matched | End::Passed => Ok(()),
    }
}

fn line(binding: &MatchedBinding<QueueRef>) -> String {
    let to = match &binding.destination {
        Destination::Queue(queue) => format!("queue '{}'", name(queue.0.name())),
        Destination::Exchange(exchange) => format!("exchange '{}'", name(&exchange.name)),
    };
    let arguments = Table::from_raw(&binding.arguments);
    if arguments.is_empty() {
        return format!("'{}' -> {to}", name(&binding.key));
    }
    format!("'{}' {} -> {to}", name(&binding.key), values::table(&binding.arguments))
}

/// Why a binding did not match, for people.
pub(crate) fn why(miss: &Miss) -> String {
    match miss {
        Miss::Key => "another key".into(),
        Miss::KeySpelling => "the keys differ only in upper and lower case or spaces".into(),
        Miss::Word { number, wanted: Some(wanted), found: Some(found) } => {
            format!("word {number} is '{}', not '{}'", name(found), name(wanted))
        }
        Miss::Word { number, wanted: Some(wanted), found: None } => {
            format!("no word '{}' at or behind place {number}", name(wanted))
        }
        Miss::Word { number, .. } => format!("the pattern ends before word {number}"),
        Miss::HeaderMissing(header) => format!("no header '{}'", name(header)),
        Miss::HeaderDiffers(header) => format!("header '{}' has another value", name(header)),
        Miss::NoHeaderFits => "none of its headers fits".into(),
        Miss::Selector => "its selector does not select this".into(),
        Miss::NotChosen => "another one was chosen".into(),
    }
}

fn conclude(text: &mut String, queues: &[QueueRef], route_ns: u64) -> std::fmt::Result {
    match queues.len() {
        0 => write!(text, "Goes nowhere: dropped, or returned if published as mandatory")?,
        1 => write!(text, "Goes to queue '{}'", name(queues[0].0.name()))?,
        count => {
            let names: Vec<String> =
                queues.iter().take(QUEUES_NAMED_MAX).map(|queue| name(queue.0.name())).collect();
            let more = if count > QUEUES_NAMED_MAX { ", ..." } else { "" };
            write!(text, "Goes to {count} queues: {}{more}", names.join(", "))?;
        }
    }
    write!(text, " ({route_ns} ns per route)")
}

/// `EXCHANGE`: the ring of a consistent-hash exchange in RabbitMQ's words; large ones by ranges of buckets.
pub(crate) fn ring_state(broker: &Broker, request: &Request) -> Outcome {
    let [exchange] = arguments(request)?;
    let vhost = broker.vhost(request.vhost());
    let found = vhost.and_then(|vhost| vhost.exchange(exchange.as_bytes()));
    let ring = found.and_then(|exchange| exchange.load().ring()).ok_or_else(|| {
        Failure::new(Exit::DATA, "Error:\nExchange does not exist or is of a different type")
    })?;
    let mut text = String::new();
    let total: u64 = ring.iter().map(|(_, buckets)| u64::from(*buckets)).sum();
    let mut bucket = 0;
    for (destination, buckets) in ring {
        let (kind, to) = match &destination {
            Destination::Queue(queue) => ("queue", name(queue.0.name())),
            Destination::Exchange(exchange) => ("exchange", name(&exchange.name)),
        };
        if total > BUCKETS_LISTED_MAX {
            let _ =
                writeln!(text, "Ring index: {bucket}-{}, {kind}: '{to}'", bucket + u64::from(buckets) - 1);
        } else {
            for nth in 0..u64::from(buckets) {
                let _ = writeln!(text, "Ring index: {}, {kind}: '{to}'", bucket + nth);
            }
        }
        bucket += u64::from(buckets);
    }
    Ok(Answer::Done { ok: text })
}
