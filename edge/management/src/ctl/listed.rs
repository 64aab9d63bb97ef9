//! Which columns a listing has. Refuses to know what is in them.

use crate::ctl::columns::Column;
use crate::ctl::{connections, delayed, node, queues, streams, topology, upkeep, vhosts};

/// The columns of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedColumns {
    /// All that can be asked for, in no order that matters.
    pub names: Vec<&'static str>,
    /// Columns that are shown when none is asked for.
    pub defaults: Vec<&'static str>,
}

fn of<T>(known: &[Column<T>], defaults: &[&'static str]) -> ListedColumns {
    ListedColumns { names: known.iter().map(|(name, _)| *name).collect(), defaults: defaults.into() }
}

/// The columns that a command takes as arguments; `None` if it takes none.
#[must_use]
pub fn columns_of(command: &str) -> Option<ListedColumns> {
    Some(match command {
        "list_queues" => of(queues::QUEUE_COLUMNS, &["name", "messages"]),
        "list_unresponsive_queues" => {
            ListedColumns { names: queues::WITHOUT_CONTENTS.to_vec(), defaults: vec!["name"] }
        }
        "list_consumers" => of(queues::CONSUMER_COLUMNS, queues::CONSUMER_DEFAULTS),
        "list_exchanges" => of(topology::EXCHANGE_COLUMNS, &["name", "type"]),
        "list_bindings" => of(topology::BINDING_COLUMNS, topology::BINDING_DEFAULTS),
        "list_connections" => of(connections::CONNECTION_COLUMNS, connections::CONNECTION_DEFAULTS),
        "list_channels" => of(connections::CHANNEL_COLUMNS, connections::CHANNEL_DEFAULTS),
        "list_mqtt_connections" | "list_web_mqtt_connections" => {
            of(&connections::mqtt_columns(), connections::MQTT_DEFAULTS)
        }
        "list_stomp_connections" => of(&connections::stomp_columns(), connections::STOMP_DEFAULTS),
        "list_stream_connections" => of(&streams::connection_columns(), streams::CONNECTION_DEFAULTS),
        "list_stream_consumers" => of(streams::CONSUMER_COLUMNS, &streams::consumer_defaults()),
        "list_stream_publishers" => of(streams::PUBLISHER_COLUMNS, &streams::publisher_defaults()),
        "list_stream_consumer_groups" => of(streams::GROUP_COLUMNS, &streams::group_defaults()),
        "list_stream_group_consumers" => of(streams::MEMBER_COLUMNS, &streams::member_defaults()),
        "list_vhosts" => of(vhosts::COLUMNS, &["name"]),
        "list_delayed_messages" => of(delayed::COLUMNS, delayed::DEFAULTS),
        "list_feature_flags" => {
            ListedColumns { names: node::FEATURE_FLAG_COLUMNS.into(), defaults: vec!["name", "state"] }
        }
        "list_deprecated_features" => ListedColumns {
            names: upkeep::DEPRECATED_COLUMNS.into(),
            defaults: vec!["name", "deprecation_phase", "state"],
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_without_a_word_can_be_asked_for() {
        for command in crate::command_names() {
            if let Some(columns) = columns_of(command) {
                assert!(columns.defaults.iter().all(|it| columns.names.contains(it)), "{command}");
            }
        }
        let of_mqtt = columns_of("list_mqtt_connections").unwrap();
        assert!(of_mqtt.names.contains(&"client_id") && of_mqtt.names.contains(&"user"));
        assert_eq!(columns_of("ping"), None);
    }
}
