//! How much of its work a job has done, by what its lines say.

use nero_metrics::finder::{Context, Finder, FinderOptions};
use nero_metrics::progress::{LineProgress, ProgressKind};
use proptest::prelude::*;

/// The progress that each line of a log tells, in percent.
fn told(log: &str) -> Vec<Option<(f64, ProgressKind)>> {
    let mut finder = Finder::new(&FinderOptions::default()).0;
    let mut context = Context::default();
    let lines = log.split(['\n', '\r']).filter(|line| !line.is_empty());
    lines
        .map(|line| {
            let LineProgress { share, source } =
                finder.find(line.as_bytes(), &mut context).progress?;
            Some(((share * 1000.0).round() / 10.0, source))
        })
        .collect()
}

#[track_caller]
fn table(lines: &[(&str, f64, ProgressKind)]) {
    for (line, percent, source) in lines {
        assert_eq!(told(line), [Some((*percent, *source))], "{line:?}");
    }
}

#[test]
fn bars_and_counts_tell_the_progress() {
    use ProgressKind::Bar;
    table(&[
        ("[8/50]", 16.0, Bar),
        ("[ 8 / 50 ] loss: 0.3", 16.0, Bar),
        ("done with [8/50] files", 16.0, Bar),
        ("8/50", 16.0, Bar),
        ("8/50 loss 0.3", 16.0, Bar),
        ("2026-11-20 14:00:00,123 - INFO - 8/50", 16.0, Bar),
        ("37%", 37.0, Bar),
        ("  37.5 %", 37.5, Bar),
        ("37% done", 37.0, Bar),
        ("[ 37%] Building CXX object main.o", 37.0, Bar),
        ("tests/test_a.py ....... [ 37%]", 37.0, Bar),
        (
            " 37%|███▋      | 74/200 [00:12<00:21,  5.90it/s, loss=0.44]",
            37.0,
            Bar,
        ),
        (
            " 37%|███▋      | 75/200 [00:12<00:21,  5.90it/s]",
            37.5,
            Bar,
        ),
        (
            "loss: 0.6934 ||:  50%|#####     | 50/100 [00:01<00:01]",
            50.0,
            Bar,
        ),
        (
            " 74/200 [=====>..........] - ETA: 5s - loss: 0.3",
            37.0,
            Bar,
        ),
        (
            "74/200 ━━━━━━━━━━━━━━━━━━━━ 4s 2ms/step - loss: 0.4",
            37.0,
            Bar,
        ),
        ("Working... ━━━━━━━━━━━━━━━━  37% 0:00:05", 37.0, Bar),
        ("|=======          |  37%", 37.0, Bar),
        ("100%|██████████| 200/200 [00:33<00:00]", 100.0, Bar),
    ]);
}

#[test]
fn steps_with_a_total_and_values_called_progress_count_more() {
    use ProgressKind::{Metric, Steps};
    table(&[
        ("epoch 8/50 loss 0.3", 16.0, Steps),
        ("Epoch [8/50], loss: 0.3", 16.0, Steps),
        ("iter (5 / 100) loss 0.3", 5.0, Steps),
        ("step 5/100", 5.0, Steps),
        // It begins the second epoch.
        ("Epoch 2/3", 33.3, Steps),
        ("Epoch 0/24", 0.0, Steps),
        ("Epoch [2/3], Step [10/100], Loss: 2.2", 36.7, Steps),
        ("step 10/100 of epoch 2/3: loss 2.2", 36.7, Steps),
        (
            "Epoch 2/3:  37%|███▋      | 74/200 [00:12<00:21]",
            45.7,
            Steps,
        ),
        (
            "Epoch 1/5 ━━━━━━━━━━━━━━━━ 100/100 0:00:02 • 0:00:00",
            20.0,
            Steps,
        ),
        ("progress: 0.4", 40.0, Metric),
        ("Progress = 40%", 40.0, Metric),
        ("progress 40", 40.0, Metric),
        (r#"{"loss": 0.3, "progress": 0.25}"#, 25.0, Metric),
    ]);
}

#[test]
fn what_is_no_progress_of_the_whole_tells_none() {
    for line in [
        "",
        "loss: 0.3",
        "accuracy: 37%",
        "INFO accuracy: 37%",
        "95% confidence interval",
        "/dev/sda1  50G  20G  30G  40% /",
        "Accuracy: 9830/10000 (98%)",
        "11/20 14:00:00 started",
        "11/20/2026 done",
        "9/8",
        "0/0",
        "[51/50]",
        "101%",
        "progress: -1",
        "progress: 101",
        "progress: nan",
        "see /usr/share/doc/50/8",
        "train/loss 0.5",
        "[rank1]: epoch 8/50 loss 0.3",
        // Something else.
        "Downloading:  37%|███▋  | 1.21G/3.30G [00:12<00:21]",
        "model.bin  37%[======>          ]  1.2M  3.4MB/s",
        "Validation DataLoader 0: 100%|███| 157/157 [00:09<00:00]",
        "Sanity Checking:  50%|███| 1/2",
        "Epoch 1/2 (val):  50%|███| 5/10",
        "Test: [ 10/196]\tTime  0.512",
        // Of how many epochs?
        "Epoch 3:  37%|███▋      | 74/200 [00:12<00:21]",
        "Train Epoch: 1 [640/60000 (1%)]\tLoss: 1.2",
        "Epoch: [0][  10/5005]\tTime  0.512 ( 1.024)",
        "Epoch [1][50/7330]\tlr: 1.978e-03",
    ] {
        let tells: Vec<_> = told(line).into_iter().flatten().collect();
        assert_eq!(tells, [], "{line:?}");
    }
}

/// The progress in percent by the lines of a log that tell it.
fn percents(log: &str) -> Vec<f64> {
    let told = told(log).into_iter().flatten();
    told.map(|(percent, _)| percent).collect()
}

#[test]
fn a_bar_is_within_the_epoch_of_an_earlier_line() {
    let keras = "Epoch 1/2\n 50/100 [==>..] - loss: 0.3\r100/100 [====] - loss: 0.2\n\
                 Epoch 2/2\n 50/100 [==>..] - loss: 0.3\r100/100 [====] - loss: 0.2\n";
    assert_eq!(percents(keras), [0.0, 25.0, 50.0, 50.0, 75.0, 100.0]);
    // The bar of the second set does not take anything back.
    let sets = "Epoch 2/2\n 50%|█ |\r100%|██|\n 50%|█ |\r100%|██|\n";
    assert_eq!(percents(sets), [50.0, 75.0, 100.0, 100.0, 100.0]);
    // An epoch with values is done: the next bar is of the one after it.
    let after = "Epoch 1/2 loss 0.3\n 50%|█ |\nEpoch 2/2 loss 0.2\n";
    assert_eq!(percents(after), [50.0, 75.0, 100.0]);
    let yolo = "        1/3      2.35G      1.142         13        640: 100%|██████████| 8/8 [00:02<00:00]\n\
                \x20                Class     Images  Instances: 100%|██████████| 4/4\n\
                \x20       2/3      2.35G      1.142         13        640:  50%|█████     | 4/8 [00:02<00:00]\n";
    assert_eq!(percents(yolo), [33.3, 33.3, 50.0]);
    let steps = "Epoch 2/2\nstep 5/10\nstep 10/10\n";
    assert_eq!(percents(steps), [50.0, 75.0, 100.0]);
}

#[test]
fn a_bar_behind_an_epoch_of_an_unknown_number_tells_nothing() {
    let log = "Epoch 0:  85%|#| 859/1016\nScoring: 100%|#| 9/9\nstep 5/10\n[5/10]\n";
    assert_eq!(percents(log), []);
    // Once the number is told, it counts.
    assert_eq!(
        percents(&format!("{log}Epoch 2/4\n 50%|█ |\n")),
        [25.0, 37.5]
    );
}

#[test]
fn colours_change_nothing() {
    let keras3 = "\x1b[1m74/200\x1b[0m \x1b[32m━━━━━━━━━━━━━━━━━━━━\x1b[0m\x1b[37m\x1b[0m \x1b[1m4s\x1b[0m 2ms/step";
    assert_eq!(percents(keras3), [37.0]);
}

proptest! {
    #[test]
    fn a_share_is_always_within_0_and_1(
        lines in proptest::collection::vec(
            prop_oneof![
                r"(Epoch |step |\[|)[0-9]{1,3} ?/ ?[0-9]{1,3}(\]|)( loss 1|:  [0-9]{1,3}%\|█ \| [0-9]/[0-9]|)",
                r"[ -~█━]{0,30}[0-9]{0,3}[%/|\[\] ][ -~█━]{0,20}",
            ],
            0..8,
        ),
    ) {
        for (percent, _) in told(&lines.join("\n")).into_iter().flatten() {
            prop_assert!((0.0..=100.0).contains(&percent));
        }
    }
}
