//! Warren's own: profiles of the running broker, for the web page and for `go tool pprof`, Parca and Pyroscope. Administrators
//! only. Refuses to know how profiles are taken.

use std::collections::BTreeMap;

use profiles::{Continuous, HeapWatch, Page, ProfileError, SVG, page, set_continuous, watch_heap};

use super::auth::Access;
use super::call::{Call, flag};
use super::problem::Problem;
use super::reply::{Answer, Reply};
use super::route::{Lane, Method, Route, route};

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

fn get(call: &Call) -> Answer {
    let path = call.route.replace("{number}", call.part_if("number").unwrap_or_default());
    call.check_query(options(call.route))?;
    let query: BTreeMap<String, String> = call.query.iter().cloned().collect();
    let Page { content_type, body } =
        page(call.broker(), &path, &query).ok_or_else(Problem::missing)?.map_err(refused)?;
    Ok(if content_type == SVG { Reply::Picture(body) } else { Reply::Bytes(content_type, body) })
}

fn refused(error: ProfileError) -> Problem {
    match error {
        ProfileError::Asked(text) => Problem::bad(text),
        other => Problem::unavailable(other.to_string()),
    }
}

fn switch(call: &Call) -> Answer {
    call.check_query(options(call.route))?;
    let wanted = call.object()?;
    // A mistake must not look as if it had been done.
    if call.body.trim_ascii() == b"null" {
        return Err(Problem::bad("an object is expected, with the keys continuous and heap"));
    }
    if let Some(key) = wanted.keys().find(|key| !["continuous", "heap"].contains(&key.as_str())) {
        return Err(Problem::bad(format!("unknown key {key}: there are continuous and heap")));
    }
    let given = |name: &str| wanted.contains_key(name).then(|| flag(&wanted, name)).transpose();
    let (continuous, heap) = (given("continuous")?, given("heap")?);
    if let Some(on) = continuous {
        let to = if on { Continuous::On } else { Continuous::Off };
        set_continuous(call.broker(), to).map_err(refused)?;
    }
    if let Some(on) = heap {
        watch_heap(if on { HeapWatch::On } else { HeapWatch::Off });
    }
    Ok(Reply::NoContent)
}
