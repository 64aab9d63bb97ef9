//! Profiles over HTTP: the page of each path, as bytes with their type. Refuses to know HTTP itself and rights; a caller that
//! serves these pages lets administrators in only, and calls on a thread that may block.

use std::collections::BTreeMap;
use std::time::Duration;

use broker::Broker;
use serde_json::json;

use super::raw::ProfileError;
use super::report::{Profile, turn};
use super::{
    Continuous, CpuRequest, Cut, Document, FaultsRequest, WaitsRequest, flame::flame_graph, pprof, recorder,
};

/// A page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// For the header `Content-Type`.
    pub content_type: &'static str,
    /// The bytes of the page.
    pub body: Vec<u8>,
}

const JSON: &str = "application/json";
/// The type of pictures, which have a script of their own.
pub const SVG: &str = "image/svg+xml";
const BINARY: &str = "application/octet-stream";

/// Longest watch of threads, seconds: nobody waits longer for an answer.
const THREADS_SECONDS_MAX: u64 = 60;

/// Paths that [`page`] answers, below the root of the server; `{number}` stands for a number. All are read with GET.
pub const PATHS: [&str; 15] = [
    "/debug/pprof/profile",
    "/debug/pprof/heap",
    "/debug/flamegraph/cpu",
    "/debug/flamegraph/heap",
    "/debug/flamegraph/waits",
    "/debug/flamegraph/faults",
    "/api/profile/cpu",
    "/api/profile/heap",
    "/api/profile/waits",
    "/api/profile/faults",
    "/api/profile/history",
    "/api/profile/threads",
    "/api/profile/captures",
    "/api/profile/captures/{number}",
    "/api/profile/state",
];

/// The page of a path with its query: `seconds`, `hz`, `every`, `minutes`, `by` and `only` as the options of `warren ctl profile`, and `as`
/// for another form (`json`, `svg`, `folded`, `pprof`). `None` when there is no such page. Blocks as long as the profile takes.
pub fn page(
    broker: &Broker,
    path: &str,
    query: &BTreeMap<String, String>,
) -> Option<Result<Page, ProfileError>> {
    let asked = Asked { broker, query };
    Some(match path {
        "/debug/pprof/profile" => asked.cpu(30, "pprof"),
        "/debug/flamegraph/cpu" => asked.cpu(10, "svg"),
        "/api/profile/cpu" => asked.cpu(10, "json"),
        "/debug/pprof/heap" => asked.heap("pprof"),
        "/debug/flamegraph/heap" => asked.heap("svg"),
        "/api/profile/heap" => asked.heap("json"),
        "/debug/flamegraph/waits" => asked.waits("svg"),
        "/api/profile/waits" => asked.waits("json"),
        "/debug/flamegraph/faults" => asked.faults("svg"),
        "/api/profile/faults" => asked.faults("json"),
        "/api/profile/history" => asked.history(),
        "/api/profile/threads" => asked.threads(),
        "/api/profile/captures" => Ok(captures()),
        "/api/profile/state" => Ok(state()),
        _ => {
            let number = path.strip_prefix("/api/profile/captures/")?.parse().ok()?;
            asked.capture(number)
        }
    })
}

struct Asked<'a> {
    broker: &'a Broker,
    query: &'a BTreeMap<String, String>,
}

impl Asked<'_> {
    fn text(&self, name: &str) -> Option<&str> {
        self.query.get(name).map(String::as_str)
    }

    fn number<T: std::str::FromStr>(&self, name: &str, default: T) -> Result<T, ProfileError> {
        let wrong = |text| ProfileError::Asked(format!("{name}={text} is no number"));
        self.text(name).map_or(Ok(default), |text| text.parse().map_err(|_| wrong(text)))
    }

    fn cut(&self) -> Result<Cut, ProfileError> {
        Cut::parse(self.text("by"), self.text("only"))
    }

    /// CPU time; all that is asked is checked before the samples are taken.
    fn cpu(&self, seconds: u64, default: &str) -> Result<Page, ProfileError> {
        let form = self.form(default)?;
        let request = CpuRequest {
            seconds: self.number("seconds", seconds)?,
            hz: self.number("hz", CpuRequest::default().hz)?,
            cut: self.cut()?,
        };
        Ok(form.page(&recorder::cpu(self.broker, &request)?))
    }

    /// The allocations in use; the first to ask begins the watch, so that a scraper sees it grow from then on.
    fn heap(&self, default: &str) -> Result<Page, ProfileError> {
        let (form, cut) = (self.form(default)?, self.cut()?);
        let seconds = self.text("seconds").map(|_| self.number("seconds", 0)).transpose()?;
        if seconds.is_none() {
            super::watch_heap(super::HeapWatch::On);
        }
        let profile = super::heap(self.broker, seconds, &cut)?;
        Ok(form.page(&profile))
    }

    fn waits(&self, form: &str) -> Result<Page, ProfileError> {
        let form = self.form(form)?;
        let defaults = WaitsRequest::default();
        let request = WaitsRequest {
            seconds: self.number("seconds", defaults.seconds)?,
            hz: self.number("hz", defaults.hz)?,
            cut: self.cut()?,
        };
        Ok(form.page(&super::waits(self.broker, &request)?))
    }

    fn faults(&self, form: &str) -> Result<Page, ProfileError> {
        let form = self.form(form)?;
        let defaults = FaultsRequest::default();
        let request = FaultsRequest {
            seconds: self.number("seconds", defaults.seconds)?,
            every: self.number("every", defaults.every)?,
            cut: self.cut()?,
        };
        Ok(form.page(&super::faults(self.broker, &request)?))
    }

    fn history(&self) -> Result<Page, ProfileError> {
        let form = self.form("json")?;
        Ok(form.page(&recorder::history(self.number("minutes", 10)?, &self.cut()?)?))
    }

    fn capture(&self, number: u64) -> Result<Page, ProfileError> {
        let form = self.form("json")?;
        Ok(form.page(&super::captures::capture(number, &self.cut()?)?))
    }

    fn threads(&self) -> Result<Page, ProfileError> {
        let seconds = self.number("seconds", 1u64)?;
        if !(1..=THREADS_SECONDS_MAX).contains(&seconds) {
            let text = format!("threads are watched for 1 to {THREADS_SECONDS_MAX} seconds");
            return Err(ProfileError::Asked(text));
        }
        Ok(json_page(&json!(super::threads(Duration::from_secs(seconds)))))
    }

    fn form(&self, default: &str) -> Result<Form, ProfileError> {
        Ok(match self.text("as").unwrap_or(default) {
            "json" => Form::Json,
            "svg" => Form::Svg,
            "folded" => Form::Folded,
            "pprof" => Form::Pprof,
            other => {
                return Err(ProfileError::Asked(format!(
                    "as={other}: json, svg, folded and pprof are known"
                )));
            }
        })
    }
}

/// The form of a profile.
#[derive(Clone, Copy)]
enum Form {
    Json,
    Svg,
    Folded,
    Pprof,
}

impl Form {
    fn page(self, profile: &Profile) -> Page {
        let _turn = turn();
        match self {
            Form::Json => json_page(&json!(Document::of(profile))),
            Form::Svg => Page { content_type: SVG, body: flame_graph(profile).into() },
            Form::Folded => {
                Page { content_type: "text/plain; charset=utf-8", body: super::folded::file(profile).into() }
            }
            Form::Pprof => Page { content_type: BINARY, body: pprof::pprof(profile) },
        }
    }
}

fn json_page(value: &serde_json::Value) -> Page {
    Page { content_type: JSON, body: value.to_string().into() }
}

fn captures() -> Page {
    let all: Vec<_> = super::captures()
        .into_iter()
        .map(|it| json!({"number": it.number, "at_ms": it.at_ms, "reason": it.reason, "samples": it.samples}))
        .collect();
    json_page(&json!(all))
}

fn state() -> Page {
    let (continuous, minutes) = recorder::continuous();
    json_page(
        &json!({"continuous": continuous == Continuous::On, "minutes": minutes, "heap": platform::profile::is_heap_watched(), "lost": platform::profile::dropped()}),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use broker::BrokerOptions;

    #[test]
    fn pages_are_found_by_path_and_wrong_queries_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let broker = Broker::open(folder.path(), BrokerOptions::default()).unwrap();
        let get = |path: &str, query: &[(&str, &str)]| {
            let query = query.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
            page(&broker, path, &query)
        };
        assert!(get("/debug/pprof/nothing", &[]).is_none() && get("/api/profile/captures/x", &[]).is_none());
        assert_eq!(get("/api/profile/captures", &[]).unwrap().unwrap().content_type, JSON);
        for (name, value) in [
            ("seconds", "x"),
            ("seconds", "0"),
            ("seconds", "601"),
            ("hz", "1000"),
            ("by", "x"),
            ("only", "x"),
            ("as", "x"),
        ] {
            let refused = get("/api/profile/cpu", &[(name, value)]).unwrap();
            assert!(matches!(refused, Err(ProfileError::Asked(_))), "{name}={value}");
        }
        for path in ["/api/profile/threads", "/api/profile/heap", "/api/profile/faults"] {
            let refused = get(path, &[("seconds", "601")]).unwrap();
            assert!(matches!(refused, Err(ProfileError::Asked(_))), "{path}");
        }
        let refused = get("/api/profile/faults", &[("every", "0")]).unwrap();
        assert!(matches!(refused, Err(ProfileError::Asked(_))));
        assert!(matches!(get("/api/profile/captures/9999", &[]), Some(Err(ProfileError::Asked(_)))));
    }
}
