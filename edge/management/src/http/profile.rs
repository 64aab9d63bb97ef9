//! Warren's own: profiles of the running broker, for the web page and for `go tool pprof`, Parca and Pyroscope. Administrators
//! only. `node` names another node of the cluster, which is asked for its profile. Refuses to know how profiles are taken.

use std::collections::BTreeMap;

use base64::Engine as _;
use broker::Broker;
use profiles::{Continuous, HeapWatch, Page, ProfileError, SVG, page, set_continuous, watch_heap};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::app::App;
use super::auth::Access;
use super::call::{Call, flag};
use super::problem::Problem;
use super::reply::{Answer, Reply};
use super::route::{Lane, Method, Route, route};
use crate::ctl::everywhere::{Question, ask_long};
use crate::resources::node::NODE_NAME;
use crate::resources::node::cluster::members;

/// Options that the page of a route knows. These pages pass over options that scrapers of pprof send to every program: they do not change
/// the answer.
fn options(route: &str) -> &'static [&'static str] {
    match route {
        "/debug/pprof/profile" => &["seconds", "hz", "by", "only", "as", "debug", "gc"],
        "/debug/pprof/heap" => &["seconds", "by", "only", "as", "debug", "gc"],
        "/debug/flamegraph/heap" | "/api/profile/heap" => &["seconds", "by", "only", "as"],
        "/debug/flamegraph/faults" | "/api/profile/faults" => &["seconds", "every", "by", "only", "as"],
        "/api/profile/history" => &["minutes", "by", "only", "as"],
        "/api/profile/threads" => &["seconds"],
        "/api/profile/captures" | "/api/profile/state" => &[],
        "/api/profile/captures/{number}" => &["by", "only", "as"],
        // CPU time and waits.
        _ => &["seconds", "hz", "by", "only", "as"],
    }
}

const fn profile(path: &'static str, about: &'static str) -> Route {
    route(Method::Get, path, Access::Administrator, about, get).in_lane(Lane::Watches)
}

pub(crate) const ROUTES: &[Route] = &[
    profile("/debug/pprof/profile", "CPU time in the format of pprof: `seconds` (30), `hz`, `by`, `only`."),
    profile("/debug/pprof/heap", "Memory in use in the format of pprof; the first call begins the watch."),
    profile("/debug/flamegraph/cpu", "CPU time as a flame graph: `seconds` (10), `hz`, `by`, `only`."),
    profile("/debug/flamegraph/heap", "Memory in use as a flame graph."),
    profile(
        "/debug/flamegraph/waits",
        "Where threads sleep, or wait for the disk or a processor, as a flame graph: `seconds` (10), `hz` (19), `by`, `only`.",
    ),
    profile(
        "/debug/flamegraph/faults",
        "Page faults, where the kernel allows it, as a flame graph: `seconds` (10), `every` (8), `by`, `only`.",
    ),
    profile("/api/profile/cpu", "CPU time: stacks with labels. `seconds` (10), `hz`, `by`, `only`, `as`."),
    profile("/api/profile/heap", "Memory in use: stacks with labels."),
    profile(
        "/api/profile/waits",
        "Where threads wait: stacks with labels. `seconds` (10), `hz` (19), `by`, `only`, `as`.",
    ),
    profile(
        "/api/profile/faults",
        "Page faults, where the kernel allows it: stacks with labels. `seconds` (10), `every` (8), `by`, `only`, `as`.",
    ),
    profile("/api/profile/history", "CPU time of the last `minutes` (10), when a history is kept."),
    profile(
        "/api/profile/threads",
        "What threads do: running, waiting for a processor, asleep. `seconds` (1).",
    ),
    profile("/api/profile/captures", "Profiles that were kept because something was slow or large."),
    profile("/api/profile/captures/{number}", "One of them: stacks with labels."),
    profile("/api/profile/state", "Whether a history is kept and allocations are watched."),
    route(
        Method::Put,
        "/api/profile/state",
        Access::Administrator,
        "Begins or ends them: `{\"continuous\": true, \"heap\": false}`.",
        switch,
    ),
];

/// The answer of a page: its type and its bytes, or the error for the caller.
type Given = Result<(String, Vec<u8>), Told>;

/// A refusal, and whether the question is at fault.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Told {
    is_at_fault: bool,
    text: String,
}

/// A request for a profile that another node has got.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Asked {
    path: String,
    query: BTreeMap<String, String>,
    /// The switches to turn; `None` for a page.
    switches: Option<Switches>,
}

/// Whether a history is kept, and whether allocations are watched; `None` stays as it is.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Switches {
    continuous: Option<bool>,
    heap: Option<bool>,
}

/// An answer on its way between nodes: the body is in base64.
#[derive(Serialize, Deserialize)]
struct Said(Result<(String, String), Told>);

fn get(call: &Call) -> Answer {
    let path = call.route.replace("{number}", call.part_if("number").unwrap_or_default());
    check_query(call)?;
    let mut query: BTreeMap<String, String> = call.query.iter().cloned().collect();
    let there = query.remove(NODE).filter(|name| name != NODE_NAME.as_str());
    let asked = Asked { path, query, switches: None };
    let given = match there {
        Some(name) => given_there(call, &name, asked)?,
        None => given_here(call.broker(), &asked).ok_or_else(Problem::missing)?,
    };
    let (content_type, body) = given.map_err(refused)?;
    Ok(match CONTENT_TYPES.into_iter().find(|known| *known == content_type) {
        Some(SVG) => Reply::Picture(body),
        known => Reply::Bytes(known.unwrap_or("application/octet-stream"), body),
    })
}

/// Types of pages that a node may give.
const CONTENT_TYPES: [&str; 4] =
    [SVG, "application/json", "application/octet-stream", "text/plain; charset=utf-8"];

/// The option with the name of a node.
const NODE: &str = "node";

fn check_query(call: &Call) -> Result<(), Problem> {
    let known: Vec<&str> = options(call.route).iter().copied().chain([NODE]).collect();
    call.check_query(&known)
}

/// The answer of this node; `None`: there is no such page.
fn given_here(broker: &Broker, asked: &Asked) -> Option<Given> {
    if let Some(switches) = asked.switches {
        return Some(
            switch_here(broker, switches)
                .map(|()| (String::new(), Vec::new()))
                .map_err(|error| Told::of(&error)),
        );
    }
    let page = page(broker, &asked.path, &asked.query)?;
    Some(
        page.map(|Page { content_type, body }| (content_type.to_owned(), body))
            .map_err(|error| Told::of(&error)),
    )
}

/// The answer of another node.
fn given_there(call: &Call, name: &str, asked: Asked) -> Result<Given, Problem> {
    let others = members(call.node());
    let other = others.iter().find(|it| it.name == name);
    let other = other.ok_or_else(|| Problem::bad(format!("the cluster has no node {name}")))?;
    let question = Question::Profile(asked);
    let bytes = other.is_running.then(|| ask_long(call.node(), name, &question)).flatten();
    let silent = || Problem::unavailable(format!("node {name} does not answer, or has too much to do"));
    let said: Option<Option<Said>> = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let given = said.ok_or_else(silent)?.ok_or_else(Problem::missing)?.0;
    Ok(match given {
        Ok((content_type, body)) => {
            Ok((content_type, base64::engine::general_purpose::STANDARD.decode(body).map_err(|_| silent())?))
        }
        Err(told) => Err(told),
    })
}

/// Answers another node with what this one gives.
pub(crate) fn answer(app: &App, asked: &Asked) -> Value {
    let encoded = |(content_type, body): (String, Vec<u8>)| {
        (content_type, base64::engine::general_purpose::STANDARD.encode(body))
    };
    json!(given_here(&app.0.broker, asked).map(|given| Said(given.map(encoded))))
}

impl Told {
    fn of(error: &ProfileError) -> Told {
        Told { is_at_fault: matches!(error, ProfileError::Asked(_)), text: error.to_string() }
    }
}

fn refused(told: Told) -> Problem {
    if told.is_at_fault { Problem::bad(told.text) } else { Problem::unavailable(told.text) }
}

fn switch(call: &Call) -> Answer {
    check_query(call)?;
    let wanted = call.object()?;
    // A mistake must not look as if it had been done.
    if call.body.trim_ascii() == b"null" {
        return Err(Problem::bad("an object is expected, with the keys continuous and heap"));
    }
    if let Some(key) = wanted.keys().find(|key| !["continuous", "heap"].contains(&key.as_str())) {
        return Err(Problem::bad(format!("unknown key {key}: there are continuous and heap")));
    }
    let given = |name: &str| wanted.contains_key(name).then(|| flag(&wanted, name)).transpose();
    let switches = Switches { continuous: given("continuous")?, heap: given("heap")? };
    let there = call.query.iter().find(|(name, _)| name == NODE).map(|(_, node)| node.clone());
    match there.filter(|name| name != NODE_NAME.as_str()) {
        Some(name) => {
            let asked =
                Asked { path: call.route.to_owned(), query: BTreeMap::new(), switches: Some(switches) };
            given_there(call, &name, asked)?.map_err(refused)?;
        }
        None => switch_here(call.broker(), switches).map_err(|error| refused(Told::of(&error)))?,
    }
    Ok(Reply::NoContent)
}

fn switch_here(broker: &Broker, Switches { continuous, heap }: Switches) -> Result<(), ProfileError> {
    if let Some(on) = continuous {
        let to = if on { Continuous::On } else { Continuous::Off };
        set_continuous(broker, to)?;
    }
    if let Some(on) = heap {
        watch_heap(if on { HeapWatch::On } else { HeapWatch::Off });
    }
    Ok(())
}
