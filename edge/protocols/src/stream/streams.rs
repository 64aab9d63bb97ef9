//! Requests about streams: to create and delete them, and what is known of them.

use std::future::poll_fn;
use std::task::Poll;

use broker::streams::Seek;
use broker::{Permission, QueueDeclare, is_stream_name};
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

/// How the only node is called in answers.
const THIS_NODE: u16 = 0;

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
                (id, responses::Create { code }.into())
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
                (id, responses::Delete { code }.into())
            })),
            Err(code) => {
                self.respond(id, responses::Delete { code });
                Next::Took
            }
        }
    }

    pub(crate) fn metadata(&mut self, id: u32, asked: &Metadata<'_>) {
        let replicas = ListBuf::new();
        let mut streams = ListBuf::new();
        let mut names: Vec<&str> = asked.streams.iter().collect();
        names.sort_unstable();
        names.dedup();
        for stream in names {
            let may = self.may(Permission::Read, stream).or_else(|_| self.may(Permission::Write, stream));
            let found = may.and_then(|()| self.find(stream).map(drop));
            let code = found.err().unwrap_or(ResponseCode::OK);
            let leader = if code == ResponseCode::OK { THIS_NODE } else { NO_LEADER };
            streams.push(&StreamMetadata { stream, code, leader, replicas: replicas.as_list() });
        }
        let (host, port) = &self.advertised;
        let brokers = ListBuf::of([Broker { reference: THIS_NODE, host, port: u32::from(*port) }]);
        let (brokers, streams) = (brokers.as_list(), streams.as_list());
        self.respond(id, responses::Metadata { brokers, streams });
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
            (id, answer(code, found.unwrap_or(0)).into())
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
