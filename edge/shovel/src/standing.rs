//! How a shovel is: noted for listings, and told on the exchange of events when it changes. Refuses to know why it changes.

use std::sync::Arc;

use broker::{Broker, ShovelNews};
use parking_lot::Mutex;
use platform::{Clock, RealClock};

use crate::status::{Progress, Report, State};

/// The one place where the state of a shovel is set.
#[derive(Clone)]
pub(crate) struct Standing {
    broker: Broker,
    report: Arc<Mutex<Report>>,
}

impl Standing {
    /// Tells of the state with which the report begins.
    pub(crate) fn begin(broker: Broker, report: Arc<Mutex<Report>>) -> Self {
        let standing = Self { broker, report };
        standing.tell(&standing.report.lock());
        standing
    }

    /// Sets the state; it is told of, and the time of the change counts, only when the kind of state changes.
    pub(crate) fn becomes(&self, state: State) {
        let mut report = self.report.lock();
        let is_news = report.state.name() != state.name();
        report.state = state;
        if is_news {
            report.changed_at_ms = RealClock::new().wall_ms();
            self.tell(&report);
        }
    }

    /// The shovel is no more.
    pub(crate) fn end(&self) {
        let report = self.report.lock();
        self.broker.tell_of_shovel(&report.vhost, &report.name, ShovelNews::Removed);
    }

    fn tell(&self, report: &Report) {
        let mut details = Vec::new();
        match &report.state {
            State::Starting => {}
            State::Running(progress) => running(report, progress, &mut details),
            State::Terminated { reason } => details.push(("reason", reason.as_str())),
        }
        let news = ShovelNews::Status { status: report.state.name(), details: &details };
        self.broker.tell_of_shovel(&report.vhost, &report.name, news);
    }
}

fn running<'a>(report: &'a Report, progress: &'a Progress, details: &mut Vec<(&'a str, &'a str)>) {
    let definition = report.definition.as_ref();
    let protocols =
        definition.map(|it| (it.source.from.protocol().name(), it.destination.to.protocol().name()));
    let (source, destination) = protocols.unwrap_or(("amqp091", "amqp091"));
    details.extend([
        ("src_protocol", source),
        ("src_uri", progress.source_uri.as_str()),
        ("dest_protocol", destination),
        ("dest_uri", progress.destination_uri.as_str()),
    ]);
    details.extend(report.definition.iter().flat_map(|definition| definition.ends()));
}
