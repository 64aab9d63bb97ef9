//! `profile KIND ...` on the control socket. Files travel as text; those that are not text, in base64. Refuses to know files
//! and terminals.

use std::time::Duration;

use base64::Engine as _;
use broker::Broker;
use profiles::{
    Continuous, CpuRequest, Cut, Document, FaultsRequest, HeapWatch, Profile, ProfileError, SECONDS_MAX,
    WaitsRequest, Watched, flame_graph, folded, pprof, turn,
};
use serde_json::{Value, json};

use crate::ctl::commands::{Outcome, usage};
use crate::ctl::protocol::{Answer, Exit, Failure, Request, Rows};

/// Functions in the table for people.
const TABLE_LINES_MAX: usize = 30;

/// `profile cpu|heap|waits|faults|threads|history|captures|continuous ...`.
pub(crate) fn command(broker: &Broker, request: &Request) -> Outcome {
    let words: Vec<&str> = request.args.iter().map(String::as_str).collect();
    // A form that is none is refused before the samples are taken.
    form(request)?;
    match words[..] {
        ["cpu"] => {
            let defaults = CpuRequest::default();
            let asked = CpuRequest {
                seconds: number(request, "seconds")?.unwrap_or(defaults.seconds),
                hz: number(request, "hz")?.unwrap_or(defaults.hz),
                cut: cut(request)?,
            };
            shown(&profiles::cpu(broker, &asked).map_err(failed)?, request)
        }
        ["heap"] => {
            let seconds = number(request, "seconds")?;
            shown(&profiles::heap(broker, seconds, &cut(request)?).map_err(failed)?, request)
        }
        ["heap", "on"] => {
            profiles::watch_heap(HeapWatch::On);
            Ok(Answer::Done {
                ok: "Allocations are watched from now on; `profile heap` shows those in use".into(),
            })
        }
        ["heap", "off"] => {
            profiles::watch_heap(HeapWatch::Off);
            Ok(Answer::Done { ok: "Allocations are not watched any more".into() })
        }
        ["waits"] => {
            let defaults = WaitsRequest::default();
            let asked = WaitsRequest {
                seconds: number(request, "seconds")?.unwrap_or(defaults.seconds),
                hz: number(request, "hz")?.unwrap_or(defaults.hz),
                cut: cut(request)?,
            };
            shown(&profiles::waits(broker, &asked).map_err(failed)?, request)
        }
        ["faults"] => {
            let defaults = FaultsRequest::default();
            let asked = FaultsRequest {
                seconds: number(request, "seconds")?.unwrap_or(defaults.seconds),
                every: number(request, "every")?.unwrap_or(defaults.every),
                cut: cut(request)?,
            };
            shown(&profiles::faults(broker, &asked).map_err(failed)?, request)
        }
        ["threads"] => {
            let seconds = number(request, "seconds")?.unwrap_or(5).clamp(1, SECONDS_MAX);
            Ok(thread_rows(&profiles::threads(Duration::from_secs(seconds))))
        }
        ["history"] => {
            let minutes = number(request, "minutes")?.unwrap_or(10);
            shown(&profiles::history(minutes, &cut(request)?).map_err(failed)?, request)
        }
        ["captures"] => Ok(capture_rows()),
        ["captures", number] => {
            let number = number.parse().map_err(|_| usage("a capture has a number"))?;
            shown(&profiles::capture(number, &cut(request)?).map_err(failed)?, request)
        }
        ["continuous"] => Ok(Answer::Done { ok: continuous_state() }),
        ["continuous", "on"] => switch(broker, Continuous::On),
        ["continuous", "off"] => switch(broker, Continuous::Off),
        _ => Err(usage(
            "profile what? cpu, heap [on|off], waits, faults, threads, history, captures [NUMBER], continuous [on|off], diff BEFORE AFTER",
        )),
    }
}

fn switch(broker: &Broker, to: Continuous) -> Outcome {
    profiles::set_continuous(broker, to).map_err(failed)?;
    Ok(Answer::Done { ok: continuous_state() })
}

fn continuous_state() -> String {
    match profiles::continuous() {
        (Continuous::Off, _) => "No history of profiles is kept".into(),
        (Continuous::On, minutes) => format!(
            "A history of profiles is kept; `profile history` shows the last minutes, up to {minutes} now"
        ),
    }
}

fn cut(request: &Request) -> Result<Cut, Failure> {
    let option = |name: &str| request.options.get(name).map(String::as_str);
    Cut::parse(option("by"), option("only")).map_err(failed)
}

fn number<T: std::str::FromStr>(request: &Request, name: &str) -> Result<Option<T>, Failure> {
    let parse = |text: &String| text.parse().map_err(|_| usage(&format!("--{name} is a number")));
    request.options.get(name).map(parse).transpose()
}

fn failed(error: ProfileError) -> Failure {
    match error {
        ProfileError::Asked(text) => usage(&text),
        other => Failure::new(Exit::UNAVAILABLE, format!("Error:\n{other}")),
    }
}

/// The form that `--as` names.
fn form(request: &Request) -> Result<&str, Failure> {
    match request.options.get("as").map_or("table", String::as_str) {
        form @ ("table" | "svg" | "folded" | "json" | "pprof") => Ok(form),
        other => {
            Err(usage(&format!("a profile is shown as table, svg, folded, pprof or json, not as {other}")))
        }
    }
}

/// A profile in the form that `--as` names.
fn shown(profile: &Profile, request: &Request) -> Outcome {
    let _turn = turn();
    if profile.stacks.is_empty() {
        let why = match profile.watched {
            Watched::Heap => "nothing that was allocated while it was watched is still in use",
            Watched::Faults => "hardly a page fault while it was watched (--every 1 shows each)",
            Watched::Cpu | Watched::Waiting => "the broker did nothing worth a sample while it was watched",
        };
        let text = format!("Error:\nno samples: {why}, or nothing has these labels");
        return Err(Failure::new(Exit::UNAVAILABLE, text));
    }
    let ok = match form(request)? {
        "table" => {
            let text = profile.table(TABLE_LINES_MAX);
            return Ok(Answer::Facts { text, json: json!(Document::of(profile)) });
        }
        "svg" => flame_graph(profile),
        "folded" => folded(profile),
        "json" => json!(Document::of(profile)).to_string(),
        "pprof" => base64::engine::general_purpose::STANDARD.encode(pprof(profile)),
        form => unreachable!("{form} is no form of a profile"),
    };
    Ok(Answer::Done { ok })
}

fn thread_rows(times: &[profiles::ThreadTimes]) -> Answer {
    let columns = [
        "thread",
        "count",
        "running_%",
        "waiting_for_cpu_%",
        "asleep_%",
        "turns",
        "page_faults",
        "faults_from_disk",
    ];
    let rows = times.iter().map(|it| {
        let whole = (it.running_ns + it.waiting_ns + it.asleep_ns).max(1) as f64;
        let share = |ns: u64| Value::from((ns as f64 * 1000.0 / whole).round() / 10.0);
        vec![
            it.name.as_str().into(),
            it.threads.into(),
            share(it.running_ns),
            share(it.waiting_ns),
            share(it.asleep_ns),
            it.turns.into(),
            it.faults_minor.into(),
            it.faults_major.into(),
        ]
    });
    Answer::Rows(Rows { columns: columns.map(str::to_owned).into(), rows: rows.collect() })
}

fn capture_rows() -> Answer {
    let columns = ["number", "at_ms", "samples", "reason"].map(str::to_owned).into();
    let row =
        |it: profiles::Capture| vec![it.number.into(), it.at_ms.into(), it.samples.into(), it.reason.into()];
    Answer::Rows(Rows { columns, rows: profiles::captures().into_iter().map(row).collect() })
}
