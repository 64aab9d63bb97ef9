//! The macro that turns one definition of a method into its struct, its decoder and its encoder.
//!
//! A definition lists the fields before the flags, the flags in square brackets (packed into one octet), and the
//! fields after them; a method without flags has only the first list. No method has two runs of flags.
//!
//! ```text
//!  Ack 80 "basic.ack" { delivery_tag: u64 } [multiple] {}
//! ```

use crate::amqp091::field::FieldError;
use crate::reader::Reader;

/// The methods that the macro generates for each method; [`crate::amqp091::Method`] dispatches to it.
pub(in crate::amqp091) trait MethodFields<'a>: Sized {
    /// Reads the fields behind the class and method numbers, or `None` if the bytes end too early.
    fn read(reader: &mut Reader<'a>) -> Option<Self>;

    /// Looks inside strings and tables.
    fn check(&self) -> Result<(), FieldError>;

    fn write(&self, out: &mut Vec<u8>);

    #[cfg(test)]
    fn sample(samples: &mut super::super::method::samples::Samples<'a>) -> Self;
}

macro_rules! methods {
    (class $class:literal; $(
        $(#[$meta:meta])*
        $method:ident $(<$lifetime:lifetime>)? $id:literal $name:literal $(($content:ident))?
        { $( $(#[$before_meta:meta])* $before:ident : $before_type:ty ),* $(,)? }
        $( [ $( $(#[$bit_meta:meta])* $bit:ident ),+ $(,)? ]
           { $( $(#[$after_meta:meta])* $after:ident : $after_type:ty ),* $(,)? } )?
    )+) => { $(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $method $(<$lifetime>)? {
            $( $(#[$before_meta])* pub $before: $before_type, )*
            $( $( $(#[$bit_meta])* pub $bit: bool, )+
               $( $(#[$after_meta])* pub $after: $after_type, )* )?
        }

        impl $(<$lifetime>)? $method $(<$lifetime>)? {
            /// Class and method number.
            pub const ID: (u16, u16) = ($class, $id);
            /// Name as in RabbitMQ's texts.
            pub const NAME: &'static str = $name;
            /// Whether a content header and body follow.
            pub const CARRIES_CONTENT: bool = $crate::amqp091::methods::define::methods!(@content $($content)?);
            /// Class number in the high half, method number in the low half.
            pub(in crate::amqp091) const KEY: u32 = ($class << 16) | $id;

            /// Appends the whole method frame.
            #[inline]
            pub fn encode_frame(&self, channel: u16, out: &mut Vec<u8>) {
                $crate::amqp091::frame::write_frame_with(
                    $crate::amqp091::frame::FRAME_METHOD, channel, out, |out| {
                        out.extend_from_slice(&Self::KEY.to_be_bytes());
                        $crate::amqp091::methods::MethodFields::write(self, out);
                    });
            }
        }

        // `let _` is for methods without fields, which use no argument.
        impl<'a> $crate::amqp091::methods::MethodFields<'a> for $method $(<$lifetime>)? {
            #[inline]
            fn read(reader: &mut $crate::reader::Reader<'a>) -> Option<Self> {
                let _ = &reader;
                $( let $before = $crate::amqp091::field::Field::read(reader)?; )*
                $( let mut bits = $crate::amqp091::field::Bits::of(reader.u8()?);
                   $( let $bit = bits.take(); )+
                   $( let $after = $crate::amqp091::field::Field::read(reader)?; )* )?
                Some(Self { $( $before, )* $( $( $bit, )+ $( $after, )* )? })
            }

            fn check(&self) -> Result<(), $crate::amqp091::field::FieldError> {
                $( $crate::amqp091::field::Field::check(&self.$before)?; )*
                $( $( $crate::amqp091::field::Field::check(&self.$after)?; )* )?
                Ok(())
            }

            #[inline]
            fn write(&self, out: &mut Vec<u8>) {
                let _ = &out;
                $( $crate::amqp091::field::Field::write(&self.$before, out); )*
                $( out.push($crate::amqp091::field::Bits::pack([$( self.$bit ),+]));
                   $( $crate::amqp091::field::Field::write(&self.$after, out); )* )?
            }

            #[cfg(test)]
            fn sample(samples: &mut $crate::amqp091::method::samples::Samples<'a>) -> Self {
                let _ = &samples;
                Self {
                    $( $before: $crate::amqp091::method::samples::Sample::sample(samples), )*
                    $( $( $bit: $crate::amqp091::method::samples::Sample::sample(samples), )+
                       $( $after: $crate::amqp091::method::samples::Sample::sample(samples), )* )?
                }
            }
        }
    )+ };
    (@content content) => { true };
    (@content) => { false };
}

pub(super) use methods;
