//! Publishes that are like the one before them in everything but the body, which is the rule: two comparisons of bytes tell, and only
//! the body's size is read. Refuses to know the content of bytes that are alike; the reader of the first one does.

use super::frame::FRAME_END;
use super::short_str::is_same;

/// Bytes of the header frame before the size of the body: frame head, class, weight.
const BEFORE_SIZE_BYTES: usize = 11;
const SIZE_BYTES: usize = 8;
/// Bytes of the body frame before its size: kind and channel.
const BODY_FRAME_KIND_BYTES: usize = 3;

/// A publish whose body is in one frame, as what follows it is compared with it.
#[derive(Clone, Copy, Debug)]
pub struct AlikePublishes<'a> {
    /// The method frame, and the header frame before the size of the body.
    before_size: &'a [u8],
    /// The rest of the header frame, and the body frame before its size.
    after_size: &'a [u8],
}

impl<'a> AlikePublishes<'a> {
    /// Of a publish that was taken: its method frame and its header frame have so many bytes, overhead included, and its body is in
    /// one frame. `None` when it has no body.
    #[inline]
    #[must_use]
    pub fn of(publish: &'a [u8], method_bytes: usize, header_bytes: usize) -> Option<AlikePublishes<'a>> {
        let (before_size, rest) = publish.split_at_checked(method_bytes + BEFORE_SIZE_BYTES)?;
        let rest_bytes = header_bytes.checked_sub(BEFORE_SIZE_BYTES + SIZE_BYTES)?;
        let after_size = rest.get(SIZE_BYTES..SIZE_BYTES + rest_bytes + BODY_FRAME_KIND_BYTES)?;
        Some(AlikePublishes { before_size, after_size })
    }

    /// The body of the publish at the front of `input`, and how many bytes the publish takes. It must be whole, like this one, and have its
    /// body of at most `bytes_max` in one frame. Anything else is left to the parser of frames.
    #[inline(always)]
    #[must_use]
    pub fn next<'b>(&self, input: &'b [u8], bytes_max: usize) -> Option<(&'b [u8], usize)> {
        let (size, rest) = input.strip_prefix(self.before_size)?.split_first_chunk::<SIZE_BYTES>()?;
        // Few bytes: a comparison without a call.
        let (after_size, rest) = rest.split_at_checked(self.after_size.len())?;
        if !is_same(after_size, self.after_size) {
            return None;
        }
        let (frame_size, rest) = rest.split_first_chunk::<4>()?;
        let body_bytes = u32::from_be_bytes(*frame_size) as usize;
        let is_whole = u64::from_be_bytes(*size) == body_bytes as u64 && body_bytes <= bytes_max;
        let (body, end) = rest.split_at_checked(body_bytes)?;
        let taken = input.len() - end.len() + 1;
        (is_whole && body_bytes > 0 && end.first() == Some(&FRAME_END)).then_some((body, taken))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{encode_publish, parse_frame};
    use super::*;

    fn publish(key: &[u8], properties: &[u8], body: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode_publish(&mut bytes, 7, b"exchange", key, false, properties, body, 100);
        bytes
    }

    fn frame_bytes(bytes: &[u8]) -> usize {
        match parse_frame(bytes, 100).unwrap() {
            super::super::Parsed::Complete { consumed, .. } => consumed,
            other => panic!("{other:?}"),
        }
    }

    fn alike(bytes: &[u8]) -> AlikePublishes<'_> {
        let method = frame_bytes(bytes);
        AlikePublishes::of(bytes, method, frame_bytes(&bytes[method..])).unwrap()
    }

    #[test]
    fn a_publish_with_another_body_is_alike_whatever_its_size() {
        let first = publish(b"key", &[0x10, 0, 2], b"one");
        for body in [&b"two"[..], b"another one", &[0xCE; 92]] {
            let mut next = publish(b"key", &[0x10, 0, 2], body);
            next.push(1);
            assert_eq!(alike(&first).next(&next, 92), Some((body, next.len() - 1)));
            assert_eq!(alike(&first).next(&next, body.len() - 1), None, "more than allowed");
        }
    }

    #[test]
    fn any_other_byte_that_differs_or_lacks_is_left_to_who_parses_frames() {
        let first = publish(b"key", &[0x10, 0, 2], b"one");
        let is_body = |at: usize| (first.len() - 4..first.len() - 1).contains(&at);
        for at in (0..first.len()).filter(|at| !is_body(*at)) {
            let mut other = first.clone();
            other[at] ^= 1;
            assert_eq!(alike(&first).next(&other, 100), None, "byte {at}");
        }
        for end in 0..first.len() {
            assert_eq!(alike(&first).next(&first[..end], 100), None, "cut at {end}");
        }
    }

    #[test]
    fn bodies_of_no_frame_or_of_two_are_left_to_who_parses_frames() {
        let first = publish(b"key", &[0, 0], b"one");
        assert_eq!(alike(&first).next(&publish(b"key", &[0, 0], b""), 100), None);
        assert_eq!(alike(&first).next(&publish(b"key", &[0, 0], &[1; 150]), 1000), None);
        let empty = publish(b"key", &[0, 0], b"");
        let method = frame_bytes(&empty);
        assert!(AlikePublishes::of(&empty, method, empty.len() - method).is_none());
    }
}
