//! Options of a run: when it ends and what it tells.

use super::values::none_below_zero;
use clap::{ArgAction, Args, ValueEnum};
use std::path::PathBuf;

/// When a run without a time ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExitWhen {
    /// Nothing was received for a second and the queues are empty.
    Empty,
    /// Nothing was received for a second.
    Idle,
}

/// How the line per interval looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MetricsFormat {
    /// Each figure with its name.
    Default,
    /// A table.
    Compact,
}

/// When a run ends, and what it tells.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Run and figures")]
pub(crate) struct Running {
    /// Name of this run in lines and results [default: perf-PID]
    #[arg(short = 'd', long)]
    pub(crate) id: Option<String>,
    /// Stop after this many seconds; 0 is never [default: never, or when -C or -D are reached]
    #[arg(short = 'z', long, value_name = "SECONDS", value_parser = none_below_zero::<u64>)]
    pub(crate) time: Option<u64>,
    /// Stop when nothing was received for a second: queues empty, or consumers idle (also -ew)
    #[arg(long, value_name = "WHEN", ignore_case = true)]
    pub(crate) exit_when: Option<ExitWhen>,
    /// Seconds between two lines
    #[arg(short = 'i', long, default_value_t = 1.0, value_name = "SECONDS")]
    pub(crate) interval: f64,
    /// Shape of these lines (also -mf)
    #[arg(long, default_value = "default", value_name = "FORMAT")]
    pub(crate) metrics_format: MetricsFormat,
    /// Write the figures of each interval to this file as comma-separated values
    #[arg(short = 'o', long, value_name = "FILE")]
    pub(crate) output_file: Option<PathBuf>,
    /// A line per message; only for slow rates
    #[arg(long)]
    pub(crate) verbose: bool,
    /// A line per message, with its body; only for slow rates
    #[arg(long)]
    pub(crate) verbose_full: bool,
    /// Threads for all publishing connections, and as many for consuming ones
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) threads: u16,
    /// Process of the broker on this machine: its CPU per message and memory are reported
    #[arg(long, value_name = "PID")]
    pub(crate) watch_pid: Option<u32>,
    /// Print one line of JSON on stdout at the end
    #[arg(long)]
    pub(crate) json: bool,
    /// Put the figures of each interval into the JSON too
    #[arg(long, requires = "json", action = ArgAction::SetTrue)]
    pub(crate) series: bool,
    /// Write the latency histogram to this file, in HdrHistogram's percentile format
    #[arg(long, value_name = "FILE")]
    pub(crate) histogram: Option<PathBuf>,
    /// End, in order, when the process that started this one ends
    #[arg(long, hide = true)]
    pub(crate) end_with_parent: bool,
    /// No line per interval
    #[arg(long)]
    pub(crate) quiet: bool,
}

impl Running {
    /// Seconds after which the run ends, if it does so by time.
    pub(crate) fn seconds(&self) -> Option<u64> {
        self.time.filter(|seconds| *seconds > 0)
    }
}
