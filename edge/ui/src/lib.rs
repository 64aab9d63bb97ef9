//! The web UI as files in the binary: the output of `ui/`, gzipped, with media types and entity tags. Refuses to know HTTP, and
//! what the files do.

mod assets;

pub use assets::{Asset, assets};
