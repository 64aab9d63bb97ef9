//! Sessions and links of connections of AMQP 1.0, as management lists them. Names follow RabbitMQ's.

/// A session.
#[derive(Clone, Debug, Default)]
pub struct SessionInfo {
    /// Its channel.
    pub channel_number: u16,
    /// Highest handle.
    pub handle_max: u32,
    /// Id of the transfer frame that comes next.
    pub next_incoming_id: u32,
    /// Transfer frames that the client may send.
    pub incoming_window: u32,
    /// Id of the next transfer frame to the client.
    pub next_outgoing_id: u32,
    /// Transfer frames that the client takes.
    pub remote_incoming_window: u32,
    /// Transfer frames that the client has announced.
    pub remote_outgoing_window: u32,
    /// Deliveries that the client has not settled.
    pub outgoing_unsettled_deliveries: usize,
    /// Links on which the client sends, by handle.
    pub incoming_links: Vec<LinkInfo>,
    /// Links on which it receives.
    pub outgoing_links: Vec<LinkInfo>,
}

/// A link.
#[derive(Clone, Debug, Default)]
pub struct LinkInfo {
    /// Its number in the session, chosen by the client.
    pub handle: u32,
    /// Its name, chosen by the client.
    pub name: String,
    /// Target, or source; `None` if each message names its own.
    pub address: Option<String>,
    /// Largest message, bytes; 0 is any.
    pub max_message_size: u64,
    /// Messages that have come or gone; wraps around.
    pub delivery_count: u32,
    /// Messages that may still come or go.
    pub credit: u32,
    /// The settle mode of the sender: `settled`, `unsettled` or `mixed`.
    pub settle_mode: &'static str,
    /// Messages of the client that are not confirmed.
    pub unconfirmed_messages: usize,
    /// The queue that it receives from; empty if there is none.
    pub queue: String,
    /// Filters in effect.
    pub filters: Vec<FilterInfo>,
    /// Whether a delivery on it was ever unsettled for too long, so that its queue took it back.
    pub has_timed_out: bool,
}

/// A filter of a link.
#[derive(Clone, Debug, Default)]
pub struct FilterInfo {
    /// The name that the client gave it.
    pub name: String,
    /// The description of the session.
    pub descriptor: String,
    /// A raw field table with the entry `value`.
    pub value: Vec<u8>,
}
