//! Messages that belong to the links: the name of a node, its proof, the verdict, signs of life, and addresses of further nodes.
//!
//! A newer version may append fields to any of them: bytes behind the known ones are ignored.

use crate::reader::Reader;

/// Kinds from here on are not the links' own.
pub const FIRST_FOREIGN_KIND: u8 = 16;
/// Bytes of a nonce.
pub const NONCE_BYTES: usize = 32;
/// Bytes of a proof: HMAC-SHA256.
pub const PROOF_BYTES: usize = 32;
/// Neighbours in one message at most.
pub const NEIGHBOURS_MAX: usize = 256;

/// The first bytes of every hello: a client that dials the wrong port is refused at once.
const MAGIC: [u8; 8] = *b"WarrenLk";

/// The links' own kinds of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A [`Hello`].
    Hello = 1,
    /// An [`Auth`].
    Auth = 2,
    /// A [`Verdict`].
    Verdict = 3,
    /// A [`Liveness`].
    Liveness = 4,
    /// [`Neighbours`].
    Neighbours = 5,
}

/// A message that cannot be accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a malformed {0}")]
pub struct MessageError(&'static str);

/// The first message of both sides of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello<'a> {
    /// The oldest version that the sender speaks.
    pub version_min: u16,
    /// The newest one.
    pub version_max: u16,
    /// Which of the connections of a link this is; that of the dialling side counts.
    pub lane: u8,
    /// Ties the connections of a link together; that of the dialling side counts.
    pub link: u64,
    /// Names the sender's data folder.
    pub data_id: [u8; 16],
    /// The sender's start.
    pub life: u32,
    /// Differs for each process.
    pub instance: u64,
    /// Never used again.
    pub nonce: [u8; NONCE_BYTES],
    /// The sender's name.
    pub name: &'a str,
    /// `HOST:PORT` where the sender wants to be dialled; empty when it does not say.
    pub address: &'a str,
}

/// The proof that the sender has the secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Auth {
    /// HMAC over both hellos.
    pub proof: [u8; PROOF_BYTES],
}

/// The fate of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Verdict {
    /// The link is up.
    Welcome = 0,
    /// There is a link between the two already.
    Linked = 1,
    /// The proof is wrong: the two have different secrets.
    WrongSecret = 2,
    /// No version that both speak.
    Versions = 3,
    /// Another node of that name is connected, or the name is the receiver's own.
    NameTaken = 4,
    /// Both ends are the same process.
    Itself = 5,
    /// The data folder of another node: a copy of it.
    FolderTaken = 6,
    /// Too many connections at once; later there may be room.
    Busy = 7,
}

/// A sign of life, with what the node says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Liveness {
    /// When this was sent, microseconds of the sender's clock.
    pub sent_us: u64,
    /// `sent_us` of the last one that came from the receiver; 0 when none has.
    pub echo_us: u64,
    /// How long ago that came, microseconds.
    pub held_us: u64,
    /// Bit 0 memory, bit 1 disk.
    pub alarms: u8,
    /// Age of the oldest write that is not synced, milliseconds.
    pub unsynced_ms: u32,
    /// Free bytes of the disk.
    pub disk_free_bytes: u64,
    /// Milliseconds since 1970.
    pub wall_ms: u64,
    /// The last entry of the metadata that the node has applied.
    pub metadata_applied: u64,
}

/// A node and where it is dialled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour<'a> {
    /// Its name.
    pub name: &'a str,
    /// `HOST:PORT`.
    pub address: &'a str,
}

/// Nodes that the sender is connected with, at most [`NEIGHBOURS_MAX`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbours<'a>(pub Vec<Neighbour<'a>>);

/// Text behind a one-octet length; a text longer than 255 bytes is cut, which no name or address of ours is.
fn put_text(text: &str, out: &mut Vec<u8>) {
    let mut length = text.len().min(255);
    while !text.is_char_boundary(length) {
        length -= 1;
    }
    out.push(length as u8);
    out.extend_from_slice(&text.as_bytes()[..length]);
}

fn text<'a>(reader: &mut Reader<'a>) -> Option<&'a str> {
    std::str::from_utf8(reader.short_bytes()?).ok()
}

impl<'a> Hello<'a> {
    /// Appends it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&self.version_min.to_be_bytes());
        out.extend_from_slice(&self.version_max.to_be_bytes());
        out.push(self.lane);
        out.extend_from_slice(&self.link.to_be_bytes());
        out.extend_from_slice(&self.data_id);
        out.extend_from_slice(&self.life.to_be_bytes());
        out.extend_from_slice(&self.instance.to_be_bytes());
        out.extend_from_slice(&self.nonce);
        put_text(self.name, out);
        put_text(self.address, out);
    }

    /// Reads one.
    ///
    /// # Errors
    /// It is too short, is no hello, or a text is not UTF-8.
    pub fn decode(payload: &'a [u8]) -> Result<Hello<'a>, MessageError> {
        let mut reader = Reader::new(payload);
        let read = |reader: &mut Reader<'a>| {
            (reader.array()? == MAGIC).then_some(())?;
            Some(Hello {
                version_min: reader.u16()?,
                version_max: reader.u16()?,
                lane: reader.u8()?,
                link: reader.u64()?,
                data_id: reader.array()?,
                life: reader.u32()?,
                instance: reader.u64()?,
                nonce: reader.array()?,
                name: text(reader)?,
                address: text(reader)?,
            })
        };
        read(&mut reader).ok_or(MessageError("hello"))
    }
}

impl Auth {
    /// Appends it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.proof);
    }

    /// Reads one.
    ///
    /// # Errors
    /// It is too short.
    pub fn decode(payload: &[u8]) -> Result<Auth, MessageError> {
        let proof = Reader::new(payload).array().ok_or(MessageError("proof"))?;
        Ok(Auth { proof })
    }
}

impl Verdict {
    /// All.
    pub const ALL: [Verdict; 8] = [
        Verdict::Welcome,
        Verdict::Linked,
        Verdict::WrongSecret,
        Verdict::Versions,
        Verdict::NameTaken,
        Verdict::Itself,
        Verdict::FolderTaken,
        Verdict::Busy,
    ];

    /// Appends it.
    pub fn encode(self, out: &mut Vec<u8>) {
        out.push(self as u8);
    }

    /// Reads one.
    ///
    /// # Errors
    /// It is empty or unknown.
    pub fn decode(payload: &[u8]) -> Result<Verdict, MessageError> {
        let code = Reader::new(payload).u8().ok_or(MessageError("verdict"))?;
        Self::ALL.get(usize::from(code)).copied().ok_or(MessageError("verdict"))
    }
}

impl Liveness {
    /// Appends it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.sent_us.to_be_bytes());
        out.extend_from_slice(&self.echo_us.to_be_bytes());
        out.extend_from_slice(&self.held_us.to_be_bytes());
        out.push(self.alarms);
        out.extend_from_slice(&self.unsynced_ms.to_be_bytes());
        out.extend_from_slice(&self.disk_free_bytes.to_be_bytes());
        out.extend_from_slice(&self.wall_ms.to_be_bytes());
        out.extend_from_slice(&self.metadata_applied.to_be_bytes());
    }

    /// Reads one.
    ///
    /// # Errors
    /// It is too short.
    pub fn decode(payload: &[u8]) -> Result<Liveness, MessageError> {
        let mut reader = Reader::new(payload);
        let read = |reader: &mut Reader<'_>| {
            Some(Liveness {
                sent_us: reader.u64()?,
                echo_us: reader.u64()?,
                held_us: reader.u64()?,
                alarms: reader.u8()?,
                unsynced_ms: reader.u32()?,
                disk_free_bytes: reader.u64()?,
                wall_ms: reader.u64()?,
                metadata_applied: reader.u64()?,
            })
        };
        read(&mut reader).ok_or(MessageError("sign of life"))
    }
}

impl<'a> Neighbours<'a> {
    /// Appends them; those beyond [`NEIGHBOURS_MAX`] are left out.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let count = self.0.len().min(NEIGHBOURS_MAX);
        out.extend_from_slice(&(count as u16).to_be_bytes());
        for neighbour in &self.0[..count] {
            put_text(neighbour.name, out);
            put_text(neighbour.address, out);
        }
    }

    /// Reads them.
    ///
    /// # Errors
    /// More than [`NEIGHBOURS_MAX`], too few bytes, or a text that is not UTF-8.
    pub fn decode(payload: &'a [u8]) -> Result<Neighbours<'a>, MessageError> {
        let mut reader = Reader::new(payload);
        let read = |reader: &mut Reader<'a>| {
            let count = usize::from(reader.u16()?);
            (count <= NEIGHBOURS_MAX).then_some(())?;
            (0..count)
                .map(|_| Some(Neighbour { name: text(reader)?, address: text(reader)? }))
                .collect::<Option<Vec<_>>>()
        };
        read(&mut reader).map(Neighbours).ok_or(MessageError("list of nodes"))
    }
}

#[cfg(test)]
mod tests;
