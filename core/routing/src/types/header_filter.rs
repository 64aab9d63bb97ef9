//! The headers that a headers binding asks for, packed, and whether a message has them.
//!
//! Refuses to know destinations, and how values are written as bytes.

use smallvec::SmallVec;

use crate::key::Key;

/// A header that a binding asks for: with a value, or merely to be there.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Asked<'a> {
    pub(super) name: &'a [u8],
    /// As `header_view` writes it.
    pub(super) value: Option<Vec<u8>>,
}

/// Pairs of which a message must have all, packed:
///
/// ```text
///  per pair   number of the name | 0, or 1 + length of the value | value        numbers as LEB128
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Filter(Key);

fn write_number(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Takes a number off the front of bytes that [`write_number`] wrote.
#[inline]
fn read_number(bytes: &mut &[u8]) -> u64 {
    let (mut number, mut shift) = (0, 0);
    while let Some((&byte, behind)) = bytes.split_first() {
        *bytes = behind;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
        shift += 7;
    }
    number
}

impl Filter {
    /// Of numbers of names and values, in an order of the caller's that decides what is equal; `None` if one of them is.
    pub(super) fn pack<'v>(pairs: impl Iterator<Item = Option<(u64, Option<&'v [u8]>)>>) -> Option<Self> {
        let mut packed = Vec::new();
        for pair in pairs {
            let (number, value) = pair?;
            write_number(number, &mut packed);
            write_number(value.map_or(0, |value| value.len() as u64 + 1), &mut packed);
            packed.extend_from_slice(value.unwrap_or_default());
        }
        Some(Self(packed.as_slice().into()))
    }

    /// Whether the message has all of it.
    #[inline]
    pub(super) fn fits(&self, headers: &FoundHeaders<'_>) -> bool {
        let mut rest = self.0.as_bytes();
        while !rest.is_empty() {
            let number = read_number(&mut rest);
            let len = read_number(&mut rest);
            let Some(found) = headers.value_of(number) else { return false };
            if len > 0 {
                let (value, behind) = rest.split_at(len as usize - 1);
                if value != found {
                    return false;
                }
                rest = behind;
            }
        }
        true
    }
}

/// A message's header whose name has a number.
#[derive(Clone, Copy)]
pub(super) struct Found<'m> {
    pub(super) number: u64,
    pub(super) value: &'m [u8],
}

/// The headers of a message that bindings ask for.
pub(super) struct FoundHeaders<'m>(SmallVec<[Found<'m>; 24]>);

impl<'m> FoundHeaders<'m> {
    /// In the order of their numbers, each once.
    pub(super) fn new(ordered: impl Iterator<Item = Found<'m>>) -> Self {
        Self(ordered.collect())
    }

    #[inline]
    fn value_of(&self, number: u64) -> Option<&'m [u8]> {
        let at = self.0.partition_point(|found| found.number < number);
        self.0.get(at).filter(|found| found.number == number).map(|found| found.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_asks_for_all_of_its_pairs() {
        let long = vec![b'v'; 300];
        let headers = FoundHeaders::new(
            [(0, &b"ia"[..]), (5, b"Sx"), (u64::MAX, &long)]
                .into_iter()
                .map(|(number, value)| Found { number, value }),
        );
        let fits = |pairs: &[(u64, Option<&[u8]>)]| {
            Filter::pack(pairs.iter().copied().map(Some)).is_some_and(|filter| filter.fits(&headers))
        };
        assert!(fits(&[]));
        assert!(fits(&[(0, Some(b"ia")), (5, None), (u64::MAX, Some(&long))]));
        assert!(fits(&[(5, Some(b"Sx")), (0, None)]));
        assert!(!fits(&[(0, Some(b"ia")), (5, Some(b"Sy"))]));
        assert!(!fits(&[(0, Some(b""))]));
        assert!(!fits(&[(1, None)]));
        assert!(Filter::pack([None].into_iter()).is_none());
    }
}
