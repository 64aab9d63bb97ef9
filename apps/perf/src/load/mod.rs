//! The load generator: publishers and consumers in any number on a few threads, and what they measured.
//!
//! ```text
//!  options ─► topology (declare) ─► publishers, consumers ─► figures ─► report ─► topology (delete)
//! ```
//!
//! Names, meanings and defaults of options, and the words of lines, are PerfTest's where it has them, so that figures of both
//! can stand side by side.

mod block;
mod body;
mod consumer;
mod ending;
mod figures;
mod lines;
mod link;
mod moment;
mod options;
mod pairs;
mod phases;
mod prometheus;
mod publisher;
mod random;
mod receiver;
mod recovery;
mod report;
mod run;
mod schedule;
mod seats;
mod sender;
mod stamp;
mod topology;
mod uri;
mod verbosity;
mod window;

pub(crate) use link::encrypted_if_asked;
pub(crate) use options::Options;
pub(crate) use report::{Interval, Percentiles, Summary};
pub(crate) use run::run;
pub(crate) use uri::{Uri, escaped};
