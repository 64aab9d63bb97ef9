//! The vhosts of MQTT clients by port and by certificate: two global parameters, as in RabbitMQ. Refuses to know sessions.

use std::collections::HashMap;
use std::sync::Arc;

use broker::Broker;
use parking_lot::Mutex;
use protocols::mqtt::{VhostKey, VhostMaps};
use serde_json::Value;

/// Global parameter with an object: a port, as a text, to the name of a vhost.
const BY_PORT: &str = "mqtt_port_to_vhost_mapping";

/// Global parameter with an object: the user name in a certificate to the name of a vhost.
const BY_CERTIFICATE: &str = "mqtt_default_vhosts";

/// The vhosts of MQTT clients by port and by certificate. They follow their global parameters.
#[derive(Default)]
pub struct MqttVhosts {
    by_port: Mutex<Map>,
    by_certificate: Mutex<Map>,
}

/// A parameter that was read.
#[derive(Default)]
struct Map {
    text: Option<Arc<str>>,
    vhosts: HashMap<String, String>,
}

impl Map {
    /// Reads the parameter again if it has changed.
    fn follow(&mut self, text: Option<Arc<str>>) {
        let is_known = match (&self.text, &text) {
            (Some(known), Some(text)) => Arc::ptr_eq(known, text),
            (known, text) => known.is_none() && text.is_none(),
        };
        if !is_known {
            self.vhosts = text.as_deref().map(read).unwrap_or_default();
            self.text = text;
        }
    }
}

/// The entries of an object; another value has none. A value that is no text stands for a vhost of that spelling, which there is
/// not: the client is refused rather than let into the default vhost.
fn read(text: &str) -> HashMap<String, String> {
    let Ok(Value::Object(entries)) = serde_json::from_str(text) else { return HashMap::new() };
    let spelled = |value: Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    entries.into_iter().map(|(key, value)| (key, spelled(value))).collect()
}

impl VhostMaps for MqttVhosts {
    fn vhost(&self, broker: &Broker, key: VhostKey<'_>) -> Option<String> {
        let (map, parameter, key) = match key {
            VhostKey::Port(port) => (&self.by_port, BY_PORT, port.to_string()),
            VhostKey::Certificate(name) => (&self.by_certificate, BY_CERTIFICATE, name.to_owned()),
        };
        let text = broker.global_parameter(parameter);
        let mut map = map.lock();
        map.follow(text);
        map.vhosts.get(&key).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_texts_and_anything_else_names_no_vhost() {
        let vhosts = read(r#"{"1883": "devices", "1884": 7}"#);
        assert_eq!(vhosts.get("1883").map(String::as_str), Some("devices"));
        assert_eq!(vhosts.get("1884").map(String::as_str), Some("7"));
        for text in ["[1]", "\"x\"", "", "{"] {
            assert!(read(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn a_parameter_is_read_again_when_it_changes() {
        let mut map = Map::default();
        map.follow(Some(r#"{"1": "a"}"#.into()));
        assert_eq!(map.vhosts.len(), 1);
        map.follow(Some(r#"{"1": "a", "2": "b"}"#.into()));
        assert_eq!(map.vhosts.len(), 2);
        map.follow(None);
        assert!(map.vhosts.is_empty());
    }
}
