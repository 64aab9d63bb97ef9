//! Pages of metrics for Prometheus, under the names of RabbitMQ's plugin.
//!
//! ```text
//!  http ─► families ─► node, queues, clients, exchanges, global ─► page ─► body of `crate::http` (pieces of 64 KiB, four on the way)
//! ```
//!
//! Principal type: [`Prometheus`]. `/metrics` has sums, `/metrics/per-object` a line per object, `/metrics/detailed` the
//! families asked for, `/metrics/memory-breakdown` where memory is. Names, types and labels are those of RabbitMQ 4.3.6,
//! compared by `testing/prometheus`; metrics that RabbitMQ does not have begin with `warren_`.
//!
//! A page is written while it is sent. Its further memory: of each object its labels and one number per metric of the
//! family under way. Queues are looked at, not asked. Refuses to know how the figures come about.

mod certificates;
mod clients;
mod exchanges;
mod families;
mod global;
mod http;
mod links;
mod metric;
mod node;
mod page;
mod process;
mod queues;
mod shovels;
mod stages;
mod streams;
#[cfg(test)]
mod tests;

pub use http::{ExtraMetrics, FirstPage, Login, Prometheus, PrometheusOptions, SCRAPES_MAX};
pub use page::{Kind, Page, labels};
pub(crate) use process::open_files_max;
