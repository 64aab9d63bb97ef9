//! URIs of shovels: `amqp://user:password@host:port/vhost?heartbeat=10&connection_timeout=5000`. Without a host it is this node.
//!
//! Refuses to know what is connected. Texts of problems are RabbitMQ's terms.

use std::fmt::Write as _;

/// Port when a URI names none.
const PORT: u16 = 5672;

/// Where one side of a shovel is.
#[derive(Clone, PartialEq, Eq)]
pub struct Uri {
    /// Host and port; `None` is this node.
    pub place: Option<(String, u16)>,
    /// User and password, if the URI has them.
    pub login: Option<(String, String)>,
    /// Virtual host, if the URI names one.
    pub vhost: Option<String>,
    /// Heartbeat asked for, seconds; 0 is none.
    pub heartbeat_s: Option<u16>,
    /// Longest attempt to connect, milliseconds.
    pub connection_timeout_ms: Option<u64>,
    shown: String,
}

/// Passwords stay where they are.
impl std::fmt::Debug for Uri {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Uri({})", self.shown)
    }
}

/// Why a text is no URI of a shovel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UriProblem {
    /// No `scheme://`.
    #[error("{{unable_to_parse_uri,no_scheme}}")]
    NoScheme,
    /// Neither `amqp` nor `amqps`.
    #[error("{{unexpected_uri_scheme,\"{0}\"}}")]
    Scheme(String),
    /// `amqps`: this build has no TLS.
    #[error("Warren has no TLS yet: use amqp://, inside a tunnel or a private network")]
    NoTls,
    /// The port is above 65535, or no number.
    #[error("{{port_out_of_range,{0}}}")]
    Port(String),
    /// A percent sign without two hexadecimal digits behind it.
    #[error("{{invalid_entitiy,{0}}}")]
    Escape(String),
    /// More than one segment in the path.
    #[error("{{invalid_vhost,\"{0}\"}}")]
    Vhost(String),
    /// A parameter that should be a whole number.
    #[error(
        "{{invalid_amqp_params_parameter,{name},\"{value}\",[{{\"{name}\",\"{value}\"}}],{{not_an_integer,\"{value}\"}}}}"
    )]
    NotAnInteger {
        /// Name of the parameter.
        name: String,
        /// Its value.
        value: String,
    },
}

impl Uri {
    /// Reads a URI.
    ///
    /// # Errors
    /// See [`UriProblem`].
    pub fn parse(text: &str) -> Result<Uri, UriProblem> {
        let (scheme, rest) = text.split_once("://").ok_or(UriProblem::NoScheme)?;
        match scheme.to_ascii_lowercase().as_str() {
            "amqp" => {}
            "amqps" => return Err(UriProblem::NoTls),
            _ => return Err(UriProblem::Scheme(scheme.to_owned())),
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (login, place) =
            authority.rsplit_once('@').map_or((None, authority), |(login, place)| (Some(login), place));
        let login = login.filter(|login| !login.is_empty()).map(|login| {
            let (user, password) = login.split_once(':').unwrap_or((login, ""));
            Ok((decoded(user)?, decoded(password)?))
        });
        let vhost = path.trim_matches('/');
        if vhost.contains('/') {
            return Err(UriProblem::Vhost(vhost.to_owned()));
        }
        let mut uri = Uri {
            place: place_of(place)?,
            login: login.transpose()?,
            vhost: if vhost.is_empty() { None } else { Some(decoded(vhost)?) },
            heartbeat_s: None,
            connection_timeout_ms: None,
            shown: format!("amqp://{place}{path}"),
        };
        for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            uri.parameter(name, value)?;
        }
        Ok(uri)
    }

    fn parameter(&mut self, name: &str, value: &str) -> Result<(), UriProblem> {
        let not_an_integer = || UriProblem::NotAnInteger { name: name.to_owned(), value: value.to_owned() };
        match name {
            "heartbeat" => {
                // What is out of range is the nearest that can be asked for.
                let seconds: i64 = value.parse().map_err(|_| not_an_integer())?;
                self.heartbeat_s = Some(u16::try_from(seconds.max(0)).unwrap_or(u16::MAX));
            }
            "connection_timeout" => {
                self.connection_timeout_ms = Some(value.parse().map_err(|_| not_an_integer())?);
            }
            _ => {}
        }
        Ok(())
    }

    /// The URI without user, password and parameters, for listings, logs and headers.
    #[must_use]
    pub fn shown(&self) -> &str {
        &self.shown
    }
}

/// Host and port of `host`, `host:port`, `[v6]:port`; nothing is this node.
fn place_of(text: &str) -> Result<Option<(String, u16)>, UriProblem> {
    if text.is_empty() {
        return Ok(None);
    }
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) => (host, rest.strip_prefix(':')),
        None => text.rsplit_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let port = match port {
        None | Some("") => PORT,
        Some(port) => {
            let number = port.parse().ok().filter(|number| *number > 0);
            number.ok_or_else(|| UriProblem::Port(port.to_owned()))?
        }
    };
    Ok(Some((decoded(host)?, port)))
}

fn decoded(text: &str) -> Result<String, UriProblem> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = behind.get(..2).and_then(|pair| std::str::from_utf8(pair).ok());
        let byte = digits.and_then(|pair| u8::from_str_radix(pair, 16).ok());
        let Some(byte) = byte else {
            let mut term = String::from("['%'");
            for one in behind.iter().take(2) {
                let _ = write!(term, ",{one}");
            }
            return Err(UriProblem::Escape(term + "]"));
        };
        bytes.push(byte);
        rest = &behind[2..];
    }
    String::from_utf8(bytes).map_err(|_| UriProblem::Escape("not_utf8".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_read_and_credentials_are_not_shown() {
        let uri =
            Uri::parse("amqp://al%40ice:se:c%2Fret@host:5673/%2fv?heartbeat=7&connection_timeout=900&x=y")
                .unwrap();
        assert_eq!(uri.place, Some(("host".into(), 5673)));
        assert_eq!(uri.login, Some(("al@ice".into(), "se:c/ret".into())));
        assert_eq!(
            (uri.vhost.as_deref(), uri.heartbeat_s, uri.connection_timeout_ms),
            (Some("/v"), Some(7), Some(900))
        );
        assert_eq!(uri.shown(), "amqp://host:5673/%2fv");
        assert!(!format!("{uri:?}").contains("ret"));
    }

    #[test]
    fn what_is_left_out_has_defaults() {
        let here = Uri::parse("amqp://").unwrap();
        assert_eq!((here.place, here.login, here.vhost), (None, None, None));
        assert_eq!(Uri::parse("amqp:///v").unwrap().vhost.as_deref(), Some("v"));
        assert_eq!(Uri::parse("amqp://h/").unwrap().vhost, None);
        assert_eq!(Uri::parse("amqp://[::1]:7").unwrap().place, Some(("::1".into(), 7)));
        assert_eq!(Uri::parse("amqp://[::1]").unwrap().place, Some(("::1".into(), 5672)));
    }

    #[test]
    fn problems_have_rabbitmqs_terms() {
        let problem = |text: &str| Uri::parse(text).unwrap_err().to_string();
        assert_eq!(problem("nonsense"), "{unable_to_parse_uri,no_scheme}");
        assert_eq!(problem("http://x"), "{unexpected_uri_scheme,\"http\"}");
        assert_eq!(problem("amqp://h:99999999"), "{port_out_of_range,99999999}");
        assert_eq!(problem("amqp://%zz@h"), "{invalid_entitiy,['%',122,122]}");
        assert_eq!(problem("amqp://h/a/b"), "{invalid_vhost,\"a/b\"}");
        assert!(problem("amqp://h?heartbeat=x").ends_with("{not_an_integer,\"x\"}}"));
        assert!(problem("amqps://h").contains("no TLS"));
    }
}
