//! Class 10: opening, tuning, blocking and closing the connection. All on channel 0.

use super::define::methods;
use crate::amqp091::{ShortStr, Table};

methods! {
    class 10;

    /// Server's greeting (B6, B7).
    Start<'a> 10 "connection.start" {
        /// 0.
        version_major: u8,
        /// 9.
        version_minor: u8,
        /// Product, version, capabilities.
        server_properties: Table<'a>,
        /// SASL mechanisms, separated by spaces.
        mechanisms: &'a [u8],
        /// Locales, separated by spaces.
        locales: &'a [u8],
    }

    /// Client's choice of mechanism and its first response.
    StartOk<'a> 11 "connection.start-ok" {
        /// Client's name, version, capabilities (B10, B11).
        client_properties: Table<'a>,
        /// SASL mechanism.
        mechanism: ShortStr<'a>,
        /// SASL response.
        response: &'a [u8],
        /// Locale.
        locale: ShortStr<'a>,
    }

    /// Further SASL challenge.
    Secure<'a> 20 "connection.secure" {
        /// SASL challenge.
        challenge: &'a [u8],
    }

    /// Answer to a SASL challenge.
    SecureOk<'a> 21 "connection.secure-ok" {
        /// SASL response.
        response: &'a [u8],
    }

    /// Server's limits (B18).
    Tune 30 "connection.tune" {
        /// Highest channel number; 0 for no limit.
        channel_max: u16,
        /// Largest frame in bytes, its 8 bytes of overhead included; 0 for no limit.
        frame_max: u32,
        /// Heartbeat timeout in seconds; 0 for none.
        heartbeat: u16,
    }

    /// Client's choice within the limits (B19 to B21).
    TuneOk 31 "connection.tune-ok" {
        /// Highest channel number; 0 for no limit.
        channel_max: u16,
        /// Largest frame in bytes, its 8 bytes of overhead included; 0 for no limit.
        frame_max: u32,
        /// Heartbeat timeout in seconds; 0 for none.
        heartbeat: u16,
    }

    /// Chooses the vhost (B24).
    Open<'a> 40 "connection.open" {
        /// Name of the vhost.
        virtual_host: ShortStr<'a>,
        /// Ignored.
        capabilities: ShortStr<'a>,
    } [
        /// Ignored.
        insist,
    ] {}

    /// The connection is usable.
    OpenOk<'a> 41 "connection.open-ok" {
        /// Empty.
        known_hosts: ShortStr<'a>,
    }

    /// Ends the connection, with the reason.
    Close<'a> 50 "connection.close" {
        /// Reply code.
        reply_code: u16,
        /// Text for people.
        reply_text: ShortStr<'a>,
        /// Class of the method that failed, or 0.
        class_id: u16,
        /// Number of the method that failed, or 0.
        method_id: u16,
    }

    /// Confirms the close.
    CloseOk 51 "connection.close-ok" {}

    /// The server stops reading what this connection publishes (B27).
    Blocked<'a> 60 "connection.blocked" {
        /// Which alarms.
        reason: ShortStr<'a>,
    }

    /// The alarms are over (B27).
    Unblocked 61 "connection.unblocked" {}

    /// A fresh credential for a connection that is open (B29).
    UpdateSecret<'a> 70 "connection.update-secret" {
        /// The credential.
        new_secret: &'a [u8],
        /// Text for people.
        reason: ShortStr<'a>,
    }

    /// The credential was accepted.
    UpdateSecretOk 71 "connection.update-secret-ok" {}
}
