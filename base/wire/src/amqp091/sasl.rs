//! SASL responses of the mechanisms PLAIN and AMQPLAIN.
//!
//! Refuses to know users and passwords beyond their bytes; comparing them is the broker's business.

use super::table::{TABLE_DEPTH_MAX, Table};
use super::table_buf::TableBuf;
use super::value::Value;

/// The credentials that a client presents.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Credentials<'a> {
    /// User name.
    pub user: &'a [u8],
    /// Password.
    pub password: &'a [u8],
}

/// Keeps the password out of logs.
impl std::fmt::Debug for Credentials<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Credentials {{ user: \"{}\", .. }}", self.user.escape_ascii())
    }
}

/// A response that carries no credentials; RabbitMQ: 502 SYNTAX_ERROR (B13).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SaslError {
    /// Not laid out as the mechanism demands.
    #[error("malformed SASL response")]
    Malformed,
    /// AMQPLAIN without `LOGIN` or `PASSWORD`.
    #[error("AMQPLAIN response without LOGIN or PASSWORD")]
    MissingField,
    /// AMQPLAIN with a `LOGIN` or `PASSWORD` that is no long string.
    #[error("AMQPLAIN response whose LOGIN or PASSWORD is not a string")]
    UnsupportedType,
}

/// Reads a PLAIN response: `NUL user NUL password`. An authorization id or a third NUL is refused (B13).
///
/// # Errors
/// [`SaslError::Malformed`].
pub fn parse_plain(response: &[u8]) -> Result<Credentials<'_>, SaslError> {
    let [0, rest @ ..] = response else { return Err(SaslError::Malformed) };
    let split = memchr::memchr(0, rest).ok_or(SaslError::Malformed)?;
    let (user, password) = (&rest[..split], &rest[split + 1..]);
    if memchr::memchr(0, password).is_some() {
        return Err(SaslError::Malformed);
    }
    Ok(Credentials { user, password })
}

/// Reads an AMQPLAIN response: the entries of a table with `LOGIN` and `PASSWORD`, without the length in front
/// (B14). Other entries are ignored; of several with one name the first counts.
///
/// # Errors
/// See [`SaslError`].
pub fn parse_amqplain(response: &[u8]) -> Result<Credentials<'_>, SaslError> {
    let table = Table::from_raw(response);
    table.validate(TABLE_DEPTH_MAX).map_err(|_| SaslError::Malformed)?;
    let field = |name: &str| match table.get(name) {
        Some(Value::LongStr(bytes)) => Ok(bytes),
        Some(_) => Err(SaslError::UnsupportedType),
        None => Err(SaslError::MissingField),
    };
    Ok(Credentials { user: field("LOGIN")?, password: field("PASSWORD")? })
}

/// The PLAIN response for these credentials.
#[must_use]
pub fn encode_plain(credentials: Credentials<'_>) -> Vec<u8> {
    [&[0], credentials.user, &[0], credentials.password].concat()
}

/// The AMQPLAIN response for these credentials.
#[must_use]
pub fn encode_amqplain(credentials: Credentials<'_>) -> Vec<u8> {
    let mut table = TableBuf::new();
    table.push_str("LOGIN", credentials.user).push_str("PASSWORD", credentials.password);
    table.into_raw()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GUEST: Credentials<'_> = Credentials { user: b"guest", password: b"secret" };

    #[test]
    fn plain_is_two_strings_each_behind_a_nul() {
        assert_eq!(parse_plain(b"\0guest\0secret"), Ok(GUEST));
        assert_eq!(parse_plain(&encode_plain(GUEST)), Ok(GUEST));
        assert_eq!(parse_plain(b"\0\0"), Ok(Credentials { user: b"", password: b"" }));
        for malformed in [&b""[..], b"\0", b"\0guest", b"admin\0guest\0secret", b"\0guest\0secret\0"] {
            assert_eq!(parse_plain(malformed), Err(SaslError::Malformed));
        }
    }

    #[test]
    fn amqplain_is_a_table_without_its_length() {
        let response = encode_amqplain(GUEST);
        assert_eq!(response, b"\x05LOGINS\0\0\0\x05guest\x08PASSWORDS\0\0\0\x06secret");
        assert_eq!(parse_amqplain(&response), Ok(GUEST));
        assert_eq!(parse_amqplain(b""), Err(SaslError::MissingField));
        assert_eq!(parse_amqplain(b"\x05LOGINS\0\0\0\x05guest"), Err(SaslError::MissingField));
        assert_eq!(parse_amqplain(b"\x05LOGINV\x08PASSWORDV"), Err(SaslError::UnsupportedType));
        assert_eq!(parse_amqplain(b"\0guest\0secret"), Err(SaslError::Malformed));
    }

    #[test]
    fn the_password_is_not_printed() {
        assert!(!format!("{GUEST:?}").contains("secret"));
    }
}
