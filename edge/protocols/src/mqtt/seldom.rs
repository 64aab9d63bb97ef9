//! A value that most connections never have.

/// A value that takes no memory while it is as a new one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seldom<T>(Option<Box<T>>);

impl<T: Default + PartialEq> Seldom<T> {
    /// With this value.
    pub(crate) fn of(value: T) -> Seldom<T> {
        Seldom((value != T::default()).then(|| Box::new(value)))
    }

    /// The value; `None` if it is as a new one.
    pub(crate) fn get(&self) -> Option<&T> {
        self.0.as_deref()
    }

    /// The same, to be changed.
    pub(crate) fn get_mut(&mut self) -> Option<&mut T> {
        self.0.as_deref_mut()
    }

    /// The value, which is made if need be.
    pub(crate) fn make(&mut self) -> &mut T {
        self.0.get_or_insert_default()
    }

    /// Takes it out.
    pub(crate) fn take(&mut self) -> T {
        self.0.take().map(|value| *value).unwrap_or_default()
    }

    /// Gives the memory back if the value is as a new one.
    pub(crate) fn rest(&mut self) {
        self.0.take_if(|value| **value == T::default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_there_from_its_first_change_until_it_is_as_new() {
        let mut value = Seldom::<Vec<u8>>::default();
        assert_eq!((value.get(), Seldom::of(Vec::<u8>::new()).get()), (None, None));
        value.make().push(7);
        value.rest();
        assert_eq!(value.get(), Some(&vec![7]));
        assert_eq!(value.get_mut().and_then(Vec::pop), Some(7));
        value.rest();
        assert_eq!(value.get(), None);
        value = Seldom::of(vec![1, 2]);
        assert_eq!((value.take(), value.take()), (vec![1, 2], vec![]));
    }
}
