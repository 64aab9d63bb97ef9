//! Names of runtime parameters, texts of global ones, and the name of the cluster. Refuses to know what limits mean.

use broker::{Broker, Refused};
use metadata::{Command, SetGlobalParameter};
use serde_json::Value;

/// Component under which RabbitMQ keeps limits of vhosts.
pub(crate) const VHOST_LIMITS: &str = "vhost-limits";

/// Name of the only parameter of that component.
pub(crate) const LIMITS: &str = "limits";

/// Global parameter with the name that clients are shown.
pub(crate) const CLUSTER_NAME: &str = "cluster_name";

/// Global parameter that tells this cluster from others.
pub(crate) const CLUSTER_ID: &str = "internal_cluster_id";

/// Global parameter with the fingerprint of the definitions that were imported last at a start.
pub(crate) const IMPORTED: &str = "imported_definition_hash_value";

/// Global parameters that belong to one cluster: neither exported nor imported.
pub(crate) const OWN: [&str; 2] = [CLUSTER_ID, IMPORTED];

/// From now on clients are shown the name that is recorded, or the one that the broker was started with.
pub(crate) fn follow_cluster_name(broker: &Broker) {
    // A value that is no text, such as a number, is shown as it was written.
    broker.follow_cluster_name(|value| serde_json::from_str(value).unwrap_or_else(|_| value.to_owned()));
}

/// The text of a global parameter, if it is text.
pub(crate) fn global_text(broker: &Broker, name: &str) -> Option<String> {
    broker.read_metadata(|state| {
        let (_, value) = state.global_parameters().find(|(known, _)| *known == name)?;
        serde_json::from_str(value).ok()
    })
}

/// Records a global parameter.
///
/// # Errors
/// The metadata log has failed.
pub(crate) fn record(broker: &Broker, name: &str, value: &Value) -> Result<(), Refused> {
    let set = SetGlobalParameter { name: name.into(), value: value.to_string().into() };
    broker.apply(Command::SetGlobalParameter(set))?.wait()?;
    Ok(())
}
