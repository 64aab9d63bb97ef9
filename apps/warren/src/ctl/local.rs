//! Commands that no server is asked for. Refuses to know the terminal.

use management::{Answer, Exit, Failure, NODE_NAME, Request, hash_password};
use serde_json::json;

use super::Called;
use super::catalogue;
use super::guide;

/// Answers a command that needs no server; `None` for all others.
pub(super) fn answer(called: Called, request: &Request) -> Option<Answer> {
    let answer = match request.command.as_str() {
        "version" => Ok(version(called)),
        "help" => help(called, request.args.first().map(String::as_str)),
        "list_commands" => commands(called, ""),
        "completion" => completion(request.args.first().map_or("", String::as_str)),
        "autocomplete" => commands(called, request.args.first().map_or("", String::as_str)),
        "hash_password" => hashed(request),
        "encode" | "decode" => {
            Ok(refused("values in configuration files are not encrypted", &request.command))
        }
        command if catalogue::find(command).is_some() => return None,
        command => match catalogue::absent(command) {
            Some(why) => Ok(refused(why, command)),
            None => Err(Failure::new(Exit::USAGE, guide::not_found(called, command))),
        },
    };
    Some(answer.unwrap_or_else(Answer::Failed))
}

/// By RabbitMQ's names for its tools, the version of RabbitMQ that clients take this for (B9).
fn version(called: Called) -> Answer {
    let text = match called {
        Called::Warren => env!("CARGO_PKG_VERSION").to_owned(),
        _ => protocols::amqp091::Settings::default().product.version,
    };
    let json = json!({"node": NODE_NAME, "value": {"version": text}, "result": "ok"});
    Answer::Facts { text, json }
}

fn help(called: Called, command: Option<&str>) -> Result<Answer, Failure> {
    if let Some((why, absent)) = command.and_then(|it| Some((catalogue::absent(it)?, it))) {
        return Ok(refused(why, absent));
    }
    let ok = match command {
        None => guide::all(called),
        Some(command) => match catalogue::find(&called.command(command)) {
            Some(entry) => guide::of(called, entry),
            None => {
                let meant = guide::meant(command).unwrap_or_default();
                let text = format!("Error:\n\nCommand '{command}' not found.{meant}");
                return Err(Failure::new(Exit::USAGE, text));
            }
        },
    };
    Ok(Answer::Done { ok: ok.trim_end().into() })
}

fn commands(called: Called, prefix: &str) -> Result<Answer, Failure> {
    let mut names: Vec<&str> = catalogue::all()
        .iter()
        .filter(|entry| called.shows(entry.section))
        .map(|entry| called.word(entry.name))
        .filter(|name| name.starts_with(prefix))
        .collect();
    names.sort_unstable();
    Ok(Answer::Done { ok: names.join("\n") })
}

/// A script for a shell, which asks this program for the names of commands.
fn completion(shell: &str) -> Result<Answer, Failure> {
    let ok = match shell {
        "bash" => include_str!("completions/warren.bash"),
        "zsh" => include_str!("completions/warren.zsh"),
        "fish" => include_str!("completions/warren.fish"),
        _ => {
            let text = "Error (argument validation): the shell is one of bash, zsh and fish";
            return Err(Failure::new(Exit::USAGE, text));
        }
    };
    Ok(Answer::Done { ok: ok.trim_end().into() })
}

fn hashed(request: &Request) -> Result<Answer, Failure> {
    let password = request.args.first().map_or("", String::as_str);
    let algorithm = request.options.get("hashing-algorithm").map(String::as_str);
    match hash_password(password, algorithm) {
        Some(ok) => Ok(Answer::Done { ok }),
        None if password.is_empty() => Err(Failure::new(Exit::UNAVAILABLE, "Error:\nnot_enough_args")),
        None => Err(Failure::new(Exit::DATA, "Error:\nThe hashing algorithm is one of SHA256 and SHA512")),
    }
}

fn refused(why: &str, command: &str) -> Answer {
    Answer::Failed(Failure::new(Exit::UNAVAILABLE, format!("Error:\nWarren has no '{command}': {why}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(line: &[&str]) -> Option<Answer> {
        let mut words = line.iter().map(|word| (*word).to_owned());
        let request = Request { command: words.next().unwrap(), args: words.collect(), ..Request::default() };
        answer(Called::Rabbitmqctl, &request)
    }

    fn refusal(line: &[&str]) -> (u8, String) {
        match run(line) {
            Some(Answer::Failed(failure)) => (failure.exit, failure.error),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_password_is_hashed_as_definitions_hold_it() {
        let Some(Answer::Done { ok }) = run(&["hash_password", "secret"]) else { panic!() };
        assert_eq!(ok.len(), 48);
        assert_ne!(run(&["hash_password", "secret"]), Some(Answer::Done { ok }));
        assert_eq!(refusal(&["hash_password"]).0, Exit::UNAVAILABLE);
    }

    #[test]
    fn what_is_not_here_is_refused_with_its_reason() {
        assert!(refusal(&["eval", "1+1."]).1.contains("no Erlang"));
        assert_eq!(
            refusal(&["list_user"]).1,
            "\nCommand 'list_user' not found. \nDid you mean 'list_users'? "
        );
        assert_eq!(refusal(&["help", "nonsense"]).0, Exit::USAGE);
        assert_eq!(refusal(&["help", "eval"]), refusal(&["eval"]));
        assert_eq!(run(&["list_users"]), None);
    }
}
