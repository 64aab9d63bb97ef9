//! When certificates of encrypted listeners end. Refuses to know what they are for.

use std::collections::BTreeMap;
use std::io;

use super::families::Asked;
use super::page::{Kind, Page, labels};

const NAME: &str = "tls_certificate_not_after_timestamp_seconds";

/// One gauge per certificate in use. A bundle may hold a certificate twice: it is one sample.
pub(crate) fn ends(asked: &Asked<'_>, page: &mut Page<'_>) -> io::Result<()> {
    page.head(NAME, Kind::Gauge, "The last second of a certificate in use, since 1970")?;
    let mut samples = BTreeMap::new();
    for listeners in &asked.node.certificates {
        for one in &listeners.slot.material().certificates {
            let of = labels(&[
                ("key", listeners.key_of(one).as_bytes()),
                ("file", one.file.to_string_lossy().as_bytes()),
                ("subject", one.facts.subject.as_bytes()),
                ("serial", one.facts.serial.as_bytes()),
            ]);
            samples.insert(of, one.facts.not_after_s as f64);
        }
    }
    samples.iter().try_for_each(|(of, end_s)| page.sample(NAME, of, *end_s))
}
