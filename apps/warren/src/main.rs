//! The one binary: server, ctl and tools.
fn main() {}
