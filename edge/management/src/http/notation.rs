//! Shapes of answers in a short notation, which becomes the JSON Schema of the API's description. Refuses to know which answers
//! there are.
//!
//! ```text
//! string integer number boolean object null any     types of JSON; `object` and `any` have whatever they have
//! Queue                                             a shape that has this name
//! 'on' 'off'                                        these words
//! [string]                                          a list
//! <integer>                                         an object whose names vary
//! {name: string, policy?: string | null}            an object with these members, `?` for one that may be missing
//! {publish*: integer}                               `publish`, and `publish_details` with its rate
//! ```

use serde_json::{Map, Value, json};

/// A shape with a name.
pub(crate) struct Shape {
    /// It begins with a capital letter.
    pub(crate) name: &'static str,
    /// In the notation above.
    pub(crate) text: &'static str,
}

/// A row of a table of shapes.
pub(crate) const fn shape(name: &'static str, text: &'static str) -> Shape {
    Shape { name, text }
}

/// The schema that a text means.
///
/// # Panics
/// The text is not in the notation. All of them stand in this crate, and a test reads them.
pub(crate) fn schema(text: &str) -> Value {
    let mut reading = Reading { text, rest: text };
    let schema = reading.choice();
    assert!(reading.next().is_none(), "{} is left of {text}", reading.rest);
    schema
}

struct Reading<'a> {
    text: &'a str,
    rest: &'a str,
}

impl<'a> Reading<'a> {
    /// The next sign or word.
    fn next(&self) -> Option<&'a str> {
        let rest = self.rest.trim_start();
        let first = rest.chars().next()?;
        let is_of_word = |letter: char| letter.is_ascii_alphanumeric() || "_-.'".contains(letter);
        let end = if is_of_word(first) {
            rest.find(|letter| !is_of_word(letter)).unwrap_or(rest.len())
        } else {
            first.len_utf8()
        };
        Some(&rest[..end])
    }

    fn take(&mut self) -> &'a str {
        let next = self.next().unwrap_or_else(|| panic!("{} ends too early", self.text));
        let rest = self.rest.trim_start();
        self.rest = &rest[next.len()..];
        next
    }

    fn take_if(&mut self, sign: &str) -> bool {
        let is_there = self.next() == Some(sign);
        if is_there {
            self.take();
        }
        is_there
    }

    fn need(&mut self, sign: &str) {
        let next = self.take();
        assert!(next == sign, "{next} instead of {sign} in {}", self.text);
    }

    /// One thing or another. Plain types and words are put together as schemas usually have them.
    fn choice(&mut self) -> Value {
        let mut all = vec![self.single()];
        while self.take_if("|") {
            all.push(self.single());
        }
        if all.len() == 1 {
            return all.remove(0);
        }
        let together = |key: &str| -> Option<Vec<Value>> {
            all.iter().map(|one| one.as_object().filter(|it| it.len() == 1)?.get(key).cloned()).collect()
        };
        if let Some(types) = together("type") {
            json!({ "type": types })
        } else if let Some(words) = together("const") {
            json!({ "enum": words })
        } else {
            json!({ "anyOf": all })
        }
    }

    fn single(&mut self) -> Value {
        match self.take() {
            "[" => {
                let items = self.choice();
                self.need("]");
                json!({"type": "array", "items": items})
            }
            "<" => {
                let values = self.choice();
                self.need(">");
                json!({"type": "object", "additionalProperties": values})
            }
            "{" => self.members(),
            "any" => json!({}),
            "object" => json!({"type": "object", "additionalProperties": true}),
            word @ ("string" | "integer" | "number" | "boolean" | "null") => json!({ "type": word }),
            word if word.starts_with('\'') => json!({ "const": word.trim_matches('\'') }),
            name if name.starts_with(|first: char| first.is_ascii_uppercase()) => {
                json!({ "$ref": format!("#/components/schemas/{name}") })
            }
            other => panic!("{other} in {}", self.text),
        }
    }

    fn members(&mut self) -> Value {
        let (mut required, mut properties) = (Vec::new(), Map::new());
        while !self.take_if("}") {
            let name = self.take();
            let has_rate = self.take_if("*");
            let names = [Some(name.to_owned()), has_rate.then(|| format!("{name}_details"))];
            if !self.take_if("?") {
                required.extend(names.iter().flatten().cloned());
            }
            self.need(":");
            for (name, schema) in names.into_iter().flatten().zip([self.choice(), schema("Rate")]) {
                let former = properties.insert(name, schema);
                assert!(former.is_none(), "a name twice in {}", self.text);
            }
            assert!(self.take_if(",") || self.next() == Some("}"), "no comma behind {name} in {}", self.text);
        }
        json!({"type": "object", "properties": properties, "required": required})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_becomes_the_schema_that_it_means() {
        assert_eq!(schema("string | null"), json!({"type": ["string", "null"]}));
        assert_eq!(schema("'on'|'off'"), json!({"enum": ["on", "off"]}));
        let queue = json!({"$ref": "#/components/schemas/Queue"});
        let list = json!({"type": "array", "items": queue});
        assert_eq!(schema("[Queue] | Queue"), json!({"anyOf": [list, queue]}));
        assert_eq!(schema("<any>"), json!({"type": "object", "additionalProperties": {}}));
        let object = json!({
            "type": "object",
            "properties": {"a-b.c": {"type": "integer"}, "d": {"type": "object", "additionalProperties": true}},
            "required": ["a-b.c"],
        });
        assert_eq!(schema("{ a-b.c: integer, d?: object, }"), object);
        let rate = json!({"$ref": "#/components/schemas/Rate"});
        let properties = json!({"n": {"type": "number"}, "n_details": rate});
        let object = json!({"type": "object", "properties": properties, "required": ["n", "n_details"]});
        assert_eq!(
            (schema("{n*: number}"), schema("{n*?: number}")["required"].clone()),
            (object, json!([]))
        );
    }

    #[test]
    fn a_text_that_means_nothing_is_seen() {
        for bad in [
            "",
            "strin",
            "[string",
            "string]",
            "{a string}",
            "{a: string b: string}",
            "{a: any, a: any}",
            "string |",
        ] {
            assert!(std::panic::catch_unwind(|| schema(bad)).is_err(), "{bad}");
        }
    }
}
