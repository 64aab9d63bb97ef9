//! Log lines: `tracing` events to standard error and to a file, for people or as JSON.
//!
//! Refuses to know what is logged. Standard output is never used: it belongs to the `ready` line and to the output of
//! tools.

use crate::config::{ConsoleLog, ExchangeLog, FileLog, LogOptions, Switch};
use broker::LogExchange;
use management::Journal;
use parking_lot::{Mutex, RwLock};
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::{SystemTime, UNIX_EPOCH};
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::filter::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};
use tracing_subscriber::reload;

/// RabbitMQ's level names (and `warn`, `trace`, `off`), and what they are here.
const LEVELS: [(&str, &str); 12] = [
    ("trace", "trace"),
    ("debug", "debug"),
    ("info", "info"),
    ("notice", "info"),
    ("warning", "warn"),
    ("warn", "warn"),
    ("error", "error"),
    ("critical", "error"),
    ("alert", "error"),
    ("emergency", "error"),
    ("none", "off"),
    ("off", "off"),
];

/// Which log lines are written: a level, or a list such as `info,net=debug`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFilter(String);

impl Default for LogFilter {
    fn default() -> Self {
        Self("info".to_owned())
    }
}

impl LogFilter {
    /// A level by RabbitMQ's name, in any case.
    ///
    /// # Errors
    /// A sentence that lists the names.
    pub fn level(name: &str) -> Result<Self, String> {
        let wanted = name.to_ascii_lowercase();
        let level = LEVELS.iter().find(|(known, _)| *known == wanted);
        level.map(|(_, level)| Self((*level).to_owned())).ok_or_else(|| {
            "expected debug, info, notice, warning, error, critical, alert, emergency or none".to_owned()
        })
    }

    /// A level, or directives `level,target=level,...` where a target is the name of a crate or module.
    ///
    /// # Errors
    /// A sentence that says what was expected.
    pub fn directives(text: &str) -> Result<Self, String> {
        if !text.contains(['=', ',']) {
            return Self::level(text);
        }
        let mut parts = Vec::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            parts.push(match part.split_once('=') {
                Some((target, level)) => format!("{target}={}", Self::level(level)?.0),
                None => Self::level(part)?.0,
            });
        }
        let text = parts.join(",");
        EnvFilter::try_new(&text)
            .map_err(|_| "expected a level, or levels per target: info,net=debug".to_owned())?;
        Ok(Self(text))
    }

    /// The filter as `tracing` reads it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn build(&self) -> EnvFilter {
        EnvFilter::try_new(&self.0).expect("a LogFilter is only made from levels and checked directives")
    }
}

/// Shape of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum LogFormat {
    /// For people: time, level, text, fields; coloured on a terminal.
    #[default]
    Human,
    /// One JSON object per line.
    Json,
}

/// Why logging could not be set up.
#[derive(Debug)]
pub enum LogError {
    /// The log file cannot be opened for appending.
    File {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Another part of the process has set up logging already.
    AlreadySet,
}

impl std::fmt::Display for LogError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File { path, source } => write!(
                f,
                "cannot append to the log file {}: {source}\nChange log.file or log.dir, or make the folder writable.",
                path.display()
            ),
            Self::AlreadySet => f.write_str("logging is set up already"),
        }
    }
}

impl std::error::Error for LogError {}

/// Makes `options` the logging of this process. Lines are written as they come, so nothing has to be flushed at the
/// end.
///
/// # Errors
/// [`LogError::File`] if the log file cannot be opened, [`LogError::AlreadySet`] on a second call.
pub fn init(options: &LogOptions) -> Result<(), LogError> {
    let subscriber = subscriber(options)?;
    tracing::subscriber::set_global_default(subscriber).map_err(|_| LogError::AlreadySet)
}

fn subscriber(options: &LogOptions) -> Result<impl Subscriber + Send + Sync + use<>, LogError> {
    let console = console_layer(&options.console);
    let file = file_layer(&options.file)?;
    let kept = journal_layer(&options.console);
    Ok(Registry::default().with(console).with(file).with(kept).with(exchange_layer(&options.exchange)))
}

type BoxedLayer<S> = Box<dyn Layer<S> + Send + Sync>;

fn console_layer<S>(options: &ConsoleLog) -> Option<BoxedLayer<S>>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    if options.switch == Switch::Off {
        return None;
    }
    let filter = adjustable(options.filter.build());
    let layer = tracing_subscriber::fmt::layer().with_writer(io::stderr);
    Some(match options.format {
        LogFormat::Human => layer.with_ansi(io::stderr().is_terminal()).with_filter(filter).boxed(),
        LogFormat::Json => layer.json().flatten_event(true).with_filter(filter).boxed(),
    })
}

fn file_layer<S>(options: &FileLog) -> Result<Option<BoxedLayer<S>>, LogError>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    let Some(path) = options.path() else { return Ok(None) };
    let file = open(&path).map_err(|source| LogError::File { path, source })?;
    let filter = adjustable(options.filter.build());
    let layer = tracing_subscriber::fmt::layer().with_writer(Arc::new(file)).with_ansi(false);
    Ok(Some(match options.format {
        LogFormat::Human => layer.with_filter(filter).boxed(),
        LogFormat::Json => layer.json().flatten_event(true).with_filter(filter).boxed(),
    }))
}

/// Replaces the filter of an output; does nothing when that is gone.
type Adjust = Box<dyn Fn(EnvFilter) + Send + Sync>;

/// The outputs whose level can be changed while the process runs: console and file.
static ADJUSTABLE: Mutex<Vec<Adjust>> = Mutex::new(Vec::new());

/// A filter that [`set_level`] replaces.
fn adjustable<S: 'static>(filter: EnvFilter) -> reload::Layer<EnvFilter, S> {
    let (layer, handle) = reload::Layer::new(filter);
    let adjust = move |filter| {
        // Only outputs of an earlier subscriber are gone, in tests.
        let _gone = handle.reload(filter);
    };
    ADJUSTABLE.lock().push(Box::new(adjust));
    layer
}

/// From now on console and file show lines of this level and above; the level of the exchange stays.
///
/// # Errors
/// The name is no level, see [`LogFilter::level`].
pub fn set_level(name: &str) -> Result<(), String> {
    let filter = LogFilter::level(name)?;
    ADJUSTABLE.lock().iter().for_each(|adjust| adjust(filter.build()));
    Ok(())
}

/// Where lines are published, once a broker runs.
static EXCHANGE: RwLock<Option<LogExchange>> = RwLock::new(None);

/// From now on lines are published on this exchange, if the options of [`init`] ask for it; on none while the broker is stopped.
pub fn publish_on(exchange: Option<LogExchange>) {
    *EXCHANGE.write() = exchange;
}

/// The last lines, for the web UI.
static JOURNAL: LazyLock<Arc<Journal>> = LazyLock::new(Arc::default);

/// The last lines of this process, as many as pass the filter of the console, also when the console is off.
pub fn journal() -> Arc<Journal> {
    JOURNAL.clone()
}

/// Makes writers that keep.
struct Kept;

/// One line of a level.
struct KeptLine(&'static str);

impl<'a> MakeWriter<'a> for Kept {
    type Writer = KeptLine;

    fn make_writer(&'a self) -> KeptLine {
        KeptLine("info")
    }

    fn make_writer_for(&'a self, meta: &Metadata<'_>) -> KeptLine {
        KeptLine(level_name(*meta.level()))
    }
}

impl io::Write for KeptLine {
    /// Lines come whole.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        JOURNAL.push(u64::try_from(now.as_millis()).unwrap_or(u64::MAX), self.0, line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn journal_layer<S>(options: &ConsoleLog) -> BoxedLayer<S>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    let layer = tracing_subscriber::fmt::layer().with_writer(Kept).with_ansi(false);
    layer.without_time().with_level(false).with_filter(adjustable(options.filter.build())).boxed()
}

/// RabbitMQ's names.
fn level_name(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => "warning",
        Level::INFO => "info",
        _ => "debug",
    }
}

/// Makes writers that publish.
struct Published;

/// One line of a level.
struct PublishedLine(&'static str);

impl<'a> MakeWriter<'a> for Published {
    type Writer = PublishedLine;

    fn make_writer(&'a self) -> PublishedLine {
        PublishedLine("info")
    }

    fn make_writer_for(&'a self, meta: &Metadata<'_>) -> PublishedLine {
        PublishedLine(level_name(*meta.level()))
    }
}

impl io::Write for PublishedLine {
    /// Lines come whole.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let exchange = EXCHANGE.read().clone();
        if let Some(exchange) = exchange {
            exchange.say(self.0, line);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn exchange_layer<S>(options: &ExchangeLog) -> Option<BoxedLayer<S>>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    if options.switch == Switch::Off {
        return None;
    }
    let filter = options.filter.build();
    let layer = tracing_subscriber::fmt::layer().with_writer(Published).with_ansi(false);
    Some(match options.format {
        LogFormat::Human => layer.with_filter(filter).boxed(),
        LogFormat::Json => layer.json().flatten_event(true).with_filter(filter).boxed(),
    })
}

/// Opens for appending, so that `logrotate` with `copytruncate` works; makes the folder.
fn open(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    OpenOptions::new().create(true).append(true).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_go_by_rabbitmqs_names() {
        for (name, filter) in
            [("notice", "info"), ("WARNING", "warn"), ("emergency", "error"), ("none", "off")]
        {
            assert_eq!(LogFilter::level(name).unwrap().as_str(), filter);
        }
        assert!(LogFilter::level("inof").unwrap_err().contains("debug, info"));
    }

    #[test]
    fn directives_name_levels_per_target_and_slips_are_refused() {
        assert_eq!(LogFilter::directives("info,net=debug").unwrap().as_str(), "info,net=debug");
        assert_eq!(LogFilter::directives("warning, broker=notice,").unwrap().as_str(), "warn,broker=info");
        for slip in ["inof", "info,net=debgu", "net=", "deb ug"] {
            assert!(LogFilter::directives(slip).is_err(), "{slip}");
        }
    }

    fn logged(format: LogFormat) -> String {
        let folder = tempfile::tempdir().unwrap();
        let mut options = LogOptions::default();
        options.console.switch = Switch::Off;
        options.file.dir = Some(folder.path().join("deep"));
        options.file.format = format;
        let subscriber = subscriber(&options).unwrap();
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(port = 5672, "listening");
            tracing::debug!("unheard");
        });
        std::fs::read_to_string(options.file.path().unwrap()).unwrap()
    }

    #[test]
    fn a_log_file_gets_lines_for_people_without_colours() {
        let text = logged(LogFormat::Human);
        assert!(text.contains("INFO") && text.contains("listening port=5672"), "{text}");
        assert_eq!(text.lines().count(), 1);
        assert!(!text.contains('\u{1b}'));
    }

    #[test]
    fn the_last_lines_are_kept_without_time_and_level() {
        let mut options = LogOptions::default();
        options.console.switch = Switch::Off;
        options.file.name = Some(tempfile::NamedTempFile::new().unwrap().path().to_owned());
        tracing::subscriber::with_default(subscriber(&options).unwrap(), || {
            tracing::warn!(port = 5672, "kept in the journal");
        });
        let all = journal().after(0, usize::MAX);
        let line = all.iter().find(|line| line.message.contains("kept in the journal")).unwrap();
        assert_eq!(line.level, "warning");
        assert!(line.message.ends_with("kept in the journal port=5672"), "{}", line.message);
        assert!(line.at > 1_700_000_000_000);
    }

    #[test]
    fn a_log_file_gets_one_json_object_per_line() {
        let text = logged(LogFormat::Json);
        assert!(text.starts_with('{') && text.trim_end().ends_with('}'), "{text}");
        assert!(text.contains("\"message\":\"listening\"") && text.contains("\"port\":5672"), "{text}");
    }

    #[test]
    fn a_log_file_that_cannot_be_opened_is_an_error_that_says_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let mut options = LogOptions::default();
        options.file.name = Some(folder.path().to_owned());
        let Err(error) = subscriber(&options) else { panic!("a folder is no log file") };
        assert!(error.to_string().contains("Change log.file"), "{error}");
    }
}
