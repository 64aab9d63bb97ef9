//! Requests about super streams.

use broker::{Permission, SuperStream, SuperStreamRefused};
use wire::stream::requests::{CreateSuperStream, DeleteSuperStream, Partitions, Route};
use wire::stream::{ListBuf, ResponseCode, responses};

use super::end::code_of;
use super::running::{Next, Running};
use super::session::encoded;
use super::streams::arguments_of;

/// The argument of which partitions have a default.
const LOCATOR: &str = "x-queue-leader-locator";

fn code(refused: &SuperStreamRefused) -> ResponseCode {
    match refused {
        SuperStreamRefused::Invalid(_) => ResponseCode::PRECONDITION_FAILED,
        SuperStreamRefused::AlreadyExists(_) => ResponseCode::STREAM_ALREADY_EXISTS,
        SuperStreamRefused::NotFound => ResponseCode::STREAM_DOES_NOT_EXIST,
        SuperStreamRefused::Refused(refused) => code_of(refused),
    }
}

fn told(done: Result<(), SuperStreamRefused>, name: &str) -> ResponseCode {
    let Err(refused) = done else { return ResponseCode::OK };
    tracing::warn!(super_stream = name, ?refused, "a super stream was not created or deleted");
    code(&refused)
}

impl Running {
    fn may_with_exchange(&self, permission: Permission, name: &str) -> Result<(), ResponseCode> {
        let may = self.principal.check_exchange(permission, name.as_bytes());
        may.map_err(|_| ResponseCode::ACCESS_REFUSED)
    }

    pub(crate) fn create_super_stream(&mut self, id: u32, asked: &CreateSuperStream<'_>) -> Next {
        let arguments = arguments_of(&asked.arguments);
        let Some(mut arguments) = arguments.filter(|_| asked.partitions.len() == asked.binding_keys.len())
        else {
            self.respond(id, responses::CreateSuperStream { code: ResponseCode::PRECONDITION_FAILED });
            return Next::Took;
        };
        if arguments.as_table().get(LOCATOR).is_none() {
            arguments.push_str(LOCATOR, "balanced");
        }
        let partitions = asked.partitions.iter().zip(asked.binding_keys.iter());
        let wanted = SuperStream {
            name: asked.name.into(),
            partitions: partitions.map(|(stream, key)| (stream.into(), key.into())).collect(),
            arguments,
            partitions_max: self.settings.partitions_max,
        };
        let (broker, principal) = (self.broker.clone(), self.principal.clone());
        Next::Waits(Box::pin(async move {
            let done = broker.create_super_stream(&principal, &wanted).await;
            encoded(id, responses::CreateSuperStream { code: told(done, &wanted.name) })
        }))
    }

    pub(crate) fn delete_super_stream(&mut self, id: u32, asked: &DeleteSuperStream<'_>) -> Next {
        let (broker, principal) = (self.broker.clone(), self.principal.clone());
        let name = asked.name.to_owned();
        Next::Waits(Box::pin(async move {
            let done = broker.delete_super_stream(&principal, &name).await;
            encoded(id, responses::DeleteSuperStream { code: told(done, &name) })
        }))
    }

    pub(crate) fn route(&mut self, id: u32, asked: &Route<'_>) {
        let (vhost, name) = (&self.principal.vhost, asked.super_stream);
        let found = self.may_with_exchange(Permission::Write, name).and_then(|()| {
            let streams =
                self.broker.super_stream_route(vhost, name.as_bytes(), asked.routing_key.as_bytes());
            self.all_allowed(streams, &[Permission::Write])
        });
        let (code, streams) = listed(&found);
        self.respond(id, responses::Route { code, streams: streams.as_list() });
    }

    pub(crate) fn partitions(&mut self, id: u32, asked: &Partitions<'_>) {
        let name = asked.super_stream;
        let may = self
            .may_with_exchange(Permission::Read, name)
            .or_else(|_| self.may_with_exchange(Permission::Write, name));
        let found = may.and_then(|()| {
            let streams = self.broker.super_stream_partitions(&self.principal.vhost, name.as_bytes());
            self.all_allowed(streams, &[Permission::Read, Permission::Write])
        });
        let (code, streams) = listed(&found);
        self.respond(id, responses::Partitions { code, streams: streams.as_list() });
    }

    /// The streams if the user may do one of these things with each.
    fn all_allowed(
        &self,
        streams: Option<Vec<Box<[u8]>>>,
        permissions: &[Permission],
    ) -> Result<Vec<String>, ResponseCode> {
        let streams = streams.ok_or(ResponseCode::STREAM_DOES_NOT_EXIST)?;
        // Names that are no text cannot be told; no client of this protocol has made them.
        let streams = streams.into_iter().filter_map(|name| String::from_utf8(name.into()).ok());
        let streams: Vec<String> = streams.collect();
        let is_allowed = |stream: &String| permissions.iter().any(|one| self.may(*one, stream).is_ok());
        if streams.iter().all(is_allowed) { Ok(streams) } else { Err(ResponseCode::ACCESS_REFUSED) }
    }
}

fn listed(found: &Result<Vec<String>, ResponseCode>) -> (ResponseCode, ListBuf) {
    match found {
        Ok(streams) => (ResponseCode::OK, ListBuf::of(streams.iter().map(String::as_str))),
        Err(code) => (*code, ListBuf::new()),
    }
}
