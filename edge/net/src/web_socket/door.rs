//! The request for a WebSocket: who is let in, and what is noted of the request.

use protocols::RequestLogin;
use tokio_tungstenite::tungstenite::handshake::server::{Callback, ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::{HeaderValue, StatusCode, header};

use super::WebSocketOptions;

/// Lets requests in.
pub(super) struct Door<'a> {
    pub(super) options: &'a WebSocketOptions,
    /// Where the login of a request is left.
    pub(super) login: &'a mut RequestLogin,
}

impl Callback for Door<'_> {
    fn on_request(self, request: &Request, mut response: Response) -> Result<Response, ErrorResponse> {
        let protocol = self.options.check(request).map_err(refusal)?;
        if self.options.protocol.login_by_request {
            let header = request.headers().get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
            *self.login = RequestLogin::of_header(header).ok_or_else(|| {
                refusal((StatusCode::BAD_REQUEST, "the Authorization header cannot be read"))
            })?;
        }
        if let Some(protocol) = protocol {
            let protocol = HeaderValue::from_static(protocol);
            response.headers_mut().insert(header::SEC_WEBSOCKET_PROTOCOL, protocol);
        }
        Ok(response)
    }
}

impl WebSocketOptions {
    /// The protocol to answer with, if the client names one.
    fn check(&self, request: &Request) -> Result<Option<&'static str>, (StatusCode, &'static str)> {
        if request.uri().path() != self.path {
            return Err((StatusCode::NOT_FOUND, "no WebSocket is here"));
        }
        if !self.may_come_from(request) {
            return Err((StatusCode::FORBIDDEN, "pages of this origin may not connect"));
        }
        let named = request.headers().get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
        let names = named.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
        let names: Vec<&str> = names.map(str::trim).collect();
        let found = self.protocol.names.iter().copied().find(|name| names.contains(name));
        if found.is_none() && self.protocol.is_required {
            return Err((StatusCode::BAD_REQUEST, "the protocol is not among those that are asked for"));
        }
        Ok(found)
    }

    /// Programs that are no browsers send no origin.
    fn may_come_from(&self, request: &Request) -> bool {
        let origin = request.headers().get(header::ORIGIN).map(HeaderValue::as_bytes);
        let allowed = &self.origins;
        allowed.is_empty() || origin.is_none_or(|origin| allowed.iter().any(|it| it.as_bytes() == origin))
    }
}

fn refusal((status, text): (StatusCode, &'static str)) -> ErrorResponse {
    let mut response = ErrorResponse::new(Some(text.to_owned()));
    *response.status_mut() = status;
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(header::CONNECTION, close);
    response
}
