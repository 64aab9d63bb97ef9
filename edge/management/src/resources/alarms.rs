//! Resource alarms: shown, checked, and their thresholds moved. Knows RabbitMQ's texts and exit codes.

use broker::{Broker, Raised};

/// This node, in texts.
pub(crate) const NODE: &str = crate::resources::node::NODE_NAME;

/// Why the disk alarm may be on though space is free above the limit.
pub(crate) const LETTERS_WAIT: &str = "Dead letters or due messages wait for room on the disk";

/// One line for each alarm that is on, in RabbitMQ's order and words; failed storage, and letters that wait, have words of our own.
pub(crate) fn lines(broker: &Broker) -> Vec<String> {
    lines_of(broker.alarms().raised(), broker.alarms().storage_failure())
}

pub(crate) fn lines_of(raised: Raised, storage_failure: Option<String>) -> Vec<String> {
    let mut lines = Vec::new();
    if raised.has(Raised::DISK) {
        lines.push(format!("Free disk space alarm on node {NODE}"));
    }
    if raised.has(Raised::MEMORY) {
        lines.push(format!("Memory alarm on node {NODE}"));
    }
    if raised.has(Raised::LETTERS_WAIT) {
        lines.push(format!("{LETTERS_WAIT} of node {NODE}: publishers wait with them"));
    }
    if let Some(why) = storage_failure {
        lines.push(format!("Storage has failed on node {NODE}, restart it once the disk is healthy: {why}"));
    }
    lines
}

/// Why the node does not do its work: its storage has failed.
pub(crate) fn failure(broker: &Broker) -> Option<String> {
    let why = broker.alarms().storage_failure()?;
    Some(format!("Storage has failed on node {NODE}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_that_wait_are_told_behind_the_alarm_that_they_raise() {
        let lines = lines_of(Raised::DISK.with(Raised::LETTERS_WAIT), None);
        let [disk, letters] = &lines[..] else { panic!("{lines:?}") };
        assert_eq!(disk, "Free disk space alarm on node warren@localhost");
        assert!(
            letters.starts_with("Dead letters or due messages wait for room on the disk of node"),
            "{letters}"
        );
        assert_eq!(lines_of(Raised::DISK, None).len(), 1);
    }
}
