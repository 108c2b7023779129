//! Collections that are cheap to clone and to change after a clone: readers
//! keep an old state while the one writer goes on. Parts are shared until
//! they are changed.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::ops::Index;
use std::sync::Arc;

/// How many elements share one allocation: a change after a clone copies this
/// many pointers, a clone copies one pointer for each.
const CHUNK: usize = 128;

/// Elements by a number that begins with 1. Gaps take no room but within a chunk.
#[derive(Debug)]
pub struct Shelf<T> {
    /// By rising number of the chunk.
    chunks: Vec<(usize, Chunk<T>)>,
    count: usize,
}

type Chunk<T> = Arc<Vec<Option<Arc<T>>>>;

/// Elements that walks over whole shelves met in this process: what concerns one element is to meet
/// no others. Builds with assertions count them.
#[cfg(debug_assertions)]
pub static WALKED: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self {
            chunks: Vec::new(),
            count: 0,
        }
    }
}

impl<T> Clone for Shelf<T> {
    fn clone(&self) -> Self {
        Self {
            chunks: self.chunks.clone(),
            count: self.count,
        }
    }
}

impl<T: Clone> Shelf<T> {
    /// The element with this number.
    pub fn get(&self, number: u64) -> Option<&Arc<T>> {
        let (chunk, slot) = place(number)?;
        let at = self.chunk(chunk).ok()?;
        self.chunks[at].1.get(slot)?.as_ref()
    }

    /// The element, for a change; it is copied first if a reader holds it.
    pub fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        let (chunk, slot) = place(number)?;
        let at = self.chunk(chunk).ok()?;
        let chunk = Arc::make_mut(&mut self.chunks[at].1);
        chunk.get_mut(slot)?.as_mut().map(Arc::make_mut)
    }

    /// Puts an element at its number.
    pub fn put(&mut self, number: u64, element: T) {
        let Some((chunk, slot)) = place(number) else {
            return;
        };
        let at = self.chunk(chunk).unwrap_or_else(|at| {
            self.chunks.insert(at, (chunk, Arc::default()));
            at
        });
        let chunk = Arc::make_mut(&mut self.chunks[at].1);
        if chunk.len() <= slot {
            chunk.resize(slot + 1, None);
        }
        if chunk[slot].replace(Arc::new(element)).is_none() {
            self.count += 1;
        }
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// All elements by rising number.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        let chunks = self.chunks.iter();
        let all = chunks.flat_map(|(_, chunk)| chunk.iter().flatten());
        #[cfg(debug_assertions)]
        let all = all.inspect(|_| _ = WALKED.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
        all
    }

    /// The index of a chunk, or the one at which it is to be put in.
    fn chunk(&self, chunk: usize) -> Result<usize, usize> {
        // Without gaps before it a chunk lies at its own number.
        match self.chunks.get(chunk) {
            Some((number, _)) if *number == chunk => Ok(chunk),
            _ => self
                .chunks
                .binary_search_by_key(&chunk, |(number, _)| *number),
        }
    }
}

impl<T: Clone> Index<u64> for Shelf<T> {
    type Output = T;

    /// The element with this number, which was put.
    fn index(&self, number: u64) -> &T {
        let found = self.get(number);
        found.expect("an element with this number was put")
    }
}

fn place(number: u64) -> Option<(usize, usize)> {
    let index = usize::try_from(number.checked_sub(1)?).ok()?;
    Some((index / CHUNK, index % CHUNK))
}

/// How many parts a [`HashParts`] has: a change after a clone copies one.
const PARTS: usize = 512;

/// Collections of elements, each in the one that its hash names. They are copied one at a time; a
/// clone that changes nothing copies one pointer.
#[derive(Debug)]
pub(super) struct HashParts<T>(Arc<Vec<Arc<T>>>);

impl<T: Default> Default for HashParts<T> {
    fn default() -> Self {
        Self(Arc::new((0..PARTS).map(|_| Arc::default()).collect()))
    }
}

impl<T> Clone for HashParts<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Clone> HashParts<T> {
    /// The collection for elements of this hash.
    pub(super) fn get(&self, hash: u64) -> &T {
        &self.0[hash as usize % PARTS]
    }

    /// The same, for a change.
    pub(super) fn get_mut(&mut self, hash: u64) -> &mut T {
        Arc::make_mut(&mut Arc::make_mut(&mut self.0)[hash as usize % PARTS])
    }

    /// All collections.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|part| &**part)
    }
}

/// The hash of a key, the same in each process.
pub(super) fn hash<Q: Hash + ?Sized>(key: &Q) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

/// A map in parts that are copied one at a time.
#[derive(Debug)]
pub struct Drawers<K, V> {
    parts: HashParts<HashMap<K, V>>,
}

impl<K, V> Default for Drawers<K, V> {
    fn default() -> Self {
        Self {
            parts: HashParts::default(),
        }
    }
}

impl<K, V> Clone for Drawers<K, V> {
    fn clone(&self) -> Self {
        Self {
            parts: self.parts.clone(),
        }
    }
}

impl<K: Hash + Eq + Clone, V: Clone> Drawers<K, V> {
    /// The value under the key.
    pub fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.parts.get(hash(key)).get(key)
    }

    /// The value under the key; inserts one if there is none.
    pub fn entry(&mut self, key: K) -> &mut V
    where
        V: Default,
    {
        let part = self.parts.get_mut(hash(&key));
        part.entry(key).or_default()
    }

    /// Puts a value under the key.
    pub fn put(&mut self, key: K, value: V) {
        self.parts.get_mut(hash(&key)).insert(key, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clone_keeps_what_it_saw() {
        let mut shelf = Shelf::default();
        for number in [1, 2, 500] {
            shelf.put(number, number * 10);
        }
        let before = shelf.clone();
        *shelf.get_mut(500).unwrap() = 7;
        shelf.put(3, 30);
        let all = |shelf: &Shelf<u64>| shelf.iter().map(|value| **value).collect::<Vec<_>>();
        assert_eq!(all(&before), [10, 20, 5000]);
        assert_eq!(all(&shelf), [10, 20, 30, 7]);
        assert_eq!((before.len(), shelf.len()), (3, 4));
        assert!(shelf.get(0).is_none() && shelf.get(4).is_none() && shelf.get(9999).is_none());
    }

    #[test]
    fn a_large_number_takes_no_more_room_than_a_small_one() {
        let mut shelf = Shelf::default();
        for number in [9_999_999, 1, 5_000_000, 2, 9_999_998] {
            shelf.put(number, number);
        }
        assert_eq!(shelf.chunks.len(), 3);
        assert_eq!(shelf.len(), 5);
        let all: Vec<u64> = shelf.iter().map(|number| **number).collect();
        assert_eq!(all, [1, 2, 5_000_000, 9_999_998, 9_999_999]);
        assert_eq!(shelf.get(5_000_000).map(|number| **number), Some(5_000_000));
        assert!(shelf.get(5_000_001).is_none() && shelf.get(300).is_none());
        *shelf.get_mut(1).unwrap() = 3;
        assert_eq!(shelf.get(1).map(|number| **number), Some(3));
    }

    #[test]
    fn drawers_find_what_was_put() {
        let mut drawers: Drawers<String, u32> = Drawers::default();
        drawers.put("a".to_owned(), 1);
        let before = drawers.clone();
        *drawers.entry("a".to_owned()) += 1;
        assert_eq!((before.get("a"), drawers.get("a")), (Some(&1), Some(&2)));
        assert_eq!(drawers.get("b"), None);
    }
}
