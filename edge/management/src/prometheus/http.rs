//! The pages over HTTP: paths, the query, logins, bounds. Refuses to know metrics.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use broker::Broker;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::families::{self, Asked};
use super::page::{Kind, Page, labels};
use super::{global, node};
use crate::http::body::{self, Coding};
use crate::http::query::form;
use crate::resources::node::Node;

/// Pages of objects that are made, and read by their clients, at once; more wait for their turn.
pub const SCRAPES_MAX: usize = 32;

/// Pages of objects that wait for their turn; beyond, the answer is 503.
const WAITING_MAX: usize = 64;

/// Pages of sums that are made at once, beside all else: they are short, and nobody keeps one by not reading it.
const SUMS_MAX: usize = 8;

/// Type of the pages' text.
const CONTENT_TYPE: &str = "text/plain; version=0.0.4";

/// Metrics that somebody else writes on the first page.
pub trait ExtraMetrics: Send + Sync {
    /// Writes them, each with its head; the page's prefix is `warren_`.
    ///
    /// # Errors
    /// Nobody reads any more.
    fn write(&self, page: &mut Page<'_>) -> io::Result<()>;
}

/// The options of the pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrometheusOptions {
    /// Path of the first page. Default `/metrics`.
    pub path: String,
    /// Whether the first page shows sums or objects.
    pub first_page: FirstPage,
    /// Whether a login is asked for.
    pub login: Login,
}

/// The content of the first page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FirstPage {
    /// Sums over all objects.
    #[default]
    Sums,
    /// A line per object.
    Objects,
}

/// Whether a login is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Login {
    /// Anybody may read.
    #[default]
    None,
    /// Users with the tag `monitoring` or `administrator`.
    Monitoring,
}

impl Default for PrometheusOptions {
    fn default() -> Self {
        Self { path: "/metrics".into(), first_page: FirstPage::Sums, login: Login::None }
    }
}

/// A page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    First,
    PerObject,
    Detailed,
    Memory,
}

impl Which {
    const ALL: [Which; 4] = [Which::First, Which::PerObject, Which::Detailed, Which::Memory];

    /// Behind the path of the first page.
    const fn path(self) -> &'static str {
        match self {
            Which::First => "",
            Which::PerObject => "/per-object",
            Which::Detailed => "/detailed",
            Which::Memory => "/memory-breakdown",
        }
    }

    /// RabbitMQ's name of what it shows.
    const fn endpoint(self) -> &'static str {
        match self {
            Which::First => "aggregated",
            Which::PerObject => "per-object",
            Which::Detailed => "detailed",
            Which::Memory => "memory-breakdown",
        }
    }
}

/// Earlier scrapes of a page.
#[derive(Debug, Default)]
struct Scrapes {
    count: AtomicU64,
    ns: AtomicU64,
    bytes: AtomicU64,
}

impl Scrapes {
    fn add(&self, took: Duration, bytes: u64) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.ns.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn write(&self, page: &mut Page<'_>, which: Which) -> io::Result<()> {
        let registry = if which == Which::First { "default" } else { which.endpoint() };
        let of = labels(&[("registry", registry.as_bytes()), ("content_type", CONTENT_TYPE.as_bytes())]);
        let before = page.set_prefix("telemetry_scrape_");
        let seconds = self.ns.load(Ordering::Relaxed) as f64 / 1e9;
        let bytes = self.bytes.load(Ordering::Relaxed) as f64;
        for (name, help, sum) in [
            ("duration_seconds", "How long earlier scrapes took", seconds),
            ("size_bytes", "How large earlier scrapes were", bytes),
        ] {
            page.head(name, Kind::Summary, help)?;
            let count = self.count.load(Ordering::Relaxed) as f64;
            page.sample(&format!("{name}_count"), &of, count)?;
            page.sample(&format!("{name}_sum"), &of, sum)?;
        }
        page.set_prefix(before);
        Ok(())
    }
}

/// Makes the pages. Cheap to clone.
#[derive(Clone)]
pub struct Prometheus(Arc<Inner>);

struct Inner {
    broker: Broker,
    node: Node,
    options: PrometheusOptions,
    extra: Vec<Arc<dyn ExtraMetrics>>,
    scrapes: [Scrapes; Which::ALL.len()],
    sums: Arc<Semaphore>,
    objects: Turns,
}

/// Turns of pages that may be long.
struct Turns {
    running: Arc<Semaphore>,
    /// Pages that run or wait.
    places: Arc<Semaphore>,
}

impl Turns {
    /// Waits for a turn; `None` when too many wait.
    async fn take(&self) -> Option<[OwnedSemaphorePermit; 2]> {
        let place = self.places.clone().try_acquire_owned().ok()?;
        Some([self.running.clone().acquire_owned().await.ok()?, place])
    }
}

impl Prometheus {
    /// For one broker; `extra` is written on the first page.
    #[must_use]
    pub fn new(
        broker: Broker,
        node: Node,
        options: PrometheusOptions,
        extra: Vec<Arc<dyn ExtraMetrics>>,
    ) -> Self {
        let [sums, running, places] = [SUMS_MAX, SCRAPES_MAX, SCRAPES_MAX + WAITING_MAX]
            .map(|count_max| Arc::new(Semaphore::new(count_max)));
        let objects = Turns { running, places };
        Self(Arc::new(Inner { broker, node, options, extra, scrapes: Default::default(), sums, objects }))
    }

    /// The routes of the pages; nothing else is answered but 404.
    pub fn router(self) -> Router {
        Router::new().fallback(move |request: Request<Body>| {
            let pages = self.clone();
            // Nobody reads the body; the connection drops it.
            async move { pages.answer(request.into_parts().0).await }
        })
    }

    fn page_of(&self, path: &str) -> Result<Which, StatusCode> {
        let first = self.0.options.path.trim_end_matches('/');
        let rest = path.trim_end_matches('/').strip_prefix(first).ok_or(StatusCode::NOT_FOUND)?;
        Which::ALL.into_iter().find(|which| which.path() == rest).ok_or(StatusCode::NOT_FOUND)
    }

    async fn answer(self, request: Parts) -> Response<Body> {
        let which = match self.page_of(request.uri.path()) {
            Ok(which) => which,
            Err(status) => return text(status, "there is no such page; see /metrics"),
        };
        let methods = [Method::GET, Method::HEAD];
        if !methods.contains(&request.method) {
            let status = if request.method == Method::OPTIONS {
                StatusCode::OK
            } else {
                StatusCode::METHOD_NOT_ALLOWED
            };
            let mut response = text(status, "");
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("HEAD, GET, OPTIONS"));
            return response;
        }
        if let Err(response) = self.check_login(&request.headers).await {
            return *response;
        }
        if request.method == Method::HEAD {
            return text(StatusCode::OK, "");
        }
        let query = request.uri.query().unwrap_or_default().to_owned();
        self.stream(which, query, Coding::asked(&request.headers)).await
    }

    /// Users with the right tag, where a login is asked for.
    async fn check_login(&self, headers: &HeaderMap) -> Result<(), Box<Response<Body>>> {
        if self.0.options.login == Login::None {
            return Ok(());
        }
        let login = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let credentials = login.and_then(protocols::basic_login);
        let broker = self.0.broker.clone();
        // Hashing takes a while.
        let allowed = tokio::task::spawn_blocking(move || {
            let (user, password) = credentials?;
            let user = broker.authenticate(&user, &password, true)?;
            Some(user.has_tag("monitoring") || user.has_tag("administrator"))
        });
        if allowed.await.ok().flatten() == Some(true) {
            return Ok(());
        }
        let mut response = text(StatusCode::UNAUTHORIZED, "a user with the tag monitoring is asked for\n");
        let realm = HeaderValue::from_static("Basic realm=\"RabbitMQ Prometheus\"");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, realm);
        Err(Box::new(response))
    }

    /// Makes the page on a thread that may block, while it is sent.
    async fn stream(self, which: Which, query: String, coding: Coding) -> Response<Body> {
        let Some(turn) = self.turn(which).await else {
            let why = "too many pages of metrics are on their way; ask again\n";
            let mut response = text(StatusCode::SERVICE_UNAVAILABLE, why);
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            return response;
        };
        let (mut writer, body) = body::channel(tokio::runtime::Handle::current(), coding);
        tokio::task::spawn_blocking(move || {
            let _turn = turn;
            match self.write(which, &query, &mut writer) {
                Ok(()) => drop(writer.finish()),
                Err(error) => {
                    tracing::debug!(%error, "a page of metrics was broken off");
                    writer.fail(error);
                }
            }
        });
        let mut response = Response::new(body);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
        headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
        if let Some(name) = coding.name() {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(name));
        }
        response
    }

    /// A client that does not read pages of objects keeps nobody from those of sums.
    async fn turn(&self, which: Which) -> Option<Vec<OwnedSemaphorePermit>> {
        match (which, self.0.options.first_page) {
            (Which::First, FirstPage::Sums) | (Which::Memory, _) => {
                Some(vec![self.0.sums.clone().acquire_owned().await.ok()?])
            }
            _ => Some(self.0.objects.take().await?.into()),
        }
    }

    fn write(&self, which: Which, query: &str, out: &mut dyn io::Write) -> io::Result<()> {
        let started = Instant::now();
        let mut asked = Asked::new(&self.0.broker, &self.0.node);
        let mut names = Vec::new();
        for (name, value) in form(query) {
            match &*name {
                "family" => names.push(value),
                "vhost" => asked.vhosts.push(value),
                "queue" => asked.queue_names.push(value),
                _ => {}
            }
        }
        let prefix = if which == Which::Detailed { "rabbitmq_detailed_" } else { "rabbitmq_" };
        let mut page = Page::new(out, prefix);
        match (which, self.0.options.first_page) {
            (Which::First, FirstPage::Sums) => families::aggregated(&asked, &mut page)?,
            (Which::First, FirstPage::Objects) | (Which::PerObject, _) => {
                families::per_object(&asked, &mut page)?;
            }
            (Which::Detailed, _) => families::detailed(&asked, &mut page, &names)?,
            (Which::Memory, _) => node::memory_breakdown(&self.0.broker, &mut page)?,
        }
        if which == Which::First {
            let before = page.set_prefix("warren_");
            self.0.extra.iter().try_for_each(|extra| extra.write(&mut page))?;
            page.set_prefix(before);
        }
        global::identity(&asked, &mut page, which.endpoint())?;
        let scrapes = &self.0.scrapes[which as usize];
        scrapes.write(&mut page, which)?;
        scrapes.add(started.elapsed(), page.bytes());
        Ok(())
    }
}

fn text(status: StatusCode, text: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    response
}
