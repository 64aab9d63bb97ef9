//! The arguments of `warren perf`: names, short forms, meanings and defaults are PerfTest's where it has them.
//!
//! Refuses to know what they lead to.

mod connecting;
mod consuming;
mod environment;
mod metrics;
mod objects;
mod publishing;
mod running;
mod spelling;
mod values;
mod words;

pub(crate) use connecting::Connecting;
pub(crate) use consuming::Consuming;
pub(crate) use metrics::Metrics;
pub(crate) use objects::{LeaderLocator, Objects, QUEUES_MAX};
pub(crate) use publishing::{Flag, LatencyFrom, Publishing};
pub(crate) use running::{ExitWhen, MetricsFormat, Running};

use clap::error::ErrorKind;
use clap::{ArgAction, CommandFactory, Parser, ValueEnum};
use std::ffi::OsString;
use std::fmt::Write;
use words::spelled_out;

/// Part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TopologyOnly {
    /// Declare queues, exchange and bindings, and leave them.
    Declare,
    /// Delete them.
    Delete,
}

/// Makes AMQP 0-9-1 load on any broker and measures rates, latency and CPU. Takes RabbitMQ PerfTest's options.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "warren perf",
    disable_help_flag = true,
    disable_version_flag = true,
    version,
    after_help = "Latency: a message carries its send time in its body: of 12 bytes or more behind a number of 4 bytes, as PerfTest\n\
                  has it; of 8 to 11 bytes in the first 8 (nanoseconds); of 4 to 7 in the first 4 (low 32 bits of microseconds);\n\
                  below 4 bytes not at all. With -B or --json-body it is in the header \"timestamp\". With a rate the send time is\n\
                  when the message was due, so that a slow broker cannot hide behind a late generator (--latency-from).\n\
                  docs/benchmarking.md says what differs from PerfTest."
)]
pub(crate) struct Options {
    /// Show this help
    #[arg(short = '?', long, action = ArgAction::Help)]
    pub(crate) help: Option<bool>,
    /// Show the variables that options are taken from, and their meaning (also -env)
    #[arg(long)]
    pub(crate) environment_variables: bool,
    /// Show the version
    #[arg(short = 'v', long, action = ArgAction::Version)]
    pub(crate) version: Option<bool>,
    #[command(flatten)]
    pub(crate) connecting: Connecting,
    #[command(flatten)]
    pub(crate) objects: Objects,
    #[command(flatten)]
    pub(crate) publishing: Publishing,
    #[command(flatten)]
    pub(crate) consuming: Consuming,
    #[command(flatten)]
    pub(crate) running: Running,
    #[command(flatten)]
    pub(crate) metrics: Metrics,
    /// Names of variables that options were taken from.
    #[arg(skip)]
    pub(crate) from_environment: Vec<String>,
    /// The arguments as they were understood, without addresses: those may hold passwords.
    #[arg(skip)]
    pub(crate) arguments: Vec<String>,
}

impl Options {
    /// Reads arguments, the command's name not among them, and nothing else.
    ///
    /// # Errors
    /// clap's, with a text that says what to change.
    #[cfg(test)]
    pub(crate) fn parse_args(args: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        Self::parse(args, &|_| None)
    }

    /// Reads arguments and the environment, which wins, as it does with PerfTest.
    ///
    /// # Errors
    /// clap's, with a text that says what to change.
    pub(crate) fn of_process(args: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        Self::parse(args, &|name| std::env::var_os(name))
    }

    fn parse(
        args: impl IntoIterator<Item = OsString>,
        lookup: environment::Lookup<'_>,
    ) -> Result<Self, clap::Error> {
        let problem = |problem| Self::command().error(ErrorKind::ValueValidation, problem);
        let args = spelled_out(args.into_iter().collect(), &Self::command()).map_err(problem)?;
        let args = environment::firsts(args, &Self::command());
        let (args, from_environment) =
            environment::applied(args, &Self::command(), lookup).map_err(problem)?;
        let name = OsString::from("warren perf");
        let mut options = Self::try_parse_from(std::iter::once(name).chain(args.clone()))?;
        let arguments = environment::without_addresses(args, &Self::command()).into_iter();
        options.arguments = arguments.map(|word| word.to_string_lossy().into_owned()).collect();
        options.from_environment = from_environment;
        let replicated = options.objects.quorum_queue || options.objects.stream_queue;
        if replicated && !options.publishing.has(Flag::Persistent) {
            options.publishing.flag.push(Flag::Persistent);
        }
        if options.objects.stream_queue && options.consuming.qos == 0 {
            options.consuming.qos = 200;
        }
        if options.listing().is_none() {
            options.check().map_err(problem)?;
        }
        Ok(options)
    }

    /// The text that is to be shown in place of a run, if that is asked for.
    pub(crate) fn listing(&self) -> Option<String> {
        if self.environment_variables {
            return Some(environment::listing(&Self::command(), &|name| std::env::var_os(name)));
        }
        self.metrics.metrics_help.then(|| {
            let (command, mut text) = (Self::command(), String::new());
            for arg in command.get_arguments().filter(|arg| arg.get_help_heading() == Some("Metrics")) {
                let (long, help) = (arg.get_long().unwrap_or_default(), arg.get_help());
                let help = help.map(ToString::to_string).unwrap_or_default();
                // Writing to a string cannot fail.
                let _ = writeln!(text, "--{long:32} {help}");
            }
            text
        })
    }

    fn check(&self) -> Result<(), String> {
        let (from, to) = (self.objects.queue_pattern_from, self.objects.queue_pattern_to);
        let queues = to.map_or(0, |to| to.saturating_sub(from)).saturating_add(1);
        if queues > QUEUES_MAX {
            return Err(format!(
                "--queue-pattern-from {from} to --queue-pattern-to {} are {queues} queues: at most {QUEUES_MAX} are used",
                to.unwrap_or_default()
            ));
        }
        let (publishing, consuming, objects) = (&self.publishing, &self.consuming, &self.objects);
        let wrong_rate = |rate: f64| !rate.is_finite();
        let problem = if publishing.rate.is_some_and(wrong_rate) {
            "--rate must be a number of messages per second, or -1 for no limit"
        } else if consuming.consumer_rate.is_some_and(wrong_rate) {
            "--consumer-rate must be a number of messages per second, or -1 for no limit"
        } else if publishing.publishing_interval.is_some_and(|seconds| !(seconds > 0.0 && seconds < 1e6)) {
            "--publishing-interval must be above 0 seconds"
        } else if !(self.running.interval >= 0.01 && self.running.interval < 1e6) {
            "--interval must be 0.01 seconds at least"
        } else if publishing.producer_tx_size > 0 && publishing.window().is_some() {
            "--ptxsize and --confirm exclude each other: a channel either has transactions or confirms"
        } else if consuming.qos > 0 && consuming.multi_ack_every > u32::from(consuming.qos) {
            "--multi-ack-every must be less than or equal to --qos: it would wait for ever"
        } else if objects.queue_pattern_to.is_some_and(|to| to < objects.queue_pattern_from) {
            "--queue-pattern-to is below --queue-pattern-from"
        } else if publishing.producers + consuming.consumers == 0 && objects.topology_only.is_none() {
            "no producers and no consumers: nothing to do"
        } else {
            return Ok(());
        };
        Err(problem.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        Options::parse_args(line.split_whitespace().map(OsString::from)).map_err(|error| error.to_string())
    }

    #[test]
    fn command_lines_of_perf_test_are_understood() {
        let options = parse("-p -e amq.fanout -u q1 -s 5 --autoack -z 10").unwrap();
        assert!(options.objects.predeclared && options.consuming.autoack);
        assert_eq!((options.publishing.size, options.running.seconds()), (5, Some(10)));
        let options = parse("-x 100 -y 100 --queue-pattern q-%d -qpf 1 -qpt 100 -r 20").unwrap();
        assert_eq!((options.objects.queue_pattern_from, options.objects.queue_pattern_to), (1, Some(100)));
        let options = parse("-x 2 -y 4 -c 200 -f persistent -q 100 -ad false -h amqp://h:1").unwrap();
        let publishing = &options.publishing;
        assert!(publishing.has(Flag::Persistent) && !publishing.has(Flag::Mandatory));
        assert_eq!((publishing.window(), options.objects.auto_delete), (Some(200), Some(false)));
    }

    #[test]
    fn lines_of_perf_tests_manual_are_understood() {
        for line in [
            "-x 1 -y 2 -u throughput-test-4 --id test-4 -qos 100 -d x",
            "-x 1 -y 2 -u q -a --rate 100 --variable-size 1000:30 --variable-size 10000:20 -vs 5000:45",
            "--variable-rate 100:60 -vr 1000:10 -vr 500:15 -H amqp://a,amqp://b:5673",
            "-x 1 -y 1 --variable-latency 1000:60 -vl 1000000:30 -L 10",
            "-m 10 -n 10 -po -pi 5 -na -re false -qq -ll balanced -mlb 1000 -ew empty -mf compact",
            "-sq -ma PT5M -smssb 1000000 -sco first -ca x-priority=10 -qa x-max-length=10,x-y=z",
            "-jb -bc 10 -bfc 20 -s 16000 -T application/json -mp priority=5,timestamp=2026-01-01T00:00:00Z",
            "-niot 4 -hst 2 -ctp 5 -pst 2 -cri 30-60 -dcr -tnd false -trbs 1000 -tsbs 1000 -st 1 -sst 5 -sul 1",
            "-C 0 -D 0 -c -1 -r -1 -R -1 -z 0 -P 0.5 -prsd 10 -csd 5 -S -K -rkcs 100 -i 2 -o f -ms -b 10 -M 4096",
        ] {
            let outcome = parse(line);
            let expected = !line.contains("-r -1");
            assert_eq!(outcome.is_ok(), expected, "{line}: {outcome:?}");
        }
        let none = parse("-C 0 -D 0 -c -1 -r -1 -z 0").unwrap();
        assert_eq!((none.publishing.count_max(), none.publishing.window()), (None, None));
        assert_eq!((none.consuming.count_max(), none.running.seconds()), (None, None));
        assert_eq!(parse("-sq").unwrap().consuming.qos, 200);
        assert!(parse("-qq").unwrap().publishing.has(Flag::Persistent));
        assert!(parse("-x 99999999999").is_err());
        assert!(parse("-qp q-%d -qpf 4000000001 -qpt 4001000000").is_ok());
    }

    #[test]
    fn nothings_and_options_given_twice_mean_what_they_mean_to_perf_test() {
        let options = parse("-r 0 -c 0 -R 0 -vs 0:1").unwrap();
        assert_eq!((options.publishing.rate, options.publishing.window()), (Some(0.0), Some(10_000_000)));
        assert!(parse("-vr 0:1").is_ok());
        let options =
            parse("-C 1 -C3 --pmessages=4 -a -a -u one --queue two -vr 5:1 -vr 6:1 -s=7 -s 8").unwrap();
        assert_eq!(options.publishing.pmessages, Some(1), "the first counts");
        assert_eq!((options.publishing.size, options.publishing.variable_rate.len()), (7, 2));
        assert!(options.consuming.autoack);
        assert_eq!((options.objects.queue, options.objects.queue_args.len()), (vec!["one".to_owned()], 0));
        let options = parse("-mp a=1 -mp b=2 -ca a=1 -ca b=2 -qa a=1 -qa b=2").unwrap();
        assert_eq!(options.publishing.message_properties, ["a=1"]);
        assert_eq!((options.consuming.consumer_args.len(), options.objects.queue_args.len()), (1, 2));
    }

    #[test]
    fn what_says_none_to_perf_test_is_none_here() {
        let options =
            parse("-b -1 -q -1 -Q -1 -L -1 -z -1 -c -2 -prsd -1 -csd -1 -rkcs -1 -st -1 -hst -1").unwrap();
        let consuming = &options.consuming;
        assert_eq!((consuming.qos, consuming.global_qos, consuming.consumer_latency), (0, 0, 0));
        assert_eq!((options.running.seconds(), options.publishing.window()), (None, None));
        let options = parse("-ad FALSE -re True -mlb 20gb -smssb 1MB -f persistent mandatory").unwrap();
        let objects = &options.objects;
        assert_eq!((objects.auto_delete, options.consuming.requeue), (Some(false), true));
        assert_eq!(objects.max_length_bytes, Some(20_000_000_000));
        assert_eq!(objects.stream_max_segment_size_bytes, Some(1_000_000));
        assert!(options.publishing.has(Flag::Persistent) && options.publishing.has(Flag::Mandatory));
    }

    #[test]
    fn an_exchange_without_a_name_has_that_of_its_type() {
        let name = |line: &str| parse(line).unwrap().objects.exchange_name().to_owned();
        assert_eq!(
            ["", "-t fanout", "-t topic -e", "-e -u q"].map(name),
            ["direct", "fanout", "topic", "direct"]
        );
        assert_eq!(["-e x -t topic", "-e amq.default", "-e="].map(name), ["x", "", ""]);
    }

    #[test]
    fn what_cannot_work_is_refused_with_a_reason() {
        for (line, reason) in [
            ("-r NaN", "messages per second"),
            ("-q 10 -A 11", "wait for ever"),
            ("-x 0 -y 0", "nothing to do"),
            ("-qp q-%d -qpf 5 -qpt 4", "below"),
            ("-qp q-%d", "queue-pattern-to"),
            ("-qp q-%d -qpt 999999999", "at most 1000000"),
            ("-qp q-%d -qpf 0 -qpt 4294967295", "at most 1000000"),
            ("-h http://x", "amqp://"),
            ("-c 5 -m 5", "exclude"),
            ("-vr 5", "VALUE:SECONDS"),
            ("-se", "not in this build"),
            ("-mjx", "--metrics-prometheus"),
            ("-ei 3", "not synchronised"),
            ("-em a=b", "no number"),
            ("-u a -qp b-%d -qpt 3", "cannot be used with"),
            ("-qpf 1 -qpt 3", "queue-pattern <"),
            ("-x -1", "-1"),
            ("-a true", "'true'"),
            ("-ad yes", "true or false"),
            ("-f immediate", "possible values"),
            ("-que q", "several options"),
        ] {
            let text = parse(line).unwrap_err();
            assert!(text.contains(reason), "{line}: {text}");
        }
    }

    #[test]
    fn the_environment_wins_and_is_told() {
        let lookup = |name: &str| match name {
            "RATE" => Some(OsString::from("7")),
            "AUTOACK" => Some(OsString::from("true")),
            _ => None,
        };
        let options = Options::parse(["-r", "5"].map(OsString::from), &lookup).unwrap();
        assert_eq!((options.publishing.rate, options.consuming.autoack), (Some(7.0), true));
        assert_eq!(options.from_environment, ["RATE", "AUTOACK"]);
    }

    #[test]
    fn what_can_be_asked_is_shown() {
        assert!(parse("-env -x 0 -y 0").unwrap().listing().unwrap().contains("MULTI_ACK_EVERY"));
        assert!(parse("-mh").unwrap().listing().unwrap().contains("--metrics-prometheus-port"));
        assert_eq!(parse("").unwrap().listing(), None);
    }

    #[test]
    fn the_definition_is_sound() {
        Options::command().debug_assert();
    }
}
