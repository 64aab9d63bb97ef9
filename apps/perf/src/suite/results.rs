//! Measurements of the suite, as they are kept in `suite.json`.

use super::catalogue::QueueType;
use crate::load::Summary;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Version of the file's shape.
const VERSION: u32 = 1;

/// A whole result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Results {
    version: u32,
    /// The tests that were to be run.
    pub(crate) plan: Plan,
    /// Where.
    pub(crate) machine: Machine,
    /// The measurements so far.
    pub(crate) measurements: Vec<Measurement>,
}

/// The tests to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// Seconds per test.
    pub(crate) seconds: u64,
    /// Sizes of bodies in bytes.
    pub(crate) sizes: Vec<u32>,
    /// Names of tests.
    pub(crate) tests: Vec<String>,
    /// Names of brokers; the first is what others are compared with.
    pub(crate) brokers: Vec<String>,
    pub(crate) backlog_bytes_max: u64,
    pub(crate) connections_max: u32,
    /// Results of older programs are of classic queues.
    #[serde(default)]
    pub(crate) queue_type: QueueType,
}

/// Where it was run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    pub(crate) kernel: String,
    /// Seconds since 1970 of the beginning.
    pub(crate) began_s: u64,
    /// Load average before the first test.
    pub(crate) load_before: String,
}

/// One test against one broker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Measurement {
    pub(crate) test: String,
    pub(crate) size: u32,
    pub(crate) broker: String,
    /// How to do it again by hand.
    pub(crate) commands: Vec<String>,
    /// The deviation from the intended test.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) cut: Option<String>,
    /// Why there are no figures.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) failure: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) figures: Option<Summary>,
    /// Bytes that the broker wrote to disk.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) disk_written_bytes: Option<u64>,
    /// Resident memory of the broker before, in bytes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) rss_before_bytes: Option<u64>,
    /// Resident memory of the broker when it has come to rest after the test, in bytes, where that is the question.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) rss_after_bytes: Option<u64>,
    /// Other figures with names.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub(crate) notes: Vec<(String, f64)>,
    /// A flame graph, as SVG.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) flame: Option<String>,
}

impl Measurement {
    /// Largest resident memory in MiB while it ran.
    pub(crate) fn rss_max_mib(&self) -> Option<f64> {
        let figures = self.figures.as_ref()?;
        let kib = figures.series.iter().filter_map(|interval| interval.broker_rss_kib).max();
        kib.or_else(|| figures.broker.map(|broker| broker.rss_kib)).map(|kib| number(kib) / 1024.0)
    }

    /// Growth of resident memory per message that was sent and stays, in bytes.
    pub(crate) fn memory_per_message(&self) -> Option<f64> {
        let figures = self.figures.as_ref()?;
        let (before, after) = self.rss_before_bytes.zip(self.rss_after_bytes)?;
        (figures.sent > 0).then(|| (number(after) - number(before)).max(0.0) / number(figures.sent))
    }

    /// Bytes written to disk per message.
    pub(crate) fn disk_per_message(&self) -> Option<f64> {
        let figures = self.figures.as_ref()?;
        let messages = figures.sent.max(figures.received);
        (messages > 0).then(|| self.disk_written_bytes.map(|bytes| number(bytes) / number(messages)))?
    }
}

/// As a number to calculate with.
#[expect(clippy::cast_precision_loss, reason = "counts of a run are far below 2^52")]
pub(crate) const fn number(count: u64) -> f64 {
    count as f64
}

impl Results {
    /// Nothing measured yet.
    pub(crate) fn new(plan: Plan, machine: Machine) -> Self {
        Self { version: VERSION, plan, machine, measurements: Vec::new() }
    }

    /// Reads a result.
    ///
    /// # Errors
    /// It cannot be read, or is no result of this suite.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let results: Self = serde_json::from_str(&text)
            .with_context(|| format!("{} is no result of warren bench suite", path.display()))?;
        anyhow::ensure!(results.version == VERSION, "{} is of another version of the suite", path.display());
        Ok(results)
    }

    /// Writes it, so that a stop in the middle leaves the former.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string(self).context("results can always be written as JSON")?;
        let fresh = path.with_extension("json.new");
        std::fs::write(&fresh, text).with_context(|| format!("cannot write {}", fresh.display()))?;
        std::fs::rename(&fresh, path).with_context(|| format!("cannot write {}", path.display()))
    }

    /// The measurement of a test, size and broker.
    pub(crate) fn find(&self, test: &str, size: u32, broker: &str) -> Option<&Measurement> {
        self.measurements
            .iter()
            .find(|found| found.test == test && found.size == size && found.broker == broker)
    }
}

impl Machine {
    /// This one, now.
    pub(crate) fn here() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let cpu = read("/proc/cpuinfo");
        let cpu = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Self {
            cpu: cpu.map_or("unknown", |(_, name)| name).to_owned(),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            kernel: read("/proc/sys/kernel/osrelease"),
            began_s: since.map_or(0, |since| since.as_secs()),
            load_before: read("/proc/loadavg").split(' ').next().unwrap_or_default().to_owned(),
        }
    }
}
