//! Profiles of the running broker: how one is requested, how samples become names, labels, pictures and files.
//!
//! ```text
//!  SIGPROF ─► platform::profile ring ─► recorder (one thread while somebody wants samples)
//!                                         ├─► a capture: `profile cpu`, /debug/pprof/profile
//!                                         └─► windows of the last hours: `profile history`, and copies of them
//!                                             when latency or memory crossed a threshold: `profile captures`
//!  the same signal, sent to threads that sleep ─► `profile waits`; after page faults ─► `profile faults`
//!  raw samples ─► symbols, labels ─► Profile ─► cut ─► SVG, folded, pprof, JSON, a table
//! ```
//!
//! Refuses to know rights: the control socket belongs to the owner of the process, and the HTTP server lets
//! administrators in only.

mod captures;
mod cut;
mod diff;
mod document;
mod faults;
mod flame;
mod folded;
mod heap;
mod page;
mod pprof;
mod raw;
mod recorder;
mod report;
mod symbols;
mod threads;
mod tree;
mod waits;

pub use captures::{Capture, capture, captures, set_slow_ms};
pub use cut::{Cut, LabelKey};
pub use diff::{Difference, diff};
pub use document::{Document, DocumentStack};
pub use faults::{FaultsRequest, faults};
pub use flame::flame_graph;
pub use folded::file as folded;
pub use heap::{HeapWatch, heap, watch_heap};
pub use page::{PATHS, Page, SVG, page};
pub use pprof::pprof;
pub use raw::ProfileError;
pub use recorder::{
    Continuous, CpuRequest, SECONDS_MAX, continuous, cpu, forget_history, history, set_continuous,
};
pub use report::{Frame, Profile, Stack, Unit, Watched, turn};
pub use threads::{ThreadTimes, threads};
pub use tree::Node;
pub use waits::{WaitsRequest, waits};
