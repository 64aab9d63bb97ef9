//! State that every request shares: the broker, the node, options, samples. Refuses to know HTTP.

use std::borrow::Cow;
use std::io::Read;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use broker::Broker;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::body::Coding;
use super::bounds::{BODIES_KIB_MAX, CALLS_MAX, CHECKS_MAX, FORMS_MAX, WATCHES_MAX};
use super::places::Places;
use super::problem::Problem;
use super::rates;
use super::reply::Kept;
use super::room::ANSWERS_KIB_MAX;
use super::route::Lane;
use super::samples::{INTERVAL_MS, Samples};
use crate::resources::node::Node;

/// A file for browsers.
#[derive(Debug, Clone)]
pub struct Asset {
    /// Its media type.
    pub content_type: &'static str,
    /// `gzip` when the bytes are compressed so; a client that does not take that gets them plain.
    pub content_encoding: Option<&'static str>,
    /// A strong entity tag, with its quotes.
    pub etag: Cow<'static, str>,
    /// The file.
    pub bytes: Cow<'static, [u8]>,
}

impl Asset {
    /// The file as a client takes it: compressed bytes are unpacked for others, under another tag.
    pub(crate) fn for_coding(self, coding: Coding) -> Self {
        if self.content_encoding.is_none() || coding == Coding::Gzip {
            return self;
        }
        let mut plain = Vec::new();
        let unpacked = flate2::read::GzDecoder::new(&*self.bytes).read_to_end(&mut plain);
        unpacked.expect("files of this program are whole");
        let etag = format!("{}-plain\"", self.etag.trim_end_matches('"'));
        Asset { content_encoding: None, etag: etag.into(), bytes: plain.into(), ..self }
    }
}

/// Finds the file of a path below the prefix, such as `assets/app.js`, the page itself by the empty path; `None` is a 404.
pub type Assets = fn(&str) -> Option<Asset>;

/// Headers that answers carry beside their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Headers {
    /// `Content-Security-Policy`; empty for none. Default RabbitMQ's.
    pub csp: String,
    /// `Strict-Transport-Security`; empty, the default, for none.
    pub hsts: String,
    /// Origins that browsers may call from; `*` is all. Default none.
    pub cors_origins: Vec<String>,
    /// How long browsers may remember that, seconds. Default 1800.
    pub cors_max_age_s: u64,
    /// `X-Content-Type-Options`; empty, the default, for none.
    pub content_type_options: String,
    /// `X-Frame-Options`; empty, the default, for none.
    pub frame_options: String,
    /// `X-XSS-Protection`; empty, the default, for none.
    pub xss_protection: String,
    /// `Referrer-Policy`; empty, the default, for none.
    pub referrer_policy: String,
    /// `Allow` only where a method is refused. Default false.
    pub hides_allow: bool,
}

impl Default for Headers {
    fn default() -> Self {
        Self {
            csp: "script-src 'self'; object-src 'self'".into(),
            hsts: String::new(),
            cors_origins: Vec::new(),
            cors_max_age_s: 1800,
            content_type_options: String::new(),
            frame_options: String::new(),
            xss_protection: String::new(),
            referrer_policy: String::new(),
            hides_allow: false,
        }
    }
}

/// The options of the HTTP API.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// Path below which all is served, without a slash at its end. Default empty.
    pub path_prefix: String,
    /// Largest body of a request, bytes; of one that is no document and no message at most 1 MiB. Default 20 MiB.
    pub body_bytes_max: usize,
    /// Headers beside those of an answer.
    pub headers: Headers,
    /// Files for browsers; `None`, the default, has none.
    pub assets: Option<Assets>,
    /// Whether operator policies can be changed over HTTP, other than by definitions. Default yes.
    pub operator_policies: Change,
    /// Whether replicas of quorum queues can be changed over HTTP. Default yes.
    pub replicas: Change,
    /// Answers have no statistics, as if every request said `disable_stats=true`. Default false.
    pub hides_statistics: bool,
    /// As if every request said `enable_queue_totals=true`. Default false.
    pub shows_queue_totals: bool,
    /// Forms with definitions need a file named `.json`. Default false.
    pub json_definitions_only: bool,
    /// The description of the API asks for a login, too. Default false.
    pub reference_needs_login: bool,
}

/// Whether something can be changed over HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Change {
    /// It can.
    #[default]
    Allowed,
    /// It cannot (`management.restrictions.*`).
    Disabled,
}

impl Change {
    /// Refuses what is disabled; `what` is RabbitMQ's word for it.
    ///
    /// # Errors
    /// 405.
    pub(crate) fn check(self, what: &str) -> Result<(), Problem> {
        match self {
            Change::Allowed => Ok(()),
            Change::Disabled => {
                let text = format!("Broker settings disallow {what}.");
                Err(Problem::new(405, "method_not_allowed", text))
            }
        }
    }
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            path_prefix: String::new(),
            body_bytes_max: 20 << 20,
            headers: Headers::default(),
            assets: None,
            operator_policies: Change::Allowed,
            replicas: Change::Allowed,
            hides_statistics: false,
            shows_queue_totals: false,
            json_definitions_only: false,
            reference_needs_login: false,
        }
    }
}

/// How long a large body waits for memory before it is refused: as long as the one before it may take.
const ROOM_TIMEOUT: Duration = Duration::from_secs(30);

/// The state that handlers share. Cheap to clone.
#[derive(Clone)]
pub struct App(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) broker: Broker,
    pub(crate) node: Node,
    pub(crate) options: HttpOptions,
    pub(crate) samples: Samples,
    /// Handlers that may run at once.
    pub(crate) turns: Turns,
    /// Memory for large bodies on their way, KiB.
    pub(crate) received: Arc<Semaphore>,
    /// Memory for what is made of them, KiB.
    pub(crate) worked_on: Arc<Semaphore>,
    /// How long a large body waits for such memory before it is refused.
    pub(crate) room_timeout: Duration,
    /// Memory for long answers that are there as a whole and for messages in answers, KiB.
    pub(crate) answers: Arc<Semaphore>,
    /// Long answers that clients are reading.
    pub(crate) places: Arc<Places>,
    /// Large bodies that clients are sending, or wait with.
    pub(crate) senders: Arc<Places>,
    /// The API as a document, once somebody has asked for it.
    pub(crate) reference: OnceLock<Kept>,
    /// Forms with a name and a password that may be on their way at once.
    pub(crate) forms: Semaphore,
    /// Held while a very long list is sorted.
    pub(crate) sorting: Mutex<()>,
}

impl Inner {
    /// Body of the largest message that a queue can have, bytes.
    pub(crate) fn largest_message(&self) -> usize {
        usize::try_from(self.broker.options().message_size_max).unwrap_or(usize::MAX)
    }
}

/// Turns of handlers, lane by lane.
pub(crate) struct Turns {
    work: Arc<Semaphore>,
    checks: Arc<Semaphore>,
    watches: Arc<Semaphore>,
}

impl Turns {
    fn new() -> Self {
        let [work, checks, watches] =
            [CALLS_MAX, CHECKS_MAX, WATCHES_MAX].map(|count_max| Arc::new(Semaphore::new(count_max)));
        Self { work, checks, watches }
    }

    /// Waits for a turn in a lane; `None` when nothing is served any more.
    pub(crate) async fn take(&self, lane: Lane) -> Option<OwnedSemaphorePermit> {
        let lane = match lane {
            Lane::Work => &self.work,
            Lane::Checks => &self.checks,
            Lane::Watches => &self.watches,
        };
        lane.clone().acquire_owned().await.ok()
    }
}

impl App {
    /// For one broker.
    #[must_use]
    pub fn new(broker: Broker, node: Node, options: HttpOptions) -> Self {
        let [received, worked_on, answers] = [BODIES_KIB_MAX, BODIES_KIB_MAX, ANSWERS_KIB_MAX]
            .map(|count_max| Arc::new(Semaphore::new(count_max)));
        let (samples, turns) = (Samples::default(), Turns::new());
        Self(Arc::new(Inner {
            broker,
            node,
            options,
            samples,
            turns,
            received,
            worked_on,
            room_timeout: ROOM_TIMEOUT,
            answers,
            places: Arc::default(),
            senders: Arc::default(),
            forms: Semaphore::new(FORMS_MAX),
            reference: OnceLock::new(),
            sorting: Mutex::new(()),
        }))
    }

    /// Samples the counters of the node for rates and histories, until dropped. Without it rates begin when somebody looks.
    pub async fn sample(&self) {
        let mut ticks = tokio::time::interval(Duration::from_millis(INTERVAL_MS));
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let app = self.0.clone();
            if tokio::task::spawn_blocking(move || rates::sample(&app)).await.is_err() {
                tracing::error!("counters cannot be sampled; the node has no more rates");
                return std::future::pending().await;
            }
        }
    }
}
