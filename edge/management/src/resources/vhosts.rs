//! Virtual hosts, as listings and pages show them.

use broker::control::users::new_vhost_metadata;
use broker::{Broker, Tracing};
use metadata::{Vhost, VhostMetadata};
use serde_json::{Map, Value};

use super::values::text;

/// A virtual host.
pub(crate) struct VhostRow {
    pub(crate) name: Value,
    pub(crate) metadata: VhostMetadata,
    /// Its messages go to the firehose.
    pub(crate) is_traced: bool,
}

impl VhostRow {
    fn of(broker: &Broker, name: &[u8], metadata: VhostMetadata) -> VhostRow {
        let is_traced = broker.tracing(&String::from_utf8_lossy(name)) == Tracing::On;
        VhostRow { name: text(name), metadata, is_traced }
    }

    /// A virtual host that was there a moment ago.
    pub(crate) fn named(broker: &Broker, name: &str) -> VhostRow {
        let found = broker.read_metadata(|state| Some(state.vhost(name.as_bytes())?.metadata().clone()));
        VhostRow::of(broker, name.as_bytes(), found.unwrap_or_else(new_vhost_metadata))
    }

    /// All of them by name.
    pub(crate) fn all(broker: &Broker) -> Vec<VhostRow> {
        let row = |vhost: &Vhost| VhostRow::of(broker, vhost.name(), vhost.metadata().clone());
        broker.read_metadata(|state| state.vhosts().map(row).collect())
    }

    /// Its tags as a list.
    pub(crate) fn tags(&self) -> Value {
        tags(&self.metadata)
    }

    /// The type of queues whose clients name none.
    pub(crate) fn default_queue_type(&self) -> Option<&str> {
        self.metadata.default_queue_type.as_deref()
    }
}

fn tags(metadata: &VhostMetadata) -> Value {
    metadata.tags.iter().map(|tag| &**tag).collect()
}

/// Metadata as an object with RabbitMQ's keys.
pub(crate) fn metadata_object(metadata: &VhostMetadata) -> Value {
    let mut object = Map::new();
    object.insert("description".into(), (*metadata.description).into());
    object.insert("tags".into(), tags(metadata));
    if let Some(kind) = &metadata.default_queue_type {
        object.insert("default_queue_type".into(), (**kind).into());
    }
    if metadata.protected_from_deletion {
        object.insert("protected_from_deletion".into(), true.into());
    }
    Value::Object(object)
}
