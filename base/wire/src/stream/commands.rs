//! Bodies of commands without a correlation id: nobody answers them.
//!
//! [`super::Publish`] and [`super::Deliver`] are such, too.

use super::bodies::bodies;
use super::field::{List, PublishingError};

bodies! {
    /// Messages are stored.
    PublishConfirm<'a> 0x0003 {
        /// Publisher.
        publisher_id: u8,
        /// Their publishing ids.
        publishing_ids: List<'a, u64>,
    }

    /// Messages are not stored.
    PublishError<'a> 0x0004 {
        /// Publisher.
        publisher_id: u8,
        /// Which, and why.
        errors: List<'a, PublishingError>,
    }

    /// More chunks may be delivered.
    Credit 0x0009 {
        /// Subscription.
        subscription_id: u8,
        /// How many.
        credit: u16,
    }

    /// Stores an offset under a name.
    StoreOffset<'a> 0x000a {
        /// Name.
        reference: &'a str,
        /// Stream.
        stream: &'a str,
        /// Offset.
        offset: u64,
    }

    /// Something became of a stream.
    MetadataUpdate<'a> 0x0010 {
        /// The code of the error.
        code: super::ResponseCode,
        /// Stream.
        stream: &'a str,
    }

    /// Limits of the connection. The server proposes, the client answers with what holds.
    Tune 0x0014 {
        /// Largest frame in bytes; 0 for no limit.
        frame_max: u32,
        /// Heartbeat in seconds; 0 for none.
        heartbeat: u32,
    }

    /// The connection is alive.
    Heartbeat 0x0017 {}

    /// Credit for a subscription was refused. It has the response bit, but no correlation id.
    CreditError 0x0009 {
        /// Why.
        code: super::ResponseCode,
        /// Subscription.
        subscription_id: u8,
    }
}
