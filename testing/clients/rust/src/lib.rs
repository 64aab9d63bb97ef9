//! Warren under lapin, the Rust client library that applications use. Everything is in `tests/lapin`; nothing here knows Warren's own code.
