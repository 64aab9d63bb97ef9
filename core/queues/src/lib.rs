//! Queue types as pure machines: events in, effects out.
