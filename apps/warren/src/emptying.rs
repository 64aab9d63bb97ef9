//! A data directory becomes as good as new: the lasting state of the broker is deleted, the secret of the cluster and the socket stay.
//!
//! A marker is written first. A start that finds it goes on deleting, so a crash never leaves a directory that is half there.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::Path;

use anyhow::Context;

/// The marker.
const MARKER: &str = "reset.begun";

/// Folders and files of the broker.
const CONTENTS: [&str; 14] = [
    "meta",
    "meta.manifest",
    "log",
    "log.manifest",
    "segments",
    "streams",
    "seen",
    "cluster",
    "cluster.before-force-boot",
    "cluster.nodes",
    "force_boot",
    "force_boot.begun",
    "node.id",
    "warren.reserve",
];

/// Deletes what lasts, durably.
///
/// # Errors
/// The disk refuses; the next try or start goes on.
pub(crate) fn empty(dir: &Path) -> anyhow::Result<()> {
    let emptied = || -> io::Result<()> {
        File::create(dir.join(MARKER))?.sync_all()?;
        File::open(dir)?.sync_all()?;
        for name in CONTENTS {
            remove(&dir.join(name))?;
        }
        File::open(dir)?.sync_all()?;
        fs::remove_file(dir.join(MARKER))?;
        File::open(dir)?.sync_all()
    };
    emptied().with_context(|| format!("the data directory {} cannot be emptied", dir.display()))
}

/// Goes on with what an earlier process has begun.
///
/// # Errors
/// The disk refuses.
pub(crate) fn go_on(dir: &Path) -> anyhow::Result<()> {
    if dir.join(MARKER).exists() {
        tracing::warn!("a reset of {} was interrupted; it goes on", dir.display());
        empty(dir)?;
    }
    Ok(())
}

/// Removes a file or a folder, if it is there.
///
/// # Errors
/// The disk refuses.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lasts_is_deleted_and_the_secret_stays() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path();
        fs::create_dir_all(dir.join("meta/inner")).unwrap();
        for name in ["meta/inner/x", "node.id", ".erlang.cookie"] {
            fs::write(dir.join(name), "x").unwrap();
        }
        go_on(dir).unwrap();
        assert!(dir.join("node.id").exists(), "nothing has been begun");
        fs::write(dir.join(MARKER), "").unwrap();
        go_on(dir).unwrap();
        let left: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, [".erlang.cookie"]);
        empty(dir).unwrap();
    }
}
