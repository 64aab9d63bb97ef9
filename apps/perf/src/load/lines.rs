//! Output of a run: a line per interval and a summary, worded as PerfTest words them, and comma-separated values.
//!
//! Refuses to measure anything.

use super::options::{Flag, MetricsFormat, Options};
use super::report::{Interval, Percentiles, Summary, WatchedFigures};
use std::fmt::Write;

/// Which figures a run has: others are left out of its lines.
#[derive(Clone, Debug)]
pub(crate) struct Lines {
    id: String,
    format: MetricsFormat,
    sends: bool,
    returns: bool,
    confirms: bool,
    receives: bool,
    /// Name of the unit of latencies, and how many microseconds it has.
    unit: (&'static str, f64),
}

impl Lines {
    pub(crate) fn new(options: &Options, id: &str) -> Self {
        let sends = options.publishing.producers > 0;
        Self {
            id: id.to_owned(),
            format: options.running.metrics_format,
            sends,
            returns: sends && options.publishing.has(Flag::Mandatory),
            confirms: sends && options.publishing.window().is_some(),
            receives: options.consuming.consumers > 0,
            unit: if options.publishing.use_millis { ("ms", 1000.0) } else { ("µs", 1.0) },
        }
    }

    /// The heading above the lines.
    pub(crate) fn head(&self) -> Option<String> {
        if self.format == MetricsFormat::Default {
            return None;
        }
        let mut line = format!("{:<10}", "time");
        for (name, _) in self.rates(&Interval::default()) {
            let _ = write!(line, " {name:>12}");
        }
        for (whose, _) in self.latencies(&Interval::default()) {
            let _ = write!(line, " {:>22}", format!("{whose} latency"));
        }
        Some(line)
    }

    /// One interval.
    pub(crate) fn line(&self, interval: &Interval) -> String {
        match self.format {
            MetricsFormat::Default => self.default_line(interval),
            MetricsFormat::Compact => self.compact_line(interval),
        }
    }

    fn default_line(&self, interval: &Interval) -> String {
        let mut line = format!("id: {}, time {:.3} s", self.id, interval.at_s);
        // Writing to a string cannot fail, here and below.
        for (name, value) in self.rates(interval) {
            let _ = write!(line, ", {name}: {} msg/s", rate(value));
        }
        for (n, (whose, times)) in self.latencies(interval).into_iter().enumerate() {
            let which = if n == 0 { "min/median/75th/95th/99th " } else { "" };
            let _ = write!(line, ", {which}{whose} latency: {} {}", self.five(times), self.unit.0);
        }
        line
    }

    fn compact_line(&self, interval: &Interval) -> String {
        let mut line = format!("{:<10}", format!("{:.3}s", interval.at_s));
        for (_, value) in self.rates(interval) {
            let _ = write!(line, " {:>12}", format!("{} msg/s", rate(value)));
        }
        for (_, times) in self.latencies(interval) {
            let _ = write!(line, " {:>22}", format!("{} {}", self.five(times), self.unit.0));
        }
        line
    }

    fn rates(&self, interval: &Interval) -> Vec<(&'static str, f64)> {
        [
            (self.sends, "sent", interval.sent_per_s),
            (self.returns, "returned", interval.returned_per_s),
            (self.confirms, "confirmed", interval.confirmed_per_s),
            (self.confirms, "nacked", interval.nacked_per_s),
            (self.receives, "received", interval.received_per_s),
        ]
        .into_iter()
        .filter_map(|(there, name, value)| there.then_some((name, value)))
        .collect()
    }

    fn latencies(&self, interval: &Interval) -> Vec<(&'static str, Option<Percentiles>)> {
        let mut found = Vec::new();
        if self.receives {
            found.push(("consumer", interval.latency_us));
        }
        if self.confirms {
            found.push(("confirm", interval.confirm_latency_us));
        }
        found
    }

    /// Five percentiles in the run's unit, as whole numbers; zeros where nothing was measured.
    fn five(&self, times: Option<Percentiles>) -> String {
        let values = times.map_or([0.0; 5], |p| [p.min, p.p50, p.p75, p.p95, p.p99]);
        values.map(|us| format!("{:.0}", (us / self.unit.1).floor())).join("/")
    }

    /// The names of comma-separated values.
    pub(crate) fn csv_head(&self) -> String {
        let unit = self.unit.0;
        let mut head = "id,time (s)".to_owned();
        for name in ["published", "returned", "confirmed", "nacked", "received"] {
            let _ = write!(head, ",{name} (msg/s)");
        }
        for whose in ["consumer", "confirm"] {
            for which in ["min", "median", "75th p.", "95th p.", "99th p."] {
                let _ = write!(head, ",{which} {whose} latency ({unit})");
            }
        }
        head
    }

    /// One interval as comma-separated values; those that the run has not are empty.
    pub(crate) fn csv(&self, interval: &Interval) -> String {
        let mut line = format!("{},{:.3}", self.id, interval.at_s);
        for (there, value) in [
            (self.sends, interval.sent_per_s),
            (self.returns, interval.returned_per_s),
            (self.confirms, interval.confirmed_per_s),
            (self.confirms, interval.nacked_per_s),
            (self.receives, interval.received_per_s),
        ] {
            let _ = write!(line, ",{}", if there { rate(value) } else { String::new() });
        }
        for (there, times) in
            [(self.receives, interval.latency_us), (self.confirms, interval.confirm_latency_us)]
        {
            let five = if there { self.five(times).replace('/', ",") } else { ",,,,".to_owned() };
            let _ = write!(line, ",{five}");
        }
        line
    }

    /// The summary: PerfTest's lines, then what PerfTest does not tell.
    pub(crate) fn summary(&self, summary: &Summary, why: &str) -> String {
        let why = if why.is_empty() { String::new() } else { format!(" ({why})") };
        let mut text = format!("test stopped{why}\n");
        let start = match self.format {
            MetricsFormat::Default => format!("id: {}, ", self.id),
            MetricsFormat::Compact => String::new(),
        };
        let _ = writeln!(text, "{start}sending rate avg: {} msg/s", rate(summary.sent_per_s));
        let _ = writeln!(text, "{start}receiving rate avg: {} msg/s", rate(summary.received_per_s));
        for (there, whose, times) in [
            (self.receives, "consumer", summary.latency_us),
            (self.confirms, "confirm", summary.confirm_latency_us),
        ] {
            if there {
                let (five, unit) = (self.five(times), self.unit.0);
                let _ = writeln!(text, "{start}{whose} latency min/median/75th/95th/99th {five} {unit}");
            }
        }
        self.more(&mut text, &start, summary);
        text
    }

    fn more(&self, text: &mut String, start: &str, summary: &Summary) {
        for (what, times) in [
            ("consumer latency", summary.latency_us),
            ("confirm latency", summary.confirm_latency_us),
            ("lateness of this tool", summary.lateness_us),
        ] {
            if let Some(p) = times {
                let [a, b, c] = [p.p50, p.p99_9, p.max].map(|us| format!("{:.1}", us / self.unit.1));
                let _ = writeln!(text, "{start}{what} median/99.9th/max {a}/{b}/{c} {}", self.unit.0);
            }
        }
        if summary.nacked + summary.returned > 0 {
            let _ = writeln!(text, "{start}nacked: {}, returned: {}", summary.nacked, summary.returned);
        }
        if let Some(own) = summary.own_cpu_us_per_message {
            let _ = writeln!(text, "{start}own CPU: {own:.3} µs per message");
        }
        if let Some(WatchedFigures { cpu_us_per_message, rss_kib, rss_max_kib, .. }) = summary.broker {
            let (now, most) = (rss_kib / 1024, rss_max_kib / 1024);
            let cpu =
                cpu_us_per_message.map_or_else(String::new, |us| format!("CPU: {us:.3} µs per message, "));
            let _ = writeln!(text, "{start}broker {cpu}resident {now} MiB, at most {most} MiB");
        }
    }
}

/// A rate as PerfTest writes it: with decimals only where it is small.
fn rate(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        value if value < 1.0 => format!("{value:.2}"),
        value if value < 10.0 => format!("{value:.1}"),
        value => format!("{:.0}", value.floor()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    fn lines(line: &str) -> Lines {
        let options = Options::parse_args(line.split_whitespace().map(OsString::from)).unwrap();
        Lines::new(&options, "t")
    }

    fn interval() -> Interval {
        let times = Percentiles {
            min: 200.0,
            p50: 1500.9,
            p75: 2500.0,
            p95: 3500.0,
            p99: 4500.0,
            p99_9: 5.0,
            max: 6.0,
        };
        Interval {
            at_s: 1.0044,
            sent_per_s: 1457.8,
            confirmed_per_s: 5.25,
            received_per_s: 0.5,
            latency_us: Some(times),
            ..Interval::default()
        }
    }

    #[test]
    fn lines_are_perf_tests() {
        assert_eq!(
            lines("-c 5 -f mandatory").line(&interval()),
            "id: t, time 1.004 s, sent: 1457 msg/s, returned: 0 msg/s, confirmed: 5.2 msg/s, nacked: 0 msg/s, received: 0.50 msg/s, \
             min/median/75th/95th/99th consumer latency: 200/1500/2500/3500/4500 µs, confirm latency: 0/0/0/0/0 µs"
        );
        assert_eq!(lines("-y 0").line(&interval()), "id: t, time 1.004 s, sent: 1457 msg/s");
        assert_eq!(
            lines("-y 0 -c 1 -ms").line(&interval()),
            "id: t, time 1.004 s, sent: 1457 msg/s, confirmed: 5.2 msg/s, nacked: 0 msg/s, min/median/75th/95th/99th confirm latency: 0/0/0/0/0 ms"
        );
    }

    #[test]
    fn a_run_that_moved_nothing_has_no_cpu_per_message() {
        let told = |per_message: &str| {
            let text = format!(
                r#"{{"id":"t","seconds":3,"sent":0,"received":0,"confirmed":0,"nacked":0,"returned":0,"sent_per_s":0,"received_per_s":0,
                "confirmed_per_s":0,"latency_us":null,"confirm_latency_us":null,"lateness_us":null,"own_cpu_us_per_message":{per_message},
                "broker":{{"cpu_us_per_message":{per_message},"cpu_s":1,"rss_kib":2048,"rss_max_kib":4096}}}}"#
            );
            lines("-y 0").summary(&serde_json::from_str(&text).unwrap(), "")
        };
        let nothing = told("null");
        assert!(!nothing.contains("CPU"), "{nothing}");
        assert!(nothing.ends_with("broker resident 2 MiB, at most 4 MiB\n"), "{nothing}");
        let some = told("1.5");
        assert!(some.contains("own CPU: 1.500 µs per message\n"), "{some}");
        assert!(some.contains("broker CPU: 1.500 µs per message, resident 2 MiB, at most 4 MiB\n"), "{some}");
    }

    #[test]
    fn the_compact_table_is_perf_tests() {
        let lines = lines("-mf compact -c 5");
        let head = "time               sent    confirmed       nacked     received       consumer latency        confirm latency";
        assert_eq!(lines.head().unwrap(), head);
        assert_eq!(
            lines.line(&interval()),
            "1.004s       1457 msg/s    5.2 msg/s      0 msg/s   0.50 msg/s 200/1500/2500/3500/4500 µs           0/0/0/0/0 µs"
        );
    }

    #[test]
    fn comma_separated_values_leave_out_what_there_is_not() {
        let lines = lines("-ms");
        assert_eq!(lines.csv_head().split(',').count(), 17);
        assert_eq!(lines.csv(&interval()), "t,1.004,1457,,,,0.50,0,1,2,3,4,,,,,");
        assert_eq!(lines.csv(&interval()).split(',').count(), 17);
    }
}
