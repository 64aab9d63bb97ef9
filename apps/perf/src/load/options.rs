//! The arguments of `warren perf`. Names, short forms and defaults are PerfTest's where it has them.
//!
//! Refuses to know what they lead to.

use super::uri::Uri;
use clap::{ArgAction, Parser, ValueEnum};
use std::ffi::OsString;

/// PerfTest's options of several letters behind one dash, which clap does not know, and their long forms.
const SINGLE_DASH: [(&str, &str); 6] = [
    ("-qp", "--queue-pattern"),
    ("-qpf", "--queue-pattern-from"),
    ("-qpt", "--queue-pattern-to"),
    ("-qa", "--queue-args"),
    ("-ad", "--auto-delete"),
    ("-sb", "--skip-binding-queues"),
];

/// What a published message is marked as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Flag {
    /// Delivery mode 2.
    Persistent,
    /// Unroutable messages come back.
    Mandatory,
}

/// Part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TopologyOnly {
    /// Declare queues, exchange and bindings, and leave them.
    Declare,
    /// Delete them.
    Delete,
}

/// Makes AMQP 0-9-1 load on any broker and measures rates, latency and CPU.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "warren perf",
    disable_help_flag = true,
    version,
    after_help = "Latency: a message carries its send time in its body: of 8 bytes or more in the first 8 (nanoseconds), of 4 to\n\
                  7 bytes in the first 4 (low 32 bits of microseconds), below 4 bytes not at all. With --rate the send time is\n\
                  when the message was due, so that a slow broker cannot hide behind a late generator.\n\
                  Producers with a count of 0, or consumers, are left out: -y 0 only publishes."
)]
pub(crate) struct Options {
    /// Show this help
    #[arg(short = '?', long, action = ArgAction::Help)]
    pub(crate) help: Option<bool>,
    /// Broker and vhost: amqp://USER:PASSWORD@HOST:PORT/VHOST
    #[arg(short = 'h', long, default_value = "amqp://localhost", value_name = "URI")]
    pub(crate) uri: Uri,
    /// Name of this run in lines and results [default: perf-PID]
    #[arg(short = 'd', long)]
    pub(crate) id: Option<String>,
    /// Publishing connections
    #[arg(short = 'x', long, default_value_t = 1)]
    pub(crate) producers: usize,
    /// Consuming connections
    #[arg(short = 'y', long, default_value_t = 1)]
    pub(crate) consumers: usize,
    /// Channels per publishing connection, each a publisher of its own
    #[arg(short = 'X', long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=2047))]
    pub(crate) producer_channel_count: u16,
    /// Channels per consuming connection, each a consumer of its own
    #[arg(short = 'Y', long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=2047))]
    pub(crate) consumer_channel_count: u16,
    /// Queue, or several separated by commas [default: the id]
    #[arg(short = 'u', long, value_delimiter = ',', conflicts_with = "queue_pattern")]
    pub(crate) queue: Vec<String>,
    /// Names of many queues, such as q-%d or q-%04d (also -qp)
    #[arg(long, requires = "queue_pattern_to")]
    pub(crate) queue_pattern: Option<String>,
    /// First number of the pattern (also -qpf)
    #[arg(long, default_value_t = 1)]
    pub(crate) queue_pattern_from: u32,
    /// Last number of the pattern (also -qpt)
    #[arg(long)]
    pub(crate) queue_pattern_to: Option<u32>,
    /// Queue arguments: KEY=VALUE, separated by commas; whole numbers are sent as such (also -qa)
    #[arg(long, value_delimiter = ',')]
    pub(crate) queue_args: Vec<String>,
    /// Whether queues go with their last consumer; they are deleted at the end in any case (also -ad)
    #[arg(long, default_value_t = true, action = ArgAction::Set)]
    pub(crate) auto_delete: bool,
    /// Exchange; '' is the default exchange
    #[arg(short = 'e', long, default_value = "direct")]
    pub(crate) exchange: String,
    /// Type of the exchange
    #[arg(short = 't', long = "type", default_value = "direct")]
    pub(crate) exchange_type: String,
    /// Routing and binding key [default: with a pattern or the default exchange the queue's name, otherwise the id]
    #[arg(short = 'k', long)]
    pub(crate) routing_key: Option<String>,
    /// Leave out the bindings (also -sb)
    #[arg(long)]
    pub(crate) skip_binding_queues: bool,
    /// Take queues and exchange as they are if they exist, and leave those in place
    #[arg(short = 'p', long)]
    pub(crate) predeclared: bool,
    /// Bytes of a message's body
    #[arg(short = 's', long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(0..=536_870_912))]
    pub(crate) size: u32,
    /// Mark messages
    #[arg(short = 'f', long)]
    pub(crate) flag: Vec<Flag>,
    /// Confirms on, with at most this many unconfirmed messages per publisher
    #[arg(short = 'c', long, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(crate) confirm: Option<u32>,
    /// Messages per second and publisher [default: as fast as possible]
    #[arg(short = 'r', long)]
    pub(crate) rate: Option<f64>,
    /// Messages per publisher, then it stops
    #[arg(short = 'C', long)]
    pub(crate) pmessages: Option<u64>,
    /// Consume without acknowledgements
    #[arg(short = 'a', long)]
    pub(crate) autoack: bool,
    /// Acknowledge this many at once [default: each one]
    #[arg(short = 'A', long, default_value_t = 0)]
    pub(crate) multi_ack_every: u32,
    /// Prefetch per consumer; 0 is unlimited
    #[arg(short = 'q', long, default_value_t = 0)]
    pub(crate) qos: u16,
    /// Messages per consumer, then it stops
    #[arg(short = 'D', long)]
    pub(crate) cmessages: Option<u64>,
    /// Stop after this many seconds [default: never, or when -C or -D are reached]
    #[arg(short = 'z', long)]
    pub(crate) time: Option<u64>,
    /// Threads for all publishing connections, and as many for consuming ones
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) threads: u16,
    /// Process of the broker on this machine: its CPU per message and memory are reported
    #[arg(long, value_name = "PID")]
    pub(crate) watch_pid: Option<u32>,
    /// Print one line of JSON on stdout at the end
    #[arg(long)]
    pub(crate) json: bool,
    /// No line per second
    #[arg(long)]
    pub(crate) quiet: bool,
    /// Only declare or only delete queues and exchange
    #[arg(long, value_name = "PART")]
    pub(crate) topology_only: Option<TopologyOnly>,
}

impl Options {
    /// Reads arguments, the command's name not among them.
    ///
    /// # Errors
    /// clap's, with a text that says what to change.
    pub(crate) fn parse_args(args: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let name = OsString::from("warren perf");
        let options = Self::try_parse_from(std::iter::once(name).chain(args.into_iter().map(long_form)))?;
        options.check().map_err(|problem| {
            <Self as clap::CommandFactory>::command().error(clap::error::ErrorKind::ValueValidation, problem)
        })?;
        Ok(options)
    }

    fn check(&self) -> Result<(), String> {
        if self.rate.is_some_and(|rate| !(rate.is_finite() && rate > 0.0)) {
            return Err("--rate must be above 0".to_owned());
        }
        if self.qos > 0 && self.multi_ack_every > u32::from(self.qos) {
            return Err("--multi-ack-every above --qos would wait for ever: lower it".to_owned());
        }
        if self.queue_pattern_to.is_some_and(|to| to < self.queue_pattern_from) {
            return Err("--queue-pattern-to is below --queue-pattern-from".to_owned());
        }
        if self.producers + self.consumers == 0 && self.topology_only.is_none() {
            return Err("no producers and no consumers: nothing to do".to_owned());
        }
        Ok(())
    }

    /// Whether messages carry this mark.
    pub(crate) fn has(&self, flag: Flag) -> bool {
        self.flag.contains(&flag)
    }
}

fn long_form(arg: OsString) -> OsString {
    SINGLE_DASH.iter().find(|(short, _)| arg == *short).map_or(arg, |(_, long)| OsString::from(long))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        Options::parse_args(line.split_whitespace().map(OsString::from)).map_err(|error| error.to_string())
    }

    #[test]
    fn command_lines_of_perf_test_are_understood() {
        let options = parse("-p -e amq.fanout -u q1 -s 5 --autoack -z 10").unwrap();
        assert!(options.predeclared && options.autoack);
        assert_eq!((options.exchange.as_str(), options.size, options.time), ("amq.fanout", 5, Some(10)));
        let options = parse("-x 100 -y 100 --queue-pattern q-%d -qpf 1 -qpt 100 -r 20").unwrap();
        assert_eq!((options.queue_pattern_from, options.queue_pattern_to), (1, Some(100)));
        let options = parse("-x 2 -y 4 -c 200 -f persistent -q 100 -ad false -h amqp://h:1").unwrap();
        assert!(options.has(Flag::Persistent) && !options.has(Flag::Mandatory) && !options.auto_delete);
    }

    #[test]
    fn what_cannot_work_is_refused_with_a_reason() {
        for (line, reason) in [
            ("-r 0", "above 0"),
            ("-q 10 -A 11", "wait for ever"),
            ("-x 0 -y 0", "nothing to do"),
            ("-qp q-%d -qpf 5 -qpt 4", "below"),
            ("-qp q-%d", "queue-pattern-to"),
            ("-h http://x", "amqp://"),
            ("-c 0", "0"),
        ] {
            let text = parse(line).unwrap_err();
            assert!(text.contains(reason), "{line}: {text}");
        }
    }

    #[test]
    fn the_definition_is_sound() {
        <Options as clap::CommandFactory>::command().debug_assert();
    }
}
