//! Options of connections.

use super::values::{none_below_zero, truth};
use crate::load::recovery::Pause;
use crate::load::uri::Uri;
use clap::{ArgAction, Args};
use tls::Verify;

/// Where to connect, and how.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Connections")]
pub(crate) struct Connecting {
    /// Broker and vhost: amqp://USER:PASSWORD@HOST:PORT/VHOST
    #[arg(short = 'h', long, default_value = "amqp://localhost", value_name = "URI")]
    pub(crate) uri: Uri,
    /// Several brokers, separated by commas; connections are dealt out to them in turn
    #[arg(short = 'H', long, value_delimiter = ',', value_name = "URIS")]
    pub(crate) uris: Vec<Uri>,
    /// Seconds between heartbeats; 0 is none
    #[arg(short = 'b', long, default_value_t = 0, value_name = "SECONDS", value_parser = none_below_zero::<u16>)]
    pub(crate) heartbeat: u16,
    /// Largest frame to ask for, in bytes; 0 is the broker's choice, 131072 at most
    #[arg(short = 'M', long = "framemax", default_value_t = 0, value_name = "BYTES")]
    pub(crate) frame_size_max: u32,
    /// Send small segments at once (TCP_NODELAY) (also -tnd)
    #[arg(long, default_value_t = true, action = ArgAction::Set, value_name = "BOOL", value_parser = truth)]
    pub(crate) tcp_no_delay: bool,
    /// Receive buffer of a socket in bytes [default: the system's] (also -trbs)
    #[arg(long, value_name = "BYTES", value_parser = none_below_zero::<u32>)]
    pub(crate) tcp_receive_buffer_size: Option<u32>,
    /// Send buffer of a socket in bytes [default: the system's] (also -tsbs)
    #[arg(long, value_name = "BYTES", value_parser = none_below_zero::<u32>)]
    pub(crate) tcp_send_buffer_size: Option<u32>,
    /// Wait this long for brokers that are not there yet [default: fail at once] (also -sst)
    #[arg(long, value_name = "SECONDS", value_parser = none_below_zero::<u64>)]
    pub(crate) servers_startup_timeout: Option<u64>,
    /// How many of the brokers have to be there [default: all] (also -sul)
    #[arg(long, value_name = "COUNT", value_parser = none_below_zero::<usize>)]
    pub(crate) servers_up_limit: Option<usize>,
    /// How long a connection may take to close (also -st)
    #[arg(long, default_value_t = 5, value_name = "SECONDS", value_parser = none_below_zero::<u64>)]
    pub(crate) shutdown_timeout: u64,
    /// A connection that breaks ends the run (also -dcr)
    #[arg(long)]
    pub(crate) disable_connection_recovery: bool,
    /// Seconds before a connection that broke is opened again; 30-60 is a random time between (also -cri)
    #[arg(long, default_value = "5", value_name = "SECONDS")]
    pub(crate) connection_recovery_interval: Pause,
    /// Check the certificate of an amqps:// broker with the system's authorities; otherwise any is taken (also -udsc)
    #[arg(long)]
    pub(crate) use_default_ssl_context: bool,
    /// Ignored: there is no thread pool to size (also -niot)
    #[arg(long, value_name = "COUNT", value_parser = none_below_zero::<u32>)]
    pub(crate) nio_threads: Option<u32>,
    /// Ignored, as --nio-threads (also -niotp)
    #[arg(long, value_name = "COUNT", value_parser = none_below_zero::<u32>)]
    pub(crate) nio_thread_pool: Option<u32>,
    /// Ignored, as --nio-threads (also -hst)
    #[arg(long, value_name = "COUNT", value_parser = none_below_zero::<u32>)]
    pub(crate) heartbeat_sender_threads: Option<u32>,
    /// Ignored, as --nio-threads (also -ctp)
    #[arg(long, value_name = "COUNT", value_parser = none_below_zero::<u32>)]
    pub(crate) consumers_thread_pools: Option<u32>,
    /// Ignored, as --nio-threads (also -pst)
    #[arg(long, value_name = "COUNT", value_parser = none_below_zero::<u32>)]
    pub(crate) producer_scheduler_threads: Option<u32>,
}

impl Connecting {
    /// Whether certificates of encrypted brokers are checked.
    pub(crate) const fn verify(&self) -> Verify {
        if self.use_default_ssl_context { Verify::Peer } else { Verify::None }
    }

    /// The brokers, one at least.
    pub(crate) fn brokers(&self) -> &[Uri] {
        if self.uris.is_empty() { std::slice::from_ref(&self.uri) } else { &self.uris }
    }

    /// How long to wait before a connection that broke is opened again; `None` if it is not.
    pub(crate) fn recovery_pause(&self) -> Option<Pause> {
        (!self.disable_connection_recovery).then_some(self.connection_recovery_interval)
    }

    /// Options that were given and do nothing here, for a note.
    pub(crate) fn ignored(&self) -> Vec<&'static str> {
        [
            (self.nio_threads.is_some(), "--nio-threads"),
            (self.nio_thread_pool.is_some(), "--nio-thread-pool"),
            (self.heartbeat_sender_threads.is_some(), "--heartbeat-sender-threads"),
            (self.consumers_thread_pools.is_some(), "--consumers-thread-pools"),
            (self.producer_scheduler_threads.is_some(), "--producer-scheduler-threads"),
        ]
        .into_iter()
        .filter_map(|(given, name)| given.then_some(name))
        .collect()
    }
}
