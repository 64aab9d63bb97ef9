//! Frames from and to a connection.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use wire::peer::{HEAD_BYTES, Head, Kind, write_frame};

/// The next frame. Nothing is allocated for a payload larger than allowed.
///
/// # Errors
/// The socket's errors; [`io::ErrorKind::InvalidData`] when the frame is too large or damaged.
pub(super) async fn read_frame(
    reader: &mut (impl AsyncRead + Unpin),
    payload_max: usize,
) -> io::Result<(u8, Vec<u8>)> {
    let mut head = [0; HEAD_BYTES];
    reader.read_exact(&mut head).await?;
    let head = Head::decode(&head, payload_max).map_err(invalid)?;
    let mut payload = vec![0; head.length];
    reader.read_exact(&mut payload).await?;
    head.check(&payload).map_err(invalid)?;
    Ok((head.kind, payload))
}

/// Sends one frame at once.
pub(super) async fn send_frame(
    writer: &mut (impl AsyncWrite + Unpin),
    kind: Kind,
    payload: &[u8],
) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(HEAD_BYTES + payload.len());
    write_frame(kind as u8, payload, &mut bytes);
    writer.write_all(&bytes).await?;
    writer.flush().await
}

/// An error of bytes that must not have been sent.
pub(super) fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
