//! Any method, decoded in place.
//!
//! Refuses to know which methods are legal when, and in which direction.

use super::field::FieldError;
use super::methods::{MethodFields, access, basic, channel, confirm, connection, exchange, queue, tx};
use super::table::TableError;
use crate::reader::Reader;

#[cfg(test)]
pub(super) mod samples;
#[cfg(test)]
mod tests;

/// A method frame's payload that is no method. All are hard errors in RabbitMQ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MethodError {
    /// No such method in RabbitMQ's dialect.
    #[error("unknown method {class_id}.{method_id}")]
    Unknown {
        /// Class number received.
        class_id: u16,
        /// Method number received.
        method_id: u16,
    },
    /// Fields end too early or bytes follow them; RabbitMQ: 501 `FRAME_ERROR - cannot decode <<...>>`.
    #[error("cannot decode the fields of method {class_id}.{method_id}")]
    Malformed {
        /// Class number.
        class_id: u16,
        /// Method number.
        method_id: u16,
    },
    /// A short string of a method without content is not UTF-8; RabbitMQ: 501
    /// `FRAME_ERROR - Malformed UTF-8 in shortstr`.
    #[error("a short string of method {class_id}.{method_id} is not UTF-8")]
    BadUtf8 {
        /// Class number.
        class_id: u16,
        /// Method number.
        method_id: u16,
    },
    /// A table among the fields is malformed or nested too deep. RabbitMQ has no answer to this: it crashes the
    /// connection.
    #[error("a table of method {class_id}.{method_id}: {error}")]
    BadTable {
        /// Class number.
        class_id: u16,
        /// Method number.
        method_id: u16,
        /// The fault of the table.
        error: TableError,
    },
    /// Less than the four bytes of class and method number.
    #[error("method frame without class and method number")]
    Truncated,
}

macro_rules! method_enum {
    ($( $variant:ident = $class:ident :: $method:ident $(<$lifetime:lifetime>)? ),+ $(,)?) => {
        /// Any method of RabbitMQ's dialect.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Method<'a> {
            $(
                #[doc = concat!("`", stringify!($class), "::", stringify!($method), "`")]
                $variant($class::$method $(<$lifetime>)?),
            )+
        }

        impl<'a> Method<'a> {
            /// Decodes a method frame's payload.
            ///
            /// As RabbitMQ does: bytes after the last field are refused (its decoder matches to the end of the frame), and undefined bits
            /// of a flags octet are ignored. Short strings must be UTF-8 except in methods that carry content. Tables are walked once, at
            /// most [`super::TABLE_DEPTH_MAX`] deep, so what comes out of `Ok` can be read without further checks.
            ///
            /// # Errors
            /// See [`MethodError`].
            #[inline]
            pub fn decode(payload: &'a [u8]) -> Result<Self, MethodError> {
                let (key, fields) = payload.split_first_chunk::<4>().ok_or(MethodError::Truncated)?;
                let key = u32::from_be_bytes(*key);
                match key {
                    $( $class::$method::KEY => {
                        decode_fields(fields, key, $class::$method::CARRIES_CONTENT).map(Method::$variant)
                    } )+
                    _ => {
                        let (class_id, method_id) = ids(key);
                        Err(MethodError::Unknown { class_id, method_id })
                    }
                }
            }

            /// Class and method number.
            #[must_use]
            pub const fn id(&self) -> (u16, u16) {
                match self { $( Method::$variant(_) => $class::$method::ID, )+ }
            }

            /// Name as in RabbitMQ's texts, such as `queue.declare`.
            #[must_use]
            pub const fn name(&self) -> &'static str {
                match self { $( Method::$variant(_) => $class::$method::NAME, )+ }
            }

            /// Whether a content header and body follow (publish, return, deliver, get-ok).
            #[must_use]
            pub const fn carries_content(&self) -> bool {
                match self { $( Method::$variant(_) => $class::$method::CARRIES_CONTENT, )+ }
            }

            /// Appends the whole method frame.
            pub fn encode_frame(&self, channel: u16, out: &mut Vec<u8>) {
                match self { $( Method::$variant(method) => method.encode_frame(channel, out), )+ }
            }

            #[cfg(test)]
            fn one_of_each(samples: &mut samples::Samples<'a>) -> Vec<Self> {
                vec![ $( Method::$variant($class::$method::sample(samples)), )+ ]
            }
        }

        $(
            impl<'a> From<$class::$method $(<$lifetime>)?> for Method<'a> {
                #[inline]
                fn from(method: $class::$method $(<$lifetime>)?) -> Self {
                    Method::$variant(method)
                }
            }
        )+
    };
}

method_enum! {
    ConnectionStart = connection::Start<'a>,
    ConnectionStartOk = connection::StartOk<'a>,
    ConnectionSecure = connection::Secure<'a>,
    ConnectionSecureOk = connection::SecureOk<'a>,
    ConnectionTune = connection::Tune,
    ConnectionTuneOk = connection::TuneOk,
    ConnectionOpen = connection::Open<'a>,
    ConnectionOpenOk = connection::OpenOk<'a>,
    ConnectionClose = connection::Close<'a>,
    ConnectionCloseOk = connection::CloseOk,
    ConnectionBlocked = connection::Blocked<'a>,
    ConnectionUnblocked = connection::Unblocked,
    ConnectionUpdateSecret = connection::UpdateSecret<'a>,
    ConnectionUpdateSecretOk = connection::UpdateSecretOk,
    ChannelOpen = channel::Open<'a>,
    ChannelOpenOk = channel::OpenOk<'a>,
    ChannelFlow = channel::Flow,
    ChannelFlowOk = channel::FlowOk,
    ChannelClose = channel::Close<'a>,
    ChannelCloseOk = channel::CloseOk,
    AccessRequest = access::Request<'a>,
    AccessRequestOk = access::RequestOk,
    ExchangeDeclare = exchange::Declare<'a>,
    ExchangeDeclareOk = exchange::DeclareOk,
    ExchangeDelete = exchange::Delete<'a>,
    ExchangeDeleteOk = exchange::DeleteOk,
    ExchangeBind = exchange::Bind<'a>,
    ExchangeBindOk = exchange::BindOk,
    ExchangeUnbind = exchange::Unbind<'a>,
    ExchangeUnbindOk = exchange::UnbindOk,
    QueueDeclare = queue::Declare<'a>,
    QueueDeclareOk = queue::DeclareOk<'a>,
    QueueBind = queue::Bind<'a>,
    QueueBindOk = queue::BindOk,
    QueuePurge = queue::Purge<'a>,
    QueuePurgeOk = queue::PurgeOk,
    QueueDelete = queue::Delete<'a>,
    QueueDeleteOk = queue::DeleteOk,
    QueueUnbind = queue::Unbind<'a>,
    QueueUnbindOk = queue::UnbindOk,
    BasicQos = basic::Qos,
    BasicQosOk = basic::QosOk,
    BasicConsume = basic::Consume<'a>,
    BasicConsumeOk = basic::ConsumeOk<'a>,
    BasicCancel = basic::Cancel<'a>,
    BasicCancelOk = basic::CancelOk<'a>,
    BasicPublish = basic::Publish<'a>,
    BasicReturn = basic::Return<'a>,
    BasicDeliver = basic::Deliver<'a>,
    BasicGet = basic::Get<'a>,
    BasicGetOk = basic::GetOk<'a>,
    BasicGetEmpty = basic::GetEmpty<'a>,
    BasicAck = basic::Ack,
    BasicReject = basic::Reject,
    BasicRecoverAsync = basic::RecoverAsync,
    BasicRecover = basic::Recover,
    BasicRecoverOk = basic::RecoverOk,
    BasicNack = basic::Nack,
    ConfirmSelect = confirm::Select,
    ConfirmSelectOk = confirm::SelectOk,
    TxSelect = tx::Select,
    TxSelectOk = tx::SelectOk,
    TxCommit = tx::Commit,
    TxCommitOk = tx::CommitOk,
    TxRollback = tx::Rollback,
    TxRollbackOk = tx::RollbackOk,
}

/// basic.publish, which comes once per message, decoded without a detour over [`Method`]: that is large, and a value of it that is
/// written field by field and copied as a whole costs more than reading the fields.
///
/// `None` if the payload is another method's, or cannot be decoded; [`Method::decode`] says which.
#[inline]
#[must_use]
pub fn decode_publish(payload: &[u8]) -> Option<basic::Publish<'_>> {
    let (key, fields) = payload.split_first_chunk::<4>()?;
    if u32::from_be_bytes(*key) != basic::Publish::KEY {
        return None;
    }
    let mut reader = Reader::new(fields);
    let publish = basic::Publish::read(&mut reader)?;
    reader.is_empty().then_some(publish)
}

const fn ids(key: u32) -> (u16, u16) {
    ((key >> 16) as u16, (key & 0xFFFF) as u16)
}

#[inline]
fn decode_fields<'a, M: MethodFields<'a>>(
    fields: &'a [u8],
    key: u32,
    carries_content: bool,
) -> Result<M, MethodError> {
    let mut reader = Reader::new(fields);
    let (class_id, method_id) = ids(key);
    let method = match M::read(&mut reader) {
        Some(method) if reader.is_empty() => method,
        _ => return Err(MethodError::Malformed { class_id, method_id }),
    };
    if !carries_content && let Err(error) = method.check() {
        return Err(match error {
            FieldError::NotUtf8 => MethodError::BadUtf8 { class_id, method_id },
            FieldError::Table(error) => MethodError::BadTable { class_id, method_id, error },
        });
    }
    Ok(method)
}
