//! Answers of handlers, and how answers become bytes. Refuses to know their content.

use std::io::Write;
use std::sync::Arc;

use axum::body::Bytes;
use serde_json::Value;
use tokio::sync::Semaphore;

use super::body;
use super::problem::Problem;
use super::room::{Full, LongText};

/// Writes a body as it is made.
pub(crate) type Producer = Box<dyn FnOnce(&mut dyn Write) -> std::io::Result<()>>;

/// An answer that is no refusal.
pub(crate) enum Reply {
    /// 200 with JSON.
    Json(Value),
    /// 200 with JSON that is written as it is made.
    Stream(Producer, About),
    /// 200 with JSON that is written already.
    Written(LongText),
    /// 200 with JSON that was made before.
    Kept(Kept),
    /// 304: the client has what this entity tag names.
    Known(String),
    /// Any status with JSON: health checks that fail.
    Status(u16, Value),
    /// 200 with something else than JSON.
    Text(&'static str, String),
    /// 200 with something else than JSON that is no text.
    Bytes(&'static str, Vec<u8>),
    /// 200 with a picture (SVG) that has a script of its own.
    Picture(Vec<u8>),
    /// 201, with a `Location` if it has one.
    Created(Option<String>),
    /// 204.
    NoContent,
    /// 303: done, and there is something to look at.
    SeeOther(String),
}

/// A body that is the same as long as the process lives, plain and compressed. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Kept {
    pub(crate) plain: Bytes,
    pub(crate) packed: Bytes,
}

impl Kept {
    pub(crate) fn new(value: &Value) -> Self {
        let plain = value.to_string().into_bytes();
        Self { packed: body::packed(&plain).into(), plain: plain.into() }
    }
}

/// The head of a streamed answer.
#[derive(Default)]
pub(crate) struct About {
    /// `Content-Length`, where it is known and nothing is compressed.
    pub(crate) length: Option<usize>,
    /// `Content-Disposition`.
    pub(crate) disposition: Option<String>,
    /// `ETag`.
    pub(crate) etag: Option<String>,
}

impl Reply {
    /// The same, where it was JSON as text: of a long one no more is kept than that.
    ///
    /// # Errors
    /// There is no room for it.
    pub(crate) fn written(self, all: &Arc<Semaphore>) -> Result<Self, Problem> {
        let Reply::Json(value) = self else { return Ok(self) };
        let mut text = LongText::new(all);
        serde_json::to_writer(&mut text, &value).map_err(|_| Full)?;
        Ok(Reply::Written(text))
    }
}

/// The result of a handler.
pub(crate) type Answer = Result<Reply, Problem>;

/// 201 for something new, 204 for something that was there.
pub(crate) fn put(is_new: bool) -> Reply {
    if is_new { Reply::Created(None) } else { Reply::NoContent }
}
