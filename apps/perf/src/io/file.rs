//! Files that options name, read no further than they may be long: some, such as devices, have no end.

use anyhow::{Context, Result, ensure};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The content of a file of at most `bytes_max` bytes.
///
/// # Errors
/// It cannot be read, or has more.
pub(crate) fn read_bounded(path: &Path, bytes_max: u64) -> Result<Vec<u8>> {
    let cannot = || format!("cannot read {}", path.display());
    let mut content = Vec::new();
    let file = File::open(path).with_context(cannot)?;
    file.take(bytes_max + 1).read_to_end(&mut content).with_context(cannot)?;
    ensure!(content.len() as u64 <= bytes_max, "{} is larger than {} MiB", path.display(), bytes_max >> 20);
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_an_end_is_refused() {
        let error = read_bounded(Path::new("/dev/zero"), 1 << 20).unwrap_err().to_string();
        assert_eq!(error, "/dev/zero is larger than 1 MiB");
        assert_eq!(read_bounded(Path::new("/dev/null"), 0).unwrap(), b"");
        assert!(read_bounded(Path::new("/no/such/file"), 1).is_err());
    }
}
