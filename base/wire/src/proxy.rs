//! The PROXY protocol, versions 1 and 2: a load balancer says whose connection it passes on.
//!
//! Source: "The PROXY protocol", HAProxy. No I/O and no state: [`needed`] says how many bytes make the next step, and
//! [`parse`] reads a whole header.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Longest header of version 1 with its line end, bytes.
const LINE_BYTES_MAX: usize = 107;

/// The bytes that version 2 begins with.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";

/// Bytes of a header of version 2 before its addresses.
const HEAD_BYTES: usize = 16;

/// Longest header of version 2 that is taken, bytes: addresses and extensions. Real ones have some hundred bytes.
const BYTES_MAX: usize = 4096;

/// Bytes that tell a header from what a client without one sends: as many as `PROXY ` has.
pub const START_BYTES: usize = 6;

/// The client of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proxied {
    /// The client's address and the one that it connected to.
    Addresses {
        /// The client.
        source: SocketAddr,
        /// The address that the client connected to.
        destination: SocketAddr,
    },
    /// The proxy's own connection, such as a health check, or one whose addresses it does not tell.
    Local,
}

/// Why a header is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProxyError {
    /// It begins as no header does.
    #[error("no PROXY protocol header")]
    Missing,
    /// It breaks the rules.
    #[error("malformed PROXY protocol header")]
    Malformed,
    /// It is longer than is taken.
    #[error("PROXY protocol header is too long")]
    TooLong,
}

/// The number of bytes to read after `bytes`, the beginning of a header of at least [`START_BYTES`].
///
/// # Errors
/// It is no header, or one that is too long.
pub fn needed(bytes: &[u8]) -> Result<usize, ProxyError> {
    if bytes.starts_with(&SIGNATURE) || SIGNATURE.starts_with(bytes) {
        let Some(head) = bytes.first_chunk::<HEAD_BYTES>() else {
            return Ok(HEAD_BYTES.saturating_sub(bytes.len()));
        };
        let length = HEAD_BYTES + usize::from(u16::from_be_bytes([head[14], head[15]]));
        if length > BYTES_MAX {
            return Err(ProxyError::TooLong);
        }
        return Ok(length.saturating_sub(bytes.len()));
    }
    if !bytes.starts_with(b"PROXY ") {
        return Err(ProxyError::Missing);
    }
    if bytes.ends_with(b"\r\n") {
        return Ok(0);
    }
    // Byte for byte: the bytes after the line are the client's.
    if bytes.len() >= LINE_BYTES_MAX { Err(ProxyError::TooLong) } else { Ok(1) }
}

/// Reads a whole header.
///
/// # Errors
/// It breaks the rules.
pub fn parse(bytes: &[u8]) -> Result<Proxied, ProxyError> {
    match bytes.strip_prefix(&SIGNATURE) {
        Some(rest) => parse_binary(rest),
        None => parse_line(bytes),
    }
}

fn parse_line(bytes: &[u8]) -> Result<Proxied, ProxyError> {
    let line = bytes.strip_suffix(b"\r\n").ok_or(ProxyError::Malformed)?;
    let line = std::str::from_utf8(line).map_err(|_| ProxyError::Malformed)?;
    let mut words = line.split(' ');
    if words.next() != Some("PROXY") {
        return Err(ProxyError::Missing);
    }
    let family = words.next().ok_or(ProxyError::Malformed)?;
    if family == "UNKNOWN" {
        return Ok(Proxied::Local);
    }
    let mut word = || words.next().ok_or(ProxyError::Malformed);
    let (source, destination) = (word()?, word()?);
    let (source_port, destination_port) = (word()?, word()?);
    let address = |text: &str, port: &str| {
        let ip: IpAddr = text.parse().map_err(|_| ProxyError::Malformed)?;
        let fits = matches!((family, ip), ("TCP4", IpAddr::V4(_)) | ("TCP6", IpAddr::V6(_)));
        let port: u16 = port.parse().map_err(|_| ProxyError::Malformed)?;
        if fits { Ok(SocketAddr::new(ip, port)) } else { Err(ProxyError::Malformed) }
    };
    let source = address(source, source_port)?;
    let destination = address(destination, destination_port)?;
    if words.next().is_some() {
        return Err(ProxyError::Malformed);
    }
    Ok(Proxied::Addresses { source, destination })
}

/// Behind the signature.
fn parse_binary(bytes: &[u8]) -> Result<Proxied, ProxyError> {
    let [version_and_command, family, length_high, length_low, rest @ ..] = bytes else {
        return Err(ProxyError::Malformed);
    };
    let length = usize::from(u16::from_be_bytes([*length_high, *length_low]));
    if rest.len() != length || version_and_command >> 4 != 2 {
        return Err(ProxyError::Malformed);
    }
    match version_and_command & 0xF {
        0 => return Ok(Proxied::Local),
        1 => {}
        _ => return Err(ProxyError::Malformed),
    }
    let port = |at: usize| u16::from_be_bytes([rest[at], rest[at + 1]]);
    match family >> 4 {
        1 if length >= 12 => {
            let ip = |at: usize| Ipv4Addr::new(rest[at], rest[at + 1], rest[at + 2], rest[at + 3]);
            Ok(Proxied::Addresses {
                source: SocketAddr::new(ip(0).into(), port(8)),
                destination: SocketAddr::new(ip(4).into(), port(10)),
            })
        }
        2 if length >= 36 => {
            let ip = |at: usize| {
                let bytes: [u8; 16] = rest[at..at + 16].try_into().expect("16 bytes");
                Ipv6Addr::from(bytes)
            };
            Ok(Proxied::Addresses {
                source: SocketAddr::new(ip(0).into(), port(32)),
                destination: SocketAddr::new(ip(16).into(), port(34)),
            })
        }
        1 | 2 => Err(ProxyError::Malformed),
        // Sockets of Unix, and families that nobody has defined: as if nothing was told.
        _ => Ok(Proxied::Local),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads as a socket's reader does, and says what stays behind the header.
    fn read(input: &[u8]) -> Result<(Proxied, &[u8]), ProxyError> {
        let mut length = START_BYTES.min(input.len());
        loop {
            match needed(&input[..length])? {
                0 => break,
                more if length + more <= input.len() => length += more,
                _ => return Err(ProxyError::Malformed),
            }
        }
        Ok((parse(&input[..length])?, &input[length..]))
    }

    fn addresses(source: &str, destination: &str) -> Proxied {
        Proxied::Addresses { source: source.parse().unwrap(), destination: destination.parse().unwrap() }
    }

    #[test]
    fn lines_are_read_up_to_their_end() {
        let four = b"PROXY TCP4 192.168.0.1 10.0.0.1 56324 5672\r\nAMQP\0\0\x09\x01";
        let expected = addresses("192.168.0.1:56324", "10.0.0.1:5672");
        assert_eq!(read(four), Ok((expected, &b"AMQP\0\0\x09\x01"[..])));
        let six = b"PROXY TCP6 2001:db8::1 ::1 1 65535\r\n";
        assert_eq!(read(six), Ok((addresses("[2001:db8::1]:1", "[::1]:65535"), &b""[..])));
        assert_eq!(read(b"PROXY UNKNOWN\r\nA"), Ok((Proxied::Local, &b"A"[..])));
        assert_eq!(read(b"PROXY UNKNOWN ffff:: ffff:: 65535 65535\r\n"), Ok((Proxied::Local, &b""[..])));
    }

    #[test]
    fn binary_headers_may_have_extensions() {
        let mut header = SIGNATURE.to_vec();
        header.extend([0x21, 0x11, 0, 15, 127, 0, 0, 1, 10, 0, 0, 9, 0x30, 0x39, 0x16, 0x28, 4, 0, 0]);
        header.extend(b"rest");
        assert_eq!(read(&header), Ok((addresses("127.0.0.1:12345", "10.0.0.9:5672"), &b"rest"[..])));
        header[12] = 0x20;
        assert_eq!(read(&header), Ok((Proxied::Local, &b"rest"[..])));
        let mut six = SIGNATURE.to_vec();
        six.extend([0x21, 0x21, 0, 36]);
        six.extend([0; 15]);
        six.push(1);
        six.extend([0; 15]);
        six.extend([2, 0, 1, 0, 2]);
        assert_eq!(read(&six), Ok((addresses("[::1]:1", "[::2]:2"), &b""[..])));
    }

    #[test]
    fn what_is_no_header_is_refused() {
        // A client of AMQP sends eight bytes and waits.
        assert_eq!(needed(b"AMQP\0\0"), Err(ProxyError::Missing));
        assert_eq!(needed(b"\r\n\r\n\0\n"), Err(ProxyError::Missing));
        assert_eq!(read(b"AMQP\0\0\x09\x01 and more"), Err(ProxyError::Missing));
        assert_eq!(read(b"PROXY TCP4 1.2.3.4 ::1 1 2\r\n"), Err(ProxyError::Malformed));
        assert_eq!(read(b"PROXY TCP4 1.2.3.4 1.2.3.4 1 66000\r\n"), Err(ProxyError::Malformed));
        assert_eq!(read(b"PROXY TCP4 1.2.3.4 1.2.3.4 1 2 3\r\n"), Err(ProxyError::Malformed));
        assert_eq!(read(&[b"PROXY ".as_slice(), &[b'x'; 200]].concat()), Err(ProxyError::TooLong));
        let long = [&SIGNATURE[..], &[0x21, 0x11, 0xFF, 0xFF]].concat();
        assert_eq!(read(&long), Err(ProxyError::TooLong));
        let short = [&SIGNATURE[..], &[0x21, 0x11, 0, 4, 1, 2, 3, 4]].concat();
        assert_eq!(read(&short), Err(ProxyError::Malformed));
        let third = [&SIGNATURE[..], &[0x31, 0x11, 0, 0]].concat();
        assert_eq!(read(&third), Err(ProxyError::Malformed));
    }
}
