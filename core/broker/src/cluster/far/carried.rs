//! A message as it came from another node.

use bytes::{Buf, Bytes};

use crate::cluster::frames::Fields;

/// The number of parts of a message.
const PARTS: usize = 5;
/// Bytes of the length in front of each part.
const LENGTH_BYTES: usize = 4;

/// A message on its way: a piece of the frame that brought it. Exchange, routing key, properties, body and annotations stand in it, each with its length in
/// front.
pub(super) struct Carried {
    piece: Bytes,
    /// The end of each part in the piece.
    ends: [u32; PARTS],
}

impl Carried {
    /// The next message. It holds the frame once, whatever its parts are.
    pub(super) fn read(from: &mut Fields) -> Option<Carried> {
        let (mut end, mut ends) = (0, [0; PARTS]);
        for part in &mut ends {
            let mut rest = from.0.get(end..)?;
            let length = if rest.len() < LENGTH_BYTES { return None } else { rest.get_u32() as usize };
            end += LENGTH_BYTES + rest.get(..length)?.len();
            *part = u32::try_from(end).ok()?;
        }
        Some(Carried { piece: from.take(end)?, ends })
    }

    fn part(&self, nth: usize) -> &[u8] {
        let begin = if nth == 0 { 0 } else { self.ends[nth - 1] as usize };
        &self.piece[begin + LENGTH_BYTES..self.ends[nth] as usize]
    }

    pub(super) fn exchange(&self) -> &[u8] {
        self.part(0)
    }

    pub(super) fn routing_key(&self) -> &[u8] {
        self.part(1)
    }

    pub(super) fn properties(&self) -> &[u8] {
        self.part(2)
    }

    pub(super) fn body(&self) -> &[u8] {
        self.part(3)
    }

    pub(super) fn annotations(&self) -> &[u8] {
        self.part(4)
    }
}

#[cfg(test)]
mod tests {
    use bytes::{BufMut, BytesMut};

    use super::*;
    use crate::cluster::frames::put_run;

    #[test]
    fn parts_come_out_as_they_went_in_and_a_cut_message_is_none() {
        let parts: [&[u8]; PARTS] = [b"", b"key", b"\x00\x00", b"body", b"noted"];
        let mut out = BytesMut::new();
        parts.iter().for_each(|part| put_run(&mut out, part));
        let end = out.len();
        out.put_u8(7);
        let whole = out.freeze();
        let mut fields = Fields(whole.clone());
        let carried = Carried::read(&mut fields).unwrap();
        let came = [
            carried.exchange(),
            carried.routing_key(),
            carried.properties(),
            carried.body(),
            carried.annotations(),
        ];
        assert_eq!((came, fields.u8()), (parts, Some(7)));
        for cut in 0..end {
            assert!(Carried::read(&mut Fields(whole.slice(..cut))).is_none(), "{cut}");
        }
    }
}
