//! Definitions: the whole configuration of a broker as one JSON document, exported, imported, and read at the start.

pub(crate) mod boot;
pub(crate) mod export;
pub(crate) mod imports;
