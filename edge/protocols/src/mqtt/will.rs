//! Messages that are published when their connection is lost.

use message::mqtt::{Mqtt, loses};
use wire::mqtt::Property;

/// A message that is published when the connection is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Will {
    pub(crate) topic: Box<str>,
    /// Stored properties.
    pub(crate) properties: Vec<u8>,
    pub(crate) payload: Vec<u8>,
    /// Seconds that it waits for the client to come back.
    pub(crate) delay_s: u32,
}

impl Will {
    /// As it came with CONNECT, at `now_ms` since 1970.
    pub(crate) fn of(will: &wire::mqtt::Will<'_>, now_ms: u64) -> Will {
        let mut kept = Vec::new();
        let (mut delay_s, mut expires) = (0, false);
        for property in will.properties.iter() {
            match property {
                Property::WillDelayInterval(seconds) => delay_s = seconds,
                other => {
                    expires |= matches!(other, Property::MessageExpiryInterval(_));
                    other.encode(&mut kept);
                }
            }
        }
        let mqtt = Mqtt {
            qos: will.qos,
            retain: will.retain,
            received_ms: expires.then_some(now_ms),
            topic: loses(will.topic).then_some(will.topic),
            properties: wire::mqtt::Properties::from_raw(&kept),
            ..Mqtt::default()
        };
        let mut properties = Vec::new();
        mqtt.encode(&mut properties);
        Will { topic: will.topic.into(), properties, payload: will.payload.to_vec(), delay_s }
    }
}
