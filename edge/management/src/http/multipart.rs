//! Forms of browsers with files in them (`multipart/form-data`, RFC 7578), read from a body that is here already. Refuses to know
//! what its fields are for.
//!
//! Parts are pieces of the body: nothing is copied, and the cost of reading grows with the body only.

use memchr::memmem;

/// Most parts of a form.
const PARTS_MAX: usize = 64;

/// Longest head of a part, bytes.
const HEAD_BYTES_MAX: usize = 8 << 10;

/// A field of a form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part<'a> {
    pub(crate) name: String,
    /// Of a file, as the browser's machine has it.
    pub(crate) file_name: Option<String>,
    pub(crate) content: &'a [u8],
}

/// Whether a media type is that of such a form.
pub(crate) fn is_form(content_type: &str) -> bool {
    content_type.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("multipart/form-data")
}

/// The fields of a form, in its order. Bytes before the first boundary and behind the last one are passed over.
///
/// # Errors
/// The fault of the form, for people.
pub(crate) fn parts<'a>(content_type: &str, body: &'a [u8]) -> Result<Vec<Part<'a>>, &'static str> {
    let boundary = parameters(content_type).find(|(name, _)| name == "boundary").map(|(_, value)| value);
    let boundary = boundary.filter(|it| !it.is_empty()).ok_or("the form names no boundary")?;
    let delimiter = format!("\r\n--{boundary}");
    let delimiter = memmem::Finder::new(delimiter.as_bytes());
    // The first boundary may be the first line.
    let first = &delimiter.needle()[2..];
    let mut rest = match body.strip_prefix(first) {
        Some(rest) => rest,
        None => behind(body, &delimiter).ok_or("the form does not begin with its boundary")?.1,
    };
    let mut parts = Vec::new();
    loop {
        if rest.starts_with(b"--") {
            return Ok(parts);
        }
        if parts.len() == PARTS_MAX {
            return Err("the form has too many fields");
        }
        let line_end = memmem::find(rest, b"\r\n").ok_or(UNFINISHED)?;
        if !rest[..line_end].iter().all(|byte| matches!(byte, b' ' | b'\t')) {
            return Err("the form has a line that is no boundary and begins as one");
        }
        // With the line's end, by which a head without a line is seen to be one.
        let (part, next) = behind(&rest[line_end..], &delimiter).ok_or(UNFINISHED)?;
        parts.push(one(part)?);
        rest = next;
    }
}

const UNFINISHED: &str = "the form ends before its last boundary";

/// The bytes before a delimiter and the bytes behind it.
fn behind<'a>(text: &'a [u8], delimiter: &memmem::Finder<'_>) -> Option<(&'a [u8], &'a [u8])> {
    let at = delimiter.find(text)?;
    Some((&text[..at], &text[at + delimiter.needle().len()..]))
}

/// A part from the line end before its head on.
fn one(part: &[u8]) -> Result<Part<'_>, &'static str> {
    let seen = &part[..part.len().min(HEAD_BYTES_MAX)];
    let head_end =
        memmem::find(seen, b"\r\n\r\n").ok_or("a field of the form has no head, or a very long one")?;
    let head = String::from_utf8_lossy(&part[..head_end]);
    let of_disposition = |line: &str| {
        let (name, value) = line.split_once(':')?;
        name.trim().eq_ignore_ascii_case("content-disposition").then(|| value.to_owned())
    };
    let disposition = head.split("\r\n").find_map(of_disposition).unwrap_or_default();
    let word =
        |wanted: &str| parameters(&disposition).find(|(name, _)| name == wanted).map(|(_, value)| value);
    let name = word("name").ok_or("a field of the form has no name")?;
    Ok(Part { name, file_name: word("filename"), content: &part[head_end + 4..] })
}

/// Parameters of a header's value, such as `form-data; name="file"`: names in small letters, values without quotes.
fn parameters(value: &str) -> impl Iterator<Item = (String, String)> {
    let mut rest = value.split_once(';').map_or("", |(_, rest)| rest);
    std::iter::from_fn(move || {
        let (name, behind) = rest.split_once('=')?;
        // Before it there may be words without a value.
        let name = name.rsplit(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let behind = behind.trim_start();
        let value;
        (value, rest) = match behind.strip_prefix('"') {
            Some(quoted) => unquoted(quoted),
            None => {
                let (plain, rest) = behind.split_once(';').unwrap_or((behind, ""));
                (plain.trim_end().to_owned(), rest)
            }
        };
        Some((name, value))
    })
}

/// A text up to its closing quote, and what stands behind that.
fn unquoted(quoted: &str) -> (String, &str) {
    let (mut text, mut letters) = (String::new(), quoted.char_indices());
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return (text, &quoted[at + 1..]),
            // Browsers quote with `%22`, others with a backslash; one before anything else is part of a Windows path.
            '\\' if quoted[at + 1..].starts_with(['"', '\\']) => {
                text.extend(letters.next().map(|(_, it)| it));
            }
            other => text.push(other),
        }
    }
    (text, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPE: &str = "multipart/form-data; boundary=XX";

    fn part<'a>(name: &str, file_name: Option<&str>, content: &'a [u8]) -> Part<'a> {
        Part { name: name.into(), file_name: file_name.map(str::to_owned), content }
    }

    #[test]
    fn fields_and_files_are_read_as_curl_and_browsers_send_them() {
        let body = b"--XX\r\nContent-Disposition: form-data; name=\"redirect\"\r\n\r\n../#/import\r\n--XX\r\n\
            content-disposition: form-data; x ; name=\"file\"; filename=\"a \\\"b\\\".json\"\r\nContent-Type: application/json\r\n\r\n\
            {\"a\":\r\n\"--XY\"}\r\n--XX--\r\n";
        let file = part("file", Some("a \"b\".json"), b"{\"a\":\r\n\"--XY\"}");
        assert_eq!(parts(TYPE, body), Ok(vec![part("redirect", None, b"../#/import"), file]));
    }

    #[test]
    fn what_stands_around_the_parts_is_passed_over_and_a_part_may_be_empty() {
        let body = b"preamble\r\n--X X \t\r\nContent-Disposition: form-data; name=a;\r\n\r\n\r\n--X X-- and more\r\n--X X";
        let content_type = "Multipart/Form-Data ; charset=x; BOUNDARY=\"X X\"";
        assert!(is_form(content_type) && !is_form("application/json") && !is_form(""));
        assert_eq!(parts(content_type, body), Ok(vec![part("a", None, b"")]));
        assert_eq!(parts(TYPE, b"--XX--"), Ok(Vec::new()));
    }

    #[test]
    fn what_is_no_form_is_refused() {
        let head = "--XX\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n";
        for (content_type, body) in [
            ("multipart/form-data", "--XX--".to_owned()),
            ("multipart/form-data; boundary=", "--XX--".to_owned()),
            (TYPE, String::new()),
            (TYPE, "{}".to_owned()),
            (TYPE, head.to_owned()),
            (TYPE, format!("{head}b\r\n--X")),
            (TYPE, format!("{head}b\r\n--XXX\r\n\r\nc\r\n--XX--")),
            (TYPE, "--XX\r\n\r\nb\r\n--XX--".to_owned()),
            (TYPE, "--XX\r\nContent-Disposition: form-data\r\n\r\nb\r\n--XX--".to_owned()),
            (TYPE, "--XX\r\nContent-Disposition: form-data; name=a\r\n--XX--".to_owned()),
            (TYPE, format!("--XX\r\nx: {}\r\n\r\nb\r\n--XX--", "y".repeat(HEAD_BYTES_MAX))),
            (TYPE, format!("{}--XX--", format!("{head}\r\n").repeat(PARTS_MAX + 1))),
        ] {
            assert!(
                parts(content_type, body.as_bytes()).is_err(),
                "{content_type}: {}",
                &body[..body.len().min(90)]
            );
        }
    }

    /// From one seed: bodies made of what forms are made of, cut anywhere.
    #[test]
    fn no_body_makes_it_fail_and_each_content_lies_between_two_boundaries() {
        const PIECES: [&str; 12] = [
            "--XX",
            "\r\n",
            "--",
            "\r\n--XX",
            "\r\n\r\n",
            "Content-Disposition: form-data; name=\"a\"",
            "; filename=\"",
            "\"",
            "\\",
            "X",
            "=",
            "\u{e4};",
        ];
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from(state % below as u64).expect("small")
        };
        let mut read = 0;
        for _ in 0..20_000 {
            let head = "--XX\r\nContent-Disposition: form-data; name=b\r\n\r\n";
            let mut body = String::from(if next(8) > 0 { head } else { "" });
            (0..next(14)).for_each(|_| body.push_str(PIECES[next(PIECES.len())]));
            body.push_str(if next(4) > 0 { "\r\n--XX--" } else { "" });
            let end = if next(3) == 0 { next(body.len() + 1) } else { body.len() };
            for part in parts(TYPE, &body.as_bytes()[..end]).unwrap_or_default() {
                assert!(memmem::find(part.content, b"\r\n--XX").is_none(), "{body:?}");
                read += 1;
            }
        }
        assert!(read > 1_000, "{read}");
    }
}
