//! Files of profiles: their form by the name of the file, written where the user is, and two of them compared. Refuses to know
//! how a profile is taken.

use std::fs;
use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use management::{Answer, Exit, Failure, Request};
use profiles::{ProfileError, diff};

/// Functions in the table of a comparison.
const TABLE_LINES_MAX: usize = 30;

/// Sizes of files that are compared, bytes.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// How long a profile takes on top of every answer.
pub(super) fn duration(request: &Request) -> Duration {
    let asked = || request.options.get("seconds")?.parse::<u32>().ok();
    Duration::from_secs(if request.command == "profile" { asked().unwrap_or(30).into() } else { 0 })
}

/// Asks the server for the form that the name of the file wants, before a profile is taken for nothing.
pub(super) fn prepare(request: &mut Request) -> Result<(), Failure> {
    let file = match request.options.get("output") {
        Some(file) if request.command == "profile" => Path::new(file),
        _ => return Ok(()),
    };
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        return Err(bad(&format!("Directory {} does not exist", folder.display())));
    }
    if request.options.contains_key("as") {
        return Ok(());
    }
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let form = match name.rsplit('.').next().unwrap_or_default() {
        "svg" => "svg",
        "folded" | "txt" | "collapsed" => "folded",
        "json" => "json",
        "pb" | "gz" | "pprof" => "pprof",
        _ => {
            return Err(bad(
                "the name of the file says its form: .svg, .folded, .json or .pb.gz (pprof); or say it with --as",
            ));
        }
    };
    request.options.insert("as".into(), form.into());
    Ok(())
}

fn bad(problem: &str) -> Failure {
    Failure::new(Exit::USAGE, format!("Error (argument validation): Bad argument: {problem}"))
}

/// Writes a profile to the file that was asked for and says so; `None` when none was, or the server refused.
pub(super) fn write(request: &Request, answer: &Answer) -> Option<Result<String, Failure>> {
    let file = request.options.get("output").filter(|_| request.command == "profile" && !is_diff(request))?;
    let text = match answer {
        Answer::Done { ok } => ok.clone(),
        Answer::Facts { text, .. } => format!("{text}\n"),
        Answer::Rows(_) | Answer::Failed(_) => return None,
    };
    let bytes = match request.options.get("as").map(String::as_str) {
        Some("pprof") => base64::engine::general_purpose::STANDARD.decode(&text).unwrap_or_default(),
        _ => text.into_bytes(),
    };
    let written = fs::write(file, &bytes)
        .map_err(|error| Failure::new(Exit::UNAVAILABLE, format!("Error:\nFailed to write {file}: {error}")));
    Some(written.map(|()| format!("{file}: {} bytes\n", bytes.len())))
}

fn is_diff(request: &Request) -> bool {
    request.args.first().is_some_and(|kind| kind == "diff")
}

/// `profile diff BEFORE AFTER [-o FILE.svg]`, for which no server is asked; `None` for all else.
pub(super) fn diff_files(request: &Request) -> Option<Answer> {
    let [_, before, after] = &request.args[..] else { return None };
    (request.command == "profile" && is_diff(request))
        .then(|| compare(request, before, after).unwrap_or_else(Answer::Failed))
}

fn compare(request: &Request, before: &str, after: &str) -> Result<Answer, Failure> {
    let found = diff(&read(before)?, &read(after)?).map_err(|error: ProfileError| bad(&error.to_string()))?;
    let Some(file) = request.options.get("output") else {
        return Ok(Answer::Done { ok: found.table(TABLE_LINES_MAX) });
    };
    let picture = found.svg(&format!("{before} -> {after}"));
    fs::write(file, &picture).map_err(|error| {
        Failure::new(Exit::UNAVAILABLE, format!("Error:\nFailed to write {file}: {error}"))
    })?;
    Ok(Answer::Done { ok: format!("{file}: {} bytes", picture.len()) })
}

fn read(file: &str) -> Result<String, Failure> {
    let failed = |why: String| Failure::new(Exit::DATA, format!("Error:\nFailed to read {file}: {why}"));
    let length = fs::metadata(file).map_err(|error| failed(error.to_string()))?.len();
    if length > FILE_BYTES_MAX {
        return Err(failed(format!("it is larger than {FILE_BYTES_MAX} bytes")));
    }
    fs::read_to_string(file).map_err(|error| match error.kind() {
        std::io::ErrorKind::InvalidData => failed("it is no text; compare .folded or .json files".into()),
        _ => failed(error.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(words: &[&str], output: &str) -> Request {
        let args = words.iter().map(|word| (*word).to_owned()).collect();
        let mut request = Request { command: "profile".into(), args, ..Request::default() };
        if !output.is_empty() {
            request.options.insert("output".into(), output.into());
        }
        request
    }

    #[test]
    fn the_name_of_a_file_decides_its_form() {
        for (file, form) in
            [("a.svg", "svg"), ("a.folded", "folded"), ("a.json", "json"), ("a.pb.gz", "pprof")]
        {
            let mut request = request(&["cpu"], file);
            prepare(&mut request).unwrap();
            assert_eq!(request.options["as"], form);
        }
        assert!(prepare(&mut request(&["cpu"], "profile")).unwrap_err().error.contains(".svg"));
        assert!(prepare(&mut request(&["cpu"], "/no/such/folder/a.svg")).is_err());
    }

    #[test]
    fn two_files_are_compared_into_a_table_or_a_picture() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        fs::write(at("a.folded"), "main;a 50\nmain;b 50\n").unwrap();
        fs::write(at("b.folded"), "main;a 90\nmain;b 10\n").unwrap();
        let Some(Answer::Done { ok }) = diff_files(&request(&["diff", &at("a.folded"), &at("b.folded")], ""))
        else {
            panic!()
        };
        assert!(ok.contains("+40.00%  a") && ok.contains("-40.00%  b"), "{ok}");
        let drawn = request(&["diff", &at("a.folded"), &at("b.folded")], &at("d.svg"));
        assert!(matches!(diff_files(&drawn), Some(Answer::Done { .. })));
        assert!(write(&drawn, &Answer::Done { ok: "it would be overwritten".into() }).is_none());
        assert!(fs::read_to_string(at("d.svg")).unwrap().contains("red: larger share"));
        assert!(matches!(diff_files(&request(&["diff", "/none", "/none"], "")), Some(Answer::Failed(_))));
        assert!(diff_files(&request(&["cpu"], "")).is_none());
    }
}
