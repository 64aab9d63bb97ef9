//! Identifiers and small data structures that every layer may use. Knows nothing of the broker's domain beyond names of ids, does no I/O.
