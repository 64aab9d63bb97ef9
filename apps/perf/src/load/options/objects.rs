//! Options of queues, exchange and bindings.

use super::TopologyOnly;
use super::values::{bytes, truth};
use clap::{ArgAction, Args, ValueEnum};

/// Queues of a run at most: names and declarations of them are kept in memory.
pub(crate) const QUEUES_MAX: u32 = 1_000_000;

/// Where the leader of a replicated queue is placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LeaderLocator {
    /// On the node of the declaring connection.
    ClientLocal,
    /// Where few leaders are.
    Balanced,
}

/// The objects that are declared and used.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Queues and exchange")]
pub(crate) struct Objects {
    /// Queue, or several separated by commas: each consumer reads all of them [default: one of its own for each consumer, with a name from the server]
    #[arg(short = 'u', long, value_delimiter = ',', conflicts_with_all = ["queue_pattern", "queue_file"])]
    pub(crate) queue: Vec<String>,
    /// File with names of queues, one a line; consumers and publishers take one each, in turn (also -qf)
    #[arg(long, conflicts_with = "queue_pattern", value_name = "FILE")]
    pub(crate) queue_file: Option<std::path::PathBuf>,
    /// Names of many queues, such as q-%d or q-%04d (also -qp)
    #[arg(long, requires = "queue_pattern_to")]
    pub(crate) queue_pattern: Option<String>,
    /// First number of the pattern (also -qpf)
    #[arg(long, default_value_t = 1, requires = "queue_pattern")]
    pub(crate) queue_pattern_from: u32,
    /// Last number of the pattern, a million of them at most (also -qpt)
    #[arg(long, requires = "queue_pattern")]
    pub(crate) queue_pattern_to: Option<u32>,
    /// Queue arguments: KEY=VALUE, separated by commas; whole numbers, true and false are sent as such; options of their own win (also -qa)
    #[arg(long, value_delimiter = ',')]
    pub(crate) queue_args: Vec<String>,
    /// Quorum queues (also -qq)
    #[arg(long, conflicts_with = "stream_queue")]
    pub(crate) quorum_queue: bool,
    /// Streams; --qos is 200 unless given (also -sq)
    #[arg(long)]
    pub(crate) stream_queue: bool,
    /// Where leaders are placed (also -ll)
    #[arg(long)]
    pub(crate) leader_locator: Option<LeaderLocator>,
    /// Largest size of a queue in bytes, or such as 50mb; 0 is no limit [default: none; of a stream 20000000000] (also -mlb)
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(crate) max_length_bytes: Option<u64>,
    /// Largest segment of a stream in bytes, or such as 50mb [default: 500000000 with --stream-queue] (also -smssb)
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(crate) stream_max_segment_size_bytes: Option<u64>,
    /// Age after which a stream's segments go, such as PT10M30S or P5DT8H (also -ma)
    #[arg(long, value_name = "DURATION")]
    pub(crate) max_age: Option<String>,
    /// Whether queues go with their last consumer; with false they stay when the run ends (also -ad)
    #[arg(long, action = ArgAction::Set, value_name = "BOOL", value_parser = truth)]
    pub(crate) auto_delete: Option<bool>,
    /// Delete queues and exchange at the end even with --auto-delete false
    #[arg(long)]
    pub(crate) clean_up: bool,
    /// The queues with names from the server that consumers have are exclusive
    #[arg(short = 'E', long, conflicts_with_all = ["queue", "queue_pattern", "queue_file"])]
    pub(crate) exclusive: bool,
    /// Exchange; amq.default or '' is the default exchange [default: one with the name of its type]
    #[arg(short = 'e', long)]
    pub(crate) exchange: Option<Option<String>>,
    /// Type of the exchange
    #[arg(short = 't', long = "type", default_value = "direct")]
    pub(crate) exchange_type: String,
    /// Routing and binding key [default: with a pattern, a file or the default exchange the queue's name, otherwise the id]
    #[arg(short = 'k', long)]
    pub(crate) routing_key: Option<String>,
    /// Leave out the bindings (also -sb)
    #[arg(long)]
    pub(crate) skip_binding_queues: bool,
    /// Take queues and exchange as they are if they exist, and leave those in place
    #[arg(short = 'p', long)]
    pub(crate) predeclared: bool,
    /// Only declare or only delete queues and exchange
    #[arg(long, value_name = "PART")]
    pub(crate) topology_only: Option<TopologyOnly>,
}

impl Objects {
    /// Name of the exchange; empty for the default one.
    pub(crate) fn exchange_name(&self) -> &str {
        match self.exchange.as_ref().and_then(Option::as_deref) {
            None => &self.exchange_type,
            Some("amq.default") => "",
            Some(name) => name,
        }
    }

    /// Whether consumers and publishers take the queues in turn, one each.
    pub(crate) fn takes_turns(&self) -> bool {
        self.queue_pattern.is_some() || self.queue_file.is_some()
    }
}
