//! Events of the nodes of a cluster. The leader of the metadata tells them, so each comes once: `node.added` and `node.deleted` as with RabbitMQ, `node.up` and
//! `node.down` are Warren's own.

use super::events::Announcer;

impl Announcer {
    /// Something has become of a node.
    pub(crate) fn node_told(&self, key: &str, node: &str) {
        self.tell(key, |headers| {
            headers.text("node", node);
        });
    }
}
