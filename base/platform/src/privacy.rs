//! Privacy of this process: which other users of the machine may read what it writes. Refuses to know the content.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::fs::Mode;
use rustix::process::umask;

/// From now on nobody but the owner and, to read, the group may open files and folders that this process makes. Counts for the whole
/// process: for its start, before there are other threads. Nothing becomes more open by it.
pub fn keep_to_owner_and_group() {
    let before = umask(Mode::WGRP | Mode::RWXO);
    umask(before | Mode::WGRP | Mode::RWXO);
}

/// Whether every user of this machine may read or change what `path` is.
///
/// # Errors
/// Nothing is there, or it cannot be looked at.
pub fn is_open_to_all(path: &Path) -> io::Result<bool> {
    Ok(std::fs::metadata(path)?.permissions().mode() & 0o007 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_is_for_owner_and_group() {
        let folder = tempfile::tempdir().unwrap();
        let (before, after) = (folder.path().join("before"), folder.path().join("after"));
        std::fs::write(&before, "").unwrap();
        std::fs::set_permissions(&before, std::fs::Permissions::from_mode(0o644)).unwrap();
        keep_to_owner_and_group();
        std::fs::create_dir(&after).unwrap();
        assert_eq!([&before, &after].map(|path| is_open_to_all(path).unwrap()), [true, false]);
        assert!(is_open_to_all(&folder.path().join("none")).is_err());
    }
}
