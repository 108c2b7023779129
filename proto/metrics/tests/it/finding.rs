//! Which numbers a line gives, and which it does not.

use nero_metrics::finder::{Context, Finder, FinderOptions};
use proptest::prelude::*;

/// Names and values of a line, and its step, as one text.
fn found(line: &str) -> String {
    let (mut finder, errors) = Finder::new(&FinderOptions::default());
    assert!(errors.is_empty());
    show(finder.find(line.as_bytes(), &mut Context::default()))
}

fn show(found: &nero_metrics::found::LinePairs) -> String {
    let pairs: Vec<String> = found
        .pairs()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let step = found.step.map(|step| format!(" @{step}"));
    pairs.join(" | ") + &step.unwrap_or_default()
}

#[track_caller]
fn table(lines: &[(&str, &str)]) {
    for (line, want) in lines {
        assert_eq!(found(line), *want, "{line:?}");
    }
}

#[test]
fn pairs_with_signs() {
    table(&[
        ("loss=0.3", "loss=0.3"),
        ("loss = 0.3", "loss=0.3"),
        ("loss: 0.3", "loss=0.3"),
        ("loss : 0.3", "loss=0.3"),
        ("loss:0.3", "loss=0.3"),
        ("  loss  =  0.3  ", "loss=0.3"),
        ("\tloss:\t0.3", "loss=0.3"),
        (
            "train loss = 0.3, test acc = 0.9",
            "train loss=0.3 | test acc=0.9",
        ),
        ("loss=0.3 acc=0.9", "loss=0.3 | acc=0.9"),
        ("loss=0.3,acc=0.9;lr=1e-3", "loss=0.3 | acc=0.9 | lr=0.001"),
        ("loss: 0.3 acc: 0.9", "loss=0.3 | acc=0.9"),
        ("loss = 0.3 test acc = 0.9", "loss=0.3 | test acc=0.9"),
        ("loss: 0.3 | acc: 0.9", "loss=0.3 | acc=0.9"),
        ("val/loss: 0.3", "val/loss=0.3"),
        ("f1-score = 0.9", "f1-score=0.9"),
        ("top5@acc: 91%", "top5@acc=0.91"),
        ("größe = 5", "größe=5"),
        ("🔥 loss: 0.3", "🔥 loss=0.3"),
        ("loss: 0.3.", "loss=0.3"),
        ("(loss=0.3)", "loss=0.3"),
        ("n = -0", "n=-0"),
        ("Namespace(k='v', lr=0.1, n=5)", "lr=0.1 | n=5"),
    ]);
}

#[test]
fn the_output_of_frameworks_gives_their_metrics() {
    table(&[
        (
            "100/100 [==============================] - 3s 30ms/step - loss: 0.3 - accuracy: 0.9",
            "loss=0.3 | accuracy=0.9",
        ),
        (
            "{'loss': 0.3451, 'learning_rate': 5e-05, 'epoch': 0.5}",
            "loss=0.3451 | learning_rate=0.00005 | epoch=0.5 @0.5",
        ),
        (
            "{'loss': np.float64(0.5), 'n': tensor(2., device='cuda:0')}",
            "loss=0.5 | n=2",
        ),
        (
            " 45%|████▌     | 45/100 [00:12<00:15,  3.67it/s, loss=0.345]",
            "loss=0.345",
        ),
        (
            "2024-01-01 12:30:45,123 INFO train loss = 0.3, step = 7",
            "train loss=0.3 | step=7 @7",
        ),
        ("INFO:root:loss=0.3", "loss=0.3"),
        (
            "[2024-01-01 12:30:45] INFO - epoch 3: loss=0.5",
            "loss=0.5 | epoch=3 @3",
        ),
        (
            "I0101 12:30:45.123456 1234 solver.cpp:228] Iteration 100, loss = 0.5",
            "loss=0.5 | Iteration=100 @100",
        ),
        (
            "Train Epoch: 1 [640/60000 (1%)]\tLoss: 0.3",
            "Train Epoch=1 | Train Loss=0.3 @1",
        ),
        ("\x1b[32mloss\x1b[0m: \x1b[1m0.3\x1b[0m", "loss=0.3"),
        ("\x1b]0;title\x07loss: 0.3", "loss=0.3"),
        (" E =  -0.12345678D+03 Ry", "E=-123.45678"),
    ]);
}

#[test]
fn a_comma_in_a_number_never_cuts_it() {
    table(&[
        ("loss = 0,25", ""),
        ("loss: 1.234,5", ""),
        ("loss=1,234.5", ""),
        ("loss 0,25", ""),
        ("loss = 0,25; acc = 0.5", "acc=0.5"),
        ("loss=0.25,acc=0.5", "loss=0.25 | acc=0.5"),
        ("loss = 0.25, next", "loss=0.25"),
    ]);
}

#[test]
fn per_cent_means_the_same_with_and_without_a_blank() {
    table(&[
        ("acc = 45.8%", "acc=0.458"),
        ("acc = 45.8 %", "acc=0.458"),
        ("acc: 45.8 %, loss: 2", "acc=0.458 | loss=2"),
        ("test images: 55 %", "test images=0.55"),
        ("acc 45.8 %", "acc=0.458"),
        ("acc 45.8%", "acc=0.458"),
    ]);
}

#[test]
fn different_names_are_different_series() {
    table(&[
        (
            "[10]\tvalid_0's l2: 0.24\tvalid_1's l2: 0.31",
            "valid_0's l2=0.24 | valid_1's l2=0.31 @10",
        ),
        (
            "[3]\ttraining's binary_logloss: 0.61\tvalid_1's binary_logloss: 0.62",
            "training's binary_logloss=0.61 | valid_1's binary_logloss=0.62 @3",
        ),
        (
            "smoothSolver:  Solving for Ux, Initial residual = 1, Final residual = 0.03, No Iterations 3",
            "Ux Initial residual=1 | Ux Final residual=0.03",
        ),
        (
            "GAMG:  Solving for p, Initial residual = 0.5, Final residual = 0.02, No Iterations 4",
            "p Initial residual=0.5 | p Final residual=0.02",
        ),
    ]);
}

#[test]
fn the_first_part_of_something_longer_is_no_value() {
    table(&[
        ("eta: 1 day, 3:11:22", ""),
        ("eta: 1 day, 3:11:22  loss: 0.5", "loss=0.5"),
        ("DAV:   1    0.113E+03    0.2E+01", ""),
        ("ENERGY:       0       207.6     -1.5", ""),
        ("loss: 0.5 12 seconds", "loss=0.5"),
        ("loss: 0.5 12.5s", "loss=0.5"),
        ("loss: 0.5 3/10", "loss=0.5"),
    ]);
}

#[test]
fn names_and_numbers_by_turns() {
    table(&[
        ("loss 0.3", "loss=0.3"),
        ("  loss\t3  ", "loss=3"),
        ("loss inf", "loss=inf"),
        ("loss nan", "loss=NaN"),
        ("loss 0.3 acc 0.9", "loss=0.3 | acc=0.9"),
        ("loss 0.3, acc 0.9", "loss=0.3 | acc=0.9"),
        ("epoch 3 loss 0.5", "epoch=3 | loss=0.5 @3"),
        ("total 48", ""),
        ("loss 3 x", ""),
        ("loss3", ""),
        ("train loss 3", "train loss=3"),
        ("Downloaded 35 files in 3 s", ""),
        ("0.3 loss", ""),
        ("loss 0.3 acc", ""),
        ("12:30:45 loss 0.3", "loss=0.3"),
        ("Using device cuda 0 now", ""),
    ]);
}

#[test]
fn a_line_is_read_anew_behind_lines_of_its_form() {
    let mut finder = Finder::new(&FinderOptions::default()).0;
    for (line, want) in [
        ("loss 2.31 (epoch 0)", "loss=2.31 | epoch=0 @0"),
        ("loss 2.25 (epoch 0)", "loss=2.25 | epoch=0 @0"),
        ("loss 2.17 (epoch 1)", "loss=2.17 | epoch=1 @1"),
        ("step (epoch 1): 6", "step (epoch 1)=6 | epoch=1 @1"),
        ("step (epoch 2): 7", "step (epoch 2)=7 | epoch=2 @2"),
        ("acc 45.8 % loss 3", "acc=0.458 | loss=3"),
        ("acc 7 % loss 3", "acc=0.07 | loss=3"),
        ("step 8 acc 0.5", "step=8 | acc=0.5 @8"),
        ("step 8.5 acc 0.5", "step=8.5 | acc=0.5"),
        ("step 8.0 acc 0.5", "step=8 | acc=0.5 @8"),
    ] {
        let found = finder.find(line.as_bytes(), &mut Context::default());
        assert_eq!(show(found), want, "{line:?}");
    }
}

#[test]
fn a_foreign_word_spoils_its_piece_and_not_the_line() {
    table(&[
        (
            "iter 10: loss 9.8, time 142.5ms, mfu 38.5%",
            "iter=10 | loss=9.8 | time=0.1425 | mfu=0.385 @10",
        ),
        (
            "step 10: train loss 9.4, val loss 9.45",
            "step=10 | train loss=9.4 | val loss=9.45 @10",
        ),
        (
            "epoch 4 | loss 0.11 | 12 it/s | acc 92 %",
            "epoch=4 | loss=0.11 | acc=0.92 @4",
        ),
        (
            "epoch 4 | loss 0.11 | speed 12 it/s | acc 92 %",
            "epoch=4 | loss=0.11 | acc=0.92 @4",
        ),
        (
            "Epoch: [2][  10/5005]\tTime  0.512 ( 1.024)\tLoss 6.5e+00 (6.95e+00)\tAcc@1   0.39 (  0.20)",
            "Epoch=2 | Time=0.512 | Loss=6.5 | Acc@1=0.39 @2",
        ),
        ("epoch 3 took 12 minutes, all is well", "epoch=3 @3"),
        ("epoch 3, size 2.35G, loss 0,25", "epoch=3 @3"),
    ]);
}

#[test]
fn steps() {
    table(&[
        ("step=5 loss=0.3", "step=5 | loss=0.3 @5"),
        ("Step: 100, Loss: 0.3", "Step=100 | Loss=0.3 @100"),
        (
            "epoch=1 iter=20 loss=0.3",
            "epoch=1 | iter=20 | loss=0.3 @20",
        ),
        (
            "epoch=1 iteration=7 iter=20",
            "epoch=1 | iteration=7 | iter=20 @7",
        ),
        (
            "global_step=9 iteration=7",
            "global_step=9 | iteration=7 @9",
        ),
        ("global step = 9, epoch = 1", "global step=9 | epoch=1 @9"),
        (
            "epoch=1 step=3 global_step=9",
            "epoch=1 | step=3 | global_step=9 @3",
        ),
        ("epoch 8: loss = 0.3", "loss=0.3 | epoch=8 @8"),
        ("Epoch 8/50 loss: 0.3", "loss=0.3 | Epoch=8 @8"),
        ("Epoch [8/50], loss: 0.3", "loss=0.3 | Epoch=8 @8"),
        ("Epoch: [8][100/500] loss: 0.3", "loss=0.3 | Epoch=8 @8"),
        ("[8/50] loss: 0.3", "loss=0.3 @8"),
        ("[8]\ttrain-rmse:0.3", "train-rmse=0.3 @8"),
        ("8:\tlearn: 0.3\ttotal: 12ms", "learn=0.3 | total=0.012 @8"),
        ("[8] loss: 0.3", "loss=0.3"),
        ("[8/50] loss 0.3", "loss=0.3 @8"),
        (
            "epoch 8: train_loss 0.3 val_loss 0.4",
            "epoch=8 | train_loss=0.3 | val_loss=0.4 @8",
        ),
        ("Epoch 8/50", "Epoch=8 @8"),
        ("Epoch 8:", "Epoch=8 @8"),
        ("epoch:8 loss:0.5", "epoch=8 | loss=0.5 @8"),
        ("step=nan loss=0.3", "step=NaN | loss=0.3"),
        ("epoch=-1 loss=0.3", "epoch=-1 | loss=0.3 @-1"),
        ("steps = 5 loss = 0.3", "steps=5 | loss=0.3"),
    ]);
}

#[test]
fn json_lines() {
    table(&[
        (r#"{"loss": 0.3, "step": 5}"#, "loss=0.3 | step=5 @5"),
        (r#"{"loss":0.3,"acc":1}"#, "loss=0.3 | acc=1"),
        (
            r#"{"train": {"loss": 0.3, "top": {"1": 0.5}}, "n": 2}"#,
            "train/loss=0.3 | train/top/1=0.5 | n=2",
        ),
        (
            r#"{"a": NaN, "b": -Infinity, "c": 1e400}"#,
            "a=NaN | b=-inf | c=inf",
        ),
        (r#"{"a": [1, 2, {"b": 3}], "c": 4}"#, "c=4"),
        (r#"{"a": true, "b": null, "c": "5", "d": 1}"#, "d=1"),
        (r#"{"a": 1, "a": 2}"#, "a=1 | a=2"),
        (
            r#"{"val loss": 1, "größe": 2, "\u00e9": 3}"#,
            "val loss=1 | größe=2 | é=3",
        ),
        (r#"{}"#, ""),
        (r#"{"a": {}}"#, ""),
        (r#"{"a": 1"#, "a=1"),
        (r#"INFO {"loss": 0.3, "step": 5}"#, "loss=0.3 | step=5 @5"),
        (r#"{"a\nb": 1}"#, ""),
        (r#"{"": 1}"#, ""),
    ]);
    let deep = format!("{}1{}", r#"{"a":"#.repeat(10_000), "}".repeat(10_000));
    assert_eq!(found(&deep), "a=1");
}

#[test]
fn special_values_are_kept() {
    table(&[
        ("loss: nan", "loss=NaN"),
        ("loss = -NaN", "loss=NaN"),
        ("loss=inf acc=-Infinity", "loss=inf | acc=-inf"),
        ("loss: 1e309", "loss=inf"),
    ]);
    let (mut finder, _) = Finder::new(&FinderOptions::default());
    let smallest = finder
        .find(b"loss: 5e-324", &mut Context::default())
        .pairs()
        .next();
    assert_eq!(smallest, Some(("loss", f64::from_bits(1))));
    let digits = "1".repeat(400);
    assert_eq!(found(&format!("loss: {digits}")), "loss=inf");
}

#[test]
fn a_text_that_only_looks_like_a_metric_is_none() {
    for line in [
        "",
        "   ",
        "hello world",
        "12:30:45 message",
        "12:30:45",
        "message at 12:30:45",
        "time: 12:30:45",
        "date: 2024-01-01",
        "2024-01-01T12:30:45Z started",
        "see http://localhost:8080/?a=1&b=2",
        "listening on localhost:8080",
        "listening on 127.0.0.1:8080",
        "Using device: cuda:0",
        "file.py:123: warning",
        "  File \"x.py\", line 3, in f",
        "python train.py --lr=0.1 --n=5",
        "if x == 3:",
        "x += 3",
        "x <= 3",
        "x >= 3.5",
        "a != 4",
        "std::vector:5",
        "torch==2.1.0",
        "version: 1.2.3",
        "loss: 1,234.5",
        "loss: 0x1p3",
        "loss = 3x4",
        "ratio: 3/4",
        "loss: ",
        "loss =",
        "= 0.3",
        ": 0.3",
        "ERROR: 5",
        "$x=3",
        "1:0.5 2:0.7",
        "the loss that we got in the end was: 0.3",
        "50% [=====>   ] 1,234  --.-K/s",
        "loss: -",
        "loss: nano",
        "loss=0.3e",
    ] {
        assert_eq!(found(line), "", "{line:?}");
    }
}

#[test]
fn names_that_cannot_be_are_none() {
    assert_eq!(found(&format!("{}=1", "x".repeat(200))).len(), 202);
    assert_eq!(found(&format!("{}=1", "x".repeat(201))), "");
    let (mut finder, _) = Finder::new(&FinderOptions::default());
    assert!(
        finder
            .find(b"lo\xffss=1", &mut Context::default())
            .is_empty()
    );
    assert!(
        finder
            .find(b"'a\x01b': 1", &mut Context::default())
            .is_empty()
    );
    assert!(finder.find(b"a\0b=1", &mut Context::default()).is_empty());
    assert_eq!(
        finder
            .find(b"\xff\xfe loss=1", &mut Context::default())
            .pairs()
            .next(),
        Some(("loss", 1.0))
    );
}

#[test]
fn patterns_come_first_and_alone() {
    let patterns = vec![
        r"epoch\s+(?<step>\d+): train loss = (?<train_loss>\S+)".to_owned(),
        "broken(".to_owned(),
    ];
    let (mut finder, errors) = Finder::new(&FinderOptions {
        patterns,
        ..FinderOptions::default()
    });
    assert_eq!(errors.len(), 1);
    let line = b"epoch 3: train loss = 0.5, acc = 0.9";
    assert_eq!(
        show(finder.find(line, &mut Context::default())),
        "train_loss=0.5 @3"
    );
    assert_eq!(
        show(finder.find(b"acc = 0.9", &mut Context::default())),
        "acc=0.9"
    );
}

proptest! {
    #[test]
    fn any_bytes_are_survived(line in proptest::collection::vec(any::<u8>(), 0..300)) {
        let (mut finder, _) = Finder::new(&FinderOptions::default());
        for (name, _) in finder.find(&line, &mut Context::default()).pairs() {
            prop_assert!(!name.is_empty() && name.len() <= 200);
            prop_assert!(!name.chars().any(char::is_control));
        }
    }

    #[test]
    fn texts_full_of_signs_are_survived(
        line in "([a-c=:\\[\\]{}\"'/, 0-9.eE%+-]|step|epoch|nan|tensor\\(|\x1b\\[){0,60}"
    ) {
        let (mut finder, _) = Finder::new(&FinderOptions::default());
        finder.find(line.as_bytes(), &mut Context::default());
    }

    #[test]
    fn any_number_printed_is_read_back(value in proptest::num::f64::ANY, exponent: bool) {
        let text = if exponent { format!("x={value:e}") } else { format!("x={value}") };
        let (mut finder, _) = Finder::new(&FinderOptions::default());
        let read = finder.find(text.as_bytes(), &mut Context::default()).pairs().next().unwrap().1;
        prop_assert!(read == value || (read.is_nan() && value.is_nan()), "{text} gave {read}");
    }
}
