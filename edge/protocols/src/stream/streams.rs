//! Requests about streams: to create and delete them, and what is known of them.

use std::future::poll_fn;
use std::task::Poll;

use broker::cluster::{NodeName, StreamDoor};
use broker::streams::Seek;
use broker::{Kind, Permission, QueueDeclare, is_stream_name};
use wire::amqp091::TableBuf;
use wire::stream::requests::{
    Create, Delete, ExchangeCommandVersions, Metadata, ResolveOffsetSpec, StreamStats,
};
use wire::stream::{
    Broker, CommandVersions, Deliver, List, ListBuf, NO_LEADER, OffsetSpec, Publish, ResponseCode,
    StreamMetadata, commands, requests, responses,
};

use super::consume::seek_of;
use super::end::code_of;
use super::running::{Next, Running};
use super::session::encoded;

/// How this node is called in answers; others follow.
const THIS_NODE: u16 = 0;

/// A stream that was asked for, and the node that has it; `None` is this one.
type Whereabouts = (String, Result<Option<NodeName>, ResponseCode>);

/// The answer: where this node and each other one is reached, and which of them has each stream.
fn metadata_answer(
    id: u32,
    own: &(Box<str>, u16),
    others: &[(NodeName, Option<StreamDoor>)],
    found: &[Whereabouts],
) -> Vec<u8> {
    let mut brokers = ListBuf::of([Broker { reference: THIS_NODE, host: &own.0, port: u32::from(own.1) }]);
    for (reference, (_, door)) in (THIS_NODE + 1..).zip(others) {
        if let Some((host, port)) = door {
            brokers.push(&Broker { reference, host, port: u32::from(*port) });
        }
    }
    let reference_of = |node: &NodeName| {
        let mut all = (THIS_NODE + 1..).zip(others);
        all.find(|(_, (name, door))| name == node && door.is_some()).map(|(reference, _)| reference)
    };
    let (mut streams, replicas) = (ListBuf::new(), ListBuf::new());
    for (stream, place) in found {
        let leader = match place {
            Ok(None) => Ok(THIS_NODE),
            Ok(Some(node)) => reference_of(node).ok_or(ResponseCode::STREAM_NOT_AVAILABLE),
            Err(code) => Err(*code),
        };
        let (code, leader) = match leader {
            Ok(leader) => (ResponseCode::OK, leader),
            Err(code) => (code, NO_LEADER),
        };
        streams.push(&StreamMetadata { stream, code, leader, replicas: replicas.as_list() });
    }
    encoded(id, responses::Metadata { brokers: brokers.as_list(), streams: streams.as_list() })
}

/// Commands that clients may send, and their versions.
const VERSIONS: [(u16, u16); 20] = [
    (requests::DeclarePublisher::KEY, 1),
    (Publish::KEY, 2),
    (requests::QueryPublisherSequence::KEY, 1),
    (requests::DeletePublisher::KEY, 1),
    (requests::Subscribe::KEY, 1),
    (commands::Credit::KEY, 1),
    (commands::StoreOffset::KEY, 1),
    (requests::QueryOffset::KEY, 1),
    (requests::Unsubscribe::KEY, 1),
    (requests::Create::KEY, 1),
    (requests::Delete::KEY, 1),
    (requests::Metadata::KEY, 1),
    (requests::Close::KEY, 1),
    (commands::Heartbeat::KEY, 1),
    (requests::Route::KEY, 1),
    (requests::Partitions::KEY, 1),
    (requests::StreamStats::KEY, 1),
    (requests::CreateSuperStream::KEY, 1),
    (requests::DeleteSuperStream::KEY, 1),
    (requests::ResolveOffsetSpec::KEY, 1),
];

/// Arguments of a stream, as queues have them. `None`: one is no number that must be. Unknown ones are passed over, as in RabbitMQ.
pub(crate) fn arguments_of(given: &List<'_, (&str, &str)>) -> Option<TableBuf> {
    let mut arguments = TableBuf::new();
    for name in ["initial-cluster-size", "max-age", "max-length-bytes", "queue-leader-locator"]
        .into_iter()
        .chain(["stream-filter-size-bytes", "stream-max-segment-size-bytes"])
    {
        let Some(value) = given.get(name) else { continue };
        let name = format!("x-{name}");
        match name.as_str() {
            "x-max-age" | "x-queue-leader-locator" => arguments.push_str(&name, value.as_bytes()),
            _ => arguments.push_i64(&name, value.parse().ok()?),
        };
    }
    arguments.push_str("x-queue-type", "stream");
    Some(arguments)
}

impl Running {
    pub(crate) fn create(&mut self, id: u32, asked: &Create<'_>) -> Next {
        match self.begin_create(asked) {
            Ok(counts) => Next::Waits(Box::pin(async move {
                let code = counts.await.map_or_else(|refused| code_of(&refused), |_| ResponseCode::OK);
                encoded(id, responses::Create { code })
            })),
            Err(code) => {
                self.respond(id, responses::Create { code });
                Next::Took
            }
        }
    }

    fn begin_create(
        &self,
        asked: &Create<'_>,
    ) -> Result<broker::Call<Result<broker::QueueCounts, broker::Refused>>, ResponseCode> {
        if !is_stream_name(asked.stream) {
            return Err(ResponseCode::PRECONDITION_FAILED);
        }
        self.may(Permission::Configure, asked.stream)?;
        let arguments = arguments_of(&asked.arguments).ok_or(ResponseCode::PRECONDITION_FAILED)?;
        let is_there = self.principal.vhost.queue(asked.stream.as_bytes()).is_some();
        let declare = QueueDeclare {
            name: asked.stream.as_bytes(),
            durable: true,
            exclusive: false,
            auto_delete: false,
            arguments: arguments.as_table(),
        };
        let declared = self.broker.declare_queue(&self.principal, declare);
        let counts = declared.map_err(|refused| code_of(&refused))?.counts;
        if is_there { Err(ResponseCode::STREAM_ALREADY_EXISTS) } else { Ok(counts) }
    }

    pub(crate) fn delete(&mut self, id: u32, asked: &Delete<'_>) -> Next {
        let name = asked.stream.as_bytes();
        let found =
            self.may(Permission::Configure, asked.stream).and_then(|()| match self.find(asked.stream) {
                Err(ResponseCode::STREAM_DOES_NOT_EXIST) => Err(ResponseCode::STREAM_DOES_NOT_EXIST),
                _ => Ok(()),
            });
        let deleted = found.and_then(|()| {
            self.broker.delete_queue(&self.principal, name, false, false).map_err(|refused| code_of(&refused))
        });
        match deleted {
            Ok(call) => Next::Waits(Box::pin(async move {
                let code = call.await.map_or_else(|refused| code_of(&refused), |_| ResponseCode::OK);
                encoded(id, responses::Delete { code })
            })),
            Err(code) => {
                self.respond(id, responses::Delete { code });
                Next::Took
            }
        }
    }

    /// Which node has each stream, and where clients reach it. Other nodes are asked for their doors.
    pub(crate) fn metadata(&mut self, id: u32, asked: &Metadata<'_>) -> Next {
        let mut names: Vec<&str> = asked.streams.iter().collect();
        names.sort_unstable();
        names.dedup();
        let found: Vec<Whereabouts> =
            names.into_iter().map(|stream| (stream.to_owned(), self.whereabouts(stream))).collect();
        let mut nodes: Vec<NodeName> =
            found.iter().filter_map(|(_, place)| place.as_ref().ok()?.clone()).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let cluster = self.broker.cluster().cloned().filter(|_| !nodes.is_empty());
        let Some(cluster) = cluster else {
            let answer = metadata_answer(id, &self.advertised, &[], &found);
            self.outbox.lock().bytes().extend_from_slice(&answer);
            return Next::Took;
        };
        let (own, is_encrypted) = (self.advertised.clone(), self.is_encrypted);
        Next::Waits(Box::pin(async move {
            let mut others = Vec::new();
            for node in nodes {
                let doors = cluster.stream_doors_of(node.clone()).await.unwrap_or_default();
                others.push((node, if is_encrypted { doors.tls } else { doors.plain }));
            }
            metadata_answer(id, &own, &others, &found)
        }))
    }

    /// The node that has a stream; `None` is this one.
    fn whereabouts(&self, stream: &str) -> Result<Option<NodeName>, ResponseCode> {
        self.may(Permission::Read, stream).or_else(|_| self.may(Permission::Write, stream))?;
        let queue = self.principal.vhost.queue(stream.as_bytes());
        let elsewhere =
            queue.filter(|queue| queue.queue_kind() == Kind::Stream).and_then(|it| it.home_elsewhere());
        match elsewhere {
            Some((node, true)) => Ok(Some(node)),
            Some((_, false)) => Err(ResponseCode::STREAM_NOT_AVAILABLE),
            None => self.find(stream).map(|_| None),
        }
    }

    pub(crate) fn stats(&mut self, id: u32, asked: &StreamStats<'_>) {
        let found = self.may(Permission::Read, asked.stream).and_then(|()| self.find(asked.stream));
        let (code, stats) = match found {
            Err(code) => (code, ListBuf::new()),
            Ok(log) => {
                let info = log.info();
                let is_empty = info.first_offset == info.next_offset;
                let number = |n: u64| if is_empty { -1 } else { n.cast_signed() };
                let stats = [
                    ("committed_chunk_id", number(info.last_chunk_id)),
                    ("committed_offset", number(info.next_offset.wrapping_sub(1))),
                    ("first_chunk_id", number(info.first_offset)),
                    ("last_chunk_id", number(info.last_chunk_id)),
                ];
                (ResponseCode::OK, ListBuf::of(stats))
            }
        };
        self.respond(id, responses::StreamStats { code, stats: stats.as_list() });
    }

    /// Which offset a specification stands for: that of a chunk, or the end. It may need a look into files, which nobody waits for.
    pub(crate) fn resolve(&mut self, id: u32, asked: &ResolveOffsetSpec<'_>) -> Next {
        let answer = |code, offset| {
            let offset = OffsetSpec::Offset(offset);
            responses::ResolveOffsetSpec { code, offset }
        };
        let found = self.may(Permission::Read, asked.stream).and_then(|()| self.find(asked.stream));
        let (log, seek) = match (found, seek_of(asked.offset)) {
            (Ok(log), Some(seek)) => (log, seek),
            (found, _) => {
                let code = found.err().unwrap_or(ResponseCode::NO_OFFSET);
                self.respond(id, answer(code, 0));
                return Next::Took;
            }
        };
        let (Seek::Timestamp(_) | Seek::Offset(_)) = seek else {
            let resolved = log.resolve(seek);
            let code = if resolved.is_ok() { ResponseCode::OK } else { ResponseCode::NO_OFFSET };
            self.respond(id, answer(code, resolved.unwrap_or(0)));
            return Next::Took;
        };
        let mut reader = log.reader(seek, None);
        Next::Waits(Box::pin(async move {
            let offset = poll_fn(|cx| match reader.poll_next(cx.waker()) {
                Poll::Ready(chunk) => Poll::Ready(chunk.ok().map(|chunk| chunk.chunk_id())),
                Poll::Pending => match reader.next_offset() {
                    Some(next) => Poll::Ready(Some(next)),
                    None => Poll::Pending,
                },
            });
            let found = offset.await;
            let code = if found.is_some() { ResponseCode::OK } else { ResponseCode::NO_OFFSET };
            encoded(id, answer(code, found.unwrap_or(0)))
        }))
    }

    pub(crate) fn exchange_versions(&mut self, id: u32, asked: &ExchangeCommandVersions<'_>) {
        let ours = VERSIONS.iter().map(|(key, max)| CommandVersions { key: *key, min: 1, max: *max });
        let commands = ListBuf::of(ours);
        let commands = commands.as_list();
        self.respond(id, responses::ExchangeCommandVersions { code: ResponseCode::OK, commands });
        self.delivers_committed |=
            asked.commands.iter().any(|command| command.key == Deliver::KEY && command.max == 2);
    }
}
