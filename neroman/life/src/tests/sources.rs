//! Sources that are read again: numbers that stay, and notes.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use nero_format::Edits;
use nero_model::{ExperimentId, RunToken};

use super::{Lab, definition, moment, source};
use crate::fold::change::{Change, ExperimentRecord};
use crate::fold::experiment::Stamp;
use crate::fold::run::Results;
use crate::place::start::StartOptions;
use crate::source::add::{self, DiffKind, MergeOutcome, StampedSource};
use crate::source::edits::{self, PendingEdits};
use crate::source::pick::Rows;

/// Folders with sources, and the results of reading them.
struct Desk {
    base: tempfile::TempDir,
    lab: Lab,
}

impl Desk {
    fn new() -> Self {
        Self {
            base: tempfile::tempdir().unwrap(),
            lab: Lab::default(),
        }
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.base.path().join(name)
    }

    fn write(&self, folder: &str, yaml: &str) {
        fs::create_dir_all(self.folder(folder)).unwrap();
        fs::write(self.folder(folder).join("neronet.yaml"), yaml).unwrap();
    }

    /// Reads a folder and applies the changes; a source that is not on the disk
    /// any more is missing.
    fn read(&mut self, folder: &str) -> MergeOutcome {
        self.read_pending(folder, &PendingEdits::default())
    }

    /// The same with what a person typed of its experiments.
    fn read_pending(&mut self, folder: &str, pending: &PendingEdits) -> MergeOutcome {
        let merged = self.merged(folder, pending);
        self.lab.take(merged.changes.clone());
        merged
    }

    fn merged(&self, folder: &str, pending: &PendingEdits) -> MergeOutcome {
        let first = self.loaded(folder, Edits::new());
        let missing = self.missing();
        let edits = edits::edits(&self.lab.state, &first, &missing, pending);
        let read = self.loaded(folder, edits);
        let merged = add::merge(&self.lab.state, &[read], &missing, &moment(1));
        assert!(!merged.is_outdated);
        merged
    }

    fn loaded(&self, folder: &str, edits: Edits) -> StampedSource {
        let loaded = nero_format::read_source_edited(
            &self.folder(folder),
            &nero_format::Defaults::default(),
            edits,
        )
        .unwrap();
        let inode =
            std::os::unix::fs::MetadataExt::ino(&fs::metadata(&loaded.source.file).unwrap());
        let stamp = Stamp {
            inode,
            ..Stamp::default()
        };
        StampedSource {
            loaded,
            stamp,
            companion: Stamp::default(),
        }
    }

    fn missing(&self) -> HashSet<u64> {
        let origins = self.lab.state.origins.values();
        origins
            .filter(|origin| !origin.source.file.exists())
            .map(|origin| origin.id)
            .collect()
    }

    /// `set 1 k=v`.
    fn set(&mut self, folder: &str, id: u64, key: &str, text: &str) -> MergeOutcome {
        let pending = PendingEdits {
            of: HashSet::from([ExperimentId(id)]),
            set: vec![(key.to_owned(), text.to_owned())],
            ..PendingEdits::default()
        };
        self.read_pending(folder, &pending)
    }

    fn command(&self, id: u64) -> &str {
        let one = self.lab.state.experiment(ExperimentId(id)).unwrap();
        &one.definition.command_text
    }

    fn add(&mut self, folder: &str, yaml: &str) -> MergeOutcome {
        self.write(folder, yaml);
        self.read(folder)
    }

    fn names(&self) -> Vec<(u64, String)> {
        let present = self.lab.state.experiments.iter().filter(|one| !one.gone);
        present
            .map(|one| (one.id.0, one.definition.name.clone()))
            .collect()
    }

    fn picked(&self, text: &str) -> Vec<u64> {
        let context = nero_expr::ParseContext::utc(0);
        let selector = nero_selector::Selector::parse(text, &context).unwrap();
        selector
            .pick(&Rows::of(
                &self.lab.state,
                &crate::facts::now::PresentTime::default(),
            ))
            .unwrap()
            .ids
    }
}

fn count(merged: &MergeOutcome, what: DiffKind) -> usize {
    merged.seen.iter().filter(|seen| seen.what == what).count()
}

#[test]
fn a_value_that_was_set_stays_when_its_source_is_read_again_and_its_name_changes() {
    let mut desk = Desk::new();
    desk.add("exp", PRODUCT);
    let set = desk.set("exp", 1, "lr", "0.5");
    assert_eq!(set.lines(), ["1: lr 0.1 → 0.5"]);
    assert_eq!(desk.command(1), "prog 0.5 1 1");
    assert!(desk.read("exp").lines().is_empty());
    // The names of all change; the set value is not what tells its row from the others.
    let other = PRODUCT.replace("seed: 1", "seed: 7");
    assert_eq!(desk.add("exp", &other).lines(), ["1-4: seed 1 → 7"]);
    assert_eq!(desk.command(1), "prog 0.5 1 7");
    let unset = PendingEdits {
        of: HashSet::from([ExperimentId(1)]),
        unset: vec!["lr".to_owned()],
        ..PendingEdits::default()
    };
    let unset = desk.read_pending("exp", &unset);
    assert_eq!(unset.lines(), ["1: lr 0.5 → 0.1"]);
    let one = desk.lab.state.experiment(ExperimentId(1)).unwrap();
    assert!(one.by_hand.is_empty());
}

#[test]
fn a_value_that_was_set_gives_way_to_a_new_value_of_its_source() {
    let mut desk = Desk::new();
    desk.add("exp", PRODUCT);
    desk.set("exp", 1, "seed", "9");
    let other = PRODUCT.replace("seed: 1", "seed: 7");
    let lines = desk.add("exp", &other).lines();
    assert_eq!(
        lines[0],
        "1: seed 9 → 7, override seed=9 dropped: its source changed 1 to 7"
    );
    assert_eq!(desk.command(1), "prog 0.1 1 7");
}

#[test]
fn a_copy_has_a_number_of_its_own_and_follows_the_source_of_its_original() {
    let mut desk = Desk::new();
    desk.add("exp", PRODUCT);
    let copy = PendingEdits {
        of: HashSet::from([ExperimentId(2)]),
        set: vec![("n".to_owned(), "9".to_owned())],
        copy: Some("slow".to_owned()),
        ..PendingEdits::default()
    };
    let merged = desk.read_pending("exp", &copy);
    assert_eq!(count(&merged, DiffKind::Added), 1);
    assert_eq!(desk.command(5), "prog 0.1 9 1");
    assert_eq!(desk.picked("slow"), [5]);
    let again = desk.read("exp");
    assert_eq!(count(&again, DiffKind::Same), 5);
    let other = PRODUCT.replace("seed: 1", "seed: 7");
    assert_eq!(desk.add("exp", &other).lines(), ["1-5: seed 1 → 7"]);
    assert_eq!(desk.command(5), "prog 0.1 9 7");
    assert_eq!(desk.picked("slow"), [5]);
    // Without its original it has no source.
    let fewer = PRODUCT.replace("n: [1, 2]", "n: [1]");
    let gone = desk.add("exp", &fewer);
    assert_eq!(count(&gone, DiffKind::Gone), 3);
    assert_eq!(desk.picked("gone"), [2, 4, 5]);
}

#[test]
fn a_source_cannot_take_the_name_of_a_copy() {
    let mut desk = Desk::new();
    desk.add("exp", PRODUCT);
    let mut copy = PendingEdits {
        of: HashSet::from([ExperimentId(2)]),
        copy: Some("slow".to_owned()),
        ..PendingEdits::default()
    };
    desk.read_pending("exp", &copy);
    let taking = format!("{PRODUCT}+slow: {{parameters: {{lr: 1, n: 1, seed: 1}}}}\n");
    desk.write("exp", &taking);
    let merged = desk.merged("exp", &PendingEdits::default());
    let [(place, mistake)] = &merged.refused[..] else {
        panic!("{:?}", merged.refused);
    };
    assert!(place.ends_with("neronet.yaml:4:1"), "{place}");
    assert_eq!(mistake.message, "`slow` is the name of 5, a copy of 2");
    assert!(mistake.hint.ends_with("neroman rm 5"), "{}", mistake.hint);
    // Nor can a new copy take a name that its source has by now.
    desk.write("exp", &taking.replace("+slow", "+other"));
    copy.copy = Some("other".to_owned());
    let merged = desk.merged("exp", &copy);
    assert_eq!(merged.refused.len(), 1);
    // A copy that was removed has no claim, and what has its name already is no mistake.
    desk.write("exp", &taking);
    let copy = desk.lab.state.experiment(ExperimentId(5)).unwrap();
    let removed = ExperimentRecord {
        hidden_ms: Some(5),
        ..ExperimentRecord::of(copy)
    };
    let removed = Change::Experiment(std::sync::Arc::new(removed));
    desk.lab.take(vec![removed]);
    assert_eq!(count(&desk.read("exp"), DiffKind::Added), 1);
    assert_eq!(desk.picked("slow"), [6]);
    assert_eq!(desk.read("exp").refused, []);
}

#[test]
fn a_source_is_read_again_when_a_value_was_set_meanwhile() {
    let mut desk = Desk::new();
    desk.add("exp", PRODUCT);
    let read = desk.loaded("exp", Edits::new());
    desk.set("exp", 1, "lr", "0.5");
    let merged = add::merge(&desk.lab.state, &[read], &HashSet::new(), &moment(2));
    assert!(merged.is_outdated);
}

const PRODUCT: &str =
    "command: prog {lr} {n} {seed}\n+fib:\n  parameters: {lr: [0.1, 0.2], n: [1, 2], seed: 1}\n";

#[test]
fn a_changed_constant_keeps_every_number_and_is_told() {
    let mut desk = Desk::new();
    desk.add("exp", PRODUCT);
    let changed = desk.add("exp", &PRODUCT.replace("seed: 1", "seed: 7"));
    assert_eq!(changed.lines(), ["1-4: seed 1 → 7"]);
    let kept = [
        (1, "fib_lr-0.1_n-1_seed-7"),
        (2, "fib_lr-0.1_n-2_seed-7"),
        (3, "fib_lr-0.2_n-1_seed-7"),
        (4, "fib_lr-0.2_n-2_seed-7"),
    ];
    assert_eq!(desk.names(), kept.map(|(id, name)| (id, name.to_owned())));
    let more = desk.add(
        "exp",
        &PRODUCT
            .replace("{seed}", "{seed} {tag}")
            .replace("seed: 1", "seed: 7, tag: x"),
    );
    assert_eq!(more.lines(), ["1-4: tag x (new), command changed"]);
}

#[test]
fn a_product_that_gains_values_or_an_axis_keeps_every_number() {
    let mut desk = Desk::new();
    desk.add("exp", PRODUCT);
    let values = desk.add("exp", &PRODUCT.replace("[0.1, 0.2]", "[0.05, 0.1, 0.2]"));
    assert_eq!(
        (
            count(&values, DiffKind::Same),
            count(&values, DiffKind::Added)
        ),
        (4, 2)
    );
    let axis = desk.add(
        "exp",
        &PRODUCT
            .replace("[0.1, 0.2]", "[0.05, 0.1, 0.2]")
            .replace("seed: 1", "seed: [1, 2]"),
    );
    assert_eq!(count(&axis, DiffKind::Added), 6);
    assert_eq!(count(&axis, DiffKind::Gone), 0);
    let names = desk.names();
    assert_eq!(names[3], (4, "fib_lr-0.2_n-2_seed-1".to_owned()));
    assert_eq!(names[4], (5, "fib_lr-0.05_n-1_seed-1".to_owned()));
    // And back: the experiments of the axis are gone, and the rest is as
    // before.
    let back = desk.add("exp", PRODUCT);
    assert_eq!(
        (count(&back, DiffKind::Same), count(&back, DiffKind::Gone)),
        (4, 8)
    );
}

#[test]
fn a_block_that_is_renamed_keeps_its_numbers() {
    let mut desk = Desk::new();
    desk.add("exp", &format!("{PRODUCT}+one:\n  command: other\n"));
    let renamed = desk.add(
        "exp",
        &format!(
            "{}+two:\n  command: other\n",
            PRODUCT.replace("+fib", "+grid")
        ),
    );
    assert_eq!(
        count(&renamed, DiffKind::Changed),
        5,
        "{:?}",
        renamed.lines()
    );
    assert!(renamed.lines().contains(&"5: name one → two".to_owned()));
    assert_eq!(desk.names()[0], (1, "grid_lr-0.1_n-1_seed-1".to_owned()));
    // An experiment that replaces a deleted one is new.
    let replaced = desk.add("exp", "+three:\n  command: other --differently\n");
    assert_eq!(
        (
            count(&replaced, DiffKind::Added),
            count(&replaced, DiffKind::Gone)
        ),
        (1, 5)
    );
}

#[test]
fn a_copied_folder_is_a_source_of_its_own() {
    let mut desk = Desk::new();
    let yaml = "collection: lang\n+small:\n  command: prog\n";
    desk.add("exp", yaml);
    let copy = desk.add("exp2", yaml);
    assert_eq!(count(&copy, DiffKind::Added), 1);
    assert!(copy.notes.is_empty(), "{:?}", copy.notes);
    assert_eq!(desk.picked("small"), [1, 2]);
    assert_eq!(desk.picked("lang/small"), [1, 2]);
    let same_name = desk.add("other/exp", "+small:\n  command: prog\n");
    assert_eq!(count(&same_name, DiffKind::Added), 1);
    // The copy loses a row: the original's row is not taken for it.
    desk.add("exp", "collection: lang\n+big:\n  command: prog --big\n");
    let again = desk.read("exp2");
    assert_eq!(count(&again, DiffKind::Same), 1);
}

#[test]
fn all_paths_follow_a_folder_that_was_moved() {
    let mut desk = Desk::new();
    let yaml = "+a:\n  command: prog a\n+b:\n  command: prog b\n+c:\n  command: prog c\n";
    desk.add("exp", yaml);
    desk.lab.start(&[1], StartOptions::default());
    let run = desk
        .lab
        .state
        .experiment(nero_model::ExperimentId(1))
        .unwrap()
        .runs[0]
        .clone();
    assert_ne!(run.made.token, RunToken::from_bytes([0; 16]));
    let mut of_run = run.dispatch.clone();
    of_run.results = Results::Done {
        folder: desk.folder("exp/results/a-1.1").display().to_string(),
        notes: Vec::new(),
        left: 0,
        warnings: Vec::new(),
    };
    desk.lab.take(vec![Change::Dispatch {
        run: run.made.id,
        dispatch: Box::new(of_run),
        rules: None,
    }]);
    desk.add("exp", &yaml.replace("+c:\n  command: prog c\n", ""));
    // Renamed and changed at once; its collection is the folder's name.
    fs::rename(desk.folder("exp"), desk.folder("better")).unwrap();
    let moved = desk.add(
        "better",
        &yaml.replace("+c:\n  command: prog c\n", "+d:\n  command: prog d\n"),
    );
    assert!(moved.notes[0].contains("moved from"), "{:?}", moved.notes);
    assert_eq!(count(&moved, DiffKind::Added), 1);
    for one in desk.lab.state.experiments.iter() {
        assert_eq!(one.definition.folder, desk.folder("better"), "{}", one.id);
    }
    let results = desk
        .lab
        .state
        .run(run.made.id)
        .unwrap()
        .dispatch
        .results
        .folder()
        .to_owned();
    assert_eq!(Path::new(&results), desk.folder("better/results/a-1.1"));
    assert!(desk.lab.state.origin_at(&desk.folder("exp")).is_none());
}

#[test]
fn a_folder_that_cannot_be_recognised_is_new_and_that_is_told() {
    let mut desk = Desk::new();
    desk.add("exp", "+a:\n  command: prog\n");
    fs::remove_dir_all(desk.folder("exp")).unwrap();
    let other = desk.add("other", "+x:\n  command: else\n+y:\n  command: else y\n");
    assert_eq!(count(&other, DiffKind::Added), 2);
    assert!(
        other.notes[0].contains("from which 1 came, is not there any more"),
        "{:?}",
        other.notes
    );
}

#[test]
fn an_experiment_gone_from_its_source_is_picked_by_number_name_and_gone_alone() {
    let mut desk = Desk::new();
    let yaml = |n: &str| {
        format!("command: prog {{n}}\n+fib:\n  parameters: {{n: {{range: [0, {n}, 1]}}}}\n")
    };
    desk.add("exp", &yaml("6"));
    desk.add("exp", &yaml("3"));
    for text in [
        "all", "fib_*", "defined", "tmod<1h", "id > 0", "fib", "exp/all",
    ] {
        assert_eq!(desk.picked(text), [1, 2, 3], "{text}");
    }
    assert_eq!(desk.picked("gone"), [4, 5, 6]);
    assert_eq!(desk.picked("gone && n > 4"), [6]);
    assert_eq!(desk.picked("fib_n-5"), [6]);
    assert_eq!(desk.picked("3-4"), [3, 4]);
    assert_eq!(desk.picked("4 || 1"), [1, 4]);
    // A running experiment is not missed.
    desk.lab.start(&[5], StartOptions::default());
    assert_eq!(desk.picked("all"), [1, 2, 3, 5]);
    assert_eq!(desk.picked("live"), [5]);
}

#[test]
fn a_removed_experiment_stays_removed_when_its_source_is_read() {
    let mut desk = Desk::new();
    let yaml = "+a:\n  command: prog a\n+b:\n  command: prog b\n";
    desk.add("exp", yaml);
    let one = desk
        .lab
        .state
        .experiment(nero_model::ExperimentId(1))
        .unwrap();
    let hidden = crate::fold::change::ExperimentRecord {
        hidden_ms: Some(5),
        ..crate::fold::change::ExperimentRecord::of(one)
    };
    desk.lab.take(vec![Change::Experiment(hidden.into())]);
    let again = desk.add("exp", &yaml.replace("prog a", "prog a more"));
    assert_eq!(count(&again, DiffKind::Hidden), 1);
    assert_eq!(again.range(), "2");
    assert_eq!(desk.picked("all"), [2]);
}

#[test]
fn experiments_of_an_earlier_version_find_their_block() {
    let mut lab = Lab::default();
    let old = |name: &str| {
        let mut old = definition(name, "0.1");
        old.block = String::new().into();
        old
    };
    lab.add("/lab", vec![old("fib_lr-0.1_n-1"), old("fib_lr-0.1_n-2")]);
    let mut now = [
        definition("fib_lr-0.1_n-1_x-1", "0.1"),
        definition("other", "0.1"),
    ];
    now[0].block = "fib".to_owned().into();
    now[0].varied = vec!["lr".to_owned()].into();
    let merged = add::merge(
        &lab.state,
        &[source("/lab", now.to_vec())],
        &HashSet::new(),
        &moment(9),
    );
    assert_eq!(count(&merged, DiffKind::Changed), 1, "{:?}", merged.seen);
    assert_eq!(merged.seen[0].id.0, 1);
}

/// Definitions of rows with numbers.
fn numbered(rows: &[(u64, &str, &str)]) -> Vec<nero_format::Definition> {
    let row = |(number, name, lr): &(u64, &str, &str)| {
        let mut row = definition(name, lr);
        row.number = Some(*number);
        row.block = "plan".to_owned().into();
        row
    };
    rows.iter().map(row).collect()
}

fn present(lab: &Lab) -> Vec<(u64, String, bool)> {
    let all = lab.state.experiments.iter();
    all.map(|one| (one.id.0, one.definition.name.clone(), one.gone))
        .collect()
}

#[test]
fn the_number_of_a_row_is_its_identity_whatever_else_it_holds() {
    let mut lab = Lab::default();
    lab.add("/plan", numbered(&[(10, "a", "0.1"), (20, "b", "0.2")]));
    // The names change places, and a row takes the values of another.
    let merged = lab.add(
        "/plan",
        numbered(&[(20, "a", "0.1"), (15, "c", "0.2"), (10, "b", "0.3")]),
    );
    assert_eq!(count(&merged, DiffKind::Added), 1);
    assert_eq!(count(&merged, DiffKind::Changed), 2, "{:?}", merged.seen);
    let want = [(10, "b"), (15, "c"), (20, "a")];
    assert_eq!(
        present(&lab),
        want.map(|(id, name)| (id, name.to_owned(), false))
    );
    // A row that left comes back with its number alone.
    lab.add("/plan", numbered(&[(10, "b", "0.3")]));
    lab.add("/plan", numbered(&[(10, "b", "0.3"), (16, "c", "0.2")]));
    let gone: Vec<u64> = present(&lab)
        .iter()
        .filter(|(.., gone)| *gone)
        .map(|(id, ..)| *id)
        .collect();
    assert_eq!(gone, [15, 20]);
    assert_eq!(lab.state.highest, 20);
    // Without a number an experiment comes behind all.
    lab.add("/yaml", vec![definition("e", "1")]);
    assert_eq!(present(&lab).last().map(|(id, ..)| *id), Some(21));
}

#[test]
fn numbers_of_other_sources_clash_all_at_once() {
    let mut lab = Lab::default();
    lab.add("/yaml", vec![definition("x", "1"), definition("y", "1")]);
    let merged = add::merge(
        &lab.state,
        &[
            source(
                "/one",
                numbered(&[(1, "a", "1"), (2, "b", "1"), (9, "c", "1")]),
            ),
            source("/two", numbered(&[(9, "d", "1"), (9_999_999, "e", "1")])),
        ],
        &HashSet::new(),
        &moment(9),
    );
    let clashes: Vec<(u64, &str)> = merged
        .clashes
        .iter()
        .map(|clash| (clash.number, clash.holder.0.as_str()))
        .collect();
    assert_eq!(clashes, [(1, "x"), (2, "y"), (9, "c")]);
}

#[test]
fn rows_without_names_are_called_after_their_numbers_and_are_never_renamed() {
    let mut lab = Lab::default();
    let row = |lr: &str, varied: &[&str]| nero_format::Definition {
        block: "plan".to_owned().into(),
        varied: varied.iter().map(|&name| name.to_owned()).collect(),
        ..definition("", lr)
    };
    lab.add("/lab", vec![row("0.1", &[])]);
    let both = vec![row("0.2", &["lr"]), row("0.1", &["lr"])];
    lab.add("/lab", both);
    let names: Vec<(u64, String)> = [1, 2]
        .into_iter()
        .filter_map(|id| lab.state.experiment(ExperimentId(id)))
        .map(|one| (one.id.0, one.definition.name.clone()))
        .collect();
    assert_eq!(names, [(1, "plan_1".to_owned()), (2, "plan_2".to_owned())]);
    assert_eq!(
        lab.state
            .experiment(ExperimentId(1))
            .unwrap()
            .definition
            .params[0]
            .text,
        "0.1"
    );
}
