//! Metrics of one kind of object: written once as a sum, or once per object. Refuses to know the objects.

use std::io;

use super::page::{Kind, Page};

/// One metric of objects of a kind.
pub(crate) struct Metric<T: 'static> {
    /// Without the prefix of the page.
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) help: &'static str,
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
        for (labels, values) in names.iter().zip(values.chunks_exact(metrics.len())) {
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
    fn what_cannot_be_summed_has_no_sum() {
        let mut out = Vec::new();
        write_sum(&mut Page::new(&mut out, ""), METRICS, &4).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(
            text.contains("\nsize 4\n") && text.contains("# TYPE half gauge") && !text.contains("\nhalf ")
        );
    }
}
