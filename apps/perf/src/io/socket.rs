//! One non-blocking connection: bytes in through a buffer that the whole thread shares, bytes out in as few writes as
//! possible. Refuses to know what the frames mean.
//!
//! A connection owns only what is left over: the beginning of a frame that has not arrived in full, and bytes that the
//! socket had no room for. A thousand idle connections cost next to nothing.

use super::stream::Stream;
use anyhow::Result;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use wire::amqp091::{Frame, FrameError, Parsed, parse_frame};

/// Size of the buffer that the connections of a thread share: a cut-off frame of the largest size and a good read.
pub(crate) const BUFFER_BYTES: usize = 384 * 1024;
/// The largest frame payload accepted: RabbitMQ's default `frame_max` of 128 KiB, which is what we negotiate.
const PAYLOAD_BYTES_MAX: usize = 131_072;

/// The outcome of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// This many bytes; every whole frame among them was handed out.
    Bytes(usize),
    /// Nothing for now.
    Nothing,
    /// The peer has ended the connection.
    End,
}

/// A non-blocking connection with its left-over bytes of both directions.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: Stream,
    /// The beginning of a frame.
    rest: Vec<u8>,
    /// Bytes the socket had no room for, from `written` on.
    unsent: Vec<u8>,
    written: usize,
}

impl Socket {
    /// Takes a connection over, with bytes that were already read from it.
    ///
    /// # Errors
    /// The socket refuses to be made non-blocking.
    pub(crate) fn new(stream: Stream, rest: Vec<u8>) -> io::Result<Self> {
        stream.socket().set_nonblocking(true)?;
        stream.socket().set_nodelay(true)?;
        Ok(Self { stream, rest, unsent: Vec::new(), written: 0 })
    }

    /// The stream itself, for readiness and for closing.
    pub(crate) fn stream(&self) -> &TcpStream {
        self.stream.socket()
    }

    /// How many bytes wait for room. Encrypted ones that the socket has not taken count as one.
    pub(crate) fn unsent_bytes(&self) -> usize {
        self.unsent.len() - self.written + usize::from(self.stream.has_pending())
    }

    /// Writes these bytes, or keeps what there is no room for. Says whether all is out.
    ///
    /// # Errors
    /// The connection is broken.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<bool> {
        if self.unsent_bytes() > 0 {
            self.unsent.extend_from_slice(bytes);
            return self.flush();
        }
        let sent = write_some(&mut self.stream, bytes)?;
        self.unsent.extend_from_slice(&bytes[sent..]);
        Ok(self.unsent_bytes() == 0)
    }

    /// The bytes that wait for room, to append to; [`Socket::flush`] sends them.
    pub(crate) const fn outbox(&mut self) -> &mut Vec<u8> {
        &mut self.unsent
    }

    /// Writes what waits for room. Says whether all is out.
    ///
    /// # Errors
    /// The connection is broken.
    pub(crate) fn flush(&mut self) -> io::Result<bool> {
        if self.stream.has_pending() && !flush_some(&mut self.stream)? {
            return Ok(false);
        }
        let sent = write_some(&mut self.stream, &self.unsent[self.written..])?;
        self.written += sent;
        if self.written == self.unsent.len() {
            self.unsent.clear();
            self.written = 0;
            return Ok(!self.stream.has_pending());
        }
        // Sent bytes are cut off once they are most of the buffer, so that each byte moves once at most.
        if self.written > self.unsent.len() / 2 {
            self.unsent.drain(..self.written);
            self.written = 0;
        }
        Ok(false)
    }

    /// Ends the connection in both directions, so that the broker does not wait for an answer; unsent bytes are gone.
    pub(crate) fn end(&mut self) {
        // It may be at its end already.
        let _ = self.stream.socket().shutdown(Shutdown::Both);
        self.unsent.clear();
        self.written = 0;
    }

    /// The stream, received bytes that are no whole frame yet, and bytes that wait for room.
    pub(crate) fn into_parts(mut self) -> (Stream, Vec<u8>, Vec<u8>) {
        self.unsent.drain(..self.written);
        (self.stream, self.rest, self.unsent)
    }

    /// Reads once, at most `read_bytes_max`, into the thread's `buffer` (of [`BUFFER_BYTES`]). `parse` gets what was left
    /// over and what has arrived, and says how many bytes of it are done with: all up to a frame that is cut short.
    ///
    /// # Errors
    /// The connection is broken, or `parse` failed.
    pub(crate) fn receive(
        &mut self,
        buffer: &mut [u8],
        read_bytes_max: usize,
        parse: impl FnOnce(&[u8]) -> Result<usize>,
    ) -> Result<Received> {
        let kept = self.rest.len();
        buffer[..kept].copy_from_slice(&self.rest);
        let end = buffer.len().min(kept + read_bytes_max);
        let count = match self.stream.read(&mut buffer[kept..end]) {
            Ok(0) => return Ok(Received::End),
            Ok(count) => count,
            Err(error) if is_pause(&error) => return Ok(Received::Nothing),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(Received::End),
            Err(error) => return Err(error.into()),
        };
        let arrived = &buffer[..kept + count];
        let done = parse(arrived)?;
        self.rest.clear();
        self.rest.extend_from_slice(&arrived[done..]);
        Ok(Received::Bytes(count))
    }
}

/// The whole frame at the front, and the bytes it takes.
///
/// # Errors
/// It is malformed, or its payload is larger than was negotiated.
#[inline]
pub(crate) fn whole_frame(bytes: &[u8]) -> Result<Option<(Frame<'_>, usize)>, FrameError> {
    Ok(match parse_frame(bytes, PAYLOAD_BYTES_MAX)? {
        Parsed::Complete { frame, consumed } => Some((frame, consumed)),
        Parsed::Incomplete { .. } => None,
    })
}

/// Hands out every whole frame; says how many bytes they took.
///
/// # Errors
/// As [`whole_frame`], or `each` failed.
#[inline]
pub(crate) fn whole_frames(bytes: &[u8], mut each: impl FnMut(Frame<'_>) -> Result<()>) -> Result<usize> {
    let mut at = 0;
    while let Some((frame, taken)) = whole_frame(&bytes[at..])? {
        each(frame)?;
        at += taken;
    }
    Ok(at)
}

/// Writes once; a partial write means that there is no more room, so that trying again is left to readiness.
fn write_some(stream: &mut Stream, bytes: &[u8]) -> io::Result<usize> {
    if bytes.is_empty() {
        return Ok(0);
    }
    match stream.write(bytes) {
        Ok(0) => Err(ErrorKind::WriteZero.into()),
        Ok(count) => Ok(count),
        Err(error) if is_pause(&error) => Ok(0),
        Err(error) => Err(error),
    }
}

/// Writes encrypted bytes that wait; says whether all are out.
fn flush_some(stream: &mut Stream) -> io::Result<bool> {
    match stream.flush() {
        Ok(()) => Ok(!stream.has_pending()),
        Err(error) if is_pause(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

fn is_pause(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use wire::amqp091::{FRAME_BODY, write_frame};

    fn pair() -> (Socket, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        (Socket::new(Stream::Plain(near), Vec::new()).unwrap(), far)
    }

    #[test]
    fn frames_cut_anywhere_come_out_whole_and_in_order() {
        let (mut socket, mut far) = pair();
        let mut bytes = Vec::new();
        for length in 0..20 {
            write_frame(FRAME_BODY, 1, &vec![7; length], &mut bytes);
        }
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut lengths = Vec::new();
        for piece in bytes.chunks(11) {
            far.write_all(piece).unwrap();
            let mut got = 0;
            while got < piece.len() {
                let received = socket.receive(&mut buffer, usize::MAX / 2, |bytes| {
                    whole_frames(bytes, |frame| {
                        lengths.push(frame.payload.len());
                        Ok(())
                    })
                });
                if let Received::Bytes(count) = received.unwrap() {
                    got += count;
                }
            }
        }
        assert_eq!(lengths, (0..20).collect::<Vec<_>>());
        drop(far);
        let end = loop {
            match socket.receive(&mut buffer, 10, |_| Ok(0)).unwrap() {
                Received::Nothing => {}
                other => break other,
            }
        };
        assert_eq!(end, Received::End);
    }

    #[test]
    fn what_the_socket_has_no_room_for_waits_and_arrives_in_order() {
        let (mut socket, mut far) = pair();
        let megabyte: Vec<u8> = (0..1_000_000_u32).map(|n| (n % 251) as u8).collect();
        let mut pieces = 0;
        while socket.send(&megabyte).unwrap() {
            pieces += 1;
        }
        assert!(socket.unsent_bytes() > 0);
        let mut read = vec![0; (pieces + 1) * megabyte.len()];
        let reader = std::thread::spawn(move || far.read_exact(&mut read).map(|()| read));
        while !socket.flush().unwrap() {
            std::thread::yield_now();
        }
        let read = reader.join().unwrap().unwrap();
        assert!(read.chunks(megabyte.len()).all(|piece| piece == megabyte));
    }
}
