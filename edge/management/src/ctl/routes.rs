//! `explain_route` and the ring of a consistent hash exchange, told in lines of text.

use std::fmt::Write as _;

use broker::{Broker, ExplainedRoute, Imagined, QueueRef, Refused, ReplyAddress};
use queues::{Afterwards, TurnedAway};
use routing::{Before, Came, Destination, End, Exchange, MatchedBinding, Step};
use wire::amqp091::{ArrayBuf, PropertiesBuf, Table, TableBuf, Value};

use crate::ctl::commands::{Outcome, arguments, refused, usage};
use crate::ctl::protocol::{Answer, Exit, Failure, Request};
use crate::resources::routes::{name, type_names, why};
use crate::resources::values;
use crate::resources::values::escaped;

/// Queues named in the last line.
const QUEUES_NAMED_MAX: usize = 20;

/// A ring with more buckets is listed by ranges.
const BUCKETS_LISTED_MAX: u64 = 20_000;

/// `EXCHANGE KEY [header=value ...]`: where a message with that key and these headers would go. Values are `true`, `false`,
/// numbers or texts, whichever they look like, or what `:s` (text), `:i`, `:f` or `:b` behind the name says; `CC` and `BCC` add a key each
/// time; `@message_id`, `@correlation_id` and `@timestamp` name properties. `--body-bytes` is the size of its body, 0 if not given.
pub(crate) fn explain_route(broker: &Broker, request: &Request) -> Outcome {
    let [exchange, key, fields @ ..] = &request.args[..] else { return Err(usage("not enough arguments.")) };
    let exchange = if exchange == "amq.default" { "" } else { exchange };
    if key.len() > usize::from(u8::MAX) {
        return Err(usage("a routing key has at most 255 bytes."));
    }
    let properties = properties(fields)?;
    let body_bytes = request.options.get("body-bytes").map_or(Ok(0), |bytes| bytes.parse());
    let message = Imagined {
        exchange: exchange.as_bytes(),
        routing_key: key.as_bytes(),
        properties: &properties,
        body_bytes: body_bytes.map_err(|_| usage("--body-bytes is a number."))?,
    };
    let explained = broker.explain_route(request.vhost(), message).map_err(|why| match why {
        Refused::NotFound(missing) => {
            let (exchange, vhost) = (name(&missing.name), escaped(&missing.vhost));
            Failure::new(
                Exit::DATA,
                format!("Error:\nExchange '{exchange}' does not exist in vhost '{vhost}'"),
            )
        }
        other => refused(other),
    })?;
    Ok(Answer::Done { ok: told(&explained) })
}

fn told(explained: &ExplainedRoute) -> String {
    let mut text = String::new();
    for (index, step) in explained.explanation.steps.iter().enumerate() {
        // Writing to a string does not fail.
        let _ = tell(&mut text, index + 1, step, explained.reply);
    }
    if explained.explanation.more_steps > 0 {
        let _ = writeln!(text, "and {} exchanges more", explained.explanation.more_steps);
    }
    let _ = conclude(&mut text, explained);
    text
}

fn properties(fields: &[String]) -> Result<Vec<u8>, Failure> {
    let mut properties = PropertiesBuf::default();
    let mut headers = TableBuf::new();
    let mut copies = [("CC", ArrayBuf::new()), ("BCC", ArrayBuf::new())];
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
            "CC" => drop(copies[0].1.push_str(value)),
            "BCC" => drop(copies[1].1.push_str(value)),
            _ if name.len() > usize::from(u8::MAX) => return Err(usage("a header's name is too long.")),
            _ => header(&mut headers, field, name, value)?,
        }
    }
    for (name, keys) in copies.iter().filter(|(_, keys)| !keys.is_empty()) {
        headers.push_array(name, keys.as_array());
    }
    if !headers.is_empty() {
        properties.headers = Some(headers);
    }
    let mut raw = Vec::new();
    properties.encode(&mut raw).map_err(|error| usage(&error.to_string()))?;
    Ok(raw)
}

/// Adds a header of the type that its name says, or else of the one that the value looks like.
fn header(headers: &mut TableBuf, field: &str, name: &str, value: &str) -> Result<(), Failure> {
    let wrong = |what| usage(&format!("'{field}' is no {what}."));
    let is_typed = |letter: &str| matches!(letter, "s" | "i" | "f" | "b");
    if let Some((name, letter)) = name.rsplit_once(':').filter(|(_, letter)| is_typed(letter)) {
        match letter {
            "i" => headers.push_i64(name, value.parse().map_err(|_| wrong("header with an integer"))?),
            "f" => headers.push(name, Value::F64(value.parse().map_err(|_| wrong("header with a number"))?)),
            "b" => headers.push_bool(name, value.parse().map_err(|_| wrong("header with true or false"))?),
            _ => headers.push_str(name, value),
        };
        return Ok(());
    }
    if name.starts_with('@') {
        return Err(usage(&format!(
            "'{name}' is no property: there are @message_id, @correlation_id and @timestamp. A header of that name is \
             '{name}:s=...'."
        )));
    }
    match (value.parse::<bool>(), value.parse::<i64>(), value.parse::<f64>()) {
        (Ok(flag), ..) => headers.push_bool(name, flag),
        (_, Ok(number), _) => headers.push_i64(name, number),
        (.., Ok(number)) if number.is_finite() => headers.push(name, Value::F64(number)),
        _ => headers.push_str(name, value),
    };
    Ok(())
}

fn exchange_name(exchange: &Exchange<QueueRef>) -> String {
    if exchange.name.is_empty() {
        "the default exchange".into()
    } else {
        format!("exchange '{}'", name(&exchange.name))
    }
}

fn tell(
    text: &mut String,
    number: usize,
    step: &Step<QueueRef>,
    reply: Option<ReplyAddress>,
) -> std::fmt::Result {
    let kind = match type_names(&step.exchange) {
        (kind, None) => kind.to_owned(),
        (kind, Some(inner)) => format!("{kind}, {inner}"),
    };
    let came = match &step.came {
        Came::Published => "published here".into(),
        Came::Bound(from) => format!("bound to '{}'", name(from)),
        Came::Alternate(of) => format!("alternate exchange of '{}'", name(of)),
    };
    writeln!(text, "{number}. {} ({kind}), {came}", exchange_name(&step.exchange))?;
    if step.end == End::Passed {
        return writeln!(text, "   was passed before, and each exchange is passed once");
    }
    if step.came == Came::Published && step.exchange.internal {
        writeln!(
            text,
            "   is internal: a client that publishes here is refused with 403; messages come from other exchanges"
        )?;
    }
    match step.before {
        Before::Nothing => tell_bindings(text, step)?,
        Before::Waits(delay_ms) => {
            writeln!(
                text,
                "   waits here for {delay_ms} ms (x-delay), and is routed then; with what is bound now:"
            )?;
            tell_bindings(text, step)?;
        }
        Before::Drops => writeln!(
            text,
            "   is a duplicate: this value of x-deduplication-header was here before. Dropped, as if nothing matched"
        )?,
    }
    match &step.end {
        End::ToAlternate(to) => {
            writeln!(text, "   nothing matches: on to the alternate exchange '{}'", name(to))
        }
        End::NoSuchAlternate(to) => {
            writeln!(text, "   nothing matches, and the alternate exchange '{}' does not exist", name(to))
        }
        End::DeadEnd if reply == Some(ReplyAddress::Waits) => {
            // Published to the default exchange, the only step there is.
            writeln!(text, "   a key is an address for direct replies")
        }
        End::DeadEnd => writeln!(text, "   nothing matches, and there is no alternate exchange: a dead end"),
        End::Matched | End::Passed => Ok(()),
    }
}

fn tell_bindings(text: &mut String, step: &Step<QueueRef>) -> std::fmt::Result {
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
    if step.not_compared > 0 {
        writeln!(text, "   (the nearest of the first {} only)", matched + step.missed - step.not_compared)?;
    }
    Ok(())
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

/// The fate of a message that a queue does not keep.
fn not_kept(why: TurnedAway) -> String {
    let (what, afterwards) = match why {
        TurnedAway::Duplicate => {
            return "drops it: a message with the same x-deduplication-header is in the queue".into();
        }
        TurnedAway::Full(afterwards) => ("refuses it: the queue is as long as its limit allows", afterwards),
        TurnedAway::OverLimit(afterwards) => {
            ("drops it at once: its limit leaves no room for it", afterwards)
        }
        TurnedAway::Expires(afterwards) => {
            ("lets it expire at once: its time to live is 0, and no consumer can take it now", afterwards)
        }
    };
    match afterwards {
        Afterwards::Gone => what.into(),
        Afterwards::DeadLettered => format!("{what}; it goes to the queue's dead-letter exchange"),
    }
}

/// A queue, or several.
fn named(queues: &[&QueueRef]) -> Option<String> {
    match queues {
        [] => None,
        [queue] => Some(format!("queue '{}'", name(queue.0.name()))),
        queues => {
            let names: Vec<String> =
                queues.iter().take(QUEUES_NAMED_MAX).map(|queue| name(queue.0.name())).collect();
            let more = if queues.len() > QUEUES_NAMED_MAX { ", ..." } else { "" };
            Some(format!("{} queues: {}{more}", queues.len(), names.join(", ")))
        }
    }
}

/// Where it goes, and when if it is held back on the way.
fn goal(explained: &ExplainedRoute) -> Option<String> {
    let explanation = &explained.explanation;
    let among = |some: &dyn Fn(&QueueRef) -> bool| {
        named(&explanation.queues.iter().filter(|queue| some(queue)).collect::<Vec<_>>())
    };
    let at_once = among(&|queue| explanation.at_once.contains(queue));
    let after_delay = among(&|queue| explanation.after_delay.contains(queue));
    let waits = explanation.steps.iter().any(|step| matches!(step.before, Before::Waits(_)));
    match (at_once, after_delay) {
        (None, None) => None,
        (Some(at_once), None) if waits => Some(format!("{at_once}, at once; nowhere after the delay above")),
        (Some(at_once), None) => Some(at_once),
        (None, Some(after_delay)) => Some(format!("{after_delay}, after the delay above")),
        (Some(at_once), Some(after_delay)) => {
            Some(format!("{at_once}, at once; and to {after_delay}, after the delay above"))
        }
    }
}

fn conclude(text: &mut String, explained: &ExplainedRoute) -> std::fmt::Result {
    let goal = goal(explained);
    match (explained.reply, goal) {
        (Some(ReplyAddress::Waits), None) => write!(text, "Goes to the consumer of direct replies")?,
        (Some(ReplyAddress::Waits), Some(goal)) => {
            write!(text, "Goes to the consumer of direct replies, and to {goal}")?;
        }
        (Some(ReplyAddress::Gone), None) => {
            write!(text, "Goes nowhere, silently: the consumer of direct replies is gone")?;
        }
        (_, Some(goal)) => write!(text, "Goes to {goal}")?,
        (_, None) => write!(text, "Goes nowhere: dropped, or returned if published as mandatory")?,
    }
    write!(text, " ({} ns per route)", explained.route_ns)?;
    for (queue, why) in &explained.turned_away {
        write!(text, "\nQueue '{}' {}", name(queue.0.name()), not_kept(*why))?;
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use wire::amqp091::headers_of;

    use super::*;

    fn one(field: &str) -> Result<Option<(Vec<u8>, String)>, Failure> {
        let raw = properties(&[field.into()])?;
        let headers = headers_of(&raw);
        let first = headers.and_then(|headers| headers.iter().next());
        Ok(first.map(|(name, value)| (name.to_vec(), format!("{value:?}"))))
    }

    #[test]
    fn a_header_is_of_the_type_that_its_name_says_or_its_value_looks_like() {
        let value = |field: &str| one(field).unwrap().unwrap();
        let is = |field: &str, name: &str, expected: Value<'_>| {
            assert_eq!(value(field), (name.as_bytes().to_vec(), format!("{expected:?}")), "{field}");
        };
        is("n=5", "n", Value::I64(5));
        is("n:s=5", "n", Value::LongStr(b"5"));
        is("n:f=5", "n", Value::F64(5.0));
        is("n:b=true", "n", Value::Bool(true));
        is("n:s=a=b", "n", Value::LongStr(b"a=b"));
        is("a:s:i=5", "a:s", Value::I64(5));
        is("a:x=5", "a:x", Value::I64(5));
        is("@x:s=5", "@x", Value::LongStr(b"5"));
        is("n=1e999", "n", Value::LongStr(b"1e999"));
        for wrong in ["n:i=x", "n:f=x", "n:b=1", "@foo=1", "n", "@timestamp=x"] {
            assert!(one(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_do_nothing_to_a_terminal() {
        assert_eq!(name(b"a\x1b[31mred\tb"), "a\\u{1b}[31mred\\tb");
    }
}
