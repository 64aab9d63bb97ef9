//! A connection of MQTT that never blocks: packets come out of read bytes, and written bytes wait until the socket takes them.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use anyhow::{Context, Result, anyhow, bail};
use wire::mqtt::{Connect, Packet, Parsed, Properties, Property, Version, parse_frame};

use crate::io::{Poller, Want};

/// Largest packet that is read.
const PACKET_BYTES_MAX: usize = 64 << 20;
/// How long a session that is persistent outlives its connection, seconds.
const EXPIRY_S: u32 = 3600;

/// The address of a broker, and the client's login.
#[derive(Clone, Debug)]
pub(super) struct Place {
    address: String,
    user: String,
    password: String,
}

impl Place {
    /// # Errors
    /// The address does not begin with `mqtt://`.
    pub(super) fn of(uri: &str) -> Result<Self> {
        let rest = uri.strip_prefix("mqtt://").with_context(|| format!("{uri} is no mqtt:// address"))?;
        let rest = rest.split('/').next().unwrap_or_default();
        let (login, address) = rest.rsplit_once('@').unwrap_or(("guest:guest", rest));
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        let has_port = address.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let address = if has_port { address.to_owned() } else { format!("{address}:1883") };
        Ok(Self { address, user: user.to_owned(), password: password.to_owned() })
    }
}

/// A connection.
pub(super) struct Client {
    pub(super) socket: TcpStream,
    pub(super) version: Version,
    /// Begin of a packet that is not whole.
    rest: Vec<u8>,
    /// Bytes on their way out.
    pub(super) output: Vec<u8>,
    written: usize,
    awaits_room: bool,
}

impl Client {
    /// Connects, and asks for the session of this name.
    ///
    /// # Errors
    /// Nobody listens there.
    pub(super) fn open(
        place: &Place,
        version: Version,
        client_id: &str,
        is_persistent: bool,
    ) -> Result<Self> {
        let address = &place.address;
        let socket = TcpStream::connect(address).with_context(|| format!("cannot connect to {address}"))?;
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        let expiry = [Property::SessionExpiryInterval(EXPIRY_S)];
        let has_expiry = is_persistent && version == Version::V5;
        let connect = Connect {
            version,
            clean_start: !is_persistent,
            keep_alive_s: 0,
            properties: if has_expiry { Properties::of(&expiry) } else { Properties::EMPTY },
            client_id,
            will: None,
            user_name: (!place.user.is_empty()).then_some(&place.user),
            password: (!place.user.is_empty()).then_some(place.password.as_bytes()),
        };
        let mut output = Vec::new();
        Packet::Connect(connect).encode(version, &mut output);
        Ok(Self { socket, version, rest: Vec::new(), output, written: 0, awaits_room: false })
    }

    /// Adds a packet to what is written next.
    pub(super) fn write(&mut self, packet: &Packet<'_>) {
        packet.encode(self.version, &mut self.output);
    }

    /// Writes as much as the socket takes, and has the poller watch for room if that is not all.
    ///
    /// # Errors
    /// The broker has ended the connection.
    pub(super) fn flush(&mut self, poller: &Poller, token: usize) -> Result<()> {
        while self.written < self.output.len() {
            match self.socket.write(&self.output[self.written..]) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
        }
        let is_done = self.written == self.output.len();
        if is_done {
            self.written = 0;
            self.output.clear();
            // Of many clients each that waits should be small.
            self.output.shrink_to(512);
        }
        if self.awaits_room == is_done {
            self.awaits_room = !is_done;
            poller.change(&self.socket, token, if is_done { Want::Read } else { Want::ReadWrite })?;
        }
        Ok(())
    }

    /// Whether all that was to be written is.
    pub(super) fn is_flushed(&self) -> bool {
        self.output.is_empty()
    }

    /// Reads once through the buffer, and hands over the packets that are whole then.
    ///
    /// # Errors
    /// The broker ends the connection, or says something that is no packet.
    pub(super) fn read(
        &mut self,
        buffer: &mut [u8],
        mut each: impl FnMut(&mut Vec<u8>, &Packet<'_>) -> Result<()>,
    ) -> Result<()> {
        let count = match self.socket.read(buffer) {
            Ok(0) => bail!("the broker has ended the connection"),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let mut rest = std::mem::take(&mut self.rest);
        let bytes = if rest.is_empty() {
            &buffer[..count]
        } else {
            rest.extend_from_slice(&buffer[..count]);
            &rest
        };
        let mut at = 0;
        while let Parsed::Complete { frame, consumed } = parse_frame(&bytes[at..], PACKET_BYTES_MAX)? {
            let packet = Packet::decode(&frame, self.version).map_err(|error| anyhow!("{error}"))?;
            if let Packet::Disconnect(end) = packet {
                bail!("the broker disconnects with reason {:#04x}", end.reason_code);
            }
            each(&mut self.output, &packet)?;
            at += consumed;
        }
        self.rest = bytes[at..].to_vec();
        Ok(())
    }
}
