//! The lines of the log for a look from elsewhere: the last ones, and those that come. Refuses to know what is logged.

use serde_json::json;

use crate::ctl::commands::{Outcome, usage};
use crate::ctl::protocol::{Answer, Exit, Failure, Request};
use crate::resources::node::Node;
use crate::resources::values::iso_time;

/// Lines at the end of the newest log file, 50 unless `--number` says another count.
pub(super) fn log_tail(node: &Node, request: &Request) -> Outcome {
    const BYTES_MAX: u64 = 1 << 20;
    let number = match request.options.get("number") {
        None => 50,
        Some(text) => text.parse::<usize>().map_err(|_| usage("--number is a count of lines"))?,
    };
    let Some(file) = node.log_locations.iter().find(|place| !place.starts_with('<')) else {
        let text = "Error:\nthe log goes to standard error, not to a file: see log.file";
        return Err(Failure::new(Exit::UNAVAILABLE, text));
    };
    let lines = tail(file, number, BYTES_MAX).map_err(|error| {
        Failure::new(Exit::UNAVAILABLE, format!("Error:\nthe log file {file} cannot be read: {error}"))
    })?;
    Ok(Answer::facts(lines.join("\n"), json!({"lines": lines})))
}

/// Lines of the log behind a number, and the number of the newest one; without a number only that. A caller that wants more asks again.
pub(super) fn log_after(node: &Node, request: &Request) -> Outcome {
    let newest = node.journal.after(0, 1).last().map_or(0, |line| line.seq);
    let lines = match request.args.first().map(|text| text.parse::<u64>()) {
        None => Vec::new(),
        Some(Ok(after)) => node.journal.after(after, usize::MAX),
        Some(Err(_)) => return Err(usage("not a number of a line")),
    };
    let newest = lines.last().map_or(newest, |line| line.seq);
    let written = lines.iter().map(|line| {
        let time = iso_time(line.at);
        format!("{} {} [{}] {}", &time[..10], &time[11..23], line.level, line.message)
    });
    let written: Vec<String> = written.collect();
    Ok(Answer::facts(written.join("\n"), json!({"newest": newest, "lines": written})))
}

fn tail(file: &str, lines: usize, bytes_max: u64) -> std::io::Result<Vec<String>> {
    use std::io::{Read, Seek, SeekFrom};
    let mut file = std::fs::File::open(file)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(bytes_max)))?;
    let mut bytes = Vec::new();
    file.take(bytes_max).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let all: Vec<&str> = text.lines().collect();
    Ok(all[all.len().saturating_sub(lines)..].iter().map(|line| (*line).to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::node::tests::sample;

    #[test]
    fn who_follows_the_log_gets_each_line_once() {
        let node = sample();
        let asked = |args: &[&str]| {
            let request =
                Request { args: args.iter().map(|it| (*it).into()).collect(), ..Request::default() };
            let Ok(Answer::Facts { text, json }) = log_after(&node, &request) else { panic!() };
            (text, json["newest"].as_u64().unwrap())
        };
        assert_eq!(asked(&[]), (String::new(), 0));
        node.journal.push(1_795_279_923_258, "info", b"one\n");
        assert_eq!(asked(&[]), (String::new(), 1), "what was there before is not told");
        node.journal.push(1_795_279_923_259, "error", b"two\n");
        assert_eq!(asked(&["1"]), ("2026-11-21 16:52:03.259 [error] two".into(), 2));
        assert_eq!(asked(&["2"]), (String::new(), 2));
    }

    #[test]
    fn a_log_file_is_read_from_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("log");
        std::fs::write(&file, "one\ntwo\nthree\n").unwrap();
        assert_eq!(tail(file.to_str().unwrap(), 2, 1 << 20).unwrap(), ["two", "three"]);
        assert_eq!(tail(file.to_str().unwrap(), 9, 6).unwrap(), ["three"]);
        let mut request = Request::default();
        request.options.insert("number".into(), "x".into());
        assert_eq!(log_tail(&sample(), &request).unwrap_err().exit, Exit::USAGE);
    }
}
