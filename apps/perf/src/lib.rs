//! The load generator and the null broker.
