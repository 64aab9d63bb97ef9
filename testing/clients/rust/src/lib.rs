//! Warren under the Rust client libraries that applications use.
