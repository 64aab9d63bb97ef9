//! Places of what clients may take long to read or to send: so many in all, and no user has more than half of them, so that slow clients
//! of one refuse nothing to another. Refuses to know what is read or sent.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::room::Full;

/// Long answers that clients may be reading at once, and large bodies that they may be sending; a further one is 503.
pub(crate) const PLACES_MAX: usize = 64;

/// All of them of a kind.
#[derive(Default)]
pub(crate) struct Places {
    /// Places taken, by user; users without one are not there.
    taken: Mutex<HashMap<String, usize>>,
}

/// One of them, until dropped.
pub(crate) struct Place {
    places: Arc<Places>,
    user: String,
}

impl Places {
    /// A place for a user.
    ///
    /// # Errors
    /// All are taken, or this user has half of them.
    pub(crate) fn take(self: &Arc<Self>, user: &str) -> Result<Place, Full> {
        let mut taken = self.taken.lock();
        let own = taken.get(user).copied().unwrap_or_default();
        if own >= PLACES_MAX / 2 || taken.values().sum::<usize>() >= PLACES_MAX {
            return Err(Full);
        }
        taken.insert(user.to_owned(), own + 1);
        Ok(Place { places: self.clone(), user: user.to_owned() })
    }
}

#[cfg(test)]
impl Places {
    pub(crate) fn is_unused(&self) -> bool {
        self.taken.lock().is_empty()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock();
        let left = taken.get(&self.user).map_or(0, |own| own - 1);
        match left {
            0 => drop(taken.remove(&self.user)),
            left => drop(taken.insert(std::mem::take(&mut self.user), left)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_has_half_of_the_places_and_all_together_have_all() {
        let places = Arc::new(Places::default());
        let half = |user: &str| -> Vec<Place> {
            std::iter::from_fn(|| places.take(user).ok()).take(PLACES_MAX).collect()
        };
        let (one, other) = (half("one"), half("other"));
        assert_eq!((one.len(), other.len()), (PLACES_MAX / 2, PLACES_MAX / 2));
        assert!(places.take("third").is_err());
        drop(one);
        assert!(places.take("third").is_ok() && places.take("other").is_err());
        drop(other);
        assert!(places.is_unused());
    }
}
