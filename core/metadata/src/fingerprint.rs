//! Whether two documents are the same, without keeping either. Refuses to know what is in them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

/// SHA-256 of the parts one after the other, each with its length before it, as base64.
#[must_use]
pub fn fingerprint<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part);
    }
    STANDARD.encode(digest.finalize())
}

#[cfg(test)]
mod tests {
    use super::fingerprint;

    #[test]
    fn where_a_part_ends_matters() {
        let of = |parts: &[&'static [u8]]| fingerprint(parts.iter().copied());
        assert_eq!(of(&[b"ab", b"c"]), of(&[b"ab", b"c"]));
        assert_ne!(of(&[b"ab", b"c"]), of(&[b"a", b"bc"]));
    }
}
