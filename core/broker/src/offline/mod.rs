//! A data directory that no server has open: its content, its faults, and its readable part copied into a new one.
//!
//! Principal types: [`Offline`], which holds the directory's lock, and [`Survey`]. Opening a broker refuses what is damaged; here
//! it is stepped over and told. Refuses to know: how a survey is shown, and a directory in use.

mod adopt;
mod bodies;
mod declared;
pub mod dump;
#[cfg(test)]
mod fuzz;
mod gaps;
mod presence;
#[cfg(test)]
mod report_fuzz;
mod salvage;
mod strays;
mod survey;
#[cfg(test)]
mod tests;
mod unread;

pub use declared::{Declaration, OutdatedVhost};
pub use dump::dump;
pub use presence::LostFrom;
pub use salvage::Salvaged;
pub use survey::{Depth, FileSurvey, Offline, OfflineError, Problems, QueueSurvey, Survey, UntoldLoss};
