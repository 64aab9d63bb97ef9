//! The text format of Prometheus, line by line. Refuses to know what the figures mean.

use std::fmt::Write as _;
use std::io::{self, Write};

/// The kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts per class, their sum and their number.
    Histogram,
    /// A sum and a number.
    Summary,
    /// Always 1, with facts as labels.
    Untyped,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
            Kind::Summary => "summary",
            Kind::Untyped => "untyped",
        }
    }
}

/// A page on its way to a client. All samples of a metric follow its head.
pub struct Page<'a> {
    out: &'a mut dyn Write,
    prefix: &'static str,
    line: String,
    bytes: u64,
}

impl<'a> Page<'a> {
    /// An empty page whose metrics begin with `prefix`.
    pub(crate) fn new(out: &'a mut dyn Write, prefix: &'static str) -> Page<'a> {
        Page { out, prefix, line: String::new(), bytes: 0 }
    }

    /// Metrics begin with this from now on; returns what it was.
    pub(crate) fn set_prefix(&mut self, prefix: &'static str) -> &'static str {
        std::mem::replace(&mut self.prefix, prefix)
    }

    /// Bytes written so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Begins a metric; its full name is the page's prefix and this one.
    ///
    /// # Errors
    /// Nobody reads any more.
    pub fn head(&mut self, name: &str, kind: Kind, help: &str) -> io::Result<()> {
        let (prefix, kind) = (self.prefix, kind.name());
        self.line.clear();
        // Writing to a string does not fail.
        let _ = writeln!(self.line, "# TYPE {prefix}{name} {kind}\n# HELP {prefix}{name} {help}");
        self.send()
    }

    /// One sample of the metric begun last; `labels` are as [`labels`] makes them, empty for none.
    ///
    /// # Errors
    /// Nobody reads any more.
    pub fn sample(&mut self, name: &str, labels: &str, value: f64) -> io::Result<()> {
        self.line.clear();
        self.line.push_str(self.prefix);
        self.line.push_str(name);
        if !labels.is_empty() {
            self.line.push('{');
            self.line.push_str(labels);
            self.line.push('}');
        }
        self.line.push(' ');
        push_number(&mut self.line, value);
        self.line.push('\n');
        self.send()
    }

    /// A metric without labels.
    ///
    /// # Errors
    /// Nobody reads any more.
    pub fn single(&mut self, name: &str, kind: Kind, help: &str, value: f64) -> io::Result<()> {
        self.head(name, kind, help)?;
        self.sample(name, "", value)
    }

    fn send(&mut self) -> io::Result<()> {
        self.bytes += self.line.len() as u64;
        self.out.write_all(self.line.as_bytes())
    }
}

/// Whole numbers without a point, as far as they are exact.
fn push_number(line: &mut String, value: f64) {
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    let _ = if value.is_nan() {
        write!(line, "NaN")
    } else if value.is_infinite() {
        write!(line, "{}Inf", if value > 0.0 { '+' } else { '-' })
    } else if value.fract() == 0.0 && value.abs() <= EXACT_MAX {
        write!(line, "{}", value as i64)
    } else {
        write!(line, "{value}")
    };
}

/// Names and values of labels as they stand in a sample. Bytes that are not UTF-8 are replaced.
pub fn labels(pairs: &[(&str, &[u8])]) -> String {
    let mut text = String::new();
    for (name, value) in pairs {
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(name);
        text.push_str("=\"");
        for character in String::from_utf8_lossy(value).chars() {
            match character {
                '\\' => text.push_str("\\\\"),
                '"' => text.push_str("\\\""),
                '\n' => text.push_str("\\n"),
                other => text.push(other),
            }
        }
        text.push('"');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_has_a_head_and_samples() {
        let mut out = Vec::new();
        let mut page = Page::new(&mut out, "rabbitmq_");
        page.head("queue_messages", Kind::Gauge, "Messages.").unwrap();
        let of = labels(&[("vhost", b"/"), ("queue", b"a\\b\"c\nd\xff")]);
        page.sample("queue_messages", &of, 20.0).unwrap();
        page.sample("queue_messages", "", 0.25).unwrap();
        page.sample("queue_messages", "", f64::NAN).unwrap();
        assert_eq!(page.bytes(), out.len() as u64);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "# TYPE rabbitmq_queue_messages gauge\n# HELP rabbitmq_queue_messages Messages.\n\
             rabbitmq_queue_messages{vhost=\"/\",queue=\"a\\\\b\\\"c\\nd\u{fffd}\"} 20\n\
             rabbitmq_queue_messages 0.25\nrabbitmq_queue_messages NaN\n"
        );
    }

    #[test]
    fn numbers_are_written_as_they_are() {
        let text = |value| {
            let mut line = String::new();
            push_number(&mut line, value);
            line
        };
        assert_eq!(text(1e15), "1000000000000000");
        assert_eq!((text(-3.0), text(f64::INFINITY)), ("-3".into(), "+Inf".into()));
        assert_eq!(text(1e300).parse::<f64>(), Ok(1e300));
    }
}
