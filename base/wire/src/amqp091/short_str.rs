//! Short strings: at most 255 bytes, kept byte for byte.
//!
//! Refuses to know whether they are text; names from a peer must survive unchanged, so nothing here re-encodes.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

/// The longest short string, in bytes (AMQP 0-9-1 section 4.2.5.3: one length octet).
pub const SHORT_STR_BYTES_MAX: usize = 255;

/// A borrowed short string: at most [`SHORT_STR_BYTES_MAX`] bytes, not necessarily UTF-8.
///
/// Derefs to its bytes.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShortStr<'a>(&'a [u8]);

impl<'a> ShortStr<'a> {
    /// The empty string.
    pub const EMPTY: Self = ShortStr(&[]);

    /// The bytes as a short string, or `None` if they are more than [`SHORT_STR_BYTES_MAX`].
    #[inline]
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Option<Self> {
        if bytes.len() <= SHORT_STR_BYTES_MAX { Some(Self(bytes)) } else { None }
    }

    /// The bytes as a short string, for callers that already keep them within bounds (names that came in as short
    /// strings, literals).
    ///
    /// # Panics
    /// If there are more than [`SHORT_STR_BYTES_MAX`] bytes: a bug in the caller, since going on would put a
    /// wrong length on the wire.
    #[inline]
    #[must_use]
    pub const fn bounded(bytes: &'a [u8]) -> Self {
        assert!(bytes.len() <= SHORT_STR_BYTES_MAX, "a short string of more than 255 bytes");
        Self(bytes)
    }

    /// The longest prefix that fits, cut between characters if the bytes are UTF-8.
    #[must_use]
    pub fn clipped(bytes: &'a [u8]) -> Self {
        let Some(head) = bytes.get(..SHORT_STR_BYTES_MAX) else { return Self(bytes) };
        if bytes.len() == SHORT_STR_BYTES_MAX || std::str::from_utf8(bytes).is_err() {
            return Self(head);
        }
        match std::str::from_utf8(head) {
            Ok(_) => Self(head),
            Err(cut) => Self(&head[..cut.valid_up_to()]),
        }
    }

    /// The bytes, for as long as the buffer they came from.
    #[inline]
    #[must_use]
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// As text for people (logs, error texts): bytes that are not UTF-8 show as U+FFFD. Never use it as a name.
    #[must_use]
    pub fn str_lossy(self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.0)
    }

    /// Appends the length octet and the bytes.
    #[inline]
    pub(super) fn write(self, out: &mut Vec<u8>) {
        let count = u8::try_from(self.0.len()).expect("a ShortStr has at most 255 bytes");
        out.push(count);
        out.extend_from_slice(self.0);
    }
}

/// Equality of names, most of which are short: up to sixteen bytes are compared as two numbers that may overlap, without a call. The
/// bytes of empty names are not touched: they lie nowhere, and a vectorised comparison of nothing at an address that is not
/// mapped takes the processor's slow path (150 ns).
#[inline]
#[must_use]
pub fn is_same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    match one.len() {
        0 => true,
        1..4 => one.iter().eq(other),
        4..8 => one.first_chunk::<4>() == other.first_chunk() && one.last_chunk::<4>() == other.last_chunk(),
        8..=16 => {
            one.first_chunk::<8>() == other.first_chunk() && one.last_chunk::<8>() == other.last_chunk()
        }
        _ => one == other,
    }
}

impl Deref for ShortStr<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.0
    }
}

impl AsRef<[u8]> for ShortStr<'_> {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self.0
    }
}

impl PartialEq<[u8]> for ShortStr<'_> {
    fn eq(&self, other: &[u8]) -> bool {
        self.0 == other
    }
}

impl PartialEq<&[u8]> for ShortStr<'_> {
    fn eq(&self, other: &&[u8]) -> bool {
        self.0 == *other
    }
}

impl PartialEq<&str> for ShortStr<'_> {
    fn eq(&self, other: &&str) -> bool {
        self.0 == other.as_bytes()
    }
}

impl<const N: usize> PartialEq<&[u8; N]> for ShortStr<'_> {
    fn eq(&self, other: &&[u8; N]) -> bool {
        self.0 == other.as_slice()
    }
}

impl fmt::Debug for ShortStr<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::{ShortStr, is_same};

    #[test]
    fn names_of_any_length_are_the_same_when_all_their_bytes_are() {
        let name: Vec<u8> = (1..=40).collect();
        for length in 0..=40 {
            let same = name[..length].to_vec();
            assert!(is_same(&name[..length], &same));
            assert!(!is_same(&name[..length], &name[..(length + 1) % 41]));
            for at in 0..length {
                let mut other = same.clone();
                other[at] = 0;
                assert!(!is_same(&same, &other), "{length} bytes, differs at {at}");
            }
        }
    }

    #[test]
    fn the_bound_is_255_bytes() {
        assert!(ShortStr::new(&[b'a'; 255]).is_some());
        assert!(ShortStr::new(&[b'a'; 256]).is_none());
    }

    #[test]
    fn clipping_never_cuts_a_character_in_two() {
        let long = "é".repeat(200);
        assert_eq!(ShortStr::clipped(long.as_bytes()).len(), 254);
        assert_eq!(ShortStr::clipped(&[0xFF; 300]).len(), 255);
        assert_eq!(ShortStr::clipped(b"short"), "short");
    }
}
