//! Answers on their way: a short one as a whole, a long one while it is made, in one of a bounded number of places. Refuses to know
//! what is in answers and who may ask.

use std::io::{self, Write};
use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, Response, header};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::body::{self, Coding, Writer};
use super::places::{Place, Places};
use super::problem::Problem;
use super::reply::{About, Answer, Producer, Reply};
use super::response::{refuse, respond, set, written};
use super::room::{Full, SHORT_BYTES_MAX};

/// Where an answer goes.
pub(crate) struct Sending {
    pub(crate) answered: oneshot::Sender<Response<Body>>,
    pub(crate) handle: Handle,
    pub(crate) coding: Coding,
    pub(crate) user: String,
    pub(crate) places: Arc<Places>,
    /// The place of an answer that has one before anything of it is made.
    pub(crate) place: Option<Place>,
    /// The turn of the request, until it is known to be answered or has a place.
    pub(crate) turn: OwnedSemaphorePermit,
}

impl Sending {
    /// Sends an answer, and the bytes that a streamed one writes behind its head. A slow reader keeps a place among the long answers, and
    /// no turn of others.
    pub(crate) fn send(self, answer: Answer) {
        let (produce, about) = match answer {
            Err(problem) => return drop(self.answered.send(refuse(&problem))),
            Ok(Reply::Stream(produce, about)) => (produce, about),
            Ok(Reply::Written(text)) if text.is_long() => {
                // Its length is known, and old clients like to know it.
                let length = (self.coding == Coding::Plain).then(|| text.bytes().len());
                let about = About { length, ..About::default() };
                (Box::new(move |out: &mut dyn Write| out.write_all(text.bytes())) as Producer, about)
            }
            Ok(whole) => return drop(self.answered.send(respond(whole, self.coding))),
        };
        let mut long = Long { state: State::Kept(Vec::new(), Box::new(self)), about };
        let outcome = produce(&mut long);
        long.end(outcome);
    }
}

/// An answer that is written while it is sent, unless it turns out to be short.
struct Long {
    state: State,
    about: About,
}

enum State {
    /// The bytes of it so far.
    Kept(Vec<u8>, Box<Sending>),
    /// The client has its head. The place is free when the last byte is written.
    Begun(Box<Writer>, Place),
    /// There was no place, or nobody who reads.
    Refused,
}

impl Long {
    fn begin(&mut self) -> io::Result<()> {
        let State::Kept(kept, sending) = std::mem::replace(&mut self.state, State::Refused) else {
            unreachable!("an answer begins once");
        };
        let Sending { answered, handle, coding, user, places, place, turn } = *sending;
        let place = place.map_or_else(|| places.take(&user), Ok);
        drop(turn);
        let place = match place {
            Ok(place) => place,
            Err(Full) => {
                // Nobody may be there to be told.
                let _ = answered.send(refuse(&Problem::from(Full)));
                return Err(io::ErrorKind::WouldBlock.into());
            }
        };
        let (mut writer, body) = body::channel(handle, coding);
        let mut response = Response::new(body);
        let headers = response.headers_mut();
        set(headers, header::CONTENT_TYPE, "application/json");
        set(headers, header::CACHE_CONTROL, "no-cache");
        coding.name().iter().for_each(|name| set(headers, header::CONTENT_ENCODING, name));
        self.about.length.iter().for_each(|length| set(headers, header::CONTENT_LENGTH, &length.to_string()));
        describe(headers, &self.about);
        answered.send(response).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        writer.write_all(&kept)?;
        self.state = State::Begun(Box::new(writer), place);
        Ok(())
    }

    fn end(self, outcome: io::Result<()>) {
        match (self.state, outcome) {
            (State::Begun(writer, _place), Ok(())) => drop(writer.finish()),
            (State::Begun(writer, _place), Err(error)) => writer.fail(error),
            (State::Kept(kept, sending), Ok(())) => {
                let mut response = written(kept, sending.coding);
                describe(response.headers_mut(), &self.about);
                drop(sending.answered.send(response));
            }
            (State::Kept(_, sending), Err(error)) => {
                tracing::error!(%error, "an answer of the HTTP API could not be made");
                let text = "the answer could not be made; see the server's log";
                drop(sending.answered.send(refuse(&Problem::new(500, "internal_server_error", text))));
            }
            (State::Refused, _) => {}
        }
    }
}

impl Write for Long {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let State::Kept(kept, _) = &mut self.state {
            if kept.len() + bytes.len() <= SHORT_BYTES_MAX {
                kept.extend_from_slice(bytes);
                return Ok(bytes.len());
            }
            self.begin()?;
        }
        match &mut self.state {
            State::Begun(writer, _) => writer.write(bytes),
            State::Kept(..) | State::Refused => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.state {
            State::Begun(writer, _) => writer.flush(),
            State::Kept(..) | State::Refused => Ok(()),
        }
    }
}

fn describe(headers: &mut HeaderMap, about: &About) {
    about.disposition.iter().for_each(|text| set(headers, header::CONTENT_DISPOSITION, text));
    about.etag.iter().for_each(|tag| set(headers, header::ETAG, tag));
}
