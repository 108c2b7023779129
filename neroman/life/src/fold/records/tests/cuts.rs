//! Any cut, order and repeat of parts, and damage.

use proptest::prelude::*;
use proptest::sample::Index;

use crate::fold::records::tests::{Folder, segments, whole};
use crate::fold::records::{FoldResult, Part};

proptest! {
    /// Segments in any order among each other, cut anywhere between records,
    /// parts repeated and overlapping: the facts and points are the same.
    #[test]
    fn any_cut_and_repeat_gives_the_same_facts(
        code in 0..3i32,
        steps in proptest::collection::vec((any::<Index>(), any::<Index>(), any::<Index>()), 1..60),
    ) {
        let segments = segments(code);
        let expected = whole(&segments);
        let mut folder = Folder::default();
        for (which, from, to) in &steps {
            let segment = &segments[which.index(segments.len())];
            let cuts = segment.cuts.len();
            let (from, to) = (from.index(cuts), to.index(cuts) + 1);
            if from < to {
                let folded = folder.take(&segment.part(from, to));
                prop_assert!(matches!(folded, FoldResult::Took | FoldResult::Nothing | FoldResult::Gap));
            }
        }
        // Whatever is missing comes in the end, and all of it once more.
        for _ in 0..2 {
            for segment in segments.iter().rev() {
                folder.take(&segment.part(0, segment.cuts.len()));
            }
        }
        // NaN is not equal to itself; its print is.
        prop_assert_eq!(format!("{:?}", &folder.journal), format!("{:?}", &expected.journal));
        prop_assert_eq!(folder.points(), expected.points());
        prop_assert_eq!(folder.taken.samples.len(), expected.taken.samples.len());
    }

    /// Damaged bytes are never folded into other facts than those before them.
    #[test]
    fn a_flipped_byte_folds_a_prefix_at_most(at in any::<Index>(), bit in 0..8u8) {
        let segments = segments(0);
        let segment = &segments[3];
        let mut bytes = segment.bytes.clone();
        bytes[at.index(segment.bytes.len())] ^= 1 << bit;
        let mut folder = Folder::default();
        let part = Part { data: &bytes, ..segment.part(0, segment.cuts.len()) };
        folder.take(&part);
        let known: Vec<usize> = segment.cuts.iter().map(|(at, _)| *at).collect();
        let name = segment.id.to_string();
        if let Some(folded) = folder.journal.segments.get(&name) {
            prop_assert!(known.contains(&(folded.offset as usize)));
            let mut clean = Folder::default();
            let upto = known.iter().position(|at| *at == folded.offset as usize).unwrap();
            clean.take(&segment.part(0, upto + 1));
            prop_assert_eq!(format!("{:?}", &folder.journal), format!("{:?}", &clean.journal));
        }
    }
}
