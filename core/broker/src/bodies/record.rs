//! Records of shared bodies in the message log: two kinds of records in a stream of their own. All integers are big-endian; the codes are
//! not used by queues (`docs/formats/queue-records.md`). Knows nothing of when they are written.

use commitlog::BlockLocation;

/// A body: its number u64, then its bytes.
pub(crate) const BODY: u8 = 6;

/// Where bodies lie in segments of the stream: repeated (number u64, segment u64, offset u32, bytes u32).
pub(crate) const PLACES: u8 = 7;

/// Bytes of one entry of a record of places.
pub(super) const PLACE_BYTES: usize = 24;

const ID_BYTES: usize = 8;

/// Appends a record of a body.
pub(crate) fn write_body(out: &mut Vec<u8>, id: u64, bytes: &[u8]) {
    out.reserve(ID_BYTES + bytes.len());
    out.extend_from_slice(&id.to_be_bytes());
    out.extend_from_slice(bytes);
}

/// A body's number and bytes; `None` when the record cannot be one.
pub(crate) fn read_body(payload: &[u8]) -> Option<(u64, &[u8])> {
    let (id, bytes) = payload.split_first_chunk::<ID_BYTES>()?;
    Some((u64::from_be_bytes(*id), bytes))
}

/// Appends one entry of a record of places.
pub(super) fn write_place(out: &mut Vec<u8>, id: u64, place: BlockLocation) {
    out.extend_from_slice(&id.to_be_bytes());
    out.extend_from_slice(&place.segment.to_be_bytes());
    out.extend_from_slice(&place.offset.to_be_bytes());
    out.extend_from_slice(&place.len.to_be_bytes());
}

/// Walks the entries of a record of places; a partial one at the end is `None`.
pub(crate) fn each_place(payload: &[u8]) -> impl Iterator<Item = Option<(u64, BlockLocation)>> + '_ {
    payload.chunks(PLACE_BYTES).map(|entry| {
        let (id, rest) = entry.split_first_chunk::<8>()?;
        let (segment, rest) = rest.split_first_chunk::<8>()?;
        let (offset, len) = rest.split_first_chunk::<4>()?;
        let place = BlockLocation {
            segment: u64::from_be_bytes(*segment),
            offset: u32::from_be_bytes(*offset),
            len: u32::from_be_bytes(len.try_into().ok()?),
        };
        Some((u64::from_be_bytes(*id), place))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_written_byte_for_byte_as_documented() {
        let mut body = Vec::new();
        write_body(&mut body, 0x0102, b"abc");
        assert_eq!(body, [0, 0, 0, 0, 0, 0, 1, 2, b'a', b'b', b'c']);
        assert_eq!(read_body(&body), Some((0x0102, &b"abc"[..])));
        assert_eq!(read_body(&body[..7]), None);
        let place = BlockLocation { segment: 3, offset: 4, len: 5 };
        let mut places = Vec::new();
        write_place(&mut places, 2, place);
        assert_eq!(places, [0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 5]);
        places.extend_from_slice(&[0; 23]);
        assert_eq!(each_place(&places).collect::<Vec<_>>(), [Some((2, place)), None]);
    }

    /// The bytes before each `#` of a file in `tests/golden`.
    fn golden(text: &str) -> Vec<u8> {
        let hex: String =
            text.lines().flat_map(|line| line.split('#').next().unwrap().trim().chars()).collect();
        let pairs = (0..hex.len()).step_by(2).map(|at| &hex[at..at + 2]);
        pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
    }

    #[test]
    fn bodies_and_their_places_are_written_and_read_as_ever() {
        let body = golden(include_str!("../../tests/golden/body.hex"));
        let bytes = b"sixteen KiB or more, usually";
        let mut written = Vec::new();
        write_body(&mut written, 258, bytes);
        assert_eq!((&written, read_body(&body)), (&body, Some((258, &bytes[..]))));

        let golden = golden(include_str!("../../tests/golden/body-places.hex"));
        let places = [
            (77, BlockLocation { segment: (1 << 32) + 1, offset: 32, len: 60 }),
            (258, BlockLocation { segment: (1 << 32) + 2, offset: 1 << 24, len: 1 << 24 }),
        ];
        let mut written = Vec::new();
        places.iter().for_each(|(id, place)| write_place(&mut written, *id, *place));
        assert_eq!(written, golden);
        assert_eq!(each_place(&golden).collect::<Vec<_>>(), places.map(Some));
        assert_eq!((BODY, PLACES, PLACE_BYTES), (6, 7, 24));
    }
}
