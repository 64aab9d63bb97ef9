//! Rows of the stream protocol's publishers and consumers in listings.

/// A publisher of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamPublisher {
    /// Its stream.
    pub stream: String,
    /// Its id on its connection.
    pub id: u8,
    /// Its name, for deduplication; empty without one.
    pub reference: String,
    /// Entries that came.
    pub published: u64,
    /// Messages that were confirmed.
    pub confirmed: u64,
    /// Messages that were refused.
    pub errored: u64,
}

/// A consumer of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamConsumer {
    /// Its stream.
    pub stream: String,
    /// The id of its subscription on its connection.
    pub id: u8,
    /// Chunks that it may be sent.
    pub credits: u32,
    /// Messages that it was sent.
    pub consumed: u64,
    /// The last offset that it was sent, or where it waits.
    pub offset: u64,
    /// Messages between that and the end of the stream.
    pub offset_lag: u64,
    /// It gets what there is; of a group, one member does.
    pub is_active: bool,
    /// It is a member of a group of which one is active.
    pub is_single_active: bool,
    /// As the client gave them.
    pub properties: Vec<(String, String)>,
}

impl StreamConsumer {
    /// RabbitMQ's word for what it does.
    #[must_use]
    pub fn activity_status(&self) -> &'static str {
        match (self.is_single_active, self.is_active) {
            (true, true) => "single_active",
            (true, false) => "waiting",
            (false, _) => "up",
        }
    }
}
