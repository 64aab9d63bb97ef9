//! The file that says which process the server is, for scripts that wait for it: where `RABBITMQ_PID_FILE` says. Refuses to know when
//! the server is ready.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

/// RabbitMQ's environment variable for the file.
pub(crate) const VARIABLE: &str = "RABBITMQ_PID_FILE";

/// The file, as long as this is kept.
#[derive(Debug)]
pub(crate) struct PidFile(PathBuf);

impl PidFile {
    /// Writes it if somebody wants one.
    ///
    /// # Errors
    /// It cannot be written: a command that waits for it would wait for ever.
    pub(crate) fn write_if_wanted() -> Result<Option<Self>> {
        let path = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
        path.map(|path| Self::write(path, std::process::id())).transpose()
    }

    fn write(path: PathBuf, process: u32) -> Result<Self> {
        fs::write(&path, format!("{process}\n"))
            .with_context(|| format!("cannot write {VARIABLE}={}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for PidFile {
    /// Nobody is to take another process, which gets the same number later, for the server.
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.0) {
            tracing::warn!(%error, "cannot remove {}", self.0.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_there_while_the_server_runs() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pid");
        let file = PidFile::write(path.clone(), 17).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "17\n");
        drop(file);
        assert!(!path.exists());
        let refused = PidFile::write(folder.path().join("none/pid"), 17).unwrap_err();
        assert!(refused.to_string().contains("RABBITMQ_PID_FILE"), "{refused}");
    }
}
