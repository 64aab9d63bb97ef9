//! Damage so small that a record's checksum tells what was there: one byte. Knows nothing of what records mean, nor of files.
//!
//! A CRC is linear: the effect of a wrong byte depends on the byte's place and on nothing else in the record, so the place can be
//! computed, going backwards from the end. Damage of another kind looks like one wrong byte only by chance, and the chance grows
//! with the number of bytes that could be the one: longer records are left as they are.

use std::sync::LazyLock;

use super::format::{RECORD_HEADER_BYTES, RecordHeader, record_crc};
use crate::Position;
use crate::bytes::{offset_of, put_u32, u32_at};

/// So many different single errors are told apart by one checksum; 2^32 of all others share them. Of damage of another kind less than
/// one in 4096 is taken for one of them, and leaves a record that nobody wrote.
const ERRORS_MAX: usize = 1 << 20;

const CRC_BYTES: std::ops::Range<usize> = 4..8;

/// The effect of a byte on the checksum's register (IEEE, reflected), by the byte.
static TABLE: LazyLock<[u32; 256]> = LazyLock::new(|| {
    let of = |byte: u32| {
        (0..8).fold(byte, |crc, _| if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 })
    };
    std::array::from_fn(|byte| of(u32::try_from(byte).expect("below 256")))
});

/// Which byte of [`TABLE`] has these top eight bits: each combination is there once.
static BY_TOP: LazyLock<[u8; 256]> = LazyLock::new(|| {
    let mut by_top = [0; 256];
    for (byte, crc) in (0..=u8::MAX).zip(TABLE.iter()) {
        by_top[usize::from(crc.to_be_bytes()[0])] = byte;
    }
    by_top
});

/// A record that was put right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mended {
    /// The record, whole.
    pub(super) record: Vec<u8>,
    /// Which byte of it was wrong.
    pub(super) at: usize,
}

/// The record that begins at `start` in the first of these bytes and cannot be read, if one byte of it is wrong and no more. `next` is
/// how far behind it the next good record begins.
pub(super) fn mend(bytes: &[u8], start: Position, next: Option<u64>) -> Option<Mended> {
    lengths(bytes, start, next).into_iter().find_map(|length| {
        let mut record = bytes.get(..length)?.to_vec();
        let (at, error) = wrong_byte(&record)?;
        record[at] ^= error;
        let header = RecordHeader::decode(&record, start, offset_of(length - RECORD_HEADER_BYTES)).ok()?;
        let is_whole = header.record_bytes() == length && record_crc(&record) == header.crc;
        is_whole.then_some(Mended { record, at })
    })
}

/// How long the record may be.
fn lengths(bytes: &[u8], start: Position, next: Option<u64>) -> Vec<usize> {
    let Some(room) = bytes.len().checked_sub(RECORD_HEADER_BYTES) else { return Vec::new() };
    let told = RecordHeader::decode(bytes, start, offset_of(room)).map(|header| header.record_bytes());
    let mut lengths: Vec<usize> = told.ok().into_iter().collect();
    lengths.extend(next.and_then(|next| usize::try_from(next).ok()));
    // Nothing good follows: the header may be wrong in its length, or elsewhere.
    let mut header: [u8; RECORD_HEADER_BYTES] = bytes[..RECORD_HEADER_BYTES].try_into().expect("so many");
    let payload = u32_at(&header, 0);
    let single = (0..32).map(|bit| payload ^ (1 << bit)).filter(|_| next.is_none());
    for payload in single {
        put_u32(&mut header, 0, payload);
        let told = RecordHeader::decode(&header, start, offset_of(room));
        lengths.extend(told.ok().map(|header| header.record_bytes()));
    }
    if next.is_none() && told.is_err() {
        lengths.extend((payload as usize <= room).then(|| payload as usize + RECORD_HEADER_BYTES));
    }
    // The wanted bytes may end where the record does.
    lengths.extend(next.is_none().then_some(bytes.len()));
    lengths.retain(|length| *length >= RECORD_HEADER_BYTES);
    lengths
}

/// The one byte that is wrong if there is only one, and what is wrong with it.
fn wrong_byte(record: &[u8]) -> Option<(usize, u8)> {
    let mut difference = record_crc(record) ^ u32_at(record, CRC_BYTES.start);
    if let Some(found) = in_checksum(difference) {
        return Some(found);
    }
    let are_few = record.len() * 255 <= ERRORS_MAX;
    if record.len() * 8 > ERRORS_MAX {
        return None;
    }
    let mut found: Option<(usize, u8)> = None;
    for at in (0..record.len()).rev().filter(|at| !CRC_BYTES.contains(at)) {
        let error = BY_TOP[usize::from(difference.to_be_bytes()[0])];
        let carried = difference ^ TABLE[usize::from(error)];
        if carried == 0 && error.is_power_of_two() {
            return Some((at, error));
        }
        if carried == 0 && are_few {
            if found.is_some() {
                return None;
            }
            found = Some((at, error));
        }
        difference = (carried << 8) | u32::from(error);
    }
    found
}

/// A wrong byte in the checksum itself. The effect of a wrong byte of the record on it is never in one byte alone.
fn in_checksum(difference: u32) -> Option<(usize, u8)> {
    let bytes = difference.to_be_bytes();
    let mut wrong = bytes.iter().enumerate().filter(|(_, byte)| **byte != 0);
    match (wrong.next(), wrong.next()) {
        (Some((at, byte)), None) => Some((CRC_BYTES.start + at, *byte)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::records::Records;
    use super::*;

    const START: Position = Position(5000);

    fn record(payload: &[u8]) -> Vec<u8> {
        let mut records = Records::default();
        records.push(7, 3, |out| out.extend_from_slice(payload));
        records.seal(START);
        records.parts().concat()
    }

    #[test]
    fn any_wrong_byte_of_a_record_is_put_right() {
        let whole = record(&(0..300_u32).flat_map(u32::to_be_bytes).collect::<Vec<u8>>());
        for at in 0..whole.len() {
            for error in [1, 0x10, 0x80, 0x55, 0xff] {
                let mut damaged = whole.clone();
                damaged[at] ^= error;
                let mended = mend(&damaged, START, Some(whole.len() as u64));
                assert_eq!(mended, Some(Mended { record: whole.clone(), at }), "byte {at}, {error:#x}");
            }
        }
    }

    #[test]
    fn a_wrong_bit_of_the_last_record_is_put_right_wherever_it_is() {
        let whole = record(b"the last one");
        for bit in 0..whole.len() * 8 {
            let mut damaged = [whole.clone(), vec![0; 500]].concat();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let mended = mend(&damaged, START, None).map(|mended| mended.record);
            assert_eq!(mended.as_ref(), Some(&whole), "bit {bit}");
        }
    }

    #[test]
    fn a_wrong_byte_of_the_last_record_is_put_right_where_the_bytes_end_with_it() {
        let whole = record(b"the last one");
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x55;
            let mended = mend(&damaged, START, None);
            assert_eq!(mended, Some(Mended { record: whole.clone(), at }), "byte {at}");
        }
    }

    #[test]
    fn long_records_are_put_right_by_the_bit_and_no_others() {
        let whole = record(&vec![b'x'; 100_000]);
        let mut damaged = whole.clone();
        damaged[70_000] ^= 4;
        assert_eq!(mend(&damaged, START, None), Some(Mended { record: whole.clone(), at: 70_000 }));
        damaged[70_000] ^= 8;
        assert_eq!(mend(&damaged, START, None), None, "two bits of a byte");
        let longest = record(&vec![0; ERRORS_MAX / 8]);
        let mut damaged = longest.clone();
        damaged[70_000] ^= 4;
        assert_eq!(mend(&damaged, START, None), None, "too long");
    }

    #[test]
    fn more_than_a_byte_is_left_as_it_is() {
        let whole = record(&vec![b'x'; 1000]);
        for at in [0, 3, 9, 20, 100, 900] {
            for width in [2, 3, 4, 8, 100] {
                let mut damaged = whole.clone();
                damaged[at..at + width].fill(0xee);
                assert_eq!(mend(&damaged, START, None), None, "{width} bytes at {at}");
            }
        }
        for length in 0..RECORD_HEADER_BYTES {
            assert_eq!(mend(&whole[..length], START, None), None);
        }
    }
}
