//! The report: one HTML file with everything in it, for light and dark.
//!
//! Refuses to measure anything.

mod chart;
mod verdict;

use super::catalogue::{Figure, GROUPS, Test};
use super::results::{Measurement, Results};
use crate::load::{Interval, Percentiles};
use anyhow::{Context, Result};
use chart::{Line, Scale, Stroke, chart, short};
use std::fmt::Write;
use std::path::Path;
use stdx::markup::escaped;
use verdict::{Standing, factor, verdicts};

/// Above this load average a machine does other things.
const BUSY: f64 = 0.5;

/// Writes the report of what was measured so far.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn write(results: &Results, file: &Path) -> Result<()> {
    std::fs::write(file, page(results)).with_context(|| format!("cannot write {}", file.display()))
}

fn page(results: &Results) -> String {
    let mut html = head(results);
    html += &verdicts(results);
    html += &overview(results);
    for test in GROUPS.iter().flat_map(|group| group.tests) {
        if results.measurements.iter().any(|found| found.test == test.name) {
            html += &section(results, test);
        }
    }
    html += "</body></html>\n";
    html
}

fn head(results: &Results) -> String {
    let (plan, machine) = (&results.plan, &results.machine);
    let sizes = plan.sizes.iter().map(|size| bytes(*size)).collect::<Vec<_>>().join(", ");
    let mut html = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>Broker benchmark: {}</title><style>{}</style></head><body><h1>{}</h1>",
        escaped(&plan.brokers.join(" and ")),
        include_str!("report/style.css"),
        escaped(&plan.brokers.join(" and "))
    );
    // Writing to a string cannot fail, here and below.
    let _ = write!(
        html,
        "<p class=\"faint\">{} cores of {}, Linux {}, load before the first test {}. {} seconds per test, broker and size; bodies of {}; {} queues. \
         Brokers ran one after the other, on the machine of the load generator. Latency counts from when a message was due. \
         CPU is user and system time of the broker's process per message received, or sent where nobody receives.</p><p>",
        machine.cores,
        escaped(&machine.cpu),
        escaped(&machine.kernel),
        escaped(&machine.load_before),
        plan.seconds,
        escaped(&sizes),
        format!("{:?}", plan.queue_type).to_lowercase()
    );
    if machine.load_before.parse::<f64>().is_ok_and(|load| load > BUSY) {
        html += "</p><p class=\"why\">This machine was busy before the first test: rates and latencies are about everything that ran on it. \
                 CPU per message is the figure to trust.</p><p>";
    }
    for (n, broker) in plan.brokers.iter().enumerate() {
        let _ = write!(html, "<span class=\"key k{}\"></span>{} &nbsp; ", n % 4, escaped(broker));
    }
    html += "<span class=\"faint\">solid: received; dashed: sent</span></p>";
    html
}

/// The figure that says most, of every test.
fn overview(results: &Results) -> String {
    let brokers = &results.plan.brokers;
    let mut html = String::from(
        "<h2>At a glance</h2><div class=\"scroll\"><table><tr><th>test</th><th>size</th><th class=\"left\">figure</th>",
    );
    for broker in brokers {
        let _ = write!(html, "<th>{}</th>", escaped(broker));
    }
    for broker in brokers.iter().skip(1) {
        let _ = write!(html, "<th>against {}</th>", escaped(broker));
    }
    for broker in brokers {
        let _ = write!(html, "<th>CPU µs/msg, {}</th>", escaped(broker));
    }
    html += "</tr>";
    for test in GROUPS.iter().flat_map(|group| group.tests) {
        for size in sizes_of(results, test) {
            html += &overview_row(results, test, size);
        }
    }
    html + "</table></div>"
}

fn overview_row(results: &Results, test: &Test, size: u32) -> String {
    let brokers = &results.plan.brokers;
    let found: Vec<Option<&Measurement>> =
        brokers.iter().map(|broker| results.find(test.name, size, broker)).collect();
    let values: Vec<Option<f64>> =
        found.iter().map(|found| found.and_then(|found| main_figure(test, found))).collect();
    let (name, unit) = figure_name(test.figure);
    let mut html = format!(
        "<tr><td><a href=\"#{0}\">{0}</a></td><td>{1}</td><td class=\"left\">{name}, {unit}</td>",
        test.name,
        if size == 0 { String::new() } else { bytes(size) }
    );
    for value in &values {
        let _ = write!(html, "<td>{}</td>", value.map_or("–".to_owned(), short));
    }
    for peer in values.iter().skip(1) {
        html += &values[0]
            .zip(*peer)
            .map_or("<td>–</td>".to_owned(), |(own, peer)| advantage(test.figure, own, peer));
    }
    for found in &found {
        let cpu = found
            .and_then(|found| found.figures.as_ref()?.broker)
            .and_then(|broker| broker.cpu_us_per_message);
        let _ = write!(html, "<td>{}</td>", cpu.map_or("–".to_owned(), short));
    }
    html + "</tr>"
}

/// A cell with how many times better the first broker is.
fn advantage(figure: Figure, own: f64, peer: f64) -> String {
    factor(figure, own, peer).map_or_else(
        || "<td>–</td>".to_owned(),
        |times| format!("<td class=\"{}\">{times:.1}×</td>", Standing::of(times).class()),
    )
}

fn figure_name(figure: Figure) -> (&'static str, &'static str) {
    match figure {
        Figure::Sent => ("sent", "msg/s"),
        Figure::Received => ("received", "msg/s"),
        Figure::Latency => ("latency p99", "ms"),
        Figure::ConfirmLatency => ("confirm latency p99", "ms"),
        Figure::Memory => ("memory per message", "B"),
        Figure::Restart => ("start after kill -9", "s"),
    }
}

fn main_figure(test: &Test, found: &Measurement) -> Option<f64> {
    if test.figure == Figure::Restart {
        return found.notes.last().map(|(_, value)| *value);
    }
    let figures = found.figures.as_ref()?;
    match test.figure {
        Figure::Sent => Some(figures.sent_per_s),
        Figure::Received => Some(figures.received_per_s),
        Figure::Latency => figures.latency_us.map(|times| times.p99 / 1000.0),
        Figure::ConfirmLatency => figures.confirm_latency_us.map(|times| times.p99 / 1000.0),
        Figure::Memory => found.memory_per_message(),
        Figure::Restart => None,
    }
}

fn sizes_of(results: &Results, test: &Test) -> Vec<u32> {
    let mut sizes: Vec<u32> =
        results.measurements.iter().filter(|found| found.test == test.name).map(|found| found.size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

fn section(results: &Results, test: &Test) -> String {
    let mut html =
        format!("<h2 id=\"{0}\">{1} <code>{0}</code></h2>", test.name, escaped(&capitalised(test.what)));
    for size in sizes_of(results, test) {
        if size > 0 {
            let _ = write!(html, "<h3>{}</h3>", bytes(size));
        }
        let found: Vec<(usize, &Measurement)> = (0..)
            .zip(&results.plan.brokers)
            .filter_map(|(n, broker)| Some((n, results.find(test.name, size, broker)?)))
            .collect();
        html += &charts(&found);
        html += &table(&found);
        html += &footnotes(&found);
    }
    html
}

fn charts(found: &[(usize, &Measurement)]) -> String {
    let lines = |stroke, name: &str, value: &dyn Fn(&Interval) -> Option<f64>| -> Vec<Line> {
        let lines = found.iter().filter_map(|(colour, measurement)| {
            let series = &measurement.figures.as_ref()?.series;
            let points: Vec<(f64, f64)> =
                series.iter().filter_map(|interval| Some((interval.at_s, value(interval)?))).collect();
            let moves = points.iter().any(|point| point.1 > 0.0);
            let name = format!("{} {name}", escaped(&measurement.broker));
            moves.then_some(Line { name, colour: *colour, stroke, points })
        });
        lines.collect()
    };
    let ms = |times: Option<Percentiles>, which: fn(&Percentiles) -> f64| {
        times.map(|times| which(&times) / 1000.0)
    };
    let mut rates = lines(Stroke::Dashed, "sent", &|interval| Some(interval.sent_per_s));
    rates.extend(lines(Stroke::Solid, "received", &|interval| Some(interval.received_per_s)));
    let mut latency = lines(Stroke::Dashed, "p50", &|interval| ms(interval.latency_us, |times| times.p50));
    latency.extend(lines(Stroke::Solid, "p99", &|interval| ms(interval.latency_us, |times| times.p99)));
    let mut confirms =
        lines(Stroke::Dashed, "p50", &|interval| ms(interval.confirm_latency_us, |times| times.p50));
    confirms
        .extend(lines(Stroke::Solid, "p99", &|interval| ms(interval.confirm_latency_us, |times| times.p99)));
    let memory = lines(Stroke::Solid, "resident", &|interval| {
        interval.broker_rss_kib.map(|kib| super::results::number(kib) / 1024.0)
    });
    let cores = lines(Stroke::Solid, "CPU", &|interval| interval.broker_cores);
    let all = [
        chart("Throughput", "msg/s", Scale::Linear, &rates),
        chart("Latency", "ms, p99 solid, median dashed", Scale::Logarithmic, &latency),
        chart("Confirm latency", "ms, p99 solid, median dashed", Scale::Logarithmic, &confirms),
        chart("Broker memory", "resident, MiB", Scale::Linear, &memory),
        chart("Broker CPU", "cores", Scale::Linear, &cores),
    ];
    format!("<div class=\"charts\">{}</div>", all.concat())
}

fn table(found: &[(usize, &Measurement)]) -> String {
    let mut html = String::from(
        "<div class=\"scroll\"><table><tr><th>broker</th><th>sent/s</th><th>received/s</th><th>p50 ms</th><th>p99 ms</th><th>p99.9 ms</th>\
         <th>confirm p50 ms</th><th>confirm p99 ms</th><th>CPU µs/msg</th><th>RSS max MiB</th><th>disk B/msg</th><th>generator µs/msg</th></tr>",
    );
    for (colour, measurement) in found {
        let _ = write!(
            html,
            "<tr><td><span class=\"key k{}\"></span>{}</td>",
            colour % 4,
            escaped(&measurement.broker)
        );
        html += &cells(measurement);
        html += "</tr>";
    }
    html + "</table></div>"
}

fn cells(measurement: &Measurement) -> String {
    if let Some(failure) = &measurement.failure {
        return format!("<td class=\"why\" colspan=\"11\">not measured: {}</td>", escaped(failure));
    }
    let Some(figures) = &measurement.figures else {
        let notes = measurement.notes.iter().map(|(name, value)| format!("{}: {value:.2}", escaped(name)));
        return format!("<td class=\"why\" colspan=\"11\">{}</td>", notes.collect::<Vec<_>>().join("<br>"));
    };
    let ms = |times: Option<Percentiles>, which: fn(&Percentiles) -> f64| {
        times.map(|times| which(&times) / 1000.0)
    };
    let (latency, confirm) = (figures.latency_us, figures.confirm_latency_us);
    let cells = [
        Some(figures.sent_per_s),
        Some(figures.received_per_s),
        ms(latency, |times| times.p50),
        ms(latency, |times| times.p99),
        ms(latency, |times| times.p99_9),
        ms(confirm, |times| times.p50),
        ms(confirm, |times| times.p99),
        figures.broker.and_then(|broker| broker.cpu_us_per_message),
        measurement.rss_max_mib(),
        measurement.disk_per_message(),
        figures.own_cpu_us_per_message,
    ];
    cells.map(|value| format!("<td>{}</td>", value.map_or("–".to_owned(), short))).concat()
}

/// Commands, and flame graphs where there are any.
fn footnotes(found: &[(usize, &Measurement)]) -> String {
    let commands = found.iter().flat_map(|(_, measurement)| &measurement.commands);
    let commands = commands.map(|command| escaped(command)).collect::<Vec<_>>().join("\n");
    let cuts = found.iter().filter_map(|(_, measurement)| measurement.cut.as_deref());
    let cuts = cuts.map(|cut| format!("<p class=\"why\">{}</p>", escaped(cut)));
    let mut html = cuts.take(1).collect::<String>();
    let _ = write!(html, "<details><summary>Commands</summary><pre>{commands}</pre></details>");
    for (_, measurement) in found {
        if let Some(flame) = &measurement.flame {
            let (broker, size) = (escaped(&measurement.broker), bytes(measurement.size));
            let _ = write!(
                html,
                "<details><summary>Flame graph of {broker}, {size}</summary><iframe loading=\"lazy\" title=\"flame graph\" srcdoc='{}'></iframe></details>",
                quoted(flame)
            );
        }
    }
    html
}

/// A document as the value of an attribute in single quotes, of which it has few: a picture has thousands of the other characters.
fn quoted(document: &str) -> String {
    document.replace('&', "&amp;").replace('\'', "&#39;")
}

fn bytes(size: u32) -> String {
    if size >= 1000 && size.is_multiple_of(1000) {
        format!("{} kB", size / 1000)
    } else {
        format!("{size} B")
    }
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results() -> Results {
        let series = r#"[{"at_s":1,"sent_per_s":5,"received_per_s":4,"confirmed_per_s":0,"nacked_per_s":0,"returned_per_s":0,
            "latency_us":null,"confirm_latency_us":null,"broker_cores":0.5,"broker_rss_kib":2048}]"#;
        let measurement = |broker: &str, rate: u32| {
            format!(
                r#"{{"test":"max-rate","size":1000,"broker":"{broker}","commands":["warren perf <x>"],"flame":"<svg id=\"f\" class='a&lt;'/>",
                "figures":{{"id":"t","seconds":1,"sent":5,"received":5,"confirmed":0,"nacked":0,"returned":0,"sent_per_s":5,
                "received_per_s":{rate},"confirmed_per_s":0,"latency_us":null,"confirm_latency_us":null,"lateness_us":null,
                "own_cpu_us_per_message":0.1,"broker":null,"series":{series}}}}}"#
            )
        };
        let text = format!(
            r#"{{"version":1,"plan":{{"seconds":1,"sizes":[1000],"tests":["max-rate"],"brokers":["Warren","A <b>"],
            "backlog_bytes_max":1,"connections_max":1}},"machine":{{"cpu":"c","cores":2,"kernel":"k","began_s":0,"load_before":"0"}},
            "measurements":[{},{}]}}"#,
            measurement("Warren", 400),
            measurement("A <b>", 100)
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn the_page_holds_figures_charts_commands_and_graphs_and_nothing_from_elsewhere() {
        let html = page(&results());
        assert!(html.contains(
            "<b>Warren against A &lt;b&gt;:</b> ahead in 1 of 1 measurements, even in 0, behind in 0."
        ));
        assert!(
            html.contains("ahead 4.0×")
                && html.contains("4.0×")
                && html.contains("1 kB")
                && html.contains("A &lt;b&gt;"),
            "{html}"
        );
        assert!(
            html.contains("warren perf &lt;x&gt;")
                && html.contains("Flame graph of Warren, 1 kB")
                && html.contains("srcdoc='<svg id=\"f\" class=&#39;a&amp;lt;&#39;/>'"),
            "{html}"
        );
        assert!(html.matches("<figure>").count() >= 3 && !html.contains("A <b>"));
        assert!(!html.contains("http://") && !html.contains("https://") && !html.contains("<script"));
    }
}
