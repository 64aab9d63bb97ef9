//! For a key that nobody knows: the known key that looks most like it, or the part of RabbitMQ it belongs to.
//! Refuses to know the values.

use super::keys;
use stdx::nearest::distance;

/// Parts of RabbitMQ that Warren does not have yet, by the first words of their keys. A key of theirs gets told so
/// rather than a wild guess at a misspelling.
const NOT_YET: &[(&str, &str)] = &[
    ("amqp10_client.", "the AMQP 1.0 client"),
    ("amqp_client.", "the internal AMQP client"),
    ("auth_cache.", "the authentication cache"),
    ("auth_http.", "the HTTP authentication backend"),
    ("auth_ldap.", "the LDAP authentication backend"),
    ("auth_oauth2.", "the OAuth 2 authentication backend"),
    ("cluster_formation.", "clustering"),
    ("definitions.", "definitions from other sources than load_definitions"),
    ("federation.", "federation"),
    ("log.file.rotation.", "log rotation (use logrotate with copytruncate)"),
    ("log.journald", "logging to journald"),
    ("log.syslog", "logging to syslog"),
    ("management.oauth_", "OAuth 2"),
    ("message_interceptors.", "message interceptors"),
    ("mqtt.", "MQTT"),
    ("prometheus.", "Prometheus metrics"),
    ("quorum_queue.", "quorum queues"),
    ("raft.", "quorum queues"),
    ("web_mqtt.", "MQTT over WebSockets"),
];

/// The advice for an unknown key: the nearest known key, and the part of RabbitMQ it belongs to.
pub(super) fn advice(key: &str) -> (Option<&'static str>, Option<&'static str>) {
    let nearest = nearest(key);
    let typo = nearest.is_some_and(|(_, distance)| distance <= 2);
    let part = NOT_YET.iter().find(|(prefix, _)| key.starts_with(prefix)).map(|(_, part)| *part);
    (nearest.map(|(name, _)| name), part.filter(|_| !typo))
}

/// The known key with the smallest edit distance, if it is small enough to be a slip: at most a third of the key,
/// and never less than 2.
fn nearest(key: &str) -> Option<(&'static str, usize)> {
    let close_enough = (key.chars().count() / 3).max(2);
    keys::all()
        .flat_map(|known| [Some(known.name), known.alias].into_iter().flatten())
        .map(|name| (name, distance_to_pattern(key, name)))
        .min_by_key(|(_, distance)| *distance)
        .filter(|(_, distance)| *distance <= close_enough)
}

/// Edit distance where the last word of a `$word` pattern costs nothing.
fn distance_to_pattern(key: &str, pattern: &str) -> usize {
    match (key.rsplit_once('.'), pattern.split_once(".$")) {
        (Some((head, _)), Some((fixed, _))) => distance(head, fixed),
        _ => distance(key, pattern),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_key() {
        for (slip, key) in [
            ("hearbeat", "heartbeat"),
            ("listener.tcp.default", "listeners.tcp.$name"),
            ("default_password", "default_pass"),
            ("channels_max", "channel_max"),
            ("warren.durabilty", "warren.durability"),
            ("log.console.fromatter", "log.console.formatter"),
        ] {
            assert_eq!(advice(slip), (Some(key), None), "{slip}");
        }
    }

    #[test]
    fn a_key_of_a_missing_part_is_told_so() {
        assert_eq!(advice("management.oauth_enabled").1, Some("OAuth 2"));
        assert_eq!(advice("ssl_options.cacertfil").0, Some("ssl_options.cacertfile"));
    }

    #[test]
    fn nonsense_gets_no_advice() {
        assert_eq!(advice("zzzzzzzzzzzz"), (None, None));
    }
}
