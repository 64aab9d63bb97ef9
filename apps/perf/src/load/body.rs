//! Bodies of messages: filler of a size, files, or JSON documents.
//!
//! Refuses to know how they travel.

use super::options::Publishing;
use super::random::Random;
use crate::io::read_bounded;
use anyhow::{Result, ensure};
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

/// A message's body may not be larger.
const BODY_BYTES_MAX: u64 = 512 << 20;
/// JSON documents are kept in memory, which is to have room for them.
const DOCUMENTS_BYTES_MAX: u64 = 1 << 30;

/// The same bodies of one size need not be made twice: a run has few of these.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Bodies {
    /// This many bytes of filler, with the send time in front.
    Filler(usize),
    /// These, in turn, as they are; the send time is in a header.
    Given(Arc<Vec<Vec<u8>>>),
}

impl Bodies {
    /// The bodies that the options ask for; one for each of `--variable-size`, if there are any.
    ///
    /// # Errors
    /// A file cannot be read or is larger than a message may be, or JSON documents take too much memory.
    pub(crate) fn of(options: &Publishing) -> Result<Vec<Self>> {
        if !options.body.is_empty() {
            // Blanks around the commas are no part of names.
            let trimmed = |path: &Path| path.to_str().map_or(path.to_owned(), |text| text.trim().into());
            let bodies = options.body.iter().map(|path| read_bounded(&trimmed(path), BODY_BYTES_MAX));
            return Ok(vec![Self::Given(Arc::new(bodies.collect::<Result<_>>()?))]);
        }
        let sizes: Vec<u32> = match &options.variable_size[..] {
            [] => vec![options.size],
            phases => phases.iter().map(|phase| phase.value).collect(),
        };
        let documents_bytes =
            sizes.iter().map(|size| u64::from(*size) * u64::from(options.body_count)).sum::<u64>();
        ensure!(
            !options.json_body || documents_bytes <= DOCUMENTS_BYTES_MAX,
            "JSON bodies of {} MiB together, at most {} are made: fewer with --body-count",
            documents_bytes >> 20,
            DOCUMENTS_BYTES_MAX >> 20
        );
        let bodies = sizes.into_iter().map(|size| size as usize).map(|size| {
            if options.json_body {
                Self::Given(Arc::new(documents(size, options)))
            } else {
                Self::Filler(size)
            }
        });
        Ok(bodies.collect())
    }

    /// The bodies, in the order in which they are sent.
    pub(crate) fn list(&self) -> Vec<Vec<u8>> {
        match self {
            Self::Filler(bytes) => vec![(0..=u8::MAX).cycle().take(*bytes).collect()],
            Self::Given(bodies) => bodies.to_vec(),
        }
    }

    /// Whether the send time may be written into the body.
    pub(crate) const fn may_be_stamped(&self) -> bool {
        matches!(self, Self::Filler(_))
    }
}

/// As many JSON documents as were asked for, each of exactly `size` bytes (2 at least), which takes a last field to fill.
fn documents(size: usize, options: &Publishing) -> Vec<Vec<u8>> {
    let mut random = Random::new(1);
    let fields = options.body_field_count as usize;
    let fields: Vec<String> = (0..fields)
        .map(|_| {
            let name = 4 + usize::try_from(random.below(12)).unwrap_or(0);
            let name = random.word(name);
            match random.below(3) {
                0 => format!("\"{name}\":{}", random.below(1_000_000)),
                1 => format!("\"{name}\":{}", random.below(2) == 0),
                _ => {
                    let length = 4 + usize::try_from(random.below(40)).unwrap_or(0);
                    format!("\"{name}\":\"{}\"", random.word(length))
                }
            }
        })
        .collect();
    (0..options.body_count).map(|_| document(size, &fields, &mut random)).collect()
}

fn document(size: usize, fields: &[String], random: &mut Random) -> Vec<u8> {
    // Bytes of the last field beside its filler: "z":"" and the two braces.
    const REST: usize = 8;
    let mut text = String::from("{");
    loop {
        let field = &fields[usize::try_from(random.below(fields.len() as u64)).unwrap_or(0)];
        if text.len() + field.len() + 1 + REST > size {
            break;
        }
        // Writing to a string cannot fail.
        let _ = write!(text, "{field},");
    }
    match size.checked_sub(text.len() + REST - 1) {
        Some(filler) => {
            let _ = write!(text, "\"z\":\"{}\"}}", "z".repeat(filler));
        }
        None => text.push('}'),
    }
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::options::Options;
    use std::ffi::OsString;

    fn bodies(line: &str) -> Result<Vec<Bodies>> {
        let options = Options::parse_args(line.split_whitespace().map(OsString::from)).unwrap();
        Bodies::of(&options.publishing)
    }

    #[test]
    fn json_documents_are_json_of_exactly_the_size() {
        for size in [2, 8, 9, 40, 1000, 5000] {
            let bodies = bodies(&format!("-jb -bc 20 -bfc 50 -s {size}")).unwrap().remove(0).list();
            assert_eq!(bodies.len(), 20);
            for body in &bodies {
                assert!(serde_json::from_slice::<serde_json::Value>(body).unwrap().is_object());
                assert!(body.len() == size || size < 8, "{size}: {}", String::from_utf8_lossy(body));
            }
            assert!(size < 100 || bodies[0] != bodies[1]);
        }
    }

    #[test]
    fn sizes_vary_and_files_are_read() {
        assert_eq!(bodies("-vs 5:1 -vs 7:2").unwrap(), [Bodies::Filler(5), Bodies::Filler(7)]);
        assert!(bodies("-B /no/such/file").unwrap_err().to_string().contains("/no/such/file"));
        let too_many = bodies("-jb -s 1000000 -bc 100000").unwrap_err().to_string();
        assert!(too_many.contains("--body-count"), "{too_many}");
        let file = tempfile_with(b"abc");
        let options =
            Options::parse_args([format!("--body={0}, {0}", file.display())].map(OsString::from)).unwrap();
        let read = Bodies::of(&options.publishing).unwrap();
        std::fs::remove_file(&file).unwrap();
        assert_eq!(read[0].list(), [b"abc".to_vec(), b"abc".to_vec()]);
        assert!(!read[0].may_be_stamped());
    }

    fn tempfile_with(content: &[u8]) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("warren-perf-body-{}", std::process::id()));
        std::fs::write(&path, content).unwrap();
        path
    }
}
