//! Options of publishers.

use super::values::{endless_below_zero, none_below_zero};
use crate::load::phases::Phase;
use clap::builder::RangedU64ValueParser;
use clap::{ArgAction, Args, ValueEnum};
use std::path::PathBuf;

/// The marks of a published message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Flag {
    /// Delivery mode 2.
    Persistent,
    /// Unroutable messages come back.
    Mandatory,
}

/// Which time a message carries that has a due time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LatencyFrom {
    /// When it was due: a broker that holds the generator up cannot hide it (no coordinated omission).
    Due,
    /// When it was sent, as PerfTest counts.
    Send,
}

/// Connections of a kind at most: more than a machine has ports for a few addresses.
pub(crate) const CONNECTIONS_MAX: u64 = 1_000_000;

/// Unconfirmed messages of a publisher at most, of each of which a byte is kept.
const WINDOW_MAX: i64 = 10_000_000;

/// A number up to `most`.
pub(crate) fn counted(most: u64) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(0..=most)
}

/// The publishers: their messages, and how fast they publish.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Publishing")]
pub(crate) struct Publishing {
    /// Publishing connections; 0 only consumes
    #[arg(short = 'x', long, default_value_t = 1, value_parser = counted(CONNECTIONS_MAX))]
    pub(crate) producers: usize,
    /// Channels per publishing connection, each a publisher of its own
    #[arg(short = 'X', long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=2047))]
    pub(crate) producer_channel_count: u16,
    /// Bytes of a message's body
    #[arg(short = 's', long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(0..=536_870_912))]
    pub(crate) size: u32,
    /// SIZE:SECONDS, several times: the size changes after each, round and round (also -vs)
    #[arg(long, value_name = "SIZE:SECONDS")]
    pub(crate) variable_size: Vec<Phase<u32>>,
    /// Files to take bodies from, separated by commas, in turn
    #[arg(short = 'B', long, value_delimiter = ',', value_name = "FILES", conflicts_with = "json_body")]
    pub(crate) body: Vec<PathBuf>,
    /// JSON documents of --size bytes as bodies (also -jb)
    #[arg(long)]
    pub(crate) json_body: bool,
    /// How many different JSON documents (also -bc)
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) body_count: u32,
    /// How many different fields and values JSON documents have (also -bfc)
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) body_field_count: u32,
    /// Content type of the bodies
    #[arg(short = 'T', long, value_name = "TYPE")]
    pub(crate) body_content_type: Option<String>,
    /// Properties: KEY=VALUE, separated by commas, such as priority=5; other keys become headers (also -mp)
    #[arg(long, value_delimiter = ',', value_name = "PAIRS")]
    pub(crate) message_properties: Vec<String>,
    /// Mark messages; may be given twice
    #[arg(short = 'f', long)]
    pub(crate) flag: Vec<Flag>,
    /// A random routing key per message
    #[arg(short = 'K', long)]
    pub(crate) random_routing_key: bool,
    /// How many random routing keys there are; 0 is no end of them (also -rkcs)
    #[arg(long, default_value_t = 0, value_name = "COUNT", value_parser = none_below_zero::<u32>)]
    pub(crate) routing_key_cache_size: u32,
    /// Confirms on, with at most this many unconfirmed messages per publisher; 0 is no limit below ten million
    #[arg(short = 'c', long, value_parser = clap::value_parser!(i32).range(..=WINDOW_MAX), allow_negative_numbers = true)]
    pub(crate) confirm: Option<i32>,
    /// Fail when a confirm takes longer; below 0 never (also -ct)
    #[arg(long, default_value_t = 30, value_name = "SECONDS", value_parser = endless_below_zero)]
    pub(crate) confirm_timeout: u64,
    /// Messages per transaction; 0 is none
    #[arg(short = 'm', long = "ptxsize", default_value_t = 0, value_name = "COUNT")]
    pub(crate) producer_tx_size: u32,
    /// Messages per second and publisher; 0 sends nothing, below it is no limit [default: as fast as possible]
    #[arg(short = 'r', long, allow_negative_numbers = true)]
    pub(crate) rate: Option<f64>,
    /// RATE:SECONDS, several times: the rate changes after each, round and round (also -vr)
    #[arg(long, value_name = "RATE:SECONDS", conflicts_with = "rate")]
    pub(crate) variable_rate: Vec<Phase<u32>>,
    /// Seconds between two messages of a publisher
    #[arg(short = 'P', long, value_name = "SECONDS", conflicts_with_all = ["rate", "variable_rate"])]
    pub(crate) publishing_interval: Option<f64>,
    /// Each publisher starts after a random time of at most this (also -prsd)
    #[arg(long, default_value_t = 0, value_name = "SECONDS", value_parser = none_below_zero::<u64>)]
    pub(crate) producer_random_start_delay: u64,
    /// Messages per publisher, then it stops; 0 is no end
    #[arg(short = 'C', long)]
    pub(crate) pmessages: Option<u64>,
    /// Start of the latency when messages have a due time (-r, -vr, -P)
    #[arg(long, value_name = "WHEN", default_value = "due")]
    pub(crate) latency_from: LatencyFrom,
    /// Latency in milliseconds of the wall clock, for publishers and consumers on different machines (also -ms)
    #[arg(long, action = ArgAction::SetTrue)]
    pub(crate) use_millis: bool,
}

impl Publishing {
    /// Whether messages carry this mark.
    pub(crate) fn has(&self, flag: Flag) -> bool {
        self.flag.contains(&flag)
    }

    /// Most unconfirmed messages of a publisher; `None` without confirms. 0 is confirms without a limit but the one that there is.
    pub(crate) fn window(&self) -> Option<usize> {
        let window = self.confirm.and_then(|window| usize::try_from(window).ok());
        window.map(|window| if window == 0 { WINDOW_MAX as usize } else { window })
    }

    /// Messages of a publisher, if they end.
    pub(crate) fn count_max(&self) -> Option<u64> {
        self.pmessages.filter(|count| *count > 0)
    }

    /// How many publishers there are in all.
    pub(crate) fn publishers(&self) -> usize {
        self.producers * usize::from(self.producer_channel_count)
    }
}
