//! The ledger over restarts, tears, flips and compaction cut at every step.

use super::*;
use nero_journal::v1::{JobExited, ledger_exited::Copy};
use nero_model::ExperimentId;

fn open(folder: &Path, deployment: DeploymentId) -> Result<(Ledger, LedgerState), LedgerError> {
    Ledger::open(folder, deployment, true)
}

fn id(number: u32) -> RunId {
    RunId {
        experiment: ExperimentId(7),
        number,
    }
}

fn token(number: u32) -> RunToken {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&number.to_le_bytes());
    RunToken::from_bytes(bytes)
}

fn exited(number: u32) -> LedgerExited {
    LedgerExited {
        token: token(number).to_vec(),
        incarnation: 1,
        records: vec![Copy::new(crate::runs::own::NO_TIME, &JobExited::default())],
    }
}

#[test]
fn a_written_ledger_is_read_by_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let deployment = DeploymentId::random();
    let (mut ledger, state) = open(folder.path(), deployment).unwrap();
    assert!(state.runs.is_empty());
    for number in 1..=4 {
        ledger
            .accepted(token(number), id(number), number.into())
            .unwrap();
    }
    ledger.taken_away(token(1), "me").unwrap();
    ledger.cancel_asked(token(2), 3, b"request").unwrap();
    ledger.exited(&exited(3)).unwrap();
    ledger.refused(token(3), "it failed").unwrap();
    ledger.closed(&[token(4)]).unwrap();
    ledger.answered(b"request", b"answer").unwrap();
    drop(ledger);
    let (_, state) = open(folder.path(), deployment).unwrap();
    assert_eq!(state.runs.len(), 3);
    assert_eq!(state.next_order, 5);
    assert_eq!(state.runs[&token(1)].taken_away.as_deref(), Some("me"));
    assert_eq!(state.runs[&token(2)].cancel, 3);
    assert_eq!(state.runs[&token(3)].exited, Some(exited(3)));
    assert_eq!(state.runs[&token(3)].refused.as_deref(), Some("it failed"));
    assert_eq!(state.answers, [(b"request".to_vec(), b"answer".to_vec())]);
}

#[test]
fn a_torn_end_is_fine_and_a_damaged_segment_is_named_and_stays() {
    let folder = tempfile::tempdir().unwrap();
    let deployment = DeploymentId::random();
    let (mut ledger, _) = open(folder.path(), deployment).unwrap();
    for number in 1..=3 {
        ledger
            .accepted(token(number), id(number), number.into())
            .unwrap();
    }
    drop(ledger);
    let path = folder.path().join("00000001.seg");
    let whole = fs::read(&path).unwrap();
    for length in (0..whole.len()).step_by(7) {
        fs::write(&path, &whole[..length]).unwrap();
        let mut state = LedgerState::default();
        state.replay(&path, &whole[..length], deployment).unwrap();
        assert!(state.runs.len() <= 3);
    }
    let mut flipped = whole.clone();
    flipped[100] ^= 1;
    fs::write(&path, &flipped).unwrap();
    let (mut ledger, state) = open(folder.path(), deployment).unwrap();
    let damaged = state.damaged.first().expect("it is named");
    assert_eq!(damaged.file(), (&*path, "is damaged at byte 80".to_owned()));
    ledger.compact(&state).unwrap();
    assert_eq!(fs::read(&path).unwrap(), flipped, "it is left untouched");
    fs::write(&path, &whole).unwrap();
    let (_, state) = open(folder.path(), deployment).unwrap();
    assert_eq!((state.runs.len(), state.damaged.len()), (3, 0));
    let (_, state) = open(folder.path(), DeploymentId::random()).unwrap();
    assert!(state.runs.is_empty());
    assert!(matches!(state.damaged[0], LedgerError::Foreign { .. }));
}

#[test]
fn compaction_keeps_what_is_open_wherever_it_dies() {
    let folder = tempfile::tempdir().unwrap();
    let deployment = DeploymentId::random();
    let (mut ledger, _) = open(folder.path(), deployment).unwrap();
    for number in 1..=4000 {
        ledger
            .accepted(token(number), id(number), number.into())
            .unwrap();
        ledger.exited(&exited(number)).unwrap();
        if number > 10 {
            ledger.closed(&[token(number)]).unwrap();
        }
    }
    drop(ledger);
    let old = folder.path().join("00000001.seg");
    let kept = fs::read(&old).unwrap();
    let (_, first) = open(folder.path(), deployment).unwrap();
    assert!(!old.exists(), "it was compacted");
    let new = folder.path().join("00000002.seg");
    let size = fs::metadata(&new).unwrap().len();
    assert!(size < kept.len() as u64 / 50);
    // Dead before the old one was removed, with any part of the new one there.
    let whole = fs::read(&new).unwrap();
    for length in [0, 40, 80, 81, 300, whole.len()] {
        fs::write(&new, &whole[..length]).unwrap();
        fs::write(&old, &kept).unwrap();
        let mut state = LedgerState::default();
        for (_, path) in list(folder.path()).unwrap() {
            state
                .replay(&path, &fs::read(&path).unwrap(), deployment)
                .unwrap();
        }
        assert_eq!(state.runs, first.runs, "{length} bytes");
    }
}

#[test]
fn many_starts_take_no_more_space_than_a_few() {
    use std::os::unix::fs::MetadataExt as _;
    let folder = tempfile::tempdir().unwrap();
    let deployment = DeploymentId::random();
    let (mut ledger, _) = open(folder.path(), deployment).unwrap();
    ledger.accepted(token(1), id(1), 1).unwrap();
    drop(ledger);
    for _ in 0..3 * config::LEDGER_SEGMENTS_MAX {
        open(folder.path(), deployment).unwrap();
    }
    let (_, state) = open(folder.path(), deployment).unwrap();
    assert_eq!(state.runs.len(), 1);
    let entries = fs::read_dir(folder.path()).unwrap().flatten();
    let blocks: Vec<u64> = entries
        .map(|one| one.metadata().unwrap().blocks())
        .collect();
    assert!(blocks.len() <= config::LEDGER_SEGMENTS_MAX + 1);
    let bytes = blocks.iter().sum::<u64>() * 512;
    assert!(bytes < 2 * config::LEDGER_RESERVE_BYTES, "{bytes} bytes");
}

#[test]
fn a_compaction_that_cannot_remove_the_old_goes_on_in_the_new() {
    let folder = tempfile::tempdir().unwrap();
    let deployment = DeploymentId::random();
    let (mut ledger, state) = open(folder.path(), deployment).unwrap();
    // Behind the segment that is written now, and before the new one.
    fs::create_dir(folder.path().join("1.seg")).unwrap();
    ledger.compact(&state).unwrap_err();
    ledger.accepted(token(1), id(1), 1).unwrap();
    drop(ledger);
    fs::remove_dir(folder.path().join("1.seg")).unwrap();
    let (_, state) = open(folder.path(), deployment).unwrap();
    assert_eq!(state.runs.len(), 1);
}

fn intent(number: u8, tokens: &[u32], answer: Answer) -> Intent {
    Intent {
        submission: SubmissionId::from_bytes([number; 16]),
        tokens: tokens.iter().map(|number| token(*number)).collect(),
        made_ms: 1_700_000_000_000 + i64::from(number),
        answer,
    }
}

#[test]
fn a_submission_is_known_until_its_last_run_is_closed_and_in_doubt_without_an_answer() {
    let folder = tempfile::tempdir().unwrap();
    let deployment = DeploymentId::random();
    let (mut ledger, _) = open(folder.path(), deployment).unwrap();
    for number in 1..=6 {
        ledger
            .accepted(token(number), id(number), number.into())
            .unwrap();
    }
    let doubt = intent(1, &[1, 2], Answer::InDoubt);
    let taken = intent(2, &[3], Answer::Job(77));
    let refused = intent(3, &[4], Answer::Refused("no such partition".to_owned()));
    let over = intent(4, &[5, 6], Answer::Job(78));
    let full = intent(5, &[4], Answer::NotNow("job submit limit".to_owned()));
    for intent in [&doubt, &taken, &refused, &over, &full] {
        ledger.submission(intent).unwrap();
        if intent.answer != Answer::InDoubt {
            ledger.submitted(intent.submission, &intent.answer).unwrap();
        }
    }
    ledger.closed(&[token(1), token(5)]).unwrap();
    drop(ledger);
    let (mut ledger, state) = open(folder.path(), deployment).unwrap();
    assert_eq!(
        state.submissions,
        [doubt.clone(), taken.clone(), refused.clone(), over]
    );
    ledger.closed(&[token(6)]).unwrap();
    drop(ledger);
    let (mut ledger, state) = open(folder.path(), deployment).unwrap();
    assert_eq!(state.submissions, [doubt, taken, refused]);
    // A new ledger contains the same.
    ledger.compact(&state).unwrap();
    drop(ledger);
    let (_, compacted) = open(folder.path(), deployment).unwrap();
    assert_eq!(compacted.submissions, state.submissions);
}

#[test]
fn a_ledger_reads_its_own_kinds_of_records_and_skips_all_others() {
    let read = |kind: u16, payload: &[u8]| {
        LedgerState::default().apply(&nero_journal::Record {
            offset: 80,
            sequence: 0,
            kind,
            mono_ns: 9_000_000,
            wall_ns: 2_000_000,
            payload,
            chain: 0,
        })
    };
    let all = 0..=100;
    assert!(all.clone().all(|kind| read(kind, &[]).is_ok()));
    // Only records of its own are decoded.
    let decoded: Vec<u16> = all.filter(|kind| read(*kind, &[0]).is_err()).collect();
    assert_eq!(decoded, [60, 61, 62, 63, 64, 65, 66, 67, 68, 75]);
}
