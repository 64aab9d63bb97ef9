//! The three commands and the results of their arguments. Refuses to know how load is made or bytes are forwarded.

use crate::amqp10::{self, Amqp10Options};
use crate::load::{self, Options};
use crate::mqtt::{self, MqttOptions};
use crate::null_broker::{self as null, NullOptions};
use crate::streams::{self, StreamOptions};
use crate::suite::{self, BenchCommand, BenchOptions};
use clap::Parser;
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

/// Runs `warren perf`: makes load and prints what it saw. `args` come without the program's and the command's name.
///
/// Progress goes to stderr once a second; the summary goes to stdout, or to stderr when `--json` puts its one line
/// on stdout. The exit code is 0, 2 for wrong arguments (clap has printed why).
///
/// # Errors
/// The broker cannot be reached, refuses an operation, or closes a connection or channel; queues and exchanges that
/// were declared are deleted first where that is still possible.
pub fn run(args: impl IntoIterator<Item = OsString>) -> anyhow::Result<ExitCode> {
    let mut args: Vec<OsString> = args.into_iter().collect();
    if args.first().is_some_and(|first| first == "--stream") {
        args[0] = "warren perf --stream".into();
        return match StreamOptions::try_parse_from(args) {
            Ok(options) => streams::run(&options),
            Err(error) => Ok(explain(&error)),
        };
    }
    if args.first().is_some_and(|first| first == "--amqp10") {
        args[0] = "warren perf --amqp10".into();
        return match Amqp10Options::try_parse_from(args) {
            Ok(options) => amqp10::run(&options),
            Err(error) => Ok(explain(&error)),
        };
    }
    if args.first().is_some_and(|first| first == "--mqtt") {
        args[0] = "warren perf --mqtt".into();
        return match MqttOptions::try_parse_from(args) {
            Ok(options) => mqtt::run(&options),
            Err(error) => Ok(explain(&error)),
        };
    }
    match Options::of_process(args) {
        Ok(options) => match options.listing() {
            Some(text) => {
                // Nobody is left to tell when the terminal is gone.
                let _ = std::io::stdout().write_all(text.as_bytes());
                Ok(ExitCode::SUCCESS)
            }
            None => load::run(&options),
        },
        Err(error) => Ok(explain(&error)),
    }
}

/// Runs `warren null-broker` until it is killed. `args` come without the program's and the command's name.
///
/// When it listens it prints `ready amqp=HOST:PORT data=none pid=N` on stdout.
///
/// # Errors
/// The address cannot be listened on.
pub fn null_broker(args: impl IntoIterator<Item = OsString>) -> anyhow::Result<ExitCode> {
    let name = OsString::from("warren null-broker");
    match NullOptions::try_parse_from(std::iter::once(name).chain(args)) {
        Ok(options) => null::serve(&options),
        Err(error) => Ok(explain(&error)),
    }
}

/// Runs `warren bench`: the suite, or a comparison of two results. `args` come without the program's and the command's name.
///
/// # Errors
/// A broker cannot be reached or may not be loaded, or results cannot be read or written.
pub fn bench(args: impl IntoIterator<Item = OsString>) -> anyhow::Result<ExitCode> {
    let name = OsString::from("warren bench");
    match BenchOptions::try_parse_from(std::iter::once(name).chain(args)) {
        Ok(BenchOptions { command: BenchCommand::Suite(options) }) => suite::run(&options),
        Ok(BenchOptions { command: BenchCommand::Compare { before, after } }) => {
            suite::compare(&before, &after)
        }
        Err(error) => Ok(explain(&error)),
    }
}

/// Prints clap's text: help to stdout with code 0, mistakes to stderr with code 2.
fn explain(error: &clap::Error) -> ExitCode {
    // Nobody is left to tell when the terminal is gone.
    let _ = error.print();
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}
