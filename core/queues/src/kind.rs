//! The types of queues, and the rules that each brings. Refuses to know how the rules are followed.

use crate::arguments::QueueConfig;
use crate::{quorum, stream};

/// A type of queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `x-queue-type` classic.
    #[default]
    Classic,
    /// `x-queue-type` quorum.
    Quorum,
    /// `x-queue-type` stream.
    Stream,
}

impl Kind {
    /// The value of `x-queue-type` that selects it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Classic => "classic",
            Kind::Quorum => "quorum",
            Kind::Stream => "stream",
        }
    }

    /// The module that implements it in RabbitMQ: clients see it in texts.
    #[must_use]
    pub const fn module(self) -> &'static str {
        match self {
            Kind::Classic => "rabbit_classic_queue",
            Kind::Quorum => "rabbit_quorum_queue",
            Kind::Stream => "rabbit_stream_queue",
        }
    }

    /// The rules that a queue of the type follows when it was declared without arguments.
    #[must_use]
    pub fn rules(self) -> QueueConfig {
        match self {
            Kind::Classic => QueueConfig::default(),
            Kind::Quorum => quorum::rules(),
            Kind::Stream => stream::rules(),
        }
    }
}
