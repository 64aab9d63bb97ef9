//! Queries and words of paths: decoded and quoted as RabbitMQ does. Refuses to know which there are.

/// Pairs of a query, decoded; bytes that are not UTF-8 are replaced.
pub(crate) fn form(query: &str) -> Vec<(String, String)> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (unquote_plus(name), unquote_plus(value))
        })
        .collect()
}

/// Whether each `%` of a query begins a code.
pub(crate) fn is_well_formed(query: &str) -> bool {
    let is_code = |rest: &str| rest.len() >= 2 && rest.bytes().take(2).all(|byte| byte.is_ascii_hexdigit());
    query.split('%').skip(1).all(is_code)
}

/// `%2F` and `+` as they are meant in queries; other texts stay.
pub(crate) fn unquote_plus(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = (bytes[at] == b'%').then(|| text.get(at + 1..at + 3)).flatten();
        match (bytes[at], code.and_then(|code| u8::from_str_radix(code, 16).ok())) {
            (_, Some(byte)) => {
                plain.push(byte);
                at += 2;
            }
            (b'+', _) => plain.push(b' '),
            (byte, _) => plain.push(byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&plain).into_owned()
}

/// A text as one word of a path or query, as RabbitMQ quotes it: a space is `+`.
pub(crate) fn quote_plus(text: &[u8]) -> String {
    let mut quoted = String::with_capacity(text.len());
    for &byte in text {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => quoted.push(byte.into()),
            b' ' => quoted.push('+'),
            _ => quoted.push_str(&format!("%{byte:02X}")),
        }
    }
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_decoded_and_odd_ones_do_no_harm() {
        let pairs = form("a=b%2Fc+d&e&=f&g=%zz%4&h=%c3%a4");
        let pairs: Vec<(&str, &str)> = pairs.iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(pairs, [("a", "b/c d"), ("e", ""), ("", "f"), ("g", "%zz%4"), ("h", "ä")]);
        assert_eq!(unquote_plus("%ä"), "%ä");
    }

    #[test]
    fn each_percent_sign_begins_a_code_or_the_query_is_none() {
        assert!(["", "a=b", "a=%2F&b=%c3%a4", "%31"].iter().all(|it| is_well_formed(it)));
        assert!(!["%", "a=%", "a=%2", "a=%zz", "%%41", "a=%é"].iter().any(|it| is_well_formed(it)));
    }

    #[test]
    fn what_is_quoted_comes_back() {
        for text in ["b/c ~%", "a.#", "ä+", ""] {
            assert_eq!(unquote_plus(&quote_plus(text.as_bytes())), text);
        }
        assert_eq!(quote_plus(b"b/c ~%"), "b%2Fc+%7E%25");
    }
}
