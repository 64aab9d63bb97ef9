//! Replies that are awaited from the broker, in the order of their requests.
//!
//! Requests that change metadata may follow each other without waiting (their log writes share one sync); everything
//! else waits until the list is empty. Refuses to know how requests are made; see `methods/`.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use broker::{
    Call, Commit, ConsumerId, Consuming, DeletedQueue, GotMessage, Queue, QueueCounts, Refused, SettleHow,
    SettleRun,
};
use wire::amqp091::methods::{basic, queue, tx};
use wire::amqp091::{Method, ShortStr};

use super::deliver::{Announced, announce, deliver_got};
use super::errors::{Failure, MethodId, NO_METHOD, Outcome, ReplyCode};
use super::running::Running;
use super::transaction::CommitSink;

/// Most requests on the way at once; the next one waits.
pub(crate) const PENDING_MAX: usize = 4096;

/// Whether the client wants to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Wanted,
    /// The method had nowait set.
    Unwanted,
}

impl Answer {
    pub(crate) fn unless(nowait: bool) -> Answer {
        if nowait { Answer::Unwanted } else { Answer::Wanted }
    }

    pub(crate) fn is_wanted(self) -> bool {
        self == Answer::Wanted
    }
}

/// A request on the way.
pub(crate) struct Pending {
    pub(crate) channel: u16,
    /// To blame if it fails.
    pub(crate) method: MethodId,
    pub(crate) what: Awaited,
}

/// The awaited event, and the answer to it.
pub(crate) enum Awaited {
    /// Exchange and binding changes: one fixed reply.
    Done {
        call: Commit,
        reply: Option<Method<'static>>,
    },
    Declared {
        call: Call<Result<QueueCounts, Refused>>,
        name: Box<[u8]>,
        answer: Answer,
    },
    Deleted {
        call: Call<Result<DeletedQueue, Refused>>,
        answer: Answer,
    },
    Purged {
        call: Call<u64>,
        answer: Answer,
    },
    Consumed {
        call: Consuming,
        queue: Arc<Queue>,
        token: u32,
        source: u32,
        tag: Box<[u8]>,
        answer: Answer,
    },
    Cancelled {
        call: Call<()>,
        tag: Box<[u8]>,
        source: u32,
        answer: Answer,
    },
    Got {
        call: Call<Result<Option<GotMessage>, Refused>>,
        queue: Arc<Queue>,
        ack_required: bool,
    },
    /// The ends of a closed channel's consumers on auto-delete queues, or of all channels before connection.close-ok (B68). Or that this node
    /// has caught up with the cluster.
    Left {
        calls: Vec<Call<()>>,
        reply: Option<Method<'static>>,
    },
    Committed {
        sink: Arc<CommitSink>,
        through: u64,
    },
    /// A request that failed at once while earlier ones were on the way.
    Failed(Failure),
}

impl Pending {
    pub(crate) fn failed(channel: u16, failure: Failure) -> Pending {
        Pending { channel, method: NO_METHOD, what: Awaited::Failed(failure) }
    }
}

impl Running {
    /// Adds a request that others of its kind may follow.
    pub(crate) fn pipeline(&mut self, channel: u16, method: MethodId, what: Awaited) -> Outcome {
        self.pending.push_back(Pending { channel, method, what });
        self.try_pending()?;
        self.barrier |= self.pending.len() >= PENDING_MAX;
        Ok(())
    }

    /// Adds a change of metadata. Later frames go by the tables: they wait until the tables have followed. In a cluster, where that takes a
    /// while, declarations and bindings may follow each other: they are decided in order, and one that finds something missing looks again
    /// when those before it are followed.
    pub(crate) fn await_change(
        &mut self,
        channel: u16,
        method: MethodId,
        what: Awaited,
        is_followed: bool,
    ) -> Outcome {
        let may_follow = matches!(what, Awaited::Done { .. } | Awaited::Declared { .. });
        if is_followed || (may_follow && self.broker.cluster().is_some()) {
            self.pipeline(channel, method, what)
        } else {
            self.await_alone(channel, method, what)
        }
    }

    /// Adds a request that everything after it waits for.
    pub(crate) fn await_alone(&mut self, channel: u16, method: MethodId, what: Awaited) -> Outcome {
        self.barrier = true;
        self.pending.push_back(Pending { channel, method, what });
        self.try_pending()
    }

    /// Something is missing that another node may have declared: once this node has all that is committed, the frame comes again. False on a
    /// node alone, and where nobody leads.
    pub(crate) fn ask_leader(&mut self, channel: u16) -> bool {
        let Some(call) = self.broker.catch_up() else { return false };
        self.has_asked_leader = true;
        self.barrier = true;
        let what = Awaited::Left { calls: vec![call], reply: None };
        self.pending.push_back(Pending { channel, method: NO_METHOD, what });
        true
    }

    /// Completes what is answered already, without registering to be woken; `poll` follows every `receive`.
    pub(crate) fn try_pending(&mut self) -> Outcome {
        self.poll_pending(&mut Context::from_waker(std::task::Waker::noop()))
    }

    /// Completes what is answered, in order.
    pub(crate) fn poll_pending(&mut self, cx: &mut Context<'_>) -> Outcome {
        while let Some(mut pending) = self.pending.pop_front() {
            let completed = match self.complete(&mut pending, cx) {
                Poll::Ready(completed) => completed,
                Poll::Pending => {
                    self.pending.push_front(pending);
                    return Ok(());
                }
            };
            let Err(failure) = completed else { continue };
            if failure.is_hard() {
                return Err(failure);
            }
            self.fail_channel(pending.channel, &failure);
        }
        self.barrier = false;
        Ok(())
    }

    fn complete(&mut self, pending: &mut Pending, cx: &mut Context<'_>) -> Poll<Outcome> {
        let (channel, method) = (pending.channel, pending.method);
        let blame = |refused: Refused| Failure::from(refused).in_method(method);
        // The channel may have been closed meanwhile, by an earlier request or an overdue delivery: then the request was
        // made, but nobody is told.
        let is_open = self.channels.is_open(channel);
        let outcome = match &mut pending.what {
            Awaited::Done { call, reply } => {
                let done = std::task::ready!(poll(call, cx)).map_err(blame);
                if let Some(reply) = reply.take().filter(|_| is_open && done.is_ok()) {
                    self.reply(channel, reply);
                }
                done
            }
            Awaited::Declared { call, name, answer } => {
                let counts = std::task::ready!(poll(call, cx)).map_err(blame);
                counts.map(|counts| {
                    if answer.is_wanted() && is_open {
                        self.declare_ok(channel, name, counts);
                    }
                })
            }
            Awaited::Deleted { call, answer } => {
                let deleted = std::task::ready!(poll(call, cx)).map_err(blame);
                let answer = if is_open { *answer } else { Answer::Unwanted };
                deleted.map(|deleted| self.deleted(channel, deleted, answer))
            }
            Awaited::Purged { call, answer } => {
                let message_count = clamp(std::task::ready!(poll(call, cx)));
                if answer.is_wanted() && is_open {
                    self.reply(channel, queue::PurgeOk { message_count });
                }
                Ok(())
            }
            Awaited::Consumed { call, queue, token, source, tag, answer } => {
                let consumed = std::task::ready!(poll(call, cx)).map_err(blame);
                self.consumed(channel, consumed, queue, (*token, *source), tag, *answer)
            }
            Awaited::Cancelled { call, tag, source, answer } => {
                std::task::ready!(poll(call, cx));
                let answer = if is_open { *answer } else { Answer::Unwanted };
                self.cancelled(channel, tag, *source, answer);
                Ok(())
            }
            Awaited::Got { call, queue, ack_required } => {
                let got = std::task::ready!(poll(call, cx)).map_err(blame);
                got.map(|got| match got {
                    Some(got) if !is_open => give_back(queue, &got, *ack_required),
                    got => self.got(channel, got, queue, *ack_required),
                })
            }
            Awaited::Left { calls, reply } => {
                while let Some(call) = calls.last_mut() {
                    std::task::ready!(poll(call, cx));
                    calls.pop();
                }
                if let Some(reply) = reply.take() {
                    self.channels.answered_late(channel);
                    self.reply(channel, reply);
                }
                Ok(())
            }
            Awaited::Committed { sink, through } => {
                let is_whole = std::task::ready!(sink.poll(*through));
                if is_open { self.committed(channel, is_whole) } else { Ok(()) }
            }
            Awaited::Failed(failure) => Err(failure.clone()),
        };
        Poll::Ready(outcome)
    }

    pub(crate) fn declare_ok(&mut self, channel: u16, name: &[u8], counts: QueueCounts) {
        let ok = queue::DeclareOk {
            queue: ShortStr::clipped(name),
            message_count: clamp(counts.ready),
            consumer_count: counts.consumers,
        };
        self.reply(channel, ok);
    }

    fn deleted(&mut self, channel: u16, deleted: DeletedQueue, answer: Answer) {
        if answer.is_wanted() {
            self.reply(channel, queue::DeleteOk { message_count: clamp(deleted.ready) });
        }
        // The queue has cancelled its consumers; their tags are free when the client reads on.
        self.forget_cancelled();
    }

    fn consumed(
        &mut self,
        channel: u16,
        consumed: Outcome,
        queue: &Arc<Queue>,
        (token, source): (u32, u32),
        tag: &[u8],
        answer: Answer,
    ) -> Outcome {
        if let Err(failure) = consumed {
            self.channel(channel).consumers.remove(tag);
            self.write(|output| output.state().detach(source));
            self.release_forgotten();
            return Err(failure);
        }
        match self.write(|output| announce(output, source, !answer.is_wanted())) {
            // consume-ok is written: deliveries may follow (B117).
            Announced::Live => queue.resume(ConsumerId { connection: self.principal.connection, token }),
            Announced::AlreadyCancelled => {
                self.channel(channel).consumers.remove(tag);
                self.release_forgotten();
            }
        }
        self.count_consumers(channel);
        Ok(())
    }

    fn cancelled(&mut self, channel: u16, tag: &[u8], source: u32, answer: Answer) {
        self.write(|output| output.state().detach(source));
        self.release_forgotten();
        if answer.is_wanted() {
            self.reply(channel, basic::CancelOk { consumer_tag: ShortStr::bounded(tag) });
        }
        self.count_consumers(channel);
    }

    fn got(&mut self, channel: u16, got: Option<GotMessage>, queue: &Arc<Queue>, ack_required: bool) {
        let Some(mut got) = got else {
            self.write(|output| output.state().count_empty_get(channel));
            return self.reply(channel, basic::GetEmpty::default());
        };
        self.broker.trace_got(&self.principal, channel, queue, &got);
        got.convert_to_amqp091();
        let source = ack_required.then(|| self.getter(channel, queue));
        let sink = self.sink.clone();
        self.write(|output| deliver_got(output, &sink.large, channel, source, &got));
    }

    fn committed(&mut self, channel: u16, is_whole: bool) -> Outcome {
        if !is_whole {
            let failure = Failure::new(ReplyCode::PreconditionFailed, "partial tx completion");
            return Err(failure.in_method(tx::Commit::ID));
        }
        self.reply(channel, tx::CommitOk {});
        Ok(())
    }
}

/// A message that basic.get has fetched and nobody will see goes back.
pub(crate) fn give_back(queue: &Arc<Queue>, got: &GotMessage, ack_required: bool) {
    if ack_required {
        queue.settle(SettleHow::Requeue, &[SettleRun { consumer: None, first: got.seq, count: 1 }]);
    }
}

fn poll<T>(call: &mut (impl Future<Output = T> + Unpin), cx: &mut Context<'_>) -> Poll<T> {
    Pin::new(call).poll(cx)
}

fn clamp(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
