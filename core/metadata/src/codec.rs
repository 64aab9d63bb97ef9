//! The byte layout shared by commands, facts and snapshots: fixed-width big-endian integers and length-prefixed
//! strings (`docs/formats/metadata.md`). Knows nothing of what the fields mean; a decoder accepts only what an
//! encoder writes, so equal bytes and equal values are the same thing.

use std::sync::Arc;

/// Why bytes are not what an encoder of this crate writes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The input ends inside a field.
    #[error("the metadata record ends inside a field")]
    Truncated,
    /// Bytes are left over after the last field.
    #[error("{count} bytes are left over after a metadata record")]
    TrailingBytes {
        /// How many.
        count: usize,
    },
    /// A code that this version does not know: damaged, or written by a newer version.
    #[error("unknown code {code} for {what}")]
    UnknownCode {
        /// The kind of thing that the code selects.
        what: &'static str,
        /// The code found.
        code: u32,
    },
    /// Text that is not UTF-8.
    #[error("a text field of a metadata record is not UTF-8")]
    NotUtf8,
    /// Text that stands for something, and for nothing known.
    #[error("{what} is not what a metadata record may hold")]
    BadText {
        /// The thing that it should stand for.
        what: &'static str,
    },
    /// A batch of commands inside a batch.
    #[error("a batch of commands inside a batch")]
    NestedBatch,
    /// Things that are written in order are not in order, or one is there twice.
    #[error("{what} of a metadata record are not in order")]
    OutOfOrder {
        /// Which things.
        what: &'static str,
    },
    /// The snapshot does not begin with its magic bytes.
    #[error("not a metadata snapshot")]
    BadMagic,
    /// The snapshot is of a format version that this build cannot read.
    #[error("metadata snapshot format {found}, this build reads up to {known_max}")]
    UnknownVersion {
        /// The version found.
        found: u16,
        /// The newest version known.
        known_max: u16,
    },
    /// The checksum does not match the bytes.
    #[error("metadata snapshot checksum is {computed:08x}, expected {stored:08x}")]
    BadChecksum {
        /// As stored at the end of the snapshot.
        stored: u32,
        /// As computed from the bytes.
        computed: u32,
    },
    /// A fact that contradicts the state, as a binding between exchanges that do not exist.
    #[error("a metadata fact does not fit the state: {0}")]
    DoesNotFit(#[from] crate::contradiction::Contradiction),
}

/// A cursor over encoded bytes. Never reads past the end and never allocates more than the input holds.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    /// Inside a batch of commands, where no other batch may be.
    pub(crate) in_batch: bool,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, in_batch: false }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let (head, tail) = self.rest.split_at_checked(count).ok_or(DecodeError::Truncated)?;
        self.rest = tail;
        Ok(head)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (head, tail) = self.rest.split_first_chunk::<N>().ok_or(DecodeError::Truncated)?;
        self.rest = tail;
        Ok(*head)
    }

    /// A length-prefixed run of bytes.
    fn run(&mut self) -> Result<&'a [u8], DecodeError> {
        let size = u32::get(self)? as usize;
        self.take(size)
    }

    /// The end of the input, or an error that tells how much is left.
    pub(crate) fn finish(&self) -> Result<(), DecodeError> {
        match self.rest.len() {
            0 => Ok(()),
            count => Err(DecodeError::TrailingBytes { count }),
        }
    }
}

/// A value with one encoding.
pub(crate) trait Codec: Sized {
    fn put(&self, out: &mut Vec<u8>);
    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError>;
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl Codec for $type {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_be_bytes());
            }
            fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
                Ok(Self::from_be_bytes(from.array()?))
            }
        }
    )*};
}
integers!(u8, u16, u32, u64, i64);

impl Codec for [u8; 16] {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        from.array()
    }
}

impl Codec for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match u8::get(from)? {
            0 => Ok(false),
            1 => Ok(true),
            code => Err(DecodeError::UnknownCode { what: "boolean", code: code.into() }),
        }
    }
}

/// Writes a length-prefixed run of bytes.
pub(crate) fn put_run(bytes: &[u8], out: &mut Vec<u8>) {
    put_count(bytes.len(), out);
    out.extend_from_slice(bytes);
}

fn put_count(count: usize, out: &mut Vec<u8>) {
    u32::try_from(count).expect("metadata fields come from frames or requests far below 4 GiB").put(out);
}

impl Codec for Box<[u8]> {
    fn put(&self, out: &mut Vec<u8>) {
        put_run(self, out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(from.run()?.into())
    }
}

impl Codec for Arc<[u8]> {
    fn put(&self, out: &mut Vec<u8>) {
        put_run(self, out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(from.run()?.into())
    }
}

impl Codec for Box<str> {
    fn put(&self, out: &mut Vec<u8>) {
        put_run(self.as_bytes(), out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(std::str::from_utf8(from.run()?).map_err(|_| DecodeError::NotUtf8)?.into())
    }
}

impl<T: Codec> Codec for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(if bool::get(from)? { Some(T::get(from)?) } else { None })
    }
}

impl<T: Codec> Codec for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        put_count(self.len(), out);
        self.iter().for_each(|item| item.put(out));
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let count = u32::get(from)?;
        // Every item takes at least a byte, so a lying count runs out of input before it costs memory.
        let mut items = Self::new();
        for _ in 0..count {
            items.push(T::get(from)?);
        }
        Ok(items)
    }
}

/// A struct whose encoding is its fields in order.
macro_rules! record {
    ($($(#[$meta:meta])* pub struct $name:ident { $($(#[$field_meta:meta])* pub $field:ident: $type:ty,)* })*) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name { $($(#[$field_meta])* pub $field: $type,)* }

        impl $crate::codec::Codec for $name {
            fn put(&self, out: &mut Vec<u8>) {
                $($crate::codec::Codec::put(&self.$field, out);)*
            }
            fn get(from: &mut $crate::codec::Reader<'_>) -> Result<Self, $crate::DecodeError> {
                Ok(Self { $($field: $crate::codec::Codec::get(from)?,)* })
            }
        }
    )*};
}
pub(crate) use record;

/// An enum of one-payload variants, each with a code of `$code_type` that is never used again for something else.
macro_rules! coded {
    ($(#[$meta:meta])* pub enum $name:ident: $code_type:ty as $what:literal {
        $($(#[$variant_meta:meta])* $code:literal => $variant:ident($payload:ty),)*
    }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum $name { $($(#[$variant_meta])* $variant($payload),)* }

        impl $crate::codec::Codec for $name {
            fn put(&self, out: &mut Vec<u8>) {
                match self {
                    $(Self::$variant(payload) => {
                        <$code_type as $crate::codec::Codec>::put(&$code, out);
                        $crate::codec::Codec::put(payload, out);
                    })*
                }
            }
            fn get(from: &mut $crate::codec::Reader<'_>) -> Result<Self, $crate::DecodeError> {
                match <$code_type as $crate::codec::Codec>::get(from)? {
                    $($code => Ok(Self::$variant($crate::codec::Codec::get(from)?)),)*
                    code => Err($crate::DecodeError::UnknownCode { what: $what, code: code.into() }),
                }
            }
        }
    };
}
pub(crate) use coded;

/// An enum without payloads, encoded as one byte.
macro_rules! plain_codes {
    ($name:ident as $what:literal { $($code:literal => $variant:ident,)* }) => {
        impl $crate::codec::Codec for $name {
            fn put(&self, out: &mut Vec<u8>) {
                out.push(match self { $(Self::$variant => $code,)* });
            }
            fn get(from: &mut $crate::codec::Reader<'_>) -> Result<Self, $crate::DecodeError> {
                match <u8 as $crate::codec::Codec>::get(from)? {
                    $($code => Ok(Self::$variant),)*
                    code => Err($crate::DecodeError::UnknownCode { what: $what, code: code.into() }),
                }
            }
        }
    };
}
pub(crate) use plain_codes;
