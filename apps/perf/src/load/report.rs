//! Report of a run: figures of each interval and of the whole, and one line of JSON.
//!
//! Refuses to measure anything, and to word anything for people.

use super::figures::{Figures, histogram};
use crate::io::{WatchedUse, monotonic_ns, process_cpu_ns};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;

/// Intervals that are kept for `--series` at most: a day of seconds.
const SERIES_MAX: usize = 86_400;

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
    nacked: u64,
    returned: u64,
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
            nacked: figures.nacked.load(Relaxed),
            returned: figures.returned.load(Relaxed),
            watched,
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a run lasts less than 2^52 ns")]
    pub(crate) fn seconds_since(&self, earlier: &Self) -> f64 {
        self.at_ns.saturating_sub(earlier.at_ns) as f64 / 1e9
    }
}

/// Times of a whole run, gathered interval by interval.
#[derive(Debug)]
pub(crate) struct Report {
    id: String,
    latency: Histogram<u64>,
    confirm_latency: Histogram<u64>,
    lateness: Histogram<u64>,
    series: Vec<Interval>,
}

/// Percentiles in microseconds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Percentiles {
    pub(crate) min: f64,
    pub(crate) p50: f64,
    pub(crate) p75: f64,
    pub(crate) p95: f64,
    pub(crate) p99: f64,
    #[serde(rename = "p99.9")]
    pub(crate) p99_9: f64,
    pub(crate) max: f64,
}

/// All times of a kind so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    /// How many there were.
    pub(crate) count: u64,
    /// Their sum in seconds.
    pub(crate) sum_s: f64,
}

/// Figures of one interval. Rates are messages per second.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Interval {
    /// Seconds from the beginning of the run to the end of the interval.
    pub(crate) at_s: f64,
    pub(crate) sent_per_s: f64,
    pub(crate) received_per_s: f64,
    pub(crate) confirmed_per_s: f64,
    pub(crate) nacked_per_s: f64,
    pub(crate) returned_per_s: f64,
    pub(crate) latency_us: Option<Percentiles>,
    pub(crate) confirm_latency_us: Option<Percentiles>,
    /// CPU seconds of the watched process per second.
    pub(crate) broker_cores: Option<f64>,
    /// Resident memory of the watched process at the end of the interval.
    pub(crate) broker_rss_kib: Option<u64>,
}

/// The CPU time and memory that the watched process used during a run.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct WatchedFigures {
    pub(crate) cpu_us_per_message: Option<f64>,
    pub(crate) cpu_s: f64,
    pub(crate) rss_kib: u64,
    pub(crate) rss_max_kib: u64,
}

/// The outcome of a run. Rates are per second. CPU is per message received, or sent where nobody consumes; none where nothing
/// was moved.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Summary {
    pub(crate) id: String,
    pub(crate) seconds: f64,
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) confirmed: u64,
    pub(crate) nacked: u64,
    pub(crate) returned: u64,
    pub(crate) sent_per_s: f64,
    pub(crate) received_per_s: f64,
    pub(crate) confirmed_per_s: f64,
    pub(crate) latency_us: Option<Percentiles>,
    pub(crate) confirm_latency_us: Option<Percentiles>,
    pub(crate) lateness_us: Option<Percentiles>,
    pub(crate) own_cpu_us_per_message: Option<f64>,
    pub(crate) broker: Option<WatchedFigures>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub(crate) series: Vec<Interval>,
}

impl Report {
    pub(crate) fn new(id: &str) -> Self {
        let [latency, confirm_latency, lateness] = [histogram(), histogram(), histogram()];
        Self { id: id.to_owned(), latency, confirm_latency, lateness, series: Vec::new() }
    }

    /// Takes what was measured since the last time.
    pub(crate) fn interval(
        &mut self,
        figures: &Figures,
        start: &Moment,
        last: &Moment,
        now: &Moment,
    ) -> Interval {
        let (mut latency, mut confirm_latency) = (histogram(), histogram());
        figures.latency.take_into(&mut latency);
        figures.confirm_latency.take_into(&mut confirm_latency);
        figures.lateness.take_into(&mut self.lateness);
        let seconds = now.seconds_since(last);
        let cpu_us = now.watched.zip(last.watched).map(|(now, last)| now.cpu_us.saturating_sub(last.cpu_us));
        let interval = Interval {
            at_s: now.seconds_since(start),
            sent_per_s: ratio(now.sent - last.sent, seconds),
            received_per_s: ratio(now.received - last.received, seconds),
            confirmed_per_s: ratio(now.confirmed - last.confirmed, seconds),
            nacked_per_s: ratio(now.nacked - last.nacked, seconds),
            returned_per_s: ratio(now.returned - last.returned, seconds),
            latency_us: percentiles(&latency),
            confirm_latency_us: percentiles(&confirm_latency),
            broker_cores: cpu_us.map(|cpu_us| ratio(cpu_us, seconds) / 1e6),
            broker_rss_kib: now.watched.map(|watched| watched.rss_kib),
        };
        self.latency.add(&latency).expect("all histograms of a run have the same bounds");
        self.confirm_latency.add(&confirm_latency).expect("all histograms of a run have the same bounds");
        if self.series.len() < SERIES_MAX {
            self.series.push(interval);
        }
        interval
    }

    /// Latencies of deliveries and of confirms so far.
    pub(crate) fn totals(&self) -> [Totals; 2] {
        [&self.latency, &self.confirm_latency]
            .map(|times| Totals { count: times.len(), sum_s: number(times.len()) * times.mean() / 1e9 })
    }

    /// The outcome between two moments, without its intervals.
    pub(crate) fn summary(&self, start: &Moment, end: &Moment) -> Summary {
        let seconds = end.seconds_since(start);
        let messages = if end.received > 0 { end.received } else { end.sent };
        Summary {
            id: self.id.clone(),
            seconds,
            sent: end.sent,
            received: end.received,
            confirmed: end.confirmed,
            nacked: end.nacked,
            returned: end.returned,
            sent_per_s: ratio(end.sent, seconds),
            received_per_s: ratio(end.received, seconds),
            confirmed_per_s: ratio(end.confirmed, seconds),
            latency_us: percentiles(&self.latency),
            confirm_latency_us: percentiles(&self.confirm_latency),
            lateness_us: percentiles(&self.lateness),
            own_cpu_us_per_message: per_message(end.own_cpu_ns - start.own_cpu_ns, messages)
                .map(|ns| ns / 1e3),
            broker: watched(start, end, messages),
            series: Vec::new(),
        }
    }

    /// The intervals so far.
    pub(crate) fn into_series(self) -> Vec<Interval> {
        self.series
    }

    /// The latency histogram (of confirms, if nothing was received) in HdrHistogram's percentile format, in microseconds.
    pub(crate) fn percentile_distribution(&self) -> String {
        let times = if self.latency.is_empty() { &self.confirm_latency } else { &self.latency };
        let mut text = format!(
            "{:>12} {:>14} {:>10} {:>14}\n\n",
            "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
        );
        let mut count = 0;
        for step in times.iter_quantiles(5) {
            count += step.count_since_last_iteration();
            let (us, quantile) = (us(step.value_iterated_to()), step.quantile_iterated_to());
            // Writing to a string cannot fail, here and below.
            let _ = if quantile < 1.0 {
                writeln!(text, "{us:>12.3} {quantile:>14.12} {count:>10} {:>14.2}", 1.0 / (1.0 - quantile))
            } else {
                writeln!(text, "{us:>12.3} {quantile:>14.12} {count:>10}")
            };
        }
        let (mean, deviation) = (times.mean() / 1e3, times.stdev() / 1e3);
        let (max, count) = (us(times.max()), times.len());
        let _ = writeln!(text, "#[Mean    = {mean:>12.3}, StdDeviation   = {deviation:>12.3}]");
        let _ = writeln!(text, "#[Max     = {max:>12.3}, Total count    = {count:>12}]");
        text
    }
}

impl Summary {
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
fn number(count: u64) -> f64 {
    count as f64
}

fn per_message(amount: u64, messages: u64) -> Option<f64> {
    (messages > 0).then(|| number(amount) / number(messages))
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

/// Microseconds, to a tenth.
#[expect(clippy::cast_precision_loss, reason = "latencies are at most an hour")]
fn us(ns: u64) -> f64 {
    (ns as f64 / 100.0).round() / 10.0
}

fn percentiles(times: &Histogram<u64>) -> Option<Percentiles> {
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
    fn a_run_is_summed_up_for_programs() {
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
        let interval = report.interval(&figures, &start, &start, &end);
        assert_eq!((interval.sent_per_s, interval.received_per_s), (100.0, 50.0));
        assert_eq!((interval.broker_cores, interval.broker_rss_kib), (Some(0.000_15), Some(2048)));
        let summary = report.summary(&start, &end);
        let json: serde_json::Value = serde_json::from_str(&summary.json()).unwrap();
        assert_eq!(json["received_per_s"], 50.0);
        assert_eq!(json["broker"]["cpu_us_per_message"], 3.0);
        assert_eq!(json["own_cpu_us_per_message"], 0.5);
        assert!((json["latency_us"]["p99.9"].as_f64().unwrap() - 200.0).abs() < 1.0);
        assert!(json["confirm_latency_us"].is_null() && json["series"].is_null());
        let nothing = report.summary(&start, &Moment { sent: 0, received: 0, ..end }).json();
        let nothing: serde_json::Value = serde_json::from_str(&nothing).unwrap();
        assert!(nothing["own_cpu_us_per_message"].is_null() && nothing["sent"] == 0);
        assert!(
            nothing["broker"]["cpu_us_per_message"].is_null()
                && nothing["broker"]["cpu_s"].as_f64() > Some(0.0)
        );
        assert!(report.percentile_distribution().contains("Total count    =          100"));
        assert_eq!(report.into_series().len(), 1);
    }

    #[test]
    fn known_delays_come_out_as_the_percentiles_they_are() {
        let figures = Figures::default();
        // One microsecond to ten milliseconds in steps of one, and one delay of nine seconds.
        for us in 1..=10_000 {
            figures.latency.lock().record(us * 1000).unwrap();
        }
        figures.latency.lock().record(9_000_000_000).unwrap();
        let (start, end) = (Moment::default(), Moment { at_ns: 1_000_000_000, ..Moment::default() });
        let mut report = Report::new("t");
        let found = report.interval(&figures, &start, &start, &end).latency_us.unwrap();
        let pairs = [
            (found.min, 1.0),
            (found.p50, 5_000.0),
            (found.p75, 7_500.0),
            (found.p95, 9_500.0),
            (found.p99, 9_900.0),
            (found.p99_9, 9_990.0),
            (found.max, 9_000_000.0),
        ];
        for (found, known) in pairs {
            assert!((found - known).abs() <= known * 0.001 + 0.3, "{found} is not {known}");
        }
        let [totals, none] = report.totals();
        assert!((totals.sum_s - 59.005).abs() < 0.06, "{totals:?}");
        assert_eq!((totals.count, none.count), (10_001, 0));
        // A latency that was told in one interval is not told in the next, but in the outcome.
        assert!(report.interval(&figures, &start, &end, &end).latency_us.is_none());
        assert!((report.summary(&start, &end).latency_us.unwrap().p99 - 9_900.0).abs() < 20.0);
    }
}
