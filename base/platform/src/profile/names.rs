//! Names as small numbers that last as long as the process, for labels. Knows nothing of what has a name.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;

/// Names known at most; later ones are all [`NameId::MANY`]. They are never forgotten.
const NAMES_MAX: usize = 1 << 16;

/// The cause of samples that page faults took: a number of its own, because signal handlers cannot look up names.
pub const FAULT: NameId = NameId(u32::MAX - 1);

/// A name; 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct NameId(pub u32);

impl NameId {
    /// One of those that came when there were too many.
    pub const MANY: NameId = NameId(u32::MAX);
}

#[derive(Default)]
struct Names {
    ids: HashMap<Arc<str>, u32>,
    names: Vec<Arc<str>>,
}

static NAMES: LazyLock<Mutex<Names>> = LazyLock::new(Mutex::default);

/// The number of a name, always the same.
pub fn intern(name: &str) -> NameId {
    let mut known = NAMES.lock();
    if let Some(id) = known.ids.get(name) {
        return NameId(*id);
    }
    if known.names.len() >= NAMES_MAX {
        return NameId::MANY;
    }
    let name: Arc<str> = name.into();
    known.names.push(name.clone());
    let id = known.names.len() as u32;
    known.ids.insert(name, id);
    NameId(id)
}

/// The name of a number; `None` for 0, [`NameId::MANY`] and [`FAULT`].
pub fn name_of(id: NameId) -> Option<Arc<str>> {
    let at = (id.0 as usize).checked_sub(1)?;
    NAMES.lock().names.get(at).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_number() {
        let one = intern("one of a test");
        assert_ne!(one, intern("another of a test"));
        assert_eq!(one, intern("one of a test"));
        assert_eq!(name_of(one).as_deref(), Some("one of a test"));
        assert_eq!([NameId::default(), NameId::MANY, FAULT].map(name_of), [None, None, None]);
    }
}
