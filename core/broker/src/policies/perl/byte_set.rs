//! Sets of bytes, as classes in a policy's pattern: escapes, names of POSIX, properties of the characters of Latin-1. Refuses to know how a
//! pattern is written otherwise.

/// Names of scripts that have no letter in Latin-1.
const OTHER_SCRIPTS: &str = " adlam ahom anatolianhieroglyphs arabic armenian avestan balinese bamum bassavah batak bengali bhaiksuki \
    bopomofo brahmi braille buginese buhid canadianaboriginal carian caucasianalbanian chakma cham cherokee chorasmian coptic cuneiform \
    cypriot cyprominoan cyrillic deseret devanagari divesakuru dogra duployan egyptianhieroglyphs elbasan elymaic ethiopic georgian \
    glagolitic gothic grantha greek gujarati gunjalagondi gurmukhi han hangul hanifirohingya hanunoo hatran hebrew hiragana \
    imperialaramaic inherited inscriptionalpahlavi inscriptionalparthian javanese kaithi kannada katakana kawi kayahli kharoshthi \
    khitansmallscript khmer khojki khudawadi lao lepcha limbu lineara linearb lisu lycian lydian mahajani makasar malayalam mandaic \
    manichaean marchen masaramgondi medefaidrin meeteimayek mendekikakui meroiticcursive meroitichieroglyphs miao modi mongolian mro \
    multani myanmar nabataean nagmundari nandinagari newa newtailue nko nushu nyiakengpuachuehmong ogham olchiki oldhungarian olditalic \
    oldnortharabian oldpermic oldpersian oldsogdian oldsoutharabian oldturkic olduyghur oriya osage osmanya pahawhhmong palmyrene \
    paucinhau phagspa phoenician psalterpahlavi rejang runic samaritan saurashtra sharada shavian siddham signwriting sinhala sogdian \
    sorasompeng soyombo sundanese sylotinagri syriac tagalog tagbanwa taile taitham taiviet takri tamil tangsa tangut telugu thaana thai \
    tibetan tifinagh tirhuta toto ugaritic vai vithkuqi wancho warangciti yezidi yi zanabazarsquare grek cyrl hani hebr arab hira kana \
    hang thai geor armn deva ";

/// A set of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ByteSet(Box<[bool; 256]>);

impl ByteSet {
    pub(super) fn of(is_in: impl Fn(u8) -> bool) -> Self {
        let mut set = Box::new([false; 256]);
        (0..=u8::MAX).for_each(|byte| set[usize::from(byte)] = is_in(byte));
        Self(set)
    }

    pub(super) fn inverted_if(mut self, is_inverted: bool) -> Self {
        self.0.iter_mut().for_each(|is_in| *is_in ^= is_inverted);
        self
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(*other.0).for_each(|(is_in, also)| *is_in |= also);
    }

    pub(super) fn add_range(&mut self, first: u8, last: u8) {
        self.0[usize::from(first)..=usize::from(last)].fill(true);
    }

    /// As a class of the engines, in which every byte is written as a number.
    pub(super) fn write(&self, is_inverted: bool, out: &mut String) {
        if self.0.iter().all(|is_in| !is_in) {
            out.push_str(if is_inverted { "[\\x00-\\xFF]" } else { "[^\\x00-\\xFF]" });
            return;
        }
        out.push_str(if is_inverted { "[^" } else { "[" });
        let mut from = 0;
        while from < 256 {
            let to = (from..256).find(|at| !self.0[*at]).unwrap_or(256);
            if to > from {
                out.push_str(&format!("\\x{from:02X}-\\x{:02X}", to - 1));
            }
            from = to + 1;
        }
        out.push(']');
    }

    /// Of an escape for a kind of characters, such as `\d`.
    pub(super) fn of_escape(letter: u8) -> Option<Self> {
        let set = match letter.to_ascii_lowercase() {
            b'd' => Self::of(|it| it.is_ascii_digit()),
            b'h' => Self::of(|it| matches!(it, b'\t' | b' ' | 0xA0)),
            b's' => Self::of(is_space),
            b'v' => Self::of(|it| matches!(it, b'\n'..=b'\r' | 0x85)),
            b'w' => Self::of(is_word),
            _ => return None,
        };
        Some(set.inverted_if(letter.is_ascii_uppercase()))
    }

    /// Of a name of POSIX; characters beyond ASCII are in none of them.
    pub(super) fn of_posix(name: &str) -> Option<Self> {
        Some(match name {
            "alnum" => Self::of(|it| it.is_ascii_alphanumeric()),
            "alpha" => Self::of(|it| it.is_ascii_alphabetic()),
            "ascii" => Self::of(|it| it.is_ascii()),
            "blank" => Self::of(|it| matches!(it, b'\t' | b' ')),
            "cntrl" => Self::of(|it| it.is_ascii_control()),
            "digit" => Self::of(|it| it.is_ascii_digit()),
            "graph" => Self::of(|it| it.is_ascii_graphic()),
            "lower" => Self::of(|it| it.is_ascii_lowercase()),
            "print" => Self::of(|it| it.is_ascii_graphic() || it == b' '),
            "punct" => Self::of(|it| it.is_ascii_punctuation()),
            "space" => Self::of(is_space),
            "upper" => Self::of(|it| it.is_ascii_uppercase()),
            "word" => Self::of(is_word),
            "xdigit" => Self::of(|it| it.is_ascii_hexdigit()),
            _ => return None,
        })
    }

    /// Of a property of Unicode, by a byte as the character of that number: names are not read as UTF-8.
    pub(super) fn of_property(name: &str) -> Option<Self> {
        let is_ignored = |it: &char| matches!(it, ' ' | '_' | '-' | '\t');
        let name: String = name.chars().filter(|it| !is_ignored(it)).collect::<String>().to_ascii_lowercase();
        let (is_inverted, name) = match name.strip_prefix('^') {
            Some(rest) => (true, rest),
            None => (false, &*name),
        };
        let script =
            ["sc:", "sc=", "script:", "script=", "scx:", "scx=", "scriptextensions:", "scriptextensions="];
        let of_script = script.iter().find_map(|prefix| name.strip_prefix(prefix));
        let set = match of_script {
            Some(script) => Self::of_script(script)?,
            None => Self::of_category(name).or_else(|| Self::of_script(name))?,
        };
        Some(set.inverted_if(is_inverted))
    }

    fn of_script(name: &str) -> Option<Self> {
        let is_latin = |it: u8| category(it).starts_with('L') && it != 0xB5;
        match name {
            "latin" | "latn" => Some(Self::of(is_latin)),
            "common" | "zyyy" => Some(Self::of(|it| !is_latin(it))),
            other => OTHER_SCRIPTS.contains(&format!(" {other} ")).then(|| Self::of(|_| false)),
        }
    }

    fn of_category(name: &str) -> Option<Self> {
        Some(match name {
            "any" => Self::of(|_| true),
            "ascii" => Self::of(|it| it.is_ascii()),
            "l&" | "lc" => Self::of(|it| matches!(category(it), "Lu" | "Ll")),
            "alphabetic" | "alpha" => Self::of(|it| category(it).starts_with('L')),
            "uppercase" | "upper" => Self::of(|it| category(it) == "Lu"),
            "lowercase" | "lower" => Self::of(|it| category(it) == "Ll" || matches!(it, 0xAA | 0xBA)),
            "whitespace" | "wspace" | "space" => Self::of(|it| is_space(it) || matches!(it, 0x85 | 0xA0)),
            "xan" => Self::of(is_alphanumeric),
            "xwd" => Self::of(|it| is_alphanumeric(it) || it == b'_'),
            "xsp" | "xps" => Self::of(|it| is_space(it) || matches!(it, 0x85 | 0xA0)),
            // No character of Latin-1 is in these.
            "lt" | "lm" | "m" | "mn" | "mc" | "me" | "nl" | "zl" | "zp" | "cs" | "cn" | "co" => {
                Self::of(|_| false)
            }
            general => {
                let is_known = ALL_CATEGORIES.iter().any(|it| it.to_ascii_lowercase().starts_with(general));
                if !is_known || general.is_empty() {
                    return None;
                }
                Self::of(|it| category(it).to_ascii_lowercase().starts_with(general))
            }
        })
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b'\t'..=b'\r' | b' ')
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn is_alphanumeric(byte: u8) -> bool {
    category(byte).starts_with(['L', 'N'])
}

const ALL_CATEGORIES: [&str; 19] = [
    "Lu", "Ll", "Lo", "Nd", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs",
    "Cc", "Cf",
];

/// The general category of a character of Latin-1; `Cf` is the soft hyphen only.
fn category(byte: u8) -> &'static str {
    match byte {
        b'A'..=b'Z' | 0xC0..=0xD6 | 0xD8..=0xDE => "Lu",
        b'a'..=b'z' | 0xB5 | 0xDF..=0xF6 | 0xF8..=0xFF => "Ll",
        0xAA | 0xBA => "Lo",
        b'0'..=b'9' => "Nd",
        0xB2 | 0xB3 | 0xB9 | 0xBC..=0xBE => "No",
        b'_' => "Pc",
        b'-' => "Pd",
        b'(' | b'[' | b'{' => "Ps",
        b')' | b']' | b'}' => "Pe",
        0xAB => "Pi",
        0xBB => "Pf",
        b'+' | b'<'..=b'>' | b'|' | b'~' | 0xAC | 0xB1 | 0xD7 | 0xF7 => "Sm",
        b'$' | 0xA2..=0xA5 => "Sc",
        b'^' | b'`' | 0xA8 | 0xAF | 0xB4 | 0xB8 => "Sk",
        0xA6 | 0xA9 | 0xAE | 0xB0 => "So",
        b' ' | 0xA0 => "Zs",
        0xAD => "Cf",
        0..=0x1F | 0x7F..=0x9F => "Cc",
        _ => "Po",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(set: &ByteSet) -> String {
        let mut out = String::new();
        set.write(false, &mut out);
        out
    }

    #[test]
    fn a_set_is_written_as_ranges_of_numbers() {
        assert_eq!(
            written(&ByteSet::of_escape(b'w').unwrap()),
            "[\\x30-\\x39\\x41-\\x5A\\x5F-\\x5F\\x61-\\x7A]"
        );
        assert_eq!(written(&ByteSet::of_escape(b'D').unwrap()), "[\\x00-\\x2F\\x3A-\\xFF]");
        assert_eq!(written(&ByteSet::of(|_| false)), "[^\\x00-\\xFF]");
    }

    #[test]
    fn properties_are_those_of_latin_1_and_unknown_names_are_none() {
        let has = |name: &str, byte| ByteSet::of_property(name).map(|set| set.0[usize::from(byte)]);
        assert_eq!([has("L", 0xC3), has("L", 0xA4), has("^L", 0xA4)], [Some(true), Some(false), Some(true)]);
        assert_eq!(
            [has("Lu", b'A'), has("Lu", b'a'), has(" l u ", b'A')],
            [Some(true), Some(false), Some(true)]
        );
        assert_eq!(
            [has("Greek", b'a'), has("sc:Latin", b'a'), has("Cf", 0xAD)],
            [Some(false), Some(true), Some(true)]
        );
        assert_eq!([has("Nope", b'a'), has("", b'a'), has("an", b'a')], [None, None, None]);
    }

    #[test]
    fn every_general_category_is_the_one_of_its_bytes() {
        let of_all: usize = ["L", "M", "N", "P", "S", "Z", "C"]
            .map(|it| ByteSet::of_property(it).unwrap().0.iter().filter(|is_in| **is_in).count())
            .iter()
            .sum();
        assert_eq!(of_all, 256);
    }
}
