//! Repository automation: `cargo xtask <command>`.
fn main() {}
