//! The laws hold for the seeds, for each seed repeated, and for random changes of
//! seeds, other ones each day. `cargo xtask fuzz` goes on from there.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

use nero_laws::{Random, Target, mutate, repeated};

/// CPU time of one input in a build that is not optimised.
const SECONDS_MAX: f64 = 5.0;

/// Length of a repeated seed; that of the longest input takes an optimised build.
const REPEATED_BYTES: usize = 16 << 10;

/// How long random inputs are played.
const RANDOM_TIME: Duration = Duration::from_secs(3);

/// Plays an input; one that breaks the law stays as a file.
fn play(target: &Target, bytes: &[u8]) {
    let judged = catch_unwind(AssertUnwindSafe(|| target.judge(bytes, SECONDS_MAX)));
    if let Err(broken) = judged {
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-input", target.name));
        std::fs::write(&file, bytes).unwrap();
        eprintln!("the input is {}", file.display());
        resume_unwind(broken);
    }
}

fn holds(target: &Target) {
    let seeds = target.seeds();
    for seed in &seeds {
        play(target, seed);
        play(target, &repeated(seed, REPEATED_BYTES));
    }
    let mut random = Random::of_day();
    let began = Instant::now();
    let mut count = 0;
    while began.elapsed() < RANDOM_TIME {
        let other = seeds.get(random.below(seeds.len()));
        let mut bytes = match seeds.get(random.below(seeds.len())) {
            Some(seed) => seed.clone(),
            None => (0..random.below(300))
                .map(|_| random.below(256) as u8)
                .collect(),
        };
        mutate(&mut random, &mut bytes, other.map_or(&[], Vec::as_slice));
        play(target, &bytes);
        count += 1;
    }
    println!(
        "{}: {} seeds, {count} changes of them",
        target.name,
        seeds.len()
    );
}

macro_rules! laws {
    ($($name:ident: $target:ident;)*) => {
        $(
            #[test]
            fn $name() {
                holds(&nero_laws::$target);
            }
        )*
    };
}

laws! {
    records_of_a_damaged_segment_are_the_first_ones_written: JOURNAL;
    a_damaged_message_is_refused: FRAME;
    a_content_of_a_forged_pack_is_sound_or_refused: BLOBS;
    a_journal_in_pieces_gives_the_same_facts: FOLD;
    a_written_cell_changes_no_other_cell: WORKBOOK;
    a_log_in_pieces_gives_the_same_metrics: METRICS;
    a_watcher_that_dies_loses_no_point_and_tells_none_twice: INTAKE;
    no_answer_of_a_scheduler_makes_a_row_of_ours: WARDEN;
    a_file_of_experiments_is_read_whole_or_its_mistakes_are_safe_text: FORMAT;
    a_node_acts_on_no_terminal_and_its_banner_is_no_output: NODE;
    a_message_is_taken_or_not_as_its_server_answers: SMTP;
    a_workbook_has_the_cells_that_were_sent: SPREADSHEET;
    a_flow_of_any_spec_stays_within_it: NOODLES;
}

#[test]
fn each_target_has_a_program_for_the_fuzzer() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/src/bin");
    for target in nero_laws::TARGETS {
        let text = std::fs::read_to_string(folder.join(format!("{}.rs", target.name))).unwrap();
        let constant = format!("nero_laws::{})", target.name.to_uppercase());
        assert!(text.contains(&constant), "{text}");
    }
    assert_eq!(
        std::fs::read_dir(folder).unwrap().count(),
        nero_laws::TARGETS.len()
    );
}
