//! `$(NAME)` in values: replaced by the value of the key NAME of the same file, or else by the environment variable
//! NAME, as RabbitMQ does; a name that is neither is an error. Refuses to know the process's environment: a lookup is
//! passed in.

use super::error::{Problem, ProblemKind};
use super::syntax::Setting;

/// Replacements made for one value before it is refused: bounds the work a file can ask for.
const STEPS_MAX: usize = 256;
/// Longest value after replacement, bytes.
const VALUE_BYTES_MAX: usize = 65_536;

/// Looks up an environment variable.
pub(super) type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Replaces every `$(NAME)` in the values of `settings`. Settings that cannot be completed are removed and reported.
pub(super) fn substitute(
    settings: Vec<Setting>,
    env: Environment<'_>,
    problems: &mut Vec<Problem>,
) -> Vec<Setting> {
    let originals = settings.clone();
    let mut complete = Vec::with_capacity(settings.len());
    for mut setting in settings {
        let mut steps = 0;
        match expand(&setting.value, &originals, env, &mut vec![setting.key()], &mut steps) {
            Ok(value) => {
                setting.value = value;
                complete.push(setting);
            }
            Err((name, reason)) => {
                let kind = ProblemKind::Substitution { key: setting.key(), name, reason };
                problems.push(Problem { line: setting.line, kind });
            }
        }
    }
    complete
}

/// `trail` is the chain of keys being expanded: a name on it would never end.
fn expand(
    value: &str,
    settings: &[Setting],
    env: Environment<'_>,
    trail: &mut Vec<String>,
    steps: &mut usize,
) -> Result<String, (String, &'static str)> {
    let mut done = String::new();
    let mut rest = value;
    while let Some((before, inside, after)) = reference(rest) {
        let name = inside.trim().to_owned();
        *steps += 1;
        if *steps > STEPS_MAX || done.len() > VALUE_BYTES_MAX {
            return Err((name, "too many replacements"));
        }
        if trail.contains(&name) {
            return Err((name, "refers to itself"));
        }
        let found =
            settings.iter().rev().find(|setting| setting.key() == name).map(|setting| setting.value.clone());
        let found = found.or_else(|| env(&name));
        let Some(found) = found else {
            return Err((name, "neither a key of this file nor an environment variable"));
        };
        trail.push(name);
        let found = expand(&found, settings, env, trail, steps)?;
        trail.pop();
        done.push_str(before);
        done.push_str(&found);
        rest = after;
    }
    done.push_str(rest);
    Ok(done)
}

/// Splits at the first `$(...)`. A `$(` that is never closed is ordinary text.
fn reference(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once("$(")?;
    let (inside, after) = rest.split_once(')')?;
    Some((before, inside, after))
}

#[cfg(test)]
mod tests {
    use super::super::syntax::settings;
    use super::*;

    fn run(text: &str) -> Result<Vec<String>, Vec<ProblemKind>> {
        let env = |name: &str| (name == "HOST").then(|| "hare".to_owned());
        let mut problems = Vec::new();
        let settings = substitute(settings(text).0, &env, &mut problems);
        if problems.is_empty() {
            Ok(settings.into_iter().map(|setting| setting.value).collect())
        } else {
            Err(problems.into_iter().map(|problem| problem.kind).collect())
        }
    }

    #[test]
    fn a_name_is_a_key_of_the_file_first_and_an_environment_variable_second() {
        assert_eq!(run("a = $(HOST)-x"), Ok(vec!["hare-x".to_owned()]));
        assert_eq!(run("a = $(HOST)\nHOST = fox"), Ok(vec!["fox".to_owned(), "fox".to_owned()]));
        assert_eq!(run("b.c = q\nd = '$( b.c )$(b.c)!'"), Ok(vec!["q".to_owned(), "qq!".to_owned()]));
    }

    #[test]
    fn an_unknown_name_and_a_circle_are_problems() {
        let reason = |text: &str| match &run(text).unwrap_err()[0] {
            ProblemKind::Substitution { reason, .. } => *reason,
            other => panic!("{other:?}"),
        };
        assert_eq!(reason("e = $(NOPE)"), "neither a key of this file nor an environment variable");
        assert_eq!(reason("a = $(a)"), "refers to itself");
        assert_eq!(reason("a = $(b)\nb = $(a)"), "refers to itself");
    }

    #[test]
    fn an_unclosed_reference_is_ordinary_text() {
        assert_eq!(run("a = $(HOST"), Ok(vec!["$(HOST".to_owned()]));
        assert_eq!(run("a = $HOST)"), Ok(vec!["$HOST)".to_owned()]));
    }

    #[test]
    fn a_file_cannot_ask_for_endless_work() {
        let mut text = String::from("k0 = ''\n");
        for n in 1..40 {
            text.push_str(&format!("k{n} = $(k{m})$(k{m})\n", m = n - 1));
        }
        assert!(run(&text).is_err());
    }
}
