//! On a terminal: colours, questions, drawing. `script` of util-linux lends one.

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};

use nero_wire::v1::*;

use crate::fake::{Answers, Fake, Ran, clean_reply};
use crate::samples::{self, HOSTILE};

/// Runs the words on a terminal of 80 columns and this many lines; types
/// `typed` when it is asked. Standard error goes to the terminal, too.
fn on_terminal(fake: &Fake, lines: u16, words: &[&str], typed: &str) -> Ran {
    on_terminal_with(fake, lines, words, typed, &[])
}

fn on_terminal_with(
    fake: &Fake,
    lines: u16,
    words: &[&str],
    typed: &str,
    env: &[(&str, &str)],
) -> Ran {
    let own = fake.command(words);
    let program = own.get_program().to_str().expect("text");
    let words: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let line = format!(
        "stty -echo -onlcr rows {lines} cols 80; exec {program} {}",
        words.join(" ")
    );
    let mut command = Command::new("script");
    command
        .args(["-q", "-e", "-c", &line, "/dev/null"])
        .env_clear()
        .current_dir(fake.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    for (name, value) in own.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    command.envs(env.iter().copied());
    let mut child = command.spawn().expect("script of util-linux is installed");
    let mut stdin = child.stdin.take().expect("a pipe");
    let mut before = Vec::new();
    if !typed.is_empty() {
        let stdout = child.stdout.as_mut().expect("a pipe");
        let mut byte = [0];
        while !before.ends_with(b"[y/N] ") {
            stdout.read_exact(&mut byte).expect("a question");
            before.extend(byte);
        }
        stdin.write_all(typed.as_bytes()).expect("it reads");
    }
    let mut output = child.wait_with_output().expect("it ends");
    drop(stdin);
    output.stdout.splice(0..0, before);
    Ran::of(output)
}

fn with_list(experiments: Vec<ExperimentView>) -> Fake {
    Fake::new(Answers {
        list: ListReply {
            experiments,
            ..ListReply::default()
        },
        ..Answers::default()
    })
}

#[test]
fn colour_is_on_a_terminal_and_says_what_the_words_say() {
    let fake = with_list(samples::four());
    let colored = on_terminal(&fake, 24, &["status"], "").out;
    assert!(colored.contains("\u{1b}["), "{colored:?}");
    for word in ["running", "finished", "crashed", "defined"] {
        assert!(colored.contains(word), "{colored}");
    }
}

#[test]
fn no_color_is_respected() {
    let fake = with_list(samples::four());
    let words = ["status"];
    let plain = on_terminal_with(&fake, 24, &words, "", &[("NO_COLOR", "1")]).out;
    assert!(!plain.contains('\u{1b}'), "{plain:?}");
    let plain = on_terminal_with(&fake, 24, &words, "", &[("TERM", "dumb")]).out;
    assert!(!plain.contains('\u{1b}'), "{plain:?}");
}

#[test]
fn an_interrupt_ends_a_question_and_touches_nothing() {
    let fake = Fake::new(Answers {
        abort: samples::aborted(true),
        ..Answers::default()
    });
    let ran = on_terminal(&fake, 24, &["abort", "all"], "\u{3}");
    assert_eq!(ran.code, Some(130), "{ran:?}");
    assert!(ran.out.contains("runs go on"), "{ran:?}");
    assert_eq!(fake.requests().len(), 1, "only looked");
}

#[test]
fn more_than_a_screen_is_an_overview() {
    let mut views = Vec::new();
    for id in 1..=60 {
        views.push(ExperimentView {
            reason: "exit code 1".into(),
            ..samples::experiment(id, &format!("e{id}"), "crashed")
        });
    }
    for id in 61..=80 {
        views.push(ExperimentView {
            node: if id < 70 {
                "box".into()
            } else {
                "local".into()
            },
            runtime_s: Some(id as f64),
            ..samples::experiment(id, &format!("e{id}"), "running")
        });
    }
    let fake = with_list(views);
    let shown = on_terminal(&fake, 20, &["status"], "").out;
    let plain = strip(&shown);
    assert!(plain.lines().count() < 26, "{plain}");
    insta::assert_snapshot!("overview", plain);
}

#[test]
fn an_overview_tells_what_runs_wait_for_and_which_of_them_need_a_person() {
    let waiting = |id, why: String, held: &str| ExperimentView {
        waiting_for: why,
        held: held.into(),
        ..samples::experiment(id, &format!("e{id}"), "pending")
    };
    let never = "in SLURM's queue as job 9: QOSMaxGRESPerJob; this does not pass by waiting";
    let mut views: Vec<_> = (0..40)
        .map(|task| waiting(task + 1, format!("in SLURM's queue as job 7_{task}"), ""))
        .collect();
    views.extend((41..=80).map(|id| waiting(id, never.into(), never)));
    views.push(ExperimentView {
        held_by_need: true,
        need_remedy: "neroman restart 1".into(),
        ..waiting(
            81,
            "`neroman restart 1`".into(),
            "needs init, which crashed",
        )
    });
    let shown = on_terminal(&with_list(views), 20, &["status"], "").out;
    let plain = strip(&shown);
    let needs = format!(
        "needs you\n  held 41-80: {never} · neroman start 41-80 makes new runs, abort 41-80 takes \
         them away\n  held 81: needs init, which crashed · neroman restart 1 · neroman resume 81 goes on \
         without, abort 81 takes them away\n"
    );
    assert!(plain.contains(&needs), "{plain}");
    let waits = "waiting\n  40 in SLURM's queue as job 7_0: 1-40\n";
    assert!(plain.contains(waits), "{plain}");
}

#[test]
fn the_runs_shown_are_the_runs_aborted() {
    let fake = Fake::new(Answers {
        abort: samples::aborted(true),
        ..Answers::default()
    });
    let ran = on_terminal(&fake, 24, &["abort", "running"], "y\n");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.out.contains("abort 3 live runs? [y/N]"), "{ran:?}");
    let asked = fake.requests();
    assert!(asked[0].starts_with("abort `running`") && asked[0].contains("dry true"));
    assert!(asked[1].starts_with("abort `1-3`") && asked[1].contains("dry false"));
}

#[test]
fn the_runs_shown_are_the_runs_cleaned() {
    let fake = Fake::new(Answers {
        clean: clean_reply(0, ["", "running", ""]),
        ..Answers::default()
    });
    let ran = on_terminal(&fake, 24, &["clean"], "y\n");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(
        ran.out
            .contains("delete 2 run folders on 1 node (2.0M)? [y/N]"),
        "{ran:?}"
    );
    let asked = fake.requests();
    assert!(
        asked[0].starts_with("clean ``") && asked[0].ends_with("dry true"),
        "{asked:?}"
    );
    assert!(
        asked[1].starts_with("clean `1.1,3.1`") && asked[1].ends_with("dry false"),
        "{asked:?}"
    );
}

#[test]
fn abort_changes_nothing_when_its_question_is_answered_with_no() {
    let fake = Fake::new(Answers {
        abort: samples::aborted(true),
        ..Answers::default()
    });
    let ran = on_terminal(&fake, 24, &["abort", "all"], "n\n");
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert_eq!(fake.requests().len(), 1, "only looked");
}

#[test]
fn a_log_cannot_act_on_the_terminal() {
    let fake = Fake::new(Answers {
        logs: vec![
            LogChunk {
                data: format!("{HOSTILE}\r50%\rend\n").into_bytes(),
                notice: HOSTILE.into(),
                ..LogChunk::default()
            },
            LogChunk {
                offset: 99,
                end: true,
                ..LogChunk::default()
            },
        ],
        ..Answers::default()
    });
    let ran = on_terminal(&fake, 24, &["logs", "1"], "");
    assert!(!ran.out.contains('\u{1b}'), "{:?}", ran.out);
    assert!(ran.out.contains("\n50%\nend\n"), "{:?}", ran.out);
}

#[test]
fn a_csv_cannot_act_on_the_terminal() {
    let fake = with_list(vec![samples::hostile()]);
    let ran = on_terminal(&fake, 24, &["status", "--csv"], "");
    assert!(!ran.out.contains('\u{1b}'), "{:?}", ran.out);
}

#[test]
fn watching_draws_in_one_place() {
    let event = |state: &str, live| WatchEvent {
        experiments: vec![samples::experiment(1, "a", state)],
        first: true,
        live,
        ..WatchEvent::default()
    };
    let fake = Fake::new(Answers {
        watch: vec![event("running", 1), event("finished", 0)],
        ..Answers::default()
    });
    let ran = on_terminal(&fake, 24, &["status", "--watch"], "");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    // Nothing is erased before the new drawing stands there.
    let erased = ran.out.find("\u{1b}[J").expect("the rest of the screen");
    let back = ran.out.rfind("\u{1b}[3A\r").expect("the way back");
    let last = ran.out.rfind("\u{1b}[J").expect("the rest of the screen");
    assert!(erased < back && back < last, "{:?}", ran.out);
    assert!(strip(&ran.out).ends_with("1 finished\n"), "{:?}", ran.out);
}

/// Without what moves and paints.
fn strip(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if c == '\u{1b}' {
            rest.by_ref().find(|c| c.is_ascii_alphabetic());
        } else if c != '\r' {
            plain.push(c);
        }
    }
    plain
}
