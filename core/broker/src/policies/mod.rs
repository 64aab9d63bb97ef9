//! Policies at run time: which of them apply to a queue or an exchange, and what comes of several of them.
//!
//! Of a vhost's policies at most one of users' and one of operators' applies to a thing: the one of the highest priority
//! whose pattern matches its name, and among equals the first by name. Both together give the effective definition
//! (B143). Refuses to know JSON and what queues do with their settings.

mod applied;
mod candidates;
pub mod keys;
mod needles;
mod patience;
mod pattern;
mod perl;
#[cfg(test)]
mod tests;

pub use applied::{AppliedPolicies, RuntimePolicy, VhostPolicies};
pub(crate) use patience::is_too_slow;
pub(crate) use pattern::Pattern;
pub use pattern::{
    NameSearch, PatternProblem, TooManySteps, permission_pattern_problem, policy_pattern_problem,
};
