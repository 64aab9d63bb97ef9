//! Binding keys and words as map keys: short ones in place, long ones shared. Refuses to know what the bytes mean.

use std::borrow::Borrow;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Longest key that needs no memory of its own, in bytes; with it a `Key` is 24 bytes.
const INLINE_BYTES_MAX: usize = 22;

/// Immutable bytes that hash and compare as a slice.
#[derive(Clone)]
pub(crate) enum Key {
    Inline { len: u8, bytes: [u8; INLINE_BYTES_MAX] },
    Shared(Arc<[u8]>),
}

impl Key {
    #[inline]
    pub(crate) fn as_bytes(&self) -> &[u8] {
        match self {
            Key::Inline { len, bytes } => &bytes[..usize::from(*len)],
            Key::Shared(bytes) => bytes,
        }
    }
}

impl From<&[u8]> for Key {
    fn from(key: &[u8]) -> Self {
        match u8::try_from(key.len()) {
            Ok(len) if key.len() <= INLINE_BYTES_MAX => {
                let mut bytes = [0; INLINE_BYTES_MAX];
                bytes[..key.len()].copy_from_slice(key);
                Key::Inline { len, bytes }
            }
            _ => Key::Shared(key.into()),
        }
    }
}

impl Borrow<[u8]> for Key {
    #[inline]
    fn borrow(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl Hash for Key {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl PartialEq for Key {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Key {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_every_length_read_back_and_are_small() {
        assert_eq!(size_of::<Key>(), 24);
        let bytes: Vec<u8> = (0..=255).collect();
        for len in 0..=bytes.len() {
            let key = Key::from(&bytes[..len]);
            assert_eq!(key.as_bytes(), &bytes[..len]);
            assert_eq!(matches!(key, Key::Inline { .. }), len <= INLINE_BYTES_MAX);
        }
    }
}
