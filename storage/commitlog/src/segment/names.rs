//! Where segment files lie: 256 folders, chosen by a hash of the stream, so that 100,000 streams need neither one directory
//! each nor one directory for all. Knows nothing of what is in the files.

use std::path::{Path, PathBuf};

/// How many folders there are.
pub(super) const FOLDER_COUNT: usize = 256;

/// The folder of a stream. Part of the format: consecutive streams must spread, so the top byte of a multiplicative hash.
pub(super) fn folder_of(stream: u64) -> usize {
    let hash = stream.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    usize::from(hash.to_be_bytes()[0])
}

/// The path of a folder.
pub(super) fn folder_path(dir: &Path, folder: usize) -> PathBuf {
    dir.join(format!("{folder:02x}"))
}

/// The path of a segment's file.
pub(super) fn file_path(dir: &Path, stream: u64, segment: u64) -> PathBuf {
    folder_path(dir, folder_of(stream)).join(format!("{stream:016x}-{segment:016x}.seg"))
}

/// Stream and segment from a file's name; `None` when it is no segment file's name.
pub(super) fn parse(name: &str) -> Option<(u64, u64)> {
    let (stream, segment) = name.strip_suffix(".seg")?.split_once('-')?;
    let number = |digits: &str| {
        let is_hex = digits.len() == 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hex.then(|| u64::from_str_radix(digits, 16).ok()).flatten()
    };
    Some((number(stream)?, number(segment)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_gives_back_its_stream_and_segment() {
        let path = file_path(Path::new("/s"), 0xabc, 7);
        assert_eq!(path, Path::new("/s/5b/0000000000000abc-0000000000000007.seg"));
        assert_eq!(parse(path.file_name().unwrap().to_str().unwrap()), Some((0xabc, 7)));
        for name in ["abc-7.seg", "0000000000000abc-0000000000000007.tmp", "0000000000000abc.seg", ""] {
            assert_eq!(parse(name), None, "{name}");
        }
    }

    #[test]
    fn consecutive_streams_spread_over_the_folders() {
        let mut counts = [0; FOLDER_COUNT];
        for stream in 0..25_600 {
            counts[folder_of(stream)] += 1;
        }
        assert!(counts.iter().all(|count| (90..110).contains(count)));
    }
}
