//! Metrics of one kind of object: written once as a sum, or once per object. Refuses to know the objects.

use std::io;

use super::page::{Kind, Page};

/// One metric of objects of a kind.
pub(crate) struct Metric<T: 'static> {
    /// Without the prefix of the page.
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) help: &'static str,
    /// Nothing is written for what is no number.
    pub(crate) value: fn(&T) -> f64,
    /// Whether the sum over all objects means anything.
    pub(crate) has_sum: bool,
}

pub(crate) const fn counter<T>(name: &'static str, help: &'static str, value: fn(&T) -> f64) -> Metric<T> {
    Metric { name, kind: Kind::Counter, help, value, has_sum: true }
}

pub(crate) const fn gauge<T>(name: &'static str, help: &'static str, value: fn(&T) -> f64) -> Metric<T> {
    Metric { name, kind: Kind::Gauge, help, value, has_sum: true }
}

/// A gauge that cannot be summed.
pub(crate) const fn share<T>(name: &'static str, help: &'static str, value: fn(&T) -> f64) -> Metric<T> {
    Metric { name, kind: Kind::Gauge, help, value, has_sum: false }
}

/// Metrics of what went to clients and came back: the prefix of their names, and where an object has its [`DeliveryTotals`].
///
/// [`DeliveryTotals`]: broker::DeliveryTotals
macro_rules! deliveries {
    ($prefix:literal, $($at:ident).+) => {
        &[
            counter(concat!($prefix, "get_ack_total"), "Messages fetched with basic.get, to be acked", |it| {
                it.$($at).+.got as f64
            }),
            counter(concat!($prefix, "get_total"), "Messages fetched with basic.get without ack", |it| {
                it.$($at).+.got_no_ack as f64
            }),
            counter(concat!($prefix, "messages_delivered_ack_total"), "Deliveries to consumers that ack", |it| {
                it.$($at).+.delivered as f64
            }),
            counter(concat!($prefix, "messages_delivered_total"), "Deliveries to consumers that do not ack", |it| {
                it.$($at).+.delivered_no_ack as f64
            }),
            counter(concat!($prefix, "messages_redelivered_total"), "Deliveries of messages delivered before", |it| {
                it.$($at).+.redelivered as f64
            }),
            counter(concat!($prefix, "messages_acked_total"), "Deliveries acked", |it| it.$($at).+.acked as f64),
            counter(concat!($prefix, "get_empty_total"), "basic.get that found nothing", |it| {
                it.$($at).+.got_empty as f64
            }),
        ]
    };
}
pub(crate) use deliveries;

/// One sample per metric, of the sum of all objects.
pub(crate) fn write_sum<T>(page: &mut Page<'_>, metrics: &[Metric<T>], sum: &T) -> io::Result<()> {
    for metric in metrics {
        page.head(metric.name, metric.kind, metric.help)?;
        if metric.has_sum {
            page.sample(metric.name, "", (metric.value)(sum))?;
        }
    }
    Ok(())
}

/// A sample per metric and object. Samples of a metric must stand together, so what is needed of each object is kept: its
/// labels and one number per metric.
pub(crate) fn write_objects<T>(
    page: &mut Page<'_>,
    metrics: &[Metric<T>],
    objects: impl Iterator<Item = (String, T)>,
) -> io::Result<()> {
    let mut names: Vec<Box<str>> = Vec::new();
    let mut values: Vec<f64> = Vec::new();
    for (labels, object) in objects {
        names.push(labels.into());
        values.extend(metrics.iter().map(|metric| (metric.value)(&object)));
    }
    for (at, metric) in metrics.iter().enumerate() {
        page.head(metric.name, metric.kind, metric.help)?;
        let samples = names.iter().zip(values.chunks_exact(metrics.len()));
        for (labels, values) in samples.filter(|(_, values)| !values[at].is_nan()) {
            page.sample(metric.name, labels, values[at])?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS: &[Metric<u8>] =
        &[gauge("size", "Size.", |it| f64::from(*it)), share("half", "Half.", |it| f64::from(*it) / 2.0)];

    #[test]
    fn samples_of_a_metric_stand_together() {
        let mut out = Vec::new();
        let objects = [("n=\"a\"".to_owned(), 1), ("n=\"b\"".to_owned(), 3)];
        write_objects(&mut Page::new(&mut out, ""), METRICS, objects.into_iter()).unwrap();
        let text = String::from_utf8(out).unwrap();
        let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(samples, ["size{n=\"a\"} 1", "size{n=\"b\"} 3", "half{n=\"a\"} 0.5", "half{n=\"b\"} 1.5"]);
    }

    #[test]
    fn what_is_no_number_is_not_written() {
        let some: &[Metric<u8>] = &[share("at", "At.", |it| if *it > 1 { f64::from(*it) } else { f64::NAN })];
        let mut out = Vec::new();
        let objects = [("n=\"a\"".to_owned(), 1), ("n=\"b\"".to_owned(), 3)];
        write_objects(&mut Page::new(&mut out, ""), some, objects.into_iter()).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.ends_with("At.\nat{n=\"b\"} 3\n"), "{text}");
    }

    #[test]
    fn what_cannot_be_summed_has_no_sum() {
        let mut out = Vec::new();
        write_sum(&mut Page::new(&mut out, ""), METRICS, &4).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(
            text.contains("\nsize 4\n") && text.contains("# TYPE half gauge") && !text.contains("\nhalf ")
        );
    }
}
