//! Options of consumers.

use super::publishing::{CONNECTIONS_MAX, counted};
use super::values::{none_below_zero, truth};
use crate::load::phases::Phase;
use clap::{ArgAction, Args};

/// The consumers, and how they consume.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Consuming")]
pub(crate) struct Consuming {
    /// Consuming connections; 0 only publishes
    #[arg(short = 'y', long, default_value_t = 1, value_parser = counted(CONNECTIONS_MAX))]
    pub(crate) consumers: usize,
    /// Channels per consuming connection, each a consumer of its own
    #[arg(short = 'Y', long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=2047))]
    pub(crate) consumer_channel_count: u16,
    /// Consume without acknowledgements
    #[arg(short = 'a', long)]
    pub(crate) autoack: bool,
    /// Acknowledge this many at once [default: each one]
    #[arg(short = 'A', long, default_value_t = 0)]
    pub(crate) multi_ack_every: u32,
    /// Refuse messages instead of acknowledging them (also -na)
    #[arg(long)]
    pub(crate) nack: bool,
    /// Whether refused messages are requeued (also -re)
    #[arg(long, default_value_t = true, action = ArgAction::Set, value_name = "BOOL", value_parser = truth)]
    pub(crate) requeue: bool,
    /// Prefetch per consumer; 0 is unlimited
    #[arg(short = 'q', long, default_value_t = 0, value_parser = none_below_zero::<u16>)]
    pub(crate) qos: u16,
    /// Prefetch per channel; 0 is unlimited
    #[arg(short = 'Q', long, default_value_t = 0, value_parser = none_below_zero::<u16>)]
    pub(crate) global_qos: u16,
    /// Acknowledgements per transaction; 0 is none
    #[arg(short = 'n', long = "ctxsize", default_value_t = 0, value_name = "COUNT")]
    pub(crate) consumer_tx_size: u32,
    /// Messages per second and consumer [default: as fast as possible]
    #[arg(short = 'R', long, allow_negative_numbers = true)]
    pub(crate) consumer_rate: Option<f64>,
    /// Microseconds that a consumer works on a message before it is settled
    #[arg(short = 'L', long, default_value_t = 0, value_name = "MICROSECONDS", value_parser = none_below_zero::<u32>)]
    pub(crate) consumer_latency: u32,
    /// MICROSECONDS:SECONDS, several times: the work per message changes after each, round and round (also -vl)
    #[arg(long, value_name = "MICROSECONDS:SECONDS")]
    pub(crate) variable_latency: Vec<Phase<u32>>,
    /// Arguments of consumers: KEY=VALUE, separated by commas, such as x-priority=10 (also -ca)
    #[arg(long, value_delimiter = ',', value_name = "PAIRS")]
    pub(crate) consumer_args: Vec<String>,
    /// Where consumers of a stream begin: first, last, next, a number, or 2022-06-03T07:45:54Z (also -sco)
    #[arg(long, value_name = "OFFSET")]
    pub(crate) stream_consumer_offset: Option<String>,
    /// Consume with basic.get (also -po)
    #[arg(long)]
    pub(crate) polling: bool,
    /// Milliseconds to wait before the next basic.get (also -pi)
    #[arg(long, default_value_t = 0, value_name = "MILLISECONDS", value_parser = none_below_zero::<u64>)]
    pub(crate) polling_interval: u64,
    /// Start consumers one second after the other
    #[arg(short = 'S', long)]
    pub(crate) slow_start: bool,
    /// Start consumers this long after the publishers (also -csd)
    #[arg(long, default_value_t = 0, value_name = "SECONDS", value_parser = none_below_zero::<u64>)]
    pub(crate) consumer_start_delay: u64,
    /// Messages per consumer, then it stops; 0 is no end
    #[arg(short = 'D', long)]
    pub(crate) cmessages: Option<u64>,
}

impl Consuming {
    /// Messages of a consumer, if they end.
    pub(crate) fn count_max(&self) -> Option<u64> {
        self.cmessages.filter(|count| *count > 0)
    }

    /// How many consumers there are in all.
    pub(crate) fn all(&self) -> usize {
        self.consumers * usize::from(self.consumer_channel_count)
    }
}
