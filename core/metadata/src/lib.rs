//! Vhosts, users, permissions, exchanges, queues and bindings as one deterministic machine.
