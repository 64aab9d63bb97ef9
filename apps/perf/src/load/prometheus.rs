//! The figures of the last interval for Prometheus: an endpoint of a few lines of HTTP, and the names that PerfTest gives
//! to its metrics.
//!
//! Refuses to measure. One request at a time is answered, on a thread that does nothing else; a request never waits for
//! the run, nor the run for it.

use super::options::{Metrics, Options};
use super::phases::Cycle;
use super::report::{Interval, Percentiles, Totals};
use anyhow::{Context, Result};
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long one who asks may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// Bytes of a request at most.
const REQUEST_BYTES_MAX: usize = 8192;

/// The endpoint; it ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Endpoint {
    address: SocketAddr,
    shared: Arc<Shared>,
    names: Names,
    /// Messages per second that are to be sent after so many nanoseconds, and to be received.
    expected: (Option<Expected>, Option<f64>),
}

#[derive(Debug)]
struct Shared {
    path: String,
    text: Mutex<String>,
    ended: AtomicBool,
}

/// Rate that all publishers together should have.
#[derive(Debug)]
enum Expected {
    Constant(f64),
    Varying(Cycle<u32>, f64),
}

/// How metrics are named and labelled.
#[derive(Debug)]
struct Names {
    prefix: String,
    /// Labels in Prometheus' form, each with a comma behind it.
    labels: String,
    /// Lines that do not change.
    fixed: String,
}

impl Endpoint {
    /// Starts it, if the options ask for it.
    ///
    /// # Errors
    /// The port is taken.
    pub(crate) fn start(options: &Options) -> Result<Option<Self>> {
        let metrics = &options.metrics;
        if !metrics.metrics_prometheus {
            return Ok(None);
        }
        let port = metrics.metrics_prometheus_port;
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))
            .with_context(|| format!("cannot serve metrics on port {port} (--metrics-prometheus-port)"))?;
        let path = format!("/{}", metrics.metrics_prometheus_endpoint.trim_start_matches('/'));
        let (text, ended) = (Mutex::new(String::new()), AtomicBool::new(false));
        let shared = Arc::new(Shared { path, text, ended });
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, listener.local_addr()?.port()));
        let served = Arc::clone(&shared);
        std::thread::Builder::new().name("metrics".to_owned()).spawn(move || serve(&listener, &served))?;
        let endpoint =
            Self { address, shared, names: Names::new(metrics, options), expected: expected(options) };
        endpoint.tell(&Interval::default(), [Totals::default(); 2]);
        Ok(Some(endpoint))
    }

    /// Where it listens, for people.
    pub(crate) fn place(&self) -> String {
        format!("http://{}{}", self.address, self.shared.path)
    }

    /// Takes the figures of an interval, and totals of the latency of deliveries and of confirms.
    pub(crate) fn tell(&self, interval: &Interval, totals: [Totals; 2]) {
        let (names, mut text) = (&self.names, String::new());
        for (name, value) in [
            ("published", interval.sent_per_s),
            ("confirmed", interval.confirmed_per_s),
            ("nacked", interval.nacked_per_s),
            ("returned", interval.returned_per_s),
            ("consumed", interval.received_per_s),
        ] {
            names.gauge(&mut text, name, value);
        }
        names.summary(&mut text, ("latency", "message latency"), interval.latency_us, totals[0]);
        let confirm = ("confirm_latency", "confirm latency");
        names.summary(&mut text, confirm, interval.confirm_latency_us, totals[1]);
        let (published, consumed) = &self.expected;
        let published = published.as_ref().map(|expected| expected.at(interval.at_s));
        for (name, value) in [("expected_published", published), ("expected_consumed", *consumed)] {
            value.into_iter().for_each(|value| names.gauge(&mut text, name, value));
        }
        text += &names.fixed;
        *self.shared.text.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.shared.ended.store(true, Relaxed);
        // Wakes the thread; if that fails it ends with the process.
        let _ = TcpStream::connect_timeout(&self.address, PATIENCE);
    }
}

fn expected(options: &Options) -> (Option<Expected>, Option<f64>) {
    let (publishing, consuming, metrics) = (&options.publishing, &options.consuming, &options.metrics);
    let given = |name: &str| metrics.exposed_metrics.iter().any(|exposed| exposed.name == name);
    let [publishers, consumers] = [publishing.publishers(), consuming.all()].map(number);
    let rate = publishing.rate.filter(|rate| *rate > 0.0);
    let rate = rate.or_else(|| publishing.publishing_interval.map(|seconds| 1.0 / seconds));
    let published = match Cycle::new(&publishing.variable_rate) {
        Some(cycle) => Some(Expected::Varying(cycle, publishers)),
        None => rate.map(|rate| Expected::Constant(rate * publishers)),
    };
    let consumed = consuming.consumer_rate.filter(|rate| *rate > 0.0).map(|rate| rate * consumers);
    (published.filter(|_| !given("expected_published")), consumed.filter(|_| !given("expected_consumed")))
}

#[expect(clippy::cast_precision_loss, reason = "connections of a run are few")]
fn number(count: usize) -> f64 {
    count as f64
}

impl Expected {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "seconds of a run are not negative, and far below 2^52 ns"
    )]
    fn at(&self, seconds: f64) -> f64 {
        match self {
            Self::Constant(rate) => *rate,
            Self::Varying(cycle, publishers) => {
                f64::from(cycle.value_at((seconds * 1e9) as u64)) * publishers
            }
        }
    }
}

impl Names {
    fn new(metrics: &Metrics, options: &Options) -> Self {
        let labels = metrics.metrics_tags.iter();
        let labels = labels.map(|tag| format!("{}=\"{}\",", tag.name, escaped(&tag.value))).collect();
        let mut names = Self { prefix: metrics.metrics_prefix.clone(), labels, fixed: String::new() };
        let mut fixed = String::new();
        for exposed in &metrics.exposed_metrics {
            names.gauge(&mut fixed, &exposed.name, exposed.value);
        }
        if metrics.metrics_command_line_arguments {
            let line = escaped(&options.arguments.join(" "));
            names.value(&mut fixed, "args", &format!("command_line=\"{line}\","), 1.0);
        }
        names.fixed = fixed;
        names
    }

    fn gauge(&self, text: &mut String, name: &str, value: f64) {
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(text, "# TYPE {}{name} gauge", self.prefix);
        self.value(text, name, "", value);
    }

    fn value(&self, text: &mut String, name: &str, more: &str, value: f64) {
        let labels = format!("{}{more}", self.labels);
        let labels = labels.trim_end_matches(',');
        let (open, close) = if labels.is_empty() { ("", "") } else { ("{", "}") };
        let _ = writeln!(text, "{}{name}{open}{labels}{close} {value}", self.prefix);
    }

    fn summary(
        &self,
        text: &mut String,
        (name, what): (&str, &str),
        last: Option<Percentiles>,
        totals: Totals,
    ) {
        let (prefix, name) = (&self.prefix, format!("{name}_seconds"));
        let _ = write!(text, "# HELP {prefix}{name} {what}\n# TYPE {prefix}{name} summary\n");
        let values = last.map_or([0.0; 4], |p| [p.p50, p.p75, p.p95, p.p99]);
        for (quantile, us) in ["0.5", "0.75", "0.95", "0.99"].into_iter().zip(values) {
            self.value(text, &name, &format!("quantile=\"{quantile}\","), us / 1e6);
        }
        let count = number(usize::try_from(totals.count).unwrap_or(usize::MAX));
        self.value(text, &format!("{name}_count"), "", count);
        self.value(text, &format!("{name}_sum"), "", totals.sum_s);
        self.gauge(text, &format!("{name}_max"), last.map_or(0.0, |p| p.max / 1e6));
    }
}

/// A label's value in Prometheus' text format.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn serve(listener: &TcpListener, shared: &Shared) {
    for stream in listener.incoming() {
        if shared.ended.load(Relaxed) {
            return;
        }
        // One who asks wrongly or goes away hears nothing; nobody else is concerned.
        let _ = stream.map(|stream| answer(stream, shared));
    }
}

fn answer(mut stream: TcpStream, shared: &Shared) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let (mut request, mut buffer) = (Vec::new(), [0; 1024]);
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < REQUEST_BYTES_MAX {
        match stream.read(&mut buffer)? {
            0 => break,
            count => request.extend_from_slice(&buffer[..count]),
        }
    }
    let line = String::from_utf8_lossy(&request);
    let mut words = line.split_whitespace();
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = path.split('?').next().unwrap_or_default();
    let (status, body) = match (method, path == shared.path) {
        ("GET", true) => ("200 OK", shared.text.lock().unwrap_or_else(PoisonError::into_inner).clone()),
        ("GET", false) => ("404 Not Found", format!("metrics are at {}\n", shared.path)),
        _ => ("405 Method Not Allowed", "only GET is answered\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    fn endpoint(line: &str) -> Endpoint {
        let line = format!("-mpr -mpp 0 {line}");
        let options = Options::parse_args(line.split_whitespace().map(OsString::from)).unwrap();
        Endpoint::start(&options).unwrap().unwrap()
    }

    fn get(endpoint: &Endpoint, request: &str) -> String {
        let mut stream = TcpStream::connect(endpoint.address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn the_figures_of_the_last_interval_are_served_under_perf_tests_names() {
        let endpoint =
            endpoint("-r 50 -x 2 -R 7 -mt env=a\"b,dc=eu -em limit=3 -mcla -h amqp://u:secret@127.0.0.1");
        let times = Percentiles { min: 1.0, p50: 2e3, p75: 3e3, p95: 4e3, p99: 5e3, p99_9: 6e3, max: 7e3 };
        let interval =
            Interval { at_s: 1.0, sent_per_s: 99.5, latency_us: Some(times), ..Interval::default() };
        endpoint.tell(&interval, [Totals { count: 10, sum_s: 0.5 }, Totals::default()]);
        let text = get(&endpoint, "GET /metrics HTTP/1.1\r\n\r\n");
        let labels = "{env=\"a\\\"b\",dc=\"eu\"}";
        for line in [
            "HTTP/1.1 200 OK".to_owned(),
            "# TYPE perftest_published gauge".to_owned(),
            format!("perftest_published{labels} 99.5"),
            format!("perftest_expected_published{labels} 100"),
            format!("perftest_expected_consumed{labels} 7"),
            format!("perftest_limit{labels} 3"),
            "perftest_latency_seconds{env=\"a\\\"b\",dc=\"eu\",quantile=\"0.5\"} 0.002".to_owned(),
            format!("perftest_latency_seconds_count{labels} 10"),
            format!("perftest_latency_seconds_max{labels} 0.007"),
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(text.contains("command_line=\"--metrics-prometheus") && !text.contains("secret"), "{text}");
    }

    #[test]
    fn other_questions_are_answered_with_what_would_be_right() {
        let endpoint = endpoint("-mpe /mine -mpx x_ -vr 5:1");
        assert!(get(&endpoint, "GET /metrics HTTP/1.1\r\n\r\n").contains("404 Not Found\r\n"));
        assert!(get(&endpoint, "POST /mine HTTP/1.1\r\n\r\n").contains("405 "));
        let text = get(&endpoint, "GET /mine?x=1 HTTP/1.1\r\n\r\n");
        assert!(text.contains("\nx_published 0\n") && text.contains("\nx_expected_published 5\n"), "{text}");
        assert!(endpoint.place().ends_with("/mine"));
    }

    #[test]
    fn it_ends_with_the_run() {
        let endpoint = endpoint("");
        let address = endpoint.address;
        drop(endpoint);
        // The thread may need a moment to let go of the port.
        let began = std::time::Instant::now();
        while TcpListener::bind(address).is_err() {
            assert!(began.elapsed() < Duration::from_secs(20));
            std::thread::yield_now();
        }
    }
}
