//! Bodies: read within bounds, and sent while a handler still writes them. Refuses to know what is in them.

use std::io::{self, BufWriter, Write};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, header};
use flate2::Compression;
use flate2::write::GzEncoder;
use http_body::{Body as _, Frame};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::problem::Problem;

/// How long a client may take to send a body.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// Longest form with a name and a password, bytes.
pub(crate) const FORM_BYTES_MAX: usize = 4 << 10;

/// How long a client may take to send one: most come with their heads.
const FORM_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a client may take to send a body that nobody wants, after the answer.
const THROW_AWAY_TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes of such a body that are read and thrown away, so that a client that writes all before it reads gets its answer.
const THROWN_AWAY_BYTES_MAX: u64 = 128 << 20;

/// How long a client may take to accept a piece of an answer.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes gathered into a piece.
const PIECE_BYTES: usize = 64 << 10;

/// Pieces on the way; more wait for the client.
const PIECES_MAX: usize = 4;

/// Why there is no body.
#[derive(Debug)]
pub(crate) enum Unread {
    /// More bytes than there may be were announced; none of them were read.
    Announced,
    /// More bytes than there may be have come.
    TooLong,
    /// The client is too slow.
    Late,
    /// The client goes away.
    Broken,
}

impl Unread {
    /// 400, and 408 for a slow client; `bytes_max` is the most that there may be.
    pub(crate) fn problem(&self, bytes_max: usize) -> Problem {
        match self {
            Unread::Announced | Unread::TooLong => {
                Problem::bad(format!("Exceeded HTTP request body size limit of {bytes_max} bytes"))
            }
            Unread::Late => Problem::new(408, "request_timeout", "the body did not arrive in time"),
            Unread::Broken => Problem::bad("the body could not be read"),
        }
    }
}

/// All of a body.
///
/// # Errors
/// See [`Unread`].
pub(crate) async fn read(body: &mut Body, bytes_max: usize) -> Result<Vec<u8>, Unread> {
    if body.size_hint().lower() > bytes_max as u64 {
        return Err(Unread::Announced);
    }
    tokio::time::timeout(READ_TIMEOUT, gather(body, bytes_max)).await.unwrap_or(Err(Unread::Late))
}

/// All of a short body of somebody whom nobody knows yet.
///
/// # Errors
/// See [`Unread`].
pub(crate) async fn read_form(body: &mut Body) -> Result<Vec<u8>, Unread> {
    if body.size_hint().lower() > FORM_BYTES_MAX as u64 {
        return Err(Unread::Announced);
    }
    tokio::time::timeout(FORM_TIMEOUT, gather(body, FORM_BYTES_MAX)).await.unwrap_or(Err(Unread::Late))
}

async fn gather(body: &mut Body, bytes_max: usize) -> Result<Vec<u8>, Unread> {
    let mut all = Vec::new();
    while let Some(frame) = next_frame(body).await {
        let Ok(data) = frame.map_err(|_| Unread::Broken)?.into_data() else { continue };
        if all.len() + data.len() > bytes_max {
            return Err(Unread::TooLong);
        }
        all.extend_from_slice(&data);
    }
    Ok(all)
}

async fn next_frame(body: &mut Body) -> Option<Result<Frame<Bytes>, axum::Error>> {
    std::future::poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await
}

/// Reads a body that nobody wants, as far as it is not far too large or slow: a client that writes all of it before it reads gets the answer.
pub(crate) async fn throw_away(mut body: Body) {
    if body.is_end_stream() || body.size_hint().lower() > THROWN_AWAY_BYTES_MAX {
        return;
    }
    let all = async {
        let mut bytes = 0;
        while let Some(Ok(frame)) = next_frame(&mut body).await {
            bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
            if bytes > THROWN_AWAY_BYTES_MAX {
                return;
            }
        }
    };
    let _whole_or_not = tokio::time::timeout(THROW_AWAY_TIMEOUT, all).await;
}

/// How bytes travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    Plain,
    Gzip,
}

impl Coding {
    /// The encoding that a client takes: gzip, unless it does not name it or gives it the weight 0.
    pub(crate) fn asked(headers: &HeaderMap) -> Self {
        let lists = headers.get_all(header::ACCEPT_ENCODING).into_iter();
        let mut words = lists.filter_map(|list| list.to_str().ok()).flat_map(|list| list.split(','));
        let is_gzip = |word: &str| {
            let (name, weight) = word.split_once(';').unwrap_or((word, ""));
            let weight = weight.trim().strip_prefix("q=").map_or(Ok(1.0), str::parse::<f32>);
            name.trim().eq_ignore_ascii_case("gzip") && weight.is_ok_and(|weight| weight > 0.0)
        };
        if words.any(is_gzip) { Coding::Gzip } else { Coding::Plain }
    }

    /// Its name in `Content-Encoding`.
    pub(crate) const fn name(self) -> Option<&'static str> {
        match self {
            Coding::Plain => None,
            Coding::Gzip => Some("gzip"),
        }
    }
}

/// All of a body, compressed.
pub(crate) fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    let written = packed.write_all(bytes).and_then(|()| packed.finish());
    written.expect("memory takes all that is written")
}

/// A body and the end that writes it from a thread that may block.
pub(crate) fn channel(handle: Handle, coding: Coding) -> (Writer, Body) {
    let (pieces, received) = mpsc::channel(PIECES_MAX);
    let pieces = Gatherer { pieces, handle, gathered: Vec::with_capacity(PIECE_BYTES), is_broken: false };
    let writer = match coding {
        Coding::Plain => Writer::Plain(pieces),
        Coding::Gzip => {
            let encoder = GzEncoder::new(pieces, Compression::fast());
            Writer::Gzip(BufWriter::with_capacity(PIECE_BYTES, encoder))
        }
    };
    (writer, Body::new(Pieces(received)))
}

/// Writes a body piece by piece; an error says that nobody reads any more.
pub(crate) enum Writer {
    Plain(Gatherer),
    /// Gathered first: JSON is written in pieces of a few bytes.
    Gzip(BufWriter<GzEncoder<Gatherer>>),
}

impl Writer {
    /// Sends what is left.
    pub(crate) fn finish(self) -> io::Result<()> {
        match self {
            Writer::Plain(mut pieces) => pieces.send(),
            Writer::Gzip(gathered) => gathered.into_inner()?.finish()?.send(),
        }
    }

    /// Breaks the answer off, so that the client sees that it is not whole.
    pub(crate) fn fail(mut self, error: io::Error) {
        let pieces = match &mut self {
            Writer::Plain(pieces) => pieces,
            Writer::Gzip(gathered) => gathered.get_mut().get_mut(),
        };
        // Pieces that are dropped from here on are not sent behind the error. Nobody may be there to be told.
        pieces.is_broken = true;
        let _ = pieces.pieces.try_send(Err(error));
    }
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Writer::Plain(pieces) => pieces.write(bytes),
            Writer::Gzip(gathered) => gathered.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Writer::Plain(pieces) => pieces.flush(),
            Writer::Gzip(gathered) => gathered.flush(),
        }
    }
}

/// Gathers bytes and hands them on in pieces.
pub(crate) struct Gatherer {
    pieces: mpsc::Sender<io::Result<Bytes>>,
    handle: Handle,
    gathered: Vec<u8>,
    is_broken: bool,
}

impl Gatherer {
    fn send(&mut self) -> io::Result<()> {
        if self.gathered.is_empty() || self.is_broken {
            return Ok(());
        }
        let piece = std::mem::replace(&mut self.gathered, Vec::with_capacity(PIECE_BYTES));
        let sent = async { tokio::time::timeout(WRITE_TIMEOUT, self.pieces.send(Ok(piece.into()))).await };
        match self.handle.block_on(sent) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(io::ErrorKind::BrokenPipe.into()),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

impl Write for Gatherer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.gathered.extend_from_slice(bytes);
        if self.gathered.len() >= PIECE_BYTES {
            self.send()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send()
    }
}

/// The reading end.
struct Pieces(mpsc::Receiver<io::Result<Bytes>>);

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        self.0.poll_recv(cx).map(|piece| piece.map(|bytes| bytes.map(Frame::data)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_for_those_who_take_it() {
        let asked = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, value.parse().unwrap());
            Coding::asked(&headers)
        };
        for yes in ["gzip", "deflate, GZIP", "br;q=1.0, gzip;q=0.8, *;q=0.1"] {
            assert_eq!(asked(yes), Coding::Gzip, "{yes}");
        }
        for no in ["", "identity", "gzip;q=0", "gzip;q=x", "deflate"] {
            assert_eq!(asked(no), Coding::Plain, "{no}");
        }
        assert_eq!(Coding::asked(&HeaderMap::new()), Coding::Plain);
    }
}
