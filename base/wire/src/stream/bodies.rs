//! The macro that turns one definition of a body into its struct, its decoder and its encoder.
//!
//! A body of a response begins with its code, marked by `(code)`. One that ends behind the code is read with defaults
//! for the rest; frames of RabbitMQ are always whole, and so are ours.
//!
//! ```text
//!  QueryOffset 0x000b (code) { offset: u64 }
//! ```

use crate::reader::Reader;

/// The methods that the macro generates for each body.
pub(super) trait Body<'a>: Sized {
    /// Reads the fields, or says `None` if the bytes end too early or are of another type.
    fn read(reader: &mut Reader<'a>) -> Option<Self>;

    fn write(&self, out: &mut Vec<u8>);

    #[cfg(test)]
    fn sample(samples: &mut super::samples::Samples<'a>) -> Self;
}

macro_rules! bodies {
    ($(
        $(#[$meta:meta])*
        $name:ident $(<$lifetime:lifetime>)? $key:literal $(($code:ident))? {
            $( $(#[$field_meta:meta])* $field:ident : $type:ty ),* $(,)?
        }
    )+) => { $(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name $(<$lifetime>)? {
            $(
                /// How the request ended.
                pub $code: $crate::stream::ResponseCode,
            )?
            $( $(#[$field_meta])* pub $field: $type, )*
        }

        impl $(<$lifetime>)? $name $(<$lifetime>)? {
            /// Key of the command, without the response bit.
            pub const KEY: u16 = $key;
        }

        // `let _` is for bodies without fields, which use no argument.
        impl<'a> $crate::stream::bodies::Body<'a> for $name $(<$lifetime>)? {
            fn read(reader: &mut $crate::reader::Reader<'a>) -> Option<Self> {
                let _ = &reader;
                $(
                    let $code = $crate::stream::field::Field::read(reader)?;
                    if reader.is_empty() {
                        #[allow(clippy::needless_update, reason = "some responses have nothing but a code")]
                        return Some(Self { $code, ..Self::default() });
                    }
                )?
                Some(Self {
                    $( $code, )?
                    $( $field: $crate::stream::field::Field::read(reader)?, )*
                })
            }

            fn write(&self, out: &mut Vec<u8>) {
                let _ = &out;
                $( $crate::stream::field::Field::write(&self.$code, out); )?
                $( $crate::stream::field::Field::write(&self.$field, out); )*
            }

            #[cfg(test)]
            fn sample(samples: &mut $crate::stream::samples::Samples<'a>) -> Self {
                let _ = &samples;
                Self {
                    $( $code: $crate::stream::field::Field::sample(samples), )?
                    $( $field: $crate::stream::field::Field::sample(samples), )*
                }
            }
        }
    )+ };
}

pub(super) use bodies;
