//! The table of files and finding one by its path. Everything is gzipped, once, when the UI is built (`ui/build/pack.mjs`);
//! refuses to compress or decompress.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::LazyLock;

/// A file for browsers. Its bytes are gzip, which every browser takes: send them with `Content-Encoding: gzip`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asset {
    /// Its media type, with the charset where it is text.
    pub content_type: &'static str,
    /// A strong entity tag with its quotes. Changes when the file does; names of files do not, so let browsers ask
    /// (`Cache-Control: no-cache`).
    pub etag: &'static str,
    /// The file, gzipped.
    pub gzip: &'static [u8],
}

macro_rules! built {
    ($name:literal) => {
        include_bytes!(concat!("../../../ui/dist/", $name, ".gz"))
    };
}

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";

/// Path, media type, gzipped bytes.
const FILES: [(&str, &str, &[u8]); 5] = [
    ("index.html", HTML, built!("index.html")),
    ("ui.js", SCRIPT, built!("ui.js")),
    ("ui.css", STYLE, built!("ui.css")),
    ("icon.svg", "image/svg+xml", built!("icon.svg")),
    ("licenses.txt", TEXT, built!("licenses.txt")),
];

static TAGS: LazyLock<[String; FILES.len()]> = LazyLock::new(|| {
    FILES.map(|(_, _, bytes)| {
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        format!("\"{:016x}\"", hasher.finish())
    })
});

/// The file of a path below the root of the UI, without a slash in front; the empty path is the page itself. `None`: there is no
/// such file. Pages have no paths of their own, they stand in the fragment of the address.
#[must_use]
pub fn assets(path: &str) -> Option<Asset> {
    let path = if path.is_empty() { "index.html" } else { path };
    let at = FILES.iter().position(|(name, ..)| *name == path)?;
    let (_, content_type, gzip) = FILES[at];
    Some(Asset { content_type, etag: &TAGS[at], gzip })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_empty_path_is_the_page_and_unknown_paths_are_nothing() {
        assert_eq!(assets(""), assets("index.html"));
        assert!(assets("").is_some_and(|page| page.content_type.starts_with("text/html")));
        assert_eq!(assets("../Cargo.toml"), None);
        assert_eq!(assets("index.html/"), None);
    }

    #[test]
    fn every_file_is_gzip_and_has_a_tag_of_its_own() {
        let all: Vec<Asset> = FILES.iter().map(|(name, ..)| assets(name).unwrap()).collect();
        for (index, asset) in all.iter().enumerate() {
            assert_eq!(asset.gzip[..2], [0x1f, 0x8b]);
            assert!(asset.etag.len() == 18 && asset.etag.starts_with('"') && asset.etag.ends_with('"'));
            assert!(all[index + 1..].iter().all(|other| other.etag != asset.etag));
        }
    }

    #[test]
    fn what_a_browser_loads_stays_near_100_kilobytes() {
        let all: usize =
            FILES.iter().filter(|(name, ..)| *name != "licenses.txt").map(|file| file.2.len()).sum();
        assert!(all <= 118 << 10, "{all} bytes");
    }
}
