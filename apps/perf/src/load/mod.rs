//! The load generator: publishers and consumers in any number on a few threads, and what they measured.
//!
//! ```text
//!  options ─► topology (declare) ─► publishers, consumers ─► figures ─► report ─► topology (delete)
//! ```
//!
//! Names and defaults of options are PerfTest's where it has them, so that figures of both can stand side by side.

mod block;
mod consumer;
mod figures;
mod link;
mod options;
mod publisher;
mod report;
mod run;
mod stamp;
mod topology;
mod uri;
mod window;

pub(crate) use options::Options;
pub(crate) use run::run;
