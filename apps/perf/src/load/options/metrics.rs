//! Options of the endpoint that Prometheus asks.

use clap::Args;
use std::str::FromStr;

/// A figure that is told as it is, such as `expected_published=50000`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Exposed {
    pub(crate) name: String,
    pub(crate) value: f64,
}

/// A label of every metric, such as `env=performance`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    pub(crate) name: String,
    pub(crate) value: String,
}

/// The metrics that Prometheus can read while a run goes on.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Metrics")]
pub(crate) struct Metrics {
    /// Serve the figures of the last interval over HTTP, for Prometheus (also -mpr)
    #[arg(long)]
    pub(crate) metrics_prometheus: bool,
    /// Port of it, on all addresses; 0 is any that is free (also -mpp)
    #[arg(long, default_value_t = 8080, value_name = "PORT")]
    pub(crate) metrics_prometheus_port: u16,
    /// Path of it (also -mpe)
    #[arg(long, default_value = "metrics", value_name = "PATH")]
    pub(crate) metrics_prometheus_endpoint: String,
    /// Prefix of the names of metrics (also -mpx)
    #[arg(long, default_value = "perftest_", value_name = "PREFIX", value_parser = prefix)]
    pub(crate) metrics_prefix: String,
    /// Labels of all metrics: NAME=VALUE, separated by commas (also -mt)
    #[arg(long, value_delimiter = ',', value_name = "PAIRS")]
    pub(crate) metrics_tags: Vec<Tag>,
    /// A metric with the arguments of this run, without addresses, as a label (also -mcla)
    #[arg(long)]
    pub(crate) metrics_command_line_arguments: bool,
    /// Figures to tell as they are: NAME=NUMBER, separated by commas, such as `expected_published=50000` (also -em)
    #[arg(long, value_delimiter = ',', value_name = "PAIRS")]
    pub(crate) exposed_metrics: Vec<Exposed>,
    /// Show the options of metrics (also -mh)
    #[arg(long)]
    pub(crate) metrics_help: bool,
    /// Ignored: there is no Java client to report on (also -mc)
    #[arg(long)]
    pub(crate) metrics_client: bool,
    /// Ignored: there is no Java machine to report on (also -mcl)
    #[arg(long)]
    pub(crate) metrics_class_loader: bool,
    /// Ignored, as --metrics-class-loader (also -mjm)
    #[arg(long)]
    pub(crate) metrics_jvm_memory: bool,
    /// Ignored, as --metrics-class-loader (also -mjgc)
    #[arg(long)]
    pub(crate) metrics_jvm_gc: bool,
    /// Ignored, as --metrics-class-loader (also -mjt)
    #[arg(long)]
    pub(crate) metrics_jvm_thread: bool,
    /// Ignored, as --metrics-class-loader: the summary tells this tool's CPU (also -mjp)
    #[arg(long)]
    pub(crate) metrics_processor: bool,
}

impl Metrics {
    /// Options that were given and do nothing here, for a note.
    pub(crate) fn ignored(&self) -> Vec<&'static str> {
        [
            (self.metrics_client, "--metrics-client"),
            (self.metrics_class_loader, "--metrics-class-loader"),
            (self.metrics_jvm_memory, "--metrics-jvm-memory"),
            (self.metrics_jvm_gc, "--metrics-jvm-gc"),
            (self.metrics_jvm_thread, "--metrics-jvm-thread"),
            (self.metrics_processor, "--metrics-processor"),
        ]
        .into_iter()
        .filter_map(|(given, name)| given.then_some(name))
        .collect()
    }
}

/// Text that is no pair of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoPair {
    /// Something else than letters, digits and `_` in the name, or no `=`.
    #[error("it is written NAME=VALUE, the name of letters, digits and _ and not beginning with a digit")]
    Name,
    /// The value is no number.
    #[error("its value is no number")]
    Number,
}

fn pair(text: &str) -> Result<(&str, &str), NoPair> {
    text.split_once('=').filter(|(name, _)| is_name(name)).ok_or(NoPair::Name)
}

/// Whether this may be part of a metric's name (Prometheus exposition format).
fn is_name(name: &str) -> bool {
    let first = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    first && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn prefix(text: &str) -> Result<String, NoPair> {
    // Micrometer turns the dots of names into _ too.
    let text = text.replace(['.', '-'], "_");
    if text.is_empty() || is_name(&text) { Ok(text) } else { Err(NoPair::Name) }
}

impl FromStr for Exposed {
    type Err = NoPair;

    fn from_str(text: &str) -> Result<Self, NoPair> {
        let (name, value) = pair(text)?;
        let value = value.parse::<f64>().ok().filter(|value| value.is_finite()).ok_or(NoPair::Number)?;
        Ok(Self { name: name.to_owned(), value })
    }
}

impl FromStr for Tag {
    type Err = NoPair;

    fn from_str(text: &str) -> Result<Self, NoPair> {
        pair(text).map(|(name, value)| Self { name: name.to_owned(), value: value.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_checked_before_a_run() {
        assert_eq!(
            "expected_published=5e4".parse(),
            Ok(Exposed { name: "expected_published".into(), value: 5e4 })
        );
        for (text, error) in
            [("a", NoPair::Name), ("1a=1", NoPair::Name), ("a b=1", NoPair::Name), ("a=x", NoPair::Number)]
        {
            assert_eq!(text.parse::<Exposed>(), Err(error), "{text}");
        }
        assert!("env=eu-west \"1\"".parse::<Tag>().is_ok() && "=x".parse::<Tag>().is_err());
        assert_eq!((prefix("my.run-"), prefix("")), (Ok("my_run_".to_owned()), Ok(String::new())));
        assert!(prefix("a b").is_err());
    }
}
