//! Listeners, connection tasks, outboxes and heartbeats: where sockets live.
