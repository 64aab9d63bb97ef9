//! Running one command: password from standard input, call, banner, answer, exit code.

use std::ffi::OsString;
use std::io::{self, BufRead, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use management::{Answer, Exit, Failure, Format, Rows};

use super::arguments::{Arguments, Banner, Mistake, Run, parse};
use super::banner::{banner, comes_first};
use super::following::Ended;
use super::server::{Asking, Server, learn_name, timed_out};
use super::waiting::{Gone, Waited};
use super::{Called, catalogue, completing, documents, following, guide, local, outcome, profiles, waiting};

/// How every refusal of arguments begins.
const INVALID: &str = "Error (argument validation): ";

/// How refusals begin that the state of the node is the reason of.
const REQUIRES: &str = "Error: this command requires ";

/// Longest wait for an answer when nothing else is asked for, ...
const TIMEOUT: Duration = Duration::from_secs(60);

/// ... and for definitions, which may be large.
const TIMEOUT_DEFINITIONS: Duration = Duration::from_secs(600);

/// Runs one command of `rabbitmqctl` and gives its exit code (64 wrong usage, 65 wrong data, 67 no such user,
/// 69 not available, 70 internal, 75 no answer in time).
///
/// # Errors
/// Standard output is closed.
pub fn run(called: Called, words: Vec<OsString>) -> anyhow::Result<ExitCode> {
    if let Some((_, words)) = words.split_first().filter(|(first, _)| *first == completing::WORD) {
        let found = completing::candidates(called, words);
        say(&found.iter().map(|word| format!("{word}\n")).collect::<String>())?;
        return Ok(ExitCode::SUCCESS);
    }
    let line: Vec<String> = words.iter().map(|word| without_password(&word.to_string_lossy())).collect();
    let line = line.join(" ");
    match parse(called, words) {
        Ok(mut arguments) => match perform(called, &mut arguments)? {
            Ok(()) => Ok(ExitCode::SUCCESS),
            Err(failure) => fail(called, &arguments.request.command, &line, &failure),
        },
        Err(Mistake { problem, command }) => {
            fail(called, &command, &line, &Failure::new(Exit::USAGE, format!("{INVALID}{problem}")))
        }
    }
}

/// The result of the command; the outer error is a closed standard output.
fn perform(called: Called, arguments: &mut Arguments) -> anyhow::Result<Result<(), Failure>> {
    let request = &mut arguments.request;
    if request.has("version") {
        request.command = "version".into();
    } else if request.command.is_empty() && called != Called::Warren && !request.has("help") {
        return Ok(Err(Failure::new(Exit::USAGE, guide::all(called))));
    } else if request.command.is_empty() || request.has("help") {
        let topic = std::mem::replace(&mut request.command, "help".into());
        request.args = if topic.is_empty() { Vec::new() } else { vec![topic] };
    }
    learn_name(arguments);
    let mut banner = banner(arguments).filter(|_| arguments.banner == Banner::Shown);
    if let Err(failure) = read_password(arguments, &mut banner)? {
        return Ok(Err(failure));
    }
    if arguments.run == Run::Dry {
        announce(&mut banner)?;
        return Ok(Ok(()));
    }
    if let Some(answer) = local::answer(called, &arguments.request) {
        return finish(arguments, answer, None, banner);
    }
    if arguments.timeout == Some(Duration::ZERO) {
        return Ok(Err(timed_out(&arguments.request.command, Duration::ZERO)));
    }
    if let Some(answer) = profiles::diff_files(&arguments.request) {
        return finish(arguments, answer, None, banner);
    }
    match Server::meant(arguments, Asking::Allowed) {
        Ok(server) => ask(arguments, &server, banner),
        Err(failure) => Ok(Err(failure)),
    }
}

/// Has the server do it.
fn ask(
    arguments: &mut Arguments,
    server: &Server,
    mut banner: Option<String>,
) -> anyhow::Result<Result<(), Failure>> {
    if waiting::waits_for_start(&arguments.request.command) {
        return match wait_for_start(arguments, server) {
            Ok(()) if arguments.format == Format::Json => finish(arguments, Answer::done(), None, None),
            waited => Ok(waited),
        };
    }
    if arguments.request.command == "wait" {
        return wait_for_process(arguments, server);
    }
    if following::follows(&arguments.request.command) {
        return follow(arguments, server, banner);
    }
    if let Err(failure) = profiles::prepare(&mut arguments.request) {
        return Ok(Err(failure));
    }
    let target = match documents::prepare(&mut arguments.request) {
        Ok(target) => target,
        Err((exit, text)) => return Ok(Err(Failure::new(exit, text))),
    };
    if comes_first(&arguments.request.command) {
        announce(&mut banner)?;
    }
    if arguments.request.command == waiting::FOR_QUORUM {
        announce(&mut banner)?;
        let timeout = arguments.timeout.unwrap_or(waiting::DEFAULT_FOR_QUORUM);
        waiting::for_quorum(server, &arguments.request, timeout);
    }
    let gone = match arguments.request.command.as_str() {
        "shutdown" if !arguments.request.has("no-wait") => Gone::of(server),
        "stop" => arguments.request.args.first().and_then(|file| Gone::named_by(Path::new(file))),
        _ => None,
    };
    let timeout = arguments.timeout.unwrap_or(if arguments.request.command.ends_with("_definitions") {
        TIMEOUT_DEFINITIONS
    } else {
        TIMEOUT + profiles::duration(&arguments.request)
    });
    match server.call(&arguments.request, timeout) {
        Ok(answer) => {
            let finished = finish(arguments, answer, target.as_deref(), banner)?;
            let ended = finished.and_then(|()| wait_for_end(arguments, gone.as_ref()));
            if let (Ok(()), Some(Gone::Process(number)), "stop", Banner::Shown) =
                (&ended, &gone, arguments.request.command.as_str(), arguments.banner)
            {
                let file = &arguments.request.args[0];
                say(&format!("process {number} (take from pid file {file}) is no longer running\n"))?;
            }
            Ok(ended)
        }
        Err(error) => Ok(Err(server.unanswered(&arguments.request.command, &error, timeout))),
    }
}

/// Shows what comes until the time is over.
fn follow(
    arguments: &Arguments,
    server: &Server,
    mut banner: Option<String>,
) -> anyhow::Result<Result<(), Failure>> {
    let request = &arguments.request;
    let end = match following::end(request) {
        Ok(end) => end,
        Err(failure) => return Ok(Err(failure)),
    };
    announce(&mut banner)?;
    match following::follow(server, request, end, say) {
        Ok(()) => Ok(Ok(())),
        Err(Ended::Refused(failure)) => Ok(Err(failure)),
        Err(Ended::Unanswered(error, timeout)) => {
            Ok(Err(server.unanswered(&request.command, &error, timeout)))
        }
        Err(Ended::Unread(error)) => Err(error),
    }
}

/// Prints the banner, unless the arguments turn out to be wrong, then the answer.
fn finish(
    arguments: &Arguments,
    answer: Answer,
    target: Option<&Path>,
    mut banner: Option<String>,
) -> anyhow::Result<Result<(), Failure>> {
    let invalid = matches!(&answer, Answer::Failed(failure) if is_misplaced(&failure.error));
    if !invalid {
        announce(&mut banner)?;
    }
    if let Some(written) = profiles::write(&arguments.request, &answer) {
        return match written {
            Ok(text) => say(&text).map(Ok),
            Err(failure) => Ok(Err(failure)),
        };
    }
    if let (Answer::Done { ok }, Some(file)) = (&answer, target) {
        let written = documents::write(Some(file), ok);
        return Ok(written.map_err(|(exit, text)| Failure::new(exit, text)));
    }
    match outcome::text(answer, arguments) {
        Ok(text) => say(&text).map(Ok),
        Err(failure) => Ok(Err(failure)),
    }
}

/// Prints the banner once.
fn announce(banner: &mut Option<String>) -> anyhow::Result<()> {
    match banner.take() {
        Some(line) => say(&format!("{line}\n")),
        None => Ok(()),
    }
}

fn wait_for_start(arguments: &Arguments, server: &Server) -> Result<(), Failure> {
    let command = &arguments.request.command;
    let many = arguments.request.args.first().and_then(|count| count.parse::<u64>().ok());
    let timeout = arguments.timeout.unwrap_or(waiting::DEFAULT);
    let waited = match command.as_str() {
        "await_online_nodes" => waiting::for_nodes(server, many.unwrap_or(1), timeout),
        _ => waiting::for_start(server, timeout),
    };
    match waited {
        Ok(()) if command == "await_startup" => match waiting::for_application(server, timeout)? {
            true => Ok(()),
            false => Err(timed_out(command, timeout)),
        },
        Ok(()) => Ok(()),
        Err(None) => Err(timed_out(command, timeout)),
        Err(Some(error)) => Err(server.unanswered(command, &error, timeout)),
    }
}

/// Each step is told when it is taken, or all of them in the end where programs read.
fn wait_for_process(arguments: &Arguments, server: &Server) -> anyhow::Result<Result<(), Failure>> {
    let waited = match Waited::of(&arguments.request) {
        Ok(waited) => waited,
        Err(failure) => return Ok(Err(failure)),
    };
    let timeout = arguments.timeout.unwrap_or(waiting::DEFAULT);
    let (mut steps, mut said) = (Vec::new(), Ok(()));
    let answered = waited.wait(server, timeout, |step| {
        if arguments.banner == Banner::Shown && said.is_ok() {
            said = say(&format!("{step}\n"));
        }
        steps.push(vec![step.into()]);
    });
    said?;
    match answered {
        Ok(Some(())) if arguments.format == Format::Json => {
            let rows = Rows { columns: vec!["message".into()], rows: steps };
            finish(arguments, Answer::Rows(rows), None, None)
        }
        Ok(Some(())) => Ok(Ok(())),
        Ok(None) => Ok(Err(timed_out("wait", timeout))),
        Err(failure) => Ok(Err(failure)),
    }
}

fn wait_for_end(arguments: &Arguments, gone: Option<&Gone>) -> Result<(), Failure> {
    let timeout = arguments.timeout.unwrap_or(waiting::DEFAULT);
    match gone {
        Some(gone) if !gone.wait(timeout) => Err(timed_out(&arguments.request.command, timeout)),
        _ => Ok(()),
    }
}

/// A word of the command line as it may be shown: a URL without the password in it.
fn without_password(word: &str) -> String {
    let hidden = word.split_once("://").and_then(|(scheme, rest)| {
        let (login, place) = rest.rsplit_once('@')?;
        let (user, _) = login.split_once(':')?;
        Some(format!("{scheme}://{user}:***@{place}"))
    });
    hidden.unwrap_or_else(|| word.to_owned())
}

/// As with RabbitMQ, a password that is not on the command line is the first line of standard input; where there is none, nothing is
/// done: an empty password would take the user's away.
fn read_password(
    arguments: &mut Arguments,
    banner: &mut Option<String>,
) -> anyhow::Result<Result<(), Failure>> {
    let (given, exit_without) = match arguments.request.command.as_str() {
        "add_user" => (1, Exit::DATA),
        "change_password" | "authenticate_user" => (1, Exit::SOFTWARE),
        "hash_password" => (0, Exit::UNAVAILABLE),
        _ => return Ok(Ok(())),
    };
    if arguments.request.args.len() != given {
        return Ok(Ok(()));
    }
    announce(banner)?;
    if arguments.banner == Banner::Shown {
        say("Password: \n")?;
    }
    let mut line = String::new();
    if io::stdin().lock().read_line(&mut line)? == 0 {
        let text = match arguments.request.command.as_str() {
            "hash_password" => "Error:\nnot_enough_args",
            _ => "Error:\nPassword is not provided via argument or stdin",
        };
        return Ok(Err(Failure::new(exit_without, text)));
    }
    arguments.request.args.push(line.trim_end_matches(['\r', '\n']).into());
    Ok(Ok(()))
}

fn say(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Whether a command was not even tried.
fn is_misplaced(refusal: &str) -> bool {
    refusal.starts_with(INVALID) || refusal.starts_with(REQUIRES)
}

/// Prints a refusal; where the arguments are to blame, with the line that was given and how it should look.
fn fail(called: Called, command: &str, line: &str, failure: &Failure) -> anyhow::Result<ExitCode> {
    let mut text = failure.error.clone();
    if is_misplaced(&text) {
        text.truncate(text.trim_end_matches('\n').len());
        text.push_str(&format!("\nArguments given:\n\t{line}"));
        if let Some(entry) = catalogue::find(command) {
            text.push_str(&format!("\n\nUsage\n\n{}", guide::usage(called, entry)));
        }
    }
    if !text.is_empty() {
        writeln!(io::stderr(), "{text}")?;
    }
    Ok(ExitCode::from(failure.exit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_in_a_url_is_not_shown_again() {
        assert_eq!(without_password("--url=http://u:se@cret@host:1/p"), "--url=http://u:***@host:1/p");
        for harmless in ["http://u@host", "list_queues", "http://host:1", "a:b@c"] {
            assert_eq!(without_password(harmless), harmless);
        }
    }
}
