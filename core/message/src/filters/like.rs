//! Patterns of LIKE: `%` is any text, `_` any character.

/// Steps that one match may take. Beyond them a text does not match, as in RabbitMQ, whose limit is another one.
const STEPS_MAX: u32 = 1_000_000;

/// A pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Like {
    Exact(Box<[u8]>),
    /// One `%`: the texts before it and behind it.
    Around(Box<[u8]>, Box<[u8]>),
    Steps(Vec<Step>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Any,
    One,
    Char(char),
}

impl Like {
    /// Compiles a pattern. `None`: a control character, or an escape character with nothing behind it.
    pub(super) fn parse(pattern: &str, escape: Option<char>) -> Option<Like> {
        let mut steps = Vec::new();
        let mut chars = pattern.chars();
        while let Some(char) = chars.next() {
            steps.push(match char {
                escaped if Some(escaped) == escape => Step::Char(chars.next()?),
                '%' => Step::Any,
                '_' => Step::One,
                other => Step::Char(other),
            });
        }
        if steps.iter().any(|step| matches!(step, Step::Char(char) if char.is_ascii_control())) {
            return None;
        }
        let text = |steps: &[Step]| {
            let text: Option<String> = steps
                .iter()
                .map(|step| if let Step::Char(char) = step { Some(*char) } else { None })
                .collect();
            text.map(|text| Box::from(text.into_bytes()))
        };
        if let Some(exact) = text(&steps) {
            return Some(Like::Exact(exact));
        }
        let first = steps.iter().position(|step| *step == Step::Any);
        let around = first.and_then(|at| Some((text(&steps[..at])?, text(&steps[at + 1..])?)));
        Some(around.map_or(Like::Steps(steps), |(before, behind)| Like::Around(before, behind)))
    }

    /// Whether a text matches; `None` if it would have to be UTF-8 and is not.
    pub(super) fn matches(&self, text: &[u8]) -> Option<bool> {
        Some(match self {
            Like::Exact(exact) => text == &**exact,
            Like::Around(before, behind) => {
                text.len() >= before.len() + behind.len()
                    && text.starts_with(before)
                    && text.ends_with(behind)
            }
            Like::Steps(steps) => walk(steps, std::str::from_utf8(text).ok()?),
        })
    }
}

/// Matches step by step; comes back to the latest `%` when the rest does not fit.
fn walk(steps: &[Step], text: &str) -> bool {
    let (mut at, mut rest) = (0, text);
    let mut latest: Option<(usize, &str)> = None;
    for _ in 0..STEPS_MAX {
        let mut chars = rest.chars();
        let next = chars.next();
        let fits = match (steps.get(at), next) {
            (Some(Step::Any), _) => {
                latest = Some((at + 1, rest));
                at += 1;
                continue;
            }
            (None, None) => return true,
            (Some(Step::One), Some(char)) => char != '\n',
            (Some(Step::Char(wanted)), Some(char)) => *wanted == char,
            _ => false,
        };
        if fits {
            (at, rest) = (at + 1, chars.as_str());
            continue;
        }
        let Some((behind, from)) = latest else { return false };
        let mut chars = from.chars();
        // As in RabbitMQ, wildcards pass over no line feed.
        if chars.next().is_none_or(|char| char == '\n') {
            return false;
        }
        latest = Some((behind, chars.as_str()));
        (at, rest) = (behind, chars.as_str());
    }
    false
}
