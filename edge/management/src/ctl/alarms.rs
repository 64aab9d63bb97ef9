//! Commands about alarms: those that are on, checked; thresholds moved; the sections of `status`.

use std::fmt::Write as _;

use broker::{Broker, DiskLimit, Levels, MemoryLimit, size_bytes};
use serde_json::{Value, json};

use crate::ctl::commands::{Outcome, usage};
use crate::ctl::protocol::{Answer, Exit, Failure, Request};
use crate::resources::alarms::{NODE, failure, lines};
use crate::resources::values::now_ms;

/// The raised alarms; always succeeds.
pub(crate) fn alarms(broker: &Broker) -> Answer {
    let lines = lines(broker);
    if lines.is_empty() {
        let text = format!("Node {NODE} reported no alarms, local or clusterwide");
        return Answer::Facts { text, json: json!({"node": NODE, "result": "ok", "alarms": []}) };
    }
    Answer::Facts { text: lines.join("\n"), json: reported(&lines, "ok") }
}

fn reported(lines: &[String], result: &str) -> Value {
    let message = format!("Node {NODE} reported alarms");
    json!({"global": [], "local": lines, "message": message, "result": result})
}

/// Fails when something is on.
pub(crate) fn check_alarms(broker: &Broker) -> Outcome {
    check(broker, "alarms, local or clusterwide")
}

/// As [`check_alarms`]: there is one node. In RabbitMQ 4.3 it always succeeds and says that it is deprecated.
pub(crate) fn check_local_alarms(broker: &Broker) -> Outcome {
    check(broker, "local alarms")
}

fn check(broker: &Broker, what: &str) -> Outcome {
    let lines = lines(broker);
    if lines.is_empty() {
        let text = format!("Node {NODE} reported no {what}");
        return Ok(Answer::Facts { text, json: json!({"result": "ok"}) });
    }
    Err(Failure::new(Exit::UNAVAILABLE, lines.join("\n")).with_json(reported(&lines, "error")))
}

/// Whether the node does its work: it answers, and its storage has not failed.
pub(crate) fn check_running(broker: &Broker) -> Outcome {
    match failure(broker) {
        None => Ok(Answer::Done { ok: format!("RabbitMQ on node {NODE} is fully booted and running") }),
        Some(why) => Err(Failure::new(Exit::UNAVAILABLE, why)),
    }
}

/// `FRACTION` or `absolute VALUE`.
pub(crate) fn set_vm_memory_high_watermark(broker: &Broker, request: &Request) -> Outcome {
    let limit = match words(request, "absolute")? {
        [value] => {
            let fraction = number(value)?;
            if !(0.0..=1.0).contains(&fraction) {
                let text = "Bad argument: The threshold should be a fraction between 0.0 and 1.0";
                return Err(bad(text));
            }
            MemoryLimit::Fraction(fraction)
        }
        [.., value] => MemoryLimit::Bytes(size(value)?),
        [] => unreachable!("there is at least one word"),
    };
    broker.alarms().set_memory_limit(limit);
    Ok(Answer::done())
}

/// `VALUE` or `mem_relative FACTOR`.
pub(crate) fn set_disk_free_limit(broker: &Broker, request: &Request) -> Outcome {
    let limit = match words(request, "mem_relative")? {
        [value] => DiskLimit::Bytes(size(value)?),
        [.., value] => {
            let factor = number(value)?;
            if factor < 0.0 {
                return Err(bad("Bad argument."));
            }
            DiskLimit::OfMemory(factor)
        }
        [] => unreachable!("there is at least one word"),
    };
    broker.alarms().set_disk_limit(limit);
    Ok(Answer::done())
}

/// One word, or `kind` and another.
fn words<'a>(request: &'a Request, kind: &str) -> Result<&'a [String], Failure> {
    match request.args.as_slice() {
        [] => Err(usage("not enough arguments.")),
        [one] if one == kind => Err(usage("not enough arguments.")),
        all @ [_] => Ok(all),
        all @ [first, _] if first == kind => Ok(all),
        _ => Err(usage("too many arguments.")),
    }
}

/// RabbitMQ's complaint about a value; the calling end adds what was given.
fn bad(text: &str) -> Failure {
    Failure::new(Exit::DATA, format!("Error (argument validation): {text}"))
}

fn number(value: &str) -> Result<f64, Failure> {
    value.parse().ok().filter(|number: &f64| number.is_finite()).ok_or_else(|| bad("Bad argument."))
}

fn size(value: &str) -> Result<u64, Failure> {
    size_bytes(value).ok_or_else(|| bad("Bad argument."))
}

/// The sections `Alarms`, `Memory` and `Free Disk Space` of `status`.
pub(crate) fn status(broker: &Broker) -> String {
    let levels = broker.alarms().levels();
    let (lines, storage) = (lines(broker), broker.storage_state());
    let mut alarms = if lines.is_empty() { "(none)".into() } else { lines.join("\n") };
    let held_back = held_back(broker);
    if held_back > 0 {
        let _infallible = write!(
            alarms,
            "\n\nFlow control\n\nHeld back, because queues or the disk cannot take what they publish as fast: {held_back} connections; \
             `list_connections name state` shows which, `explain_delivery` why"
        );
    }
    format!(
        "Alarms\n\n{alarms}\n\nMemory\n\nTotal memory used: {}\nCalculation strategy: rss\n\
         Memory high watermark setting: {}, computed to: {}\n\nFree Disk Space\n\n\
         Low free disk space watermark: {}\nFree disk space: {}\n\
         Segments of queues: {} of messages that are not settled, {} besides",
        levels.memory_used_bytes.map_or_else(unknown, gigabytes),
        watermark(&levels),
        gigabytes(levels.memory_limit_bytes()),
        gigabytes(levels.disk_limit_bytes()),
        levels.disk_free_bytes.map_or_else(unknown, gigabytes),
        gigabytes(storage.segment_live_bytes),
        gigabytes(storage.segment_dead_bytes),
    )
}

/// Connections that are held back for what they publish, or were a moment ago.
fn held_back(broker: &Broker) -> usize {
    let now_ms = now_ms();
    let all = broker.connections().all().into_iter();
    all.filter(|(_, control)| control.info().at(now_ms).state == "flow").count()
}

/// The same for programs.
pub(crate) fn status_entries(broker: &Broker) -> [(&'static str, Value); 7] {
    let (levels, storage) = (broker.alarms().levels(), broker.storage_state());
    [
        ("alarms", json!(lines(broker))),
        ("connections_in_flow", json!(held_back(broker))),
        ("memory", json!({"total": {"rss": levels.memory_used_bytes}, "strategy": "rss"})),
        ("vm_memory_high_watermark_limit", json!(levels.memory_limit_bytes())),
        ("disk_free_limit", json!(levels.disk_limit_bytes())),
        ("disk_free", json!(levels.disk_free_bytes)),
        (
            "segments",
            json!({"live_bytes": storage.segment_live_bytes, "dead_bytes": storage.segment_dead_bytes}),
        ),
    ]
}

fn watermark(levels: &Levels) -> String {
    match levels.memory_limit {
        MemoryLimit::Fraction(fraction) => format!("{fraction} of available memory"),
        MemoryLimit::Bytes(bytes) => gigabytes(bytes),
    }
}

fn unknown() -> String {
    "unknown".into()
}

/// Thousands of millions, with four digits behind the point as far as they are needed.
#[expect(clippy::cast_precision_loss, reason = "shown with four digits")]
fn gigabytes(bytes: u64) -> String {
    let tenths = (bytes as f64 / 1e5).round() / 1e4;
    format!("{tenths:?} gb")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(line: &[&str]) -> Request {
        let mut words = line.iter().map(|word| (*word).to_owned());
        Request { command: words.next().unwrap(), args: words.collect(), ..Request::default() }
    }

    fn open() -> (tempfile::TempDir, Broker) {
        let folder = tempfile::tempdir().unwrap();
        let broker = Broker::open(folder.path(), broker::BrokerOptions::default()).unwrap();
        (folder, broker)
    }

    #[test]
    fn thresholds_are_moved_and_alarms_told() {
        let (_folder, broker) = open();
        assert!(check_alarms(&broker).is_ok() && check_running(&broker).is_ok());
        set_vm_memory_high_watermark(&broker, &request(&["x", "0"])).unwrap();
        set_disk_free_limit(&broker, &request(&["x", "1000000GB"])).unwrap();
        let both = "Free disk space alarm on node warren@localhost\nMemory alarm on node warren@localhost";
        let Answer::Facts { text, json } = alarms(&broker) else { panic!() };
        assert_eq!((text.as_str(), json["local"].as_array().map(Vec::len)), (both, Some(2)));
        for check in [check_alarms, check_local_alarms] {
            let failure = check(&broker).unwrap_err();
            let json = failure.json.unwrap();
            assert_eq!((failure.exit, failure.error.as_str(), &json["result"]), (69, both, &json!("error")));
        }
        assert!(check_running(&broker).is_ok());
        set_vm_memory_high_watermark(&broker, &request(&["x", "absolute", "900GiB"])).unwrap();
        set_disk_free_limit(&broker, &request(&["x", "mem_relative", "0.0"])).unwrap();
        let none = "Node warren@localhost reported no alarms, local or clusterwide";
        let Answer::Facts { text, json } = alarms(&broker) else { panic!() };
        assert_eq!((text.as_str(), &json["alarms"]), (none, &json!([])));
        let status = status(&broker);
        assert!(status.contains("Memory high watermark setting: 966.3676 gb, computed to: 966.3676 gb"));
        assert!(status.contains("Low free disk space watermark: 0.0 gb"), "{status}");
    }

    #[test]
    fn bad_thresholds_have_rabbitmqs_exit_codes() {
        let (_folder, broker) = open();
        let memory = |line: &[&str]| set_vm_memory_high_watermark(&broker, &request(line)).unwrap_err().exit;
        assert_eq!(memory(&["x"]), 64);
        assert_eq!(memory(&["x", "absolute"]), 64);
        assert_eq!(memory(&["x", "1", "2", "3"]), 64);
        for bad in [&["x", "1.5"][..], &["x", "-1"], &["x", "abc"], &["x", "nan"], &["x", "absolute", "abc"]]
        {
            assert_eq!(memory(bad), 65, "{bad:?}");
        }
        let disk = |line: &[&str]| set_disk_free_limit(&broker, &request(line)).unwrap_err().exit;
        assert_eq!(disk(&["x"]), 64);
        for bad in [&["x", "abc"][..], &["x", "mem_relative", "-1"], &["x", "mem_relative", "inf"]] {
            assert_eq!(disk(bad), 65, "{bad:?}");
        }
    }

    #[test]
    fn amounts_are_shown_as_rabbitmq_shows_them() {
        assert_eq!(gigabytes(50_000_000), "0.05 gb");
        assert_eq!(gigabytes(2 << 30), "2.1475 gb");
        assert_eq!(gigabytes(2_000_000_000), "2.0 gb");
    }
}
