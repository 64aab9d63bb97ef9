//! Where the files are.

use std::path::PathBuf;
use std::sync::Arc;

use platform::Disk;

/// A disk and the folder of all streams on it.
pub(crate) struct Place {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) dir: PathBuf,
}
