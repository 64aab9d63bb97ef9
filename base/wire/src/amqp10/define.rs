//! The macro that turns one definition of a composite type into its struct, its decoder and its encoder.
//!
//! A composite type is a described list: descriptor, then fields in order. Fields that are null, or missing at the end,
//! have their default. A definition says the default behind `=`; a field without one is either optional by its type
//! (`Option`, maps, symbols) or mandatory.
//!
//! ```text
//!  End<'a> 0x17 "amqp:end:list" { error: Option<Error<'a>> }
//! ```

use super::compound::List;
use super::field::Field;
use super::value::{TypeError, Value};

/// A composite value that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompositeError {
    /// Its bytes are no values.
    #[error("{0}")]
    Type(#[from] TypeError),
    /// A mandatory field is null or missing.
    #[error("field {field} of {composite} is missing")]
    Missing {
        /// Name of the composite type, such as `amqp:open:list`.
        composite: &'static str,
        /// Name of the field.
        field: &'static str,
    },
    /// A field has another type than it must have, a string is not UTF-8, or a number is none of its choices.
    #[error("field {field} of {composite} has a wrong type or value")]
    WrongType {
        /// Name of the composite type.
        composite: &'static str,
        /// Name of the field.
        field: &'static str,
    },
    /// It is no described list with a descriptor that is known here.
    #[error("a value that is not of a known composite type")]
    Unknown,
}

/// The methods that the macro generates for each composite type.
pub(super) trait Composite<'a>: Sized {
    /// Reads the fields. Fields behind the last known one are not looked at.
    fn read_fields(fields: List<'a>) -> Result<Self, CompositeError>;

    fn write(&self, writer: &mut super::writer::Writer<'_>);

    #[cfg(test)]
    fn sample(samples: &mut super::samples::Samples<'a>) -> Self;
}

/// The next field: its value, or `None` if it is null or missing.
#[inline]
pub(super) fn next_field<'a>(
    items: &mut impl Iterator<Item = Result<Value<'a>, TypeError>>,
) -> Result<Option<Value<'a>>, TypeError> {
    let value = items.next().transpose()?;
    Ok(value.filter(|value| !matches!(value, Value::Null)))
}

/// Reads a field that is there.
#[inline]
pub(super) fn read_field<'a, T: Field<'a>>(
    value: Value<'a>,
    composite: &'static str,
    field: &'static str,
) -> Result<T, CompositeError> {
    match T::read(value) {
        Some(read) => Ok(read),
        None => match value.validate() {
            Err(error) => Err(CompositeError::Type(error)),
            Ok(()) => Err(CompositeError::WrongType { composite, field }),
        },
    }
}

macro_rules! composites {
    ($(
        $(#[$meta:meta])*
        $name:ident $(<$lifetime:lifetime>)? $code:literal $symbol:literal {
            $( $(#[$field_meta:meta])* $field:ident : $type:ty $(= $default:expr)? ),* $(,)?
        }
    )+) => { $(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct $name $(<$lifetime>)? {
            $( $(#[$field_meta])* pub $field: $type, )*
        }

        impl $(<$lifetime>)? $name $(<$lifetime>)? {
            /// Number of the descriptor.
            pub const CODE: u64 = $code;
            /// Name of the descriptor.
            pub const NAME: &'static str = $symbol;
        }

        impl<'a> $crate::amqp10::define::Composite<'a> for $name $(<$lifetime>)? {
            // `let _` is for types without fields, which use no argument.
            #[inline]
            fn read_fields(
                fields: $crate::amqp10::List<'a>,
            ) -> Result<Self, $crate::amqp10::CompositeError> {
                let mut items = fields.items();
                let _ = &mut items;
                $( let $field = match $crate::amqp10::define::next_field(&mut items)? {
                    Some(value) => $crate::amqp10::define::read_field(value, $symbol, stringify!($field))?,
                    None => $crate::amqp10::define::composites!(
                        @absent $symbol, $field, $type $(, $default)?
                    ),
                }; )*
                Ok(Self { $( $field, )* })
            }

            #[inline]
            fn write(&self, writer: &mut $crate::amqp10::Writer<'_>) {
                writer.described($code, |writer| writer.list(|writer| {
                    let mut end = writer.mark();
                    $( if $crate::amqp10::define::composites!(@is_absent self.$field, $type $(, $default)?) {
                        writer.null();
                    } else {
                        $crate::amqp10::field::Field::write(&self.$field, writer);
                        end = writer.mark();
                    } )*
                    let _ = &mut end;
                    writer.go_back(end);
                }));
            }

            #[cfg(test)]
            fn sample(samples: &mut $crate::amqp10::samples::Samples<'a>) -> Self {
                let _ = &samples;
                Self { $( $field: $crate::amqp10::field::Field::sample(samples), )* }
            }
        }
    )+ };
    (@absent $symbol:literal, $field:ident, $type:ty, $default:expr) => { $default };
    (@absent $symbol:literal, $field:ident, $type:ty) => {
        match <$type as $crate::amqp10::field::Field>::absent() {
            Some(value) => value,
            None => return Err($crate::amqp10::CompositeError::Missing {
                composite: $symbol,
                field: stringify!($field),
            }),
        }
    };
    (@is_absent $value:expr, $type:ty, $default:expr) => { $value == $default };
    (@is_absent $value:expr, $type:ty) => { $crate::amqp10::field::Field::is_absent(&$value) };
}

pub(super) use composites;
