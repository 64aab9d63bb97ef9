//! Class 20: opening and closing channels, and their flow.

use super::define::methods;
use crate::amqp091::ShortStr;

methods! {
    class 20;

    /// Opens the frame's channel.
    Open<'a> 10 "channel.open" {
        /// Ignored.
        out_of_band: ShortStr<'a>,
    }

    /// The channel is usable.
    OpenOk<'a> 11 "channel.open-ok" {
        /// Empty (B39).
        channel_id: &'a [u8],
    }

    /// Asks the peer to stop or resume content.
    Flow 20 "channel.flow" {} [
        /// Whether content may flow.
        active,
    ] {}

    /// Answers a flow request.
    FlowOk 21 "channel.flow-ok" {} [
        /// Whether content flows now.
        active,
    ] {}

    /// Ends the channel, with the reason.
    Close<'a> 40 "channel.close" {
        /// Reply code.
        reply_code: u16,
        /// Text for people.
        reply_text: ShortStr<'a>,
        /// Class of the method that failed, or 0.
        class_id: u16,
        /// Number of the method that failed, or 0.
        method_id: u16,
    }

    /// Confirms the close (B41).
    CloseOk 41 "channel.close-ok" {}
}
