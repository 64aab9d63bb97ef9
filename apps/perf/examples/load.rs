//! The commands without a broker around them: `load perf ARGS`, `load bench ARGS` and `load null-broker ARGS`.
//!
//! For measuring other builds of the broker with one and the same generator.

use std::process::ExitCode;

fn main() -> anyhow::Result<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    match args.next() {
        Some(tool) if tool == "perf" => perf::run(args),
        Some(tool) if tool == "bench" => perf::bench(args),
        Some(tool) if tool == "null-broker" => perf::null_broker(args),
        _ => anyhow::bail!("usage: load perf|bench|null-broker ARGS"),
    }
}
