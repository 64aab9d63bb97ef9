//! `amqp://` and `amqps://` addresses (RabbitMQ's URI specification).

use std::str::FromStr;

/// Where and as whom to connect.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Uri {
    /// Whether the connection is encrypted.
    pub(crate) scheme: Scheme,
    /// Host name or address.
    pub(crate) host: String,
    /// TCP port.
    pub(crate) port: u16,
    /// User name.
    pub(crate) user: String,
    /// Password.
    pub(crate) password: String,
    /// Name of the vhost. An empty path stands for `/`, not for the vhost with the empty name as the URI specification
    /// has it: nobody who ends an address with a slash means that.
    pub(crate) vhost: String,
}

/// The scheme before the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    /// In clear text.
    Amqp,
    /// Within TLS.
    Amqps,
}

impl Scheme {
    const fn name(self) -> &'static str {
        match self {
            Self::Amqp => "amqp",
            Self::Amqps => "amqps",
        }
    }

    const fn port(self) -> u16 {
        match self {
            Self::Amqp => 5672,
            Self::Amqps => 5671,
        }
    }
}

/// Keeps the password out of logs.
impl std::fmt::Debug for Uri {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}://{}:***@{}:{}/{}", self.scheme.name(), self.user, self.host, self.port, self.vhost)
    }
}

impl Uri {
    /// The address as it is given to a command.
    pub(crate) fn text(&self) -> String {
        let (user, password) = (escaped(&self.user), escaped(&self.password));
        format!("{}://{user}:{password}@{}", self.scheme.name(), self.place())
    }

    /// The address without the password, for reports; the usual user is left out.
    pub(crate) fn shown(&self) -> String {
        let user = if self.user == "guest" { String::new() } else { format!("{}@", escaped(&self.user)) };
        format!("{}://{user}{}", self.scheme.name(), self.place())
    }

    /// Whether the connection is encrypted.
    pub(crate) const fn is_encrypted(&self) -> bool {
        matches!(self.scheme, Scheme::Amqps)
    }

    fn place(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { escaped(&self.host) };
        let vhost = if self.vhost == "/" { String::new() } else { format!("/{}", escaped(&self.vhost)) };
        format!("{host}:{}{vhost}", self.port)
    }
}

/// Everything but letters, digits and a few signs as `%` and two digits.
pub(crate) fn escaped(text: &str) -> String {
    let escaped = text.bytes().map(|byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    });
    escaped.collect()
}

/// The fault of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UriError {
    /// It does not begin with `amqp://`.
    #[error("an address looks like amqp://guest:guest@127.0.0.1:5672/vhost")]
    Scheme,
    /// The port is no number below 65536.
    #[error("the port is not a number from 1 to 65535")]
    Port,
    /// A `%` that is not followed by two hexadecimal digits, or its text is not UTF-8.
    #[error("a % in an address is followed by two hexadecimal digits (%2F for a slash)")]
    Escape,
}

impl FromStr for Uri {
    type Err = UriError;

    fn from_str(text: &str) -> Result<Self, UriError> {
        let (scheme, rest) = text.trim().split_once("://").ok_or(UriError::Scheme)?;
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "amqp" => Scheme::Amqp,
            "amqps" => Scheme::Amqps,
            _ => return Err(UriError::Scheme),
        };
        let rest = rest.split('?').next().unwrap_or_default();
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, address) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        let (host, port) = host_and_port(address, scheme.port())?;
        let or = |text: &str, default: &str| unescape(if text.is_empty() { default } else { text });
        Ok(Self {
            scheme,
            host: or(host, "localhost")?,
            port,
            user: or(user, "guest")?,
            password: or(password, "guest")?,
            vhost: or(path, "/")?,
        })
    }
}

fn host_and_port(address: &str, default_port: u16) -> Result<(&str, u16), UriError> {
    let (host, port) = match address.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => (host, None),
        Some((host, port)) => (host, Some(port.strip_prefix(':').ok_or(UriError::Port)?)),
        None => address.split_once(':').map_or((address, None), |(host, port)| (host, Some(port))),
    };
    match port.map(str::parse) {
        None => Ok((host, default_port)),
        Some(Ok(port)) if port > 0 => Ok((host, port)),
        Some(_) => Err(UriError::Port),
    }
}

fn unescape(text: &str) -> Result<String, UriError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit =
            || rest.next().and_then(|digit| char::from(digit).to_digit(16)).ok_or(UriError::Escape);
        let code = digit()? * 16 + digit()?;
        bytes.push(u8::try_from(code).expect("two hexadecimal digits are below 256"));
    }
    String::from_utf8(bytes).map_err(|_| UriError::Escape)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> Result<(String, u16, String, String, String), UriError> {
        text.parse::<Uri>().map(|uri| (uri.host, uri.port, uri.user, uri.password, uri.vhost))
    }

    fn owned(
        host: &str,
        port: u16,
        user: &str,
        password: &str,
        vhost: &str,
    ) -> (String, u16, String, String, String) {
        (host.into(), port, user.into(), password.into(), vhost.into())
    }

    #[test]
    fn what_is_left_out_has_a_default() {
        assert_eq!(parts("amqp://localhost"), Ok(owned("localhost", 5672, "guest", "guest", "/")));
        assert_eq!(parts("amqp://h:1/"), Ok(owned("h", 1, "guest", "guest", "/")));
        assert_eq!(parts("amqp://u:p@h/v?heartbeat=1"), Ok(owned("h", 5672, "u", "p", "v")));
        assert_eq!(parts(" AMQP://u:p@h:7?heartbeat=1"), Ok(owned("h", 7, "u", "p", "/")));
    }

    #[test]
    fn escapes_and_ipv6_addresses_are_understood() {
        assert_eq!(parts("amqp://a%40b:c%3A@[::1]:7/%2Fx"), Ok(owned("::1", 7, "a@b", "c:", "/x")));
        assert_eq!(parts("amqp://[::1]"), Ok(owned("::1", 5672, "guest", "guest", "/")));
    }

    #[test]
    fn an_address_can_be_written_again() {
        for text in ["amqp://h", "amqps://h", "amqp://a%40b:c%3A@[::1]:7/%2Fx", "amqp://u:p@h:1/v"] {
            let uri: Uri = text.parse().unwrap();
            assert_eq!(uri.text().parse::<Uri>().unwrap(), uri, "{text}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        assert_eq!(parts("amqps://h"), Ok(owned("h", 5671, "guest", "guest", "/")));
        assert_eq!(parts("http://h"), Err(UriError::Scheme));
        assert_eq!(parts("amqp://h:0"), Err(UriError::Port));
        assert_eq!(parts("amqp://[::1]7"), Err(UriError::Port));
        assert_eq!(parts("amqp://h/%zz"), Err(UriError::Escape));
        assert_eq!(parts("amqp://h/%FF"), Err(UriError::Escape));
    }

    #[test]
    fn the_password_is_not_printed() {
        let uri: Uri = "amqp://u:secret@h".parse().unwrap();
        assert!(!format!("{uri:?}").contains("secret"));
    }
}
