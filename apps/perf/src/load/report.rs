//! What a run tells: a line per second, a summary as PerfTest words it, one line of JSON.
//!
//! Refuses to measure anything.

use super::figures::{Figures, histogram};
use crate::io::{WatchedUse, monotonic_ns, process_cpu_ns};
use hdrhistogram::Histogram;
use serde::Serialize;
use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;

/// Counters at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moment {
    /// Monotonic nanoseconds.
    pub(crate) at_ns: u64,
    own_cpu_ns: u64,
    sent: u64,
    /// Messages received so far.
    pub(crate) received: u64,
    confirmed: u64,
    watched: Option<WatchedUse>,
}

impl Moment {
    /// Now.
    pub(crate) fn of(figures: &Figures, watched: Option<WatchedUse>) -> Self {
        Self {
            at_ns: monotonic_ns(),
            own_cpu_ns: process_cpu_ns(),
            sent: figures.sent.load(Relaxed),
            received: figures.received.load(Relaxed),
            confirmed: figures.confirmed.load(Relaxed),
            watched,
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a run lasts less than 2^52 ns")]
    pub(crate) fn seconds_since(&self, earlier: &Self) -> f64 {
        (self.at_ns - earlier.at_ns) as f64 / 1e9
    }
}

/// Times of a whole run, gathered second by second.
#[derive(Debug)]
pub(crate) struct Report {
    id: String,
    latency: Histogram<u64>,
    confirm_latency: Histogram<u64>,
    lateness: Histogram<u64>,
}

/// Percentiles in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Percentiles {
    min: f64,
    p50: f64,
    p75: f64,
    p95: f64,
    p99: f64,
    #[serde(rename = "p99.9")]
    p99_9: f64,
    max: f64,
}

/// What the watched process used during a run.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct WatchedFigures {
    cpu_us_per_message: f64,
    cpu_s: f64,
    rss_kib: u64,
    rss_max_kib: u64,
}

/// The outcome of a run. Rates are per second. CPU is per message received, or sent where nobody consumes.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Summary {
    id: String,
    seconds: f64,
    sent: u64,
    received: u64,
    confirmed: u64,
    nacked: u64,
    returned: u64,
    sent_per_s: f64,
    received_per_s: f64,
    confirmed_per_s: f64,
    latency_us: Option<Percentiles>,
    confirm_latency_us: Option<Percentiles>,
    lateness_us: Option<Percentiles>,
    own_cpu_us_per_message: f64,
    broker: Option<WatchedFigures>,
}

impl Report {
    pub(crate) fn new(id: &str) -> Self {
        Self { id: id.to_owned(), latency: histogram(), confirm_latency: histogram(), lateness: histogram() }
    }

    /// Takes what was measured since the last time, and words it as one line.
    pub(crate) fn interval(
        &mut self,
        figures: &Figures,
        start: &Moment,
        last: &Moment,
        now: &Moment,
    ) -> String {
        let mut latency = histogram();
        let mut confirm_latency = histogram();
        figures.latency.take_into(&mut latency);
        figures.confirm_latency.take_into(&mut confirm_latency);
        figures.lateness.take_into(&mut self.lateness);
        let mut line = format!("id: {}, time {:.3} s", self.id, now.seconds_since(start));
        let seconds = now.seconds_since(last);
        for (what, earlier, later) in [
            ("sent", last.sent, now.sent),
            ("received", last.received, now.received),
            ("confirmed", last.confirmed, now.confirmed),
        ] {
            if later > 0 {
                // Writing to a string cannot fail.
                let _ = write!(line, ", {what}: {:.0} msg/s", ratio(later - earlier, seconds));
            }
        }
        for (whose, times) in [("consumer", &latency), ("confirm", &confirm_latency)] {
            if let Some(p) = percentiles(times) {
                let all = [p.min, p.p50, p.p75, p.p95, p.p99].map(|us| format!("{us:.0}")).join("/");
                let _ = write!(line, ", min/median/75th/95th/99th {whose} latency: {all} µs");
            }
        }
        self.latency.add(&latency).expect("all histograms of a run have the same bounds");
        self.confirm_latency.add(&confirm_latency).expect("all histograms of a run have the same bounds");
        line
    }

    /// The outcome between two moments.
    pub(crate) fn summary(&self, figures: &Figures, start: &Moment, end: &Moment) -> Summary {
        let seconds = end.seconds_since(start);
        let messages = if end.received > 0 { end.received } else { end.sent };
        Summary {
            id: self.id.clone(),
            seconds,
            sent: end.sent,
            received: end.received,
            confirmed: end.confirmed,
            nacked: figures.nacked.load(Relaxed),
            returned: figures.returned.load(Relaxed),
            sent_per_s: ratio(end.sent, seconds),
            received_per_s: ratio(end.received, seconds),
            confirmed_per_s: ratio(end.confirmed, seconds),
            latency_us: percentiles(&self.latency),
            confirm_latency_us: percentiles(&self.confirm_latency),
            lateness_us: percentiles(&self.lateness),
            own_cpu_us_per_message: per_message(end.own_cpu_ns - start.own_cpu_ns, messages) / 1e3,
            broker: watched(start, end, messages),
        }
    }
}

impl Summary {
    /// For people.
    pub(crate) fn text(&self) -> String {
        let id = &self.id;
        let mut text = String::new();
        if self.sent > 0 {
            let _ = writeln!(text, "id: {id}, sending rate avg: {:.0} msg/s", self.sent_per_s);
        }
        if self.received > 0 {
            let _ = writeln!(text, "id: {id}, receiving rate avg: {:.0} msg/s", self.received_per_s);
        }
        for (what, times) in [
            ("consumer latency", self.latency_us),
            ("confirm latency", self.confirm_latency_us),
            ("lateness of this tool", self.lateness_us),
        ] {
            if let Some(p) = times {
                let all = [p.min, p.p50, p.p75, p.p95, p.p99, p.p99_9, p.max]
                    .map(|us| format!("{us:.1}"))
                    .join("/");
                let _ = writeln!(text, "id: {id}, {what} min/median/75th/95th/99th/99.9th/max {all} µs");
            }
        }
        if self.nacked + self.returned > 0 {
            let _ = writeln!(text, "id: {id}, nacked: {}, returned: {}", self.nacked, self.returned);
        }
        let _ = writeln!(text, "id: {id}, own CPU: {:.3} µs per message", self.own_cpu_us_per_message);
        if let Some(WatchedFigures { cpu_us_per_message, rss_kib, rss_max_kib, .. }) = self.broker {
            let _ = writeln!(
                text,
                "id: {id}, broker CPU: {cpu_us_per_message:.3} µs per message, resident {} MiB, at most {} MiB",
                rss_kib / 1024,
                rss_max_kib / 1024
            );
        }
        text
    }

    /// For programs: one line without its end.
    pub(crate) fn json(&self) -> String {
        serde_json::to_string(self).expect("numbers and strings can always be written")
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of a run are far below 2^52")]
fn ratio(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

#[expect(clippy::cast_precision_loss, reason = "counts of a run are far below 2^52")]
fn per_message(amount: u64, messages: u64) -> f64 {
    amount as f64 / messages.max(1) as f64
}

#[expect(clippy::cast_precision_loss, reason = "seconds of CPU are far below 2^52 us")]
fn watched(start: &Moment, end: &Moment, messages: u64) -> Option<WatchedFigures> {
    let (before, after) = (start.watched?, end.watched?);
    let cpu_us = after.cpu_us.saturating_sub(before.cpu_us);
    Some(WatchedFigures {
        cpu_us_per_message: per_message(cpu_us, messages),
        cpu_s: cpu_us as f64 / 1e6,
        rss_kib: after.rss_kib,
        rss_max_kib: after.rss_max_kib,
    })
}

#[expect(clippy::cast_precision_loss, reason = "latencies are at most an hour")]
fn percentiles(times: &Histogram<u64>) -> Option<Percentiles> {
    let us = |ns: u64| (ns as f64 / 100.0).round() / 10.0;
    let at = |quantile| us(times.value_at_quantile(quantile));
    (!times.is_empty()).then(|| Percentiles {
        min: us(times.min()),
        p50: at(0.5),
        p75: at(0.75),
        p95: at(0.95),
        p99: at(0.99),
        p99_9: at(0.999),
        max: us(times.max()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_summed_up_for_people_and_programs() {
        let figures = Figures::default();
        let used = |cpu_us| Some(WatchedUse { cpu_us, rss_kib: 2048, rss_max_kib: 4096 });
        let start = Moment { at_ns: 1_000_000_000, watched: used(1_000_000), ..Moment::default() };
        figures.latency.lock().record_n(200_000, 100).unwrap();
        let end = Moment {
            at_ns: 3_000_000_000,
            own_cpu_ns: 50_000,
            sent: 200,
            received: 100,
            watched: used(1_000_300),
            ..start
        };
        let mut report = Report::new("t");
        let line = report.interval(&figures, &start, &start, &end);
        assert_eq!(
            line,
            "id: t, time 2.000 s, sent: 100 msg/s, received: 50 msg/s, \
             min/median/75th/95th/99th consumer latency: 200/200/200/200/200 µs"
        );
        let summary = report.summary(&figures, &start, &end);
        let json: serde_json::Value = serde_json::from_str(&summary.json()).unwrap();
        assert_eq!(json["received_per_s"], 50.0);
        assert_eq!(json["broker"]["cpu_us_per_message"], 3.0);
        assert_eq!(json["own_cpu_us_per_message"], 0.5);
        assert!((json["latency_us"]["p99.9"].as_f64().unwrap() - 200.0).abs() < 1.0);
        assert!(json["confirm_latency_us"].is_null());
        assert!(summary.text().contains("receiving rate avg: 50 msg/s"));
    }
}
