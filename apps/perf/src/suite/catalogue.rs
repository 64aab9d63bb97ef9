//! The tests of the suite, each with a description and the arguments of `warren perf` that make it.
//!
//! The first 14 are those that the RabbitMQ team published with its 3.12 release, in their order. Names of all queues and
//! exchanges begin with `warren-bench-`.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// Bounds of a run that arguments depend on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Seconds per test.
    pub(crate) seconds: u64,
    /// Bytes of a message's body.
    pub(crate) size: u32,
    /// Largest backlog in bytes of bodies.
    pub(crate) backlog_bytes_max: u64,
    /// Most connections on one side.
    pub(crate) connections_max: u32,
    /// Most connections altogether, as many as the limit on open files leaves.
    pub(crate) open_max: u32,
    /// The type of the queues; tests of streams keep their streams.
    pub(crate) queue_type: QueueType,
}

/// The type of the queues that the suite declares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum QueueType {
    #[default]
    Classic,
    Quorum,
}

/// Publishers of the test with very many.
const MANY: u32 = 7_000;
/// Publishers, and consumers, of the test with many of both.
const THOUSAND: u32 = 1_000;

impl Bounds {
    /// Seconds that emptying a queue may take.
    pub(crate) fn patience(self) -> u64 {
        self.seconds.saturating_mul(4).max(60)
    }

    /// The consumer needs a connection too.
    fn many(self) -> u32 {
        MANY.min(self.connections_max).min(self.open_max.saturating_sub(1))
    }

    fn thousand(self) -> u32 {
        THOUSAND.min(self.connections_max).min(self.open_max / 2)
    }
}

/// The features that a broker needs for a group of tests to make sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// An address.
    Address,
    /// To be started and stopped, which only our own is.
    Control,
}

/// Tests that follow each other on the same broker with the same queues.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    pub(crate) tests: &'static [Test],
    pub(crate) needs: Needs,
}

/// One test.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Test {
    /// The name in options and results.
    pub(crate) name: &'static str,
    /// A description, for people.
    pub(crate) what: &'static str,
    /// Arguments of `warren perf`, with `{...}` for what depends on [`Bounds`].
    arguments: &'static str,
    /// Which figure of it says most.
    pub(crate) figure: Figure,
}

/// Which figure of a test says most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Figure {
    /// Messages sent per second.
    Sent,
    /// Messages received per second.
    Received,
    /// 99th percentile of latency.
    Latency,
    /// 99th percentile of confirms' latency.
    ConfirmLatency,
    /// Bytes of memory per message in a backlog.
    Memory,
    /// Seconds.
    Restart,
}

const fn test(name: &'static str, what: &'static str, arguments: &'static str, figure: Figure) -> Test {
    Test { name, what, arguments, figure }
}

const fn alone(tests: &'static [Test]) -> Group {
    Group { tests, needs: Needs::Address }
}

/// Publishing as fast as confirms allow, durably, as most of the tests do.
macro_rules! durable {
    ($rest:literal) => {
        concat!("-e warren-bench -f persistent -c 3000 ", $rest)
    };
}

/// All tests in the order in which they run.
pub(crate) const GROUPS: [Group; 18] = [
    alone(&[test(
        "max-rate",
        "1 publisher and 1 consumer, both as fast as they can",
        durable!("-u warren-bench-max -q 5000 -z {seconds}"),
        Figure::Received,
    )]),
    alone(&[
        test(
            "growing",
            "2 publishers, no consumer: the queue grows",
            durable!("-u warren-bench-grow -ad false -x 2 -y 0 -C {half_backlog} -z {seconds}"),
            Figure::Sent,
        ),
        test(
            "drain",
            "1 consumer drains the queue of the test before",
            "-e warren-bench -u warren-bench-grow -p -ad false -x 0 -q 5000 -ew empty -z {patience}",
            Figure::Received,
        ),
    ]),
    alone(&[test(
        "five-queues",
        "5 queues with a publisher at 10,000 msg/s and a consumer each: latency",
        "-e warren-bench -f persistent -qp warren-bench-five-%d -qpt 5 -x 5 -y 5 -r 10000 -q 5000 -z {seconds}",
        Figure::Latency,
    )]),
    alone(&[test(
        "fanout",
        "1 publisher, a fanout exchange, 10 queues with a consumer each",
        "-e warren-bench-fanout -t fanout -f persistent -c 3000 -qp warren-bench-fan-%d -qpt 10 -y 10 -q 5000 -z {seconds}",
        Figure::Received,
    )]),
    alone(&[test(
        "one-unconfirmed",
        "1 publisher that waits for each confirm, 1 consumer",
        "-e warren-bench -f persistent -c 1 -u warren-bench-one -q 5000 -z {seconds}",
        Figure::ConfirmLatency,
    )]),
    alone(&[test(
        "fan-in",
        "7,000 publishers at 1 msg/s each into one queue",
        "-e warren-bench -f persistent -u warren-bench-in -x {many} -r 1 -q 5000 -z {seconds}",
        Figure::Latency,
    )]),
    alone(&[test(
        "thousand-pairs",
        "1,000 publishers at 10 msg/s each to a queue of their own with a consumer",
        "-e warren-bench -f persistent -qp warren-bench-pair-%d -qpt {thousand} -x {thousand} -y {thousand} -r 10 -q 100 -z {seconds}",
        Figure::Latency,
    )]),
    alone(&[test(
        "backlog-10",
        "1 publisher builds a backlog, then 10 consumers join",
        durable!("-u warren-bench-ten -y 10 -csd {half_seconds} -q 1000 -C {backlog} -z {seconds}"),
        Figure::Received,
    )]),
    alone(&[test(
        "backlog-50-single-active",
        "the same with 50 consumers, of which one at a time is active",
        durable!(
            "-u warren-bench-sac -qa x-single-active-consumer=true -y 50 -csd {half_seconds} -q 1000 -C {backlog} -z {seconds}"
        ),
        Figure::Received,
    )]),
    alone(&[test(
        "multi-ack",
        "as the first, with one acknowledgement for 1,000 messages",
        durable!("-u warren-bench-multi -q 5000 -A 1000 -z {seconds}"),
        Figure::Received,
    )]),
    alone(&[test(
        "ttl",
        "messages that expire after a second and are never consumed",
        durable!("-u warren-bench-ttl -qa x-message-ttl=1000 -y 0 -z {seconds}"),
        Figure::Sent,
    )]),
    alone(&[
        test(
            "fill",
            "messages are published to be refused by the next test",
            durable!("-u warren-bench-nack -ad false -y 0 -C {backlog} -z {half_seconds}"),
            Figure::Sent,
        ),
        test(
            "nack",
            "the messages of the test before are refused, 100 at a time, and dropped",
            "-e warren-bench -u warren-bench-nack -p -ad false -x 0 -q 1000 -A 100 -na -re false -ew empty -z {patience}",
            Figure::Received,
        ),
    ]),
    alone(&[test(
        "backlog-memory",
        "1 publisher without confirms, no consumer: memory per message of the backlog",
        "-e warren-bench -f persistent -u warren-bench-memory -ad false -y 0 -C {backlog} -z {seconds}",
        Figure::Memory,
    )]),
    alone(&[test(
        "routing",
        "1,000 publishers through a topic exchange to a queue of their own each, as fast as they can",
        "-e warren-bench-topic -t topic -qp warren-bench-route.%d -qpt 1000 -x 10 -X 100 -y 10 -Y 100 -c 100 -a -z {seconds}",
        Figure::Received,
    )]),
    Group {
        tests: &[test(
            "restart",
            "10,000 queues with bindings and a backlog: stop, start, kill -9 and start",
            "-e warren-bench -qp warren-bench-restart-%d -qpt 10000 -ad false --topology-only declare",
            Figure::Restart,
        )],
        needs: Needs::Control,
    },
    alone(&[
        test(
            "stream-publish",
            "1 publisher to a stream, nobody reads",
            durable!("-sq -u warren-bench-stream -ad false -x 1 -y 0 -z {seconds}"),
            Figure::Sent,
        ),
        test(
            "stream-backlog",
            "4 consumers read the stream of the test before from its first message",
            "-e warren-bench -sq -u warren-bench-stream -ad false -x 0 -y 4 -sco first -q 2000 -A 500 -z {seconds}",
            Figure::Received,
        ),
    ]),
    alone(&[test(
        "stream-tail",
        "1 publisher to a stream, 4 consumers at its end",
        durable!("-sq -u warren-bench-stream-tail -ad false -x 1 -y 4 -sco next -q 2000 -A 500 -z {seconds}"),
        Figure::Received,
    )]),
    alone(&[test(
        "stream-mixed",
        "4 publishers to a stream, 4 consumers from its first message",
        durable!(
            "-sq -u warren-bench-stream-mixed -ad false -x 4 -y 4 -sco first -q 2000 -A 500 -z {seconds}"
        ),
        Figure::Received,
    )]),
];

impl Test {
    /// The arguments of `warren perf` beside the address.
    pub(crate) fn arguments(&self, bounds: Bounds) -> Vec<String> {
        let Bounds { seconds, size, backlog_bytes_max, queue_type, .. } = bounds;
        // Twenty million small messages are a backlog by any measure.
        let backlog = (backlog_bytes_max / u64::from(size.max(1))).clamp(1, 20_000_000);
        let values = [
            ("{seconds}", seconds),
            ("{half_seconds}", (seconds / 2).max(1)),
            ("{patience}", bounds.patience()),
            ("{backlog}", backlog),
            ("{half_backlog}", (backlog / 2).max(1)),
            ("{many}", u64::from(bounds.many())),
            ("{thousand}", u64::from(bounds.thousand())),
        ];
        let filled = values
            .iter()
            .fold(self.arguments.to_owned(), |text, (name, value)| text.replace(name, &value.to_string()));
        let mut arguments: Vec<String> = filled.split_whitespace().map(str::to_owned).collect();
        if self.figure != Figure::Restart {
            arguments.extend(["-s".to_owned(), size.to_string()]);
        }
        if queue_type == QueueType::Quorum && !self.arguments.contains("-sq") {
            arguments.push("-qq".to_owned());
        }
        arguments
    }

    /// The test that has to run before this one.
    fn before(&self) -> Option<&'static Test> {
        let pairs = GROUPS.iter().flat_map(|group| group.tests.windows(2));
        pairs.filter(|pair| pair[1].name == self.name).map(|pair| &pair[0]).next()
    }

    /// The test whose queue this one empties.
    pub(crate) fn empties(&self) -> Option<&'static Test> {
        self.before().filter(|_| self.arguments.contains("-ew empty"))
    }

    /// Why there are fewer connections than the test is about, if there are.
    pub(crate) fn cut(&self, bounds: Bounds) -> Option<String> {
        let (wanted, given) = match self.arguments {
            arguments if arguments.contains("{many}") => (MANY, bounds.many()),
            arguments if arguments.contains("{thousand}") => (THOUSAND, bounds.thousand()),
            _ => return None,
        };
        let why = if given == bounds.connections_max {
            "--connections-max".to_owned()
        } else {
            "the limit on open files, see ulimit -n".to_owned()
        };
        (given < wanted).then(|| format!("{given} connections in place of {wanted}: {why}"))
    }

    /// The arguments that delete what the test declares.
    pub(crate) fn deletion(&self, bounds: Bounds) -> Vec<String> {
        let arguments = self.arguments(bounds);
        let mut kept = Vec::new();
        let mut words = arguments.into_iter();
        while let Some(word) = words.next() {
            if matches!(word.as_str(), "-e" | "-t" | "-u" | "-qp" | "-qpt") {
                kept.push(word);
                kept.extend(words.next());
            }
        }
        kept.extend(["--topology-only".to_owned(), "delete".to_owned()]);
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Options;
    use std::collections::HashSet;
    use std::ffi::OsString;

    const BOUNDS: Bounds = Bounds {
        seconds: 5,
        size: 1000,
        backlog_bytes_max: 1_000_000,
        connections_max: 7_000,
        open_max: 19_000,
        queue_type: QueueType::Classic,
    };

    #[test]
    fn every_test_is_a_command_line_that_can_be_run_and_undone() {
        let mut names = HashSet::new();
        for test in GROUPS.iter().flat_map(|group| group.tests) {
            assert!(names.insert(test.name), "{}", test.name);
            let quorum = Bounds { queue_type: QueueType::Quorum, ..BOUNDS };
            for line in [test.arguments(BOUNDS), test.arguments(quorum), test.deletion(BOUNDS)] {
                let line: Vec<OsString> = line.into_iter().map(OsString::from).collect();
                let outcome = Options::parse_args(line.clone());
                assert!(outcome.is_ok(), "{line:?}: {}", outcome.unwrap_err());
            }
        }
        assert_eq!(names.len(), 21);
    }

    #[test]
    fn queues_of_all_tests_are_quorum_queues_when_that_is_asked_for() {
        let quorum = Bounds { queue_type: QueueType::Quorum, ..BOUNDS };
        for test in GROUPS.iter().flat_map(|group| group.tests) {
            let (line, is_stream) = (test.arguments(quorum), test.name.starts_with("stream-"));
            assert_eq!(
                line.iter().filter(|word| *word == "-qq").count(),
                usize::from(!is_stream),
                "{line:?}"
            );
            assert!(!test.arguments(BOUNDS).contains(&"-qq".to_owned()));
        }
    }

    #[test]
    fn backlogs_and_connections_are_bounded() {
        let growing = GROUPS[1].tests[0].arguments(BOUNDS).join(" ");
        assert!(growing.contains("-C 500 ") && growing.contains("-s 1000"), "{growing}");
        let pairs = GROUPS[6].tests[0].arguments(Bounds { connections_max: 20, ..BOUNDS }).join(" ");
        assert!(pairs.contains("-x 20 -y 20"), "{pairs}");
    }

    #[test]
    fn a_test_with_fewer_connections_than_it_is_about_says_why() {
        let (fan_in, pairs, first) = (GROUPS[5].tests[0], GROUPS[6].tests[0], GROUPS[0].tests[0]);
        assert_eq!((fan_in.cut(BOUNDS), pairs.cut(BOUNDS)), (None, None));
        let few_files = Bounds { open_max: 900, ..BOUNDS };
        let told = fan_in.cut(few_files).unwrap();
        assert!(told.starts_with("899 connections in place of 7000") && told.contains("ulimit"), "{told}");
        assert!(pairs.arguments(few_files).join(" ").contains("-x 450 -y 450"));
        let asked = Bounds { connections_max: 20, ..BOUNDS };
        assert!(pairs.cut(asked).unwrap().contains("--connections-max"));
        assert_eq!(first.cut(few_files), None);
    }
}
