//! Versions of the protocol and their names.

/// Version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// STOMP 1.0.
    V10,
    /// STOMP 1.1.
    V11,
    /// STOMP 1.2.
    V12,
}

impl Version {
    /// As in the headers `version` and `accept-version`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Version::V10 => "1.0",
            Version::V11 => "1.1",
            Version::V12 => "1.2",
        }
    }

    /// The newest version in a comma-separated list of names, as `accept-version` has; `None` if there is none that is known.
    #[must_use]
    pub fn newest_in(names: &[u8]) -> Option<Version> {
        let known = |name: &[u8]| match name.trim_ascii() {
            b"1.0" => Some(Version::V10),
            b"1.1" => Some(Version::V11),
            b"1.2" => Some(Version::V12),
            _ => None,
        };
        names.split(|byte| *byte == b',').filter_map(known).max()
    }
}

#[cfg(test)]
mod tests {
    use super::Version;

    #[test]
    fn the_newest_known_version_is_chosen() {
        assert_eq!(Version::newest_in(b"1.0,1.1,1.2"), Some(Version::V12));
        assert_eq!(Version::newest_in(b"1.1, 1.0 ,2.0"), Some(Version::V11));
        assert_eq!(Version::newest_in(b""), None);
        assert_eq!(Version::newest_in(b"2.0"), None);
        assert_eq!(Version::V11.name(), "1.1");
    }
}
