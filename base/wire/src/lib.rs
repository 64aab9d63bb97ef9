//! Bytes to frames and back for every protocol; no I/O. Also used by clients, the load generator and fuzzers.
