//! A cursor over received bytes; every read says `None` instead of running past the end.
//!
//! Refuses to know what the bytes mean.

/// Reads big-endian numbers and length-prefixed bytes from the front of a slice.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    #[inline]
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The bytes that have not been read yet.
    #[inline]
    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    #[inline]
    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*head)
    }

    #[inline]
    pub(crate) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(head)
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[octet]| octet)
    }

    #[inline]
    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    #[inline]
    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// Bytes behind a one-octet length: a short string.
    #[inline]
    pub(crate) fn short_bytes(&mut self) -> Option<&'a [u8]> {
        let count = self.u8()?;
        self.bytes(usize::from(count))
    }

    /// Bytes behind a four-octet length: a long string, table or array.
    #[inline]
    pub(crate) fn long_bytes(&mut self) -> Option<&'a [u8]> {
        let count = self.u32()?;
        self.bytes(usize::try_from(count).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::Reader;

    #[test]
    fn a_short_read_says_none_and_leaves_the_rest_alone() {
        let mut reader = Reader::new(&[0, 1, 2]);
        assert_eq!(reader.u32(), None);
        assert_eq!(reader.u16(), Some(1));
        assert_eq!(reader.rest(), &[2]);
        assert_eq!(reader.short_bytes(), None);
    }

    #[test]
    fn a_lying_length_is_none() {
        assert_eq!(Reader::new(&[255, 255, 255, 255, 1]).long_bytes(), None);
        assert_eq!(Reader::new(&[0, 0, 0, 1, 7]).long_bytes(), Some(&[7][..]));
    }
}
