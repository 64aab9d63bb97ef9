//! The data plane: publish, consume, settle, confirm.
pub(crate) mod batch;
pub mod confirms;
pub mod consume;
pub mod consuming;
pub(crate) mod dead_letter;
pub(crate) mod delayed;
pub(crate) mod handovers;
pub(crate) mod letter;
pub mod publish;
pub(crate) mod recent;
pub mod reply;
pub(crate) mod routes;
pub(crate) mod seen;
