//! A reply as the response that is sent: its headers, packed where it is worth it, and refusals. Refuses to know requests.

use super::body::{self, Coding};
use super::problem::Problem;
use super::reply::Reply;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, header};
use profiles::SVG;

/// Answers below this size are not compressed, bytes: RabbitMQ's.
const PACKED_BYTES_MIN: usize = 300;

/// The rights of a picture: to run its own script, which asks what to look for, and nothing else.
const PICTURE_CSP: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; sandbox allow-scripts allow-modals";

/// The login that browsers are asked for when they send none.
pub(crate) const REALM: &str = "Basic realm=\"RabbitMQ Management\"";

/// An answer that is sent as a whole.
pub(crate) fn respond(reply: Reply, coding: Coding) -> Response<Body> {
    match reply {
        Reply::Written(text) => written(text.into_bytes(), coding),
        Reply::Status(status, value) => json(status, &value),
        Reply::Kept(kept) => {
            let mut response = empty(200);
            let name = coding.name();
            *response.body_mut() = Body::from(if name.is_some() { kept.packed } else { kept.plain });
            let headers = response.headers_mut();
            set(headers, header::CONTENT_TYPE, "application/json");
            set(headers, header::CACHE_CONTROL, "no-cache");
            name.iter().for_each(|name| set(headers, header::CONTENT_ENCODING, name));
            response
        }
        Reply::Known(etag) => {
            let mut response = empty(304);
            set(response.headers_mut(), header::ETAG, &etag);
            response
        }
        Reply::Text(content_type, text) => {
            let mut response = Response::new(Body::from(text));
            set(response.headers_mut(), header::CONTENT_TYPE, content_type);
            response
        }
        Reply::Bytes(content_type, bytes) => {
            let mut response = Response::new(Body::from(bytes));
            set(response.headers_mut(), header::CONTENT_TYPE, content_type);
            response
        }
        Reply::Picture(svg) => {
            let mut response = Response::new(Body::from(svg));
            set(response.headers_mut(), header::CONTENT_TYPE, SVG);
            set(response.headers_mut(), header::CONTENT_SECURITY_POLICY, PICTURE_CSP);
            response
        }
        Reply::Created(location) => {
            let mut response = empty(201);
            location.iter().for_each(|to| set(response.headers_mut(), header::LOCATION, to));
            response
        }
        Reply::NoContent => empty(204),
        Reply::SeeOther(to) => {
            let mut response = empty(303);
            set(response.headers_mut(), header::LOCATION, &to);
            response
        }
        Reply::Json(_) | Reply::Stream(..) => {
            unreachable!("JSON is written before, and streams are sent by their own way")
        }
    }
}

/// JSON, compressed where the client takes that and it is worth it.
pub(crate) fn written(text: Vec<u8>, coding: Coding) -> Response<Body> {
    let is_long = text.len() >= PACKED_BYTES_MIN;
    let name = coding.name().filter(|_| is_long);
    let mut response = empty(200);
    *response.body_mut() = Body::from(if name.is_some() { body::packed(&text) } else { text });
    let headers = response.headers_mut();
    set(headers, header::CONTENT_TYPE, "application/json");
    set(headers, header::CACHE_CONTROL, "no-cache");
    name.iter().for_each(|name| set(headers, header::CONTENT_ENCODING, name));
    response
}

pub(crate) fn json(status: u16, value: &serde_json::Value) -> Response<Body> {
    let mut response = empty(status);
    *response.body_mut() = Body::from(value.to_string());
    set(response.headers_mut(), header::CONTENT_TYPE, "application/json");
    set(response.headers_mut(), header::CACHE_CONTROL, "no-cache");
    response
}

pub(crate) fn empty(status: u16) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = axum::http::StatusCode::from_u16(status).expect("statuses stand in this crate");
    response
}

pub(crate) fn refuse(problem: &Problem) -> Response<Body> {
    json(problem.status, &problem.body())
}

/// A header, unless its value cannot be one.
pub(crate) fn set(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value)
        && !value.is_empty()
    {
        headers.insert(name, value);
    }
}
