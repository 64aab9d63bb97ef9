//! A route of the API: its method, its access, its purpose and its handler. Refuses to know how requests arrive.

use super::auth::Access;
use super::call::Call;
use super::reply::Answer;

/// The action of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Method {
    Get,
    Put,
    Post,
    Delete,
}

impl Method {
    /// As in a request.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Put => "PUT",
            Method::Post => "POST",
            Method::Delete => "DELETE",
        }
    }
}

/// With whom a route shares its turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// With all that is not said to be something else.
    Work,
    /// Health checks: short, and never behind work.
    Checks,
    /// Profiles and commands of `warren ctl`: they may last for seconds, and work does not wait for them.
    Watches,
}

/// How large the body of a request may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodySize {
    /// The description of one object: [`OBJECT_BODY_BYTES_MAX`], or less where the API takes less.
    Object,
    /// A message: as large as the API takes bodies.
    Message,
    /// Definitions: as large as the API takes bodies.
    Definitions,
}

impl BodySize {
    /// How much memory is made of a body, in lengths of it.
    pub(crate) const fn copies(self) -> u64 {
        match self {
            BodySize::Object => 4,
            // As it is read, decoded, and on its way to the queue.
            BodySize::Message => 3,
            // See `json::document_bytes_max`.
            BodySize::Definitions => 16,
        }
    }
}

/// Largest body that speaks of one object, bytes: several times what is kept of one.
const OBJECT_BODY_BYTES_MAX: usize = 1 << 20;

/// One route.
pub(crate) struct Route {
    pub(crate) method: Method,
    /// With `{name}` for parts that vary.
    pub(crate) path: &'static str,
    pub(crate) access: Access,
    pub(crate) lane: Lane,
    pub(crate) body: BodySize,
    /// Whether its answer has messages, for which there must be room before one is taken.
    pub(crate) has_messages: bool,
    /// One sentence for the reference.
    pub(crate) about: &'static str,
    pub(crate) handler: fn(&Call) -> Answer,
}

/// A row of the table.
pub(crate) const fn route(
    method: Method,
    path: &'static str,
    access: Access,
    about: &'static str,
    handler: fn(&Call) -> Answer,
) -> Route {
    Route {
        method,
        path,
        access,
        lane: Lane::Work,
        body: BodySize::Object,
        has_messages: false,
        about,
        handler,
    }
}

impl Route {
    /// The same in another lane.
    pub(crate) const fn in_lane(self, lane: Lane) -> Route {
        Route { lane, ..self }
    }

    /// The same with such bodies.
    pub(crate) const fn with_body(self, body: BodySize) -> Route {
        Route { body, ..self }
    }

    /// The same with messages in its answer.
    pub(crate) const fn with_messages(self) -> Route {
        Route { has_messages: true, ..self }
    }

    /// Largest body, bytes, where the API takes that many.
    pub(crate) fn body_bytes_max(&self, api_bytes_max: usize) -> usize {
        match self.body {
            BodySize::Object => api_bytes_max.min(OBJECT_BODY_BYTES_MAX),
            BodySize::Message | BodySize::Definitions => api_bytes_max,
        }
    }
}
