//! What many definitions have in common is in memory once.

use std::fmt::{self, Display, Formatter};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A part of a definition that others may have, too. It reads as what it holds, and is stored as
/// that; a change makes a copy first where others hold it.
#[derive(Debug, Default)]
pub struct SharedPart<T>(Arc<T>);

impl<T: PartialEq> SharedPart<T> {
    /// Holds what `other` holds, if both are equal.
    pub fn share(&mut self, other: &Self) {
        if !Arc::ptr_eq(&self.0, &other.0) && self.0 == other.0 {
            self.0 = Arc::clone(&other.0);
        }
    }
}

impl<T> Clone for SharedPart<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> From<T> for SharedPart<T> {
    fn from(whole: T) -> Self {
        Self(Arc::new(whole))
    }
}

impl<T> Deref for SharedPart<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> DerefMut for SharedPart<T> {
    fn deref_mut(&mut self) -> &mut T {
        Arc::make_mut(&mut self.0)
    }
}

impl<T: PartialEq> PartialEq for SharedPart<T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl<T: PartialEq> PartialEq<T> for SharedPart<T> {
    fn eq(&self, other: &T) -> bool {
        *self.0 == *other
    }
}

impl<T: Display> Display for SharedPart<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<'a, T> IntoIterator for &'a SharedPart<Vec<T>> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<T> FromIterator<T> for SharedPart<Vec<T>> {
    fn from_iter<I: IntoIterator<Item = T>>(all: I) -> Self {
        Self::from(Vec::from_iter(all))
    }
}

impl<T: Serialize> Serialize for SharedPart<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for SharedPart<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Self::from)
    }
}
