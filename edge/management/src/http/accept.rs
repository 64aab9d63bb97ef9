//! Which types of content a client takes, as far as it matters here: answers of the API are JSON. Refuses to know routes.

use axum::http::{HeaderMap, header};

/// The wish of an `Accept` header for JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Accepts {
    /// The client takes it; so does one that says nothing.
    Json,
    /// It takes other types only.
    OtherTypes,
    /// It cannot be read.
    Nonsense,
}

/// Preferences (`q=`) and other parameters do not matter: there is one type to choose from.
pub(crate) fn accepts(headers: &HeaderMap) -> Accepts {
    let mut values = headers.get_all(header::ACCEPT).iter().peekable();
    if values.peek().is_none() {
        return Accepts::Json;
    }
    let mut found = Accepts::OtherTypes;
    for value in values {
        let Ok(text) = value.to_str() else { return Accepts::Nonsense };
        for range in text.split(',').map(str::trim).filter(|range| !range.is_empty()) {
            let range = range.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
            match range.split_once('/') {
                // Java's own client writes a star for all.
                None if range == "*" => found = Accepts::Json,
                None | Some(("", _) | (_, "")) => return Accepts::Nonsense,
                Some(("*", "*") | ("application", "*" | "json")) => found = Accepts::Json,
                Some(_) => {}
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &'static str) -> Accepts {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, text.parse().unwrap());
        accepts(&headers)
    }

    #[test]
    fn json_is_taken_by_who_names_it_or_all_or_nothing() {
        assert_eq!(accepts(&HeaderMap::new()), Accepts::Json);
        for json in [
            "*/*",
            "application/json",
            "APPLICATION/*;q=0.1",
            "application/json; charset=utf-8",
            "text/html,application/xhtml+xml,*/*;q=0.8",
            "text/html, image/gif, *; q=.2",
        ] {
            assert_eq!(of(json), Accepts::Json, "{json}");
        }
        for other in ["", "text/html", "image/*", "application/xml, text/*", "application/jsonp"] {
            assert_eq!(of(other), Accepts::OtherTypes, "{other}");
        }
        for nonsense in ["json", "/json", "application/", "*/*, x"] {
            assert_eq!(of(nonsense), Accepts::Nonsense, "{nonsense}");
        }
    }
}
