//! URIs of shovels: `amqp://user:password@host:port/vhost?heartbeat=10&connection_timeout=5000`. Without a host it is this node.
//! `amqps` is encrypted; `verify`, `cacertfile`, `certfile`, `keyfile`, `password` and `server_name_indication` say how.
//!
//! Refuses to know what is connected. Texts of problems are RabbitMQ's terms.

use std::fmt::Write as _;

use stdx::Secret;
use tls::{ClientOptions, Verify};

/// Port when a URI names none.
const PORT: u16 = 5672;

/// The same of `amqps`.
const TLS_PORT: u16 = 5671;

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
    /// How the connection is encrypted; `None` if it is not.
    pub tls: Option<TlsOptions>,
    shown: String,
}

/// How a connection of `amqps` is encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsOptions {
    /// Files and rules. The server's certificate is checked unless the URI says `verify=verify_none`.
    pub files: ClientOptions,
    /// The name that is checked and sent as SNI; the host where `None`.
    pub server_name: Option<String>,
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
    /// `amqps` without a host: this node is reached without a socket.
    #[error("amqps:// needs a host: amqp:// reaches this node without a socket")]
    NoHost,
    /// Neither `verify_peer` nor `verify_none`.
    #[error("verify is verify_peer or verify_none, not \"{0}\"")]
    Verify(String),
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
        let tls = match scheme.to_ascii_lowercase().as_str() {
            "amqp" => None,
            "amqps" => {
                let files = ClientOptions { verify: Verify::Peer, ..ClientOptions::default() };
                Some(TlsOptions { files, server_name: None })
            }
            _ => return Err(UriProblem::Scheme(scheme.to_owned())),
        };
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
            place: place_of(place, if tls.is_some() { TLS_PORT } else { PORT })?,
            login: login.transpose()?,
            vhost: if vhost.is_empty() { None } else { Some(decoded(vhost)?) },
            heartbeat_s: None,
            connection_timeout_ms: None,
            shown: format!("{}://{place}{path}", if tls.is_some() { "amqps" } else { "amqp" }),
            tls,
        };
        if uri.tls.is_some() && uri.place.is_none() {
            return Err(UriProblem::NoHost);
        }
        for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            uri.parameter(name, value)?;
        }
        Ok(uri)
    }

    fn parameter(&mut self, name: &str, value: &str) -> Result<(), UriProblem> {
        let not_an_integer = || UriProblem::NotAnInteger { name: name.to_owned(), value: value.to_owned() };
        match name {
            "heartbeat" => {
                // A number out of range becomes the nearest that can be asked for.
                let seconds: i64 = value.parse().map_err(|_| not_an_integer())?;
                self.heartbeat_s = Some(u16::try_from(seconds.max(0)).unwrap_or(u16::MAX));
            }
            "connection_timeout" => {
                self.connection_timeout_ms = Some(value.parse().map_err(|_| not_an_integer())?);
            }
            _ => return self.tls_parameter(name, value),
        }
        Ok(())
    }

    /// Takes a parameter of encryption; other parameters are passed over, as in RabbitMQ.
    fn tls_parameter(&mut self, name: &str, value: &str) -> Result<(), UriProblem> {
        let Some(tls) = &mut self.tls else { return Ok(()) };
        let value = decoded(value)?;
        match name {
            "cacertfile" => tls.files.ca_file = Some(value.into()),
            "certfile" => tls.files.certificate_file = Some(value.into()),
            "keyfile" => tls.files.key_file = Some(value.into()),
            "password" => tls.files.password = Some(Secret::new(value)),
            "server_name_indication" => tls.server_name = Some(value),
            "verify" => {
                tls.files.verify = match value.as_str() {
                    "verify_peer" => Verify::Peer,
                    "verify_none" => Verify::None,
                    _ => return Err(UriProblem::Verify(value)),
                }
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
fn place_of(text: &str, default_port: u16) -> Result<Option<(String, u16)>, UriProblem> {
    if text.is_empty() {
        return Ok(None);
    }
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) => (host, rest.strip_prefix(':')),
        None => text.rsplit_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let port = match port {
        None | Some("") => default_port,
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
        assert!(problem("amqps://").contains("needs a host"));
        assert!(problem("amqps://h?verify=maybe").contains("verify_peer"));
    }

    #[test]
    fn encrypted_places_are_verified_unless_the_uri_says_otherwise() {
        let uri =
            Uri::parse("amqps://u:p@host/v?cacertfile=%2Fetc%2Fca.pem&server_name_indication=other").unwrap();
        assert_eq!(uri.place, Some(("host".into(), 5671)));
        assert_eq!(uri.shown(), "amqps://host/v");
        let tls = uri.tls.unwrap();
        assert_eq!((tls.files.verify, tls.server_name.as_deref()), (Verify::Peer, Some("other")));
        assert_eq!(tls.files.ca_file.unwrap().to_str(), Some("/etc/ca.pem"));
        let trusting = Uri::parse("amqps://host?verify=verify_none&certfile=c&keyfile=k&password=x")
            .unwrap()
            .tls
            .unwrap();
        assert_eq!(trusting.files.verify, Verify::None);
        assert!(!format!("{trusting:?}").contains("\"x\""));
    }
}
