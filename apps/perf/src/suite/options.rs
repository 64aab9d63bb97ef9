//! The arguments of `warren bench`.

use super::catalogue::QueueType;
use crate::load::Uri;
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// Runs benchmarks and compares their results.
#[derive(Clone, Debug, Parser)]
#[command(name = "warren bench", version, arg_required_else_help = true)]
pub(crate) struct BenchOptions {
    #[command(subcommand)]
    pub(crate) command: BenchCommand,
}

/// The command to run.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Run the suite against a Warren of its own and any peers, and write a report
    Suite(Box<SuiteOptions>),
    /// Compare two results of the suite
    Compare {
        /// Result to compare with: suite.json of an earlier run
        #[arg(value_name = "A.json")]
        before: PathBuf,
        /// Result to compare
        #[arg(value_name = "B.json")]
        after: PathBuf,
    },
}

/// The tests that the suite runs, the brokers, and the place of the results.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Results are written to OUTPUT/suite.json after every measurement and to OUTPUT/suite.html. Started again with the same\n\
                  plan it goes on where it was stopped, after deleting what the interrupted test may have left behind."
)]
pub(crate) struct SuiteOptions {
    /// Another broker to measure side by side: amqp://USER:PASSWORD@HOST:PORT/VHOST; repeatable
    #[arg(long, value_name = "URI")]
    pub(crate) peer: Vec<Uri>,
    /// Measure only the peers, no Warren
    #[arg(long, requires = "peer")]
    pub(crate) only_peers: bool,
    /// Minutes per test, broker and size; fractions are fine
    #[arg(long, default_value_t = 1.0, value_name = "MINUTES")]
    pub(crate) minutes_per_test: f64,
    /// Sizes of messages in bytes, separated by commas; k stands for thousand
    #[arg(long, default_value = "12,1k,5k,20k", value_delimiter = ',', value_parser = size)]
    pub(crate) sizes: Vec<u32>,
    /// Only these tests, separated by commas; --list shows them
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub(crate) tests: Vec<String>,
    /// Show the tests and end
    #[arg(long)]
    pub(crate) list: bool,
    /// Folder for results, and for the data of the Warren that is started
    #[arg(long, default_value = "bench-suite", value_name = "DIR")]
    pub(crate) output: PathBuf,
    /// Forget an earlier result in this folder
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Largest backlog that a test builds, in bytes of bodies: disk space bounds it
    #[arg(long, default_value_t = 2_000_000_000, value_name = "BYTES")]
    pub(crate) backlog_bytes_max: u64,
    /// The type of the queues; streams of tests of streams stay streams
    #[arg(long, value_enum, default_value_t, value_name = "TYPE")]
    pub(crate) queue_type: QueueType,
    /// Most publishing or consuming connections of a test: tests with thousands are cut down to it
    #[arg(long, default_value_t = 7_000, value_name = "COUNT")]
    pub(crate) connections_max: u32,
    /// The warren program to measure [default: this one]
    #[arg(long, value_name = "FILE")]
    pub(crate) warren: Option<PathBuf>,
    /// Allow a peer that is not on this machine: the suite loads it as hard as it can
    #[arg(long)]
    pub(crate) yes_this_host: bool,
}

impl SuiteOptions {
    /// Seconds per test.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "bounded by the check of options"
    )]
    pub(crate) fn seconds(&self) -> u64 {
        (self.minutes_per_test * 60.0).round().max(1.0) as u64
    }
}

fn size(text: &str) -> Result<u32, String> {
    let (digits, unit) = text.strip_suffix('k').map_or((text, 1), |digits| (digits, 1000));
    let bytes = digits.parse::<u32>().ok().and_then(|number| number.checked_mul(unit));
    bytes
        .filter(|bytes| *bytes <= 100_000_000)
        .ok_or_else(|| "a size is a number such as 12 or 5k, at most 100000k".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suite(line: &str) -> Result<SuiteOptions, String> {
        let words = ["warren bench", "suite"].into_iter().chain(line.split_whitespace());
        match BenchOptions::try_parse_from(words).map_err(|error| error.to_string())?.command {
            BenchCommand::Suite(options) => Ok(*options),
            BenchCommand::Compare { .. } => Err("compare".to_owned()),
        }
    }

    #[test]
    fn sizes_and_minutes_are_understood() {
        let options = suite("--sizes 12,1k,20k --minutes-per-test 0.1 --peer amqp://127.0.0.1:5673").unwrap();
        assert_eq!((options.sizes.as_slice(), options.seconds()), (&[12, 1000, 20_000][..], 6));
        assert_eq!((options.peer.len(), options.peer[0].port), (1, 5673));
        assert_eq!(suite("").unwrap().seconds(), 60);
    }

    #[test]
    fn what_cannot_be_run_is_refused() {
        for line in ["--sizes x", "--sizes 1m", "--sizes 999999k", "--only-peers", "--peer http://x"] {
            assert!(suite(line).is_err(), "{line}");
        }
    }
}
