//! The one binary: server, ctl and tools.

use std::cell::RefCell;
use std::collections::HashSet;
use std::io::Write;
use std::process::ExitCode;

use platform::profile::WatchedAllocator;
use platform::{Random, RealRandom};
use warren::cli::{self, Command, ConfigArgs, ServerArgs};
use warren::{config, ctl, diag, lives, logging};

/// Looks at one allocation in many while `profile heap` is on.
#[global_allocator]
static ALLOCATOR: WatchedAllocator = WatchedAllocator;

fn main() -> ExitCode {
    let result = match cli::parse(std::env::args_os()) {
        Err(error) => error.exit(),
        Ok(Command::Server(args)) => serve(&args).map(|()| ExitCode::SUCCESS),
        Ok(Command::Config(args)) => print_or_check(&args).map(|()| ExitCode::SUCCESS),
        Ok(Command::Diag(args)) => diag::run(&args),
        Ok(Command::NullBroker(rest)) => perf::null_broker(rest),
        Ok(Command::Ctl(called, rest)) => ctl::run(called, rest),
        Ok(Command::Perf(rest)) => perf::run(rest),
        Ok(Command::Bench(rest)) => perf::bench(rest),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "warren: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn serve(args: &ServerArgs) -> anyhow::Result<()> {
    // Messages, password hashes and addresses with passwords in them are on disk.
    platform::privacy::keep_to_owner_and_group();
    // Clients choose keys and headers: nobody is to know which ones collide.
    stdx::hamt::seed_hashes(RealRandom.next_u64());
    let used = RefCell::new(HashSet::new());
    let mut options = args.options(&|name| {
        used.borrow_mut().insert(name.to_owned());
        environment(name)
    })?;
    let names: Vec<String> = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect();
    options.notices.extend(ServerArgs::unknown_variables(names.into_iter(), &used.into_inner()));
    logging::init(&options.log)?;
    for notice in &options.notices {
        tracing::warn!("{notice}");
    }
    lives::run(&options)
}

fn print_or_check(args: &ConfigArgs) -> anyhow::Result<()> {
    let text = match &args.check {
        Some(path) => {
            let notices = config::load(std::slice::from_ref(path), config::Options::default(), &environment)?
                .notices
                .join("\n  ");
            let more = if notices.is_empty() { String::new() } else { format!(", but:\n  {notices}") };
            format!("{}: no problems{more}\n", path.display())
        }
        None if args.markdown => config::markdown(),
        None if args.template => config::template(),
        None => config::plain(),
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
