//! `plot`: pictures in the terminal and in files.

use nero_wire::v1::*;

use crate::fake::{Answers, Fake};
use crate::samples;

fn answers() -> Answers {
    Answers {
        list: ListReply {
            experiments: samples::four(),
            ..ListReply::default()
        },
        metrics: samples::series(),
        ..Answers::default()
    }
}

#[test]
fn a_plot_is_drawn_in_the_terminal_or_written_as_svg_or_png() {
    let fake = Fake::new(answers());
    let text = fake.ok(&["plot", "144", "loss"]);
    for part in ["loss   not drawn: 1 NaN", "step", "144.2"] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
    assert!(!text.contains('\x1b'), "colours in a pipe: {text:?}");
    fake.ok(&["plot", "144", "loss", "-o", "out.svg"]);
    assert!(fake.file("out.svg").starts_with("<svg "));
    let (light, dark) = (fake.path().join("out.png"), fake.path().join("dark.PNG"));
    fake.ok(&["plot", "144", "loss", "-o", "out.png"]);
    fake.ok(&[
        "plot", "144", "loss", "--dark", "--x", "clock", "-o", "dark.PNG",
    ]);
    let [light, dark] = [light, dark].map(|file| std::fs::read(file).unwrap());
    for png in [&light, &dark] {
        assert!(png.starts_with(b"\x89PNG\r\n") && png.ends_with(b"IEND\xaeB`\x82"));
    }
    assert!(light != dark);
}

#[test]
fn plots_of_the_experiments_themselves_are_written_where_no_metric_is_named() {
    let picture = plots_reply::Picture {
        name: "1_2_loss.svg".into(),
        content: b"<svg/>".to_vec(),
    };
    let plots = PlotsReply {
        has_plots: true,
        files: vec!["/lab/results/latest/loss.svg".into()],
        pictures: vec![picture],
        problems: vec!["plot acc.svg: KeyError: 'acc'\n  File \"mine.py\", line 3".into()],
    };
    let fake = Fake::new(Answers { plots, ..answers() });
    let ran = fake.run(&["plot", "144"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    for line in [
        "note: plot acc.svg: KeyError: 'acc'\n      File \"mine.py\", line 3\n",
        "wrote /lab/results/latest/loss.svg\n",
        "wrote 1_2_loss.svg\n",
    ] {
        assert!(ran.err.contains(line), "{line}: {ran:?}");
    }
    assert_eq!(fake.file("1_2_loss.svg"), "<svg/>");
    // A metric, or a word about its curve, asks for curves.
    for words in [
        &["plot", "144", "loss"][..],
        &["plot", "144", "--by", "lr"],
        &["plot", "144", "--log"],
        &["plot", "144", "--x", "time"],
    ] {
        assert!(!fake.run(words).err.contains("wrote"), "{words:?}");
    }
}

#[test]
fn what_cannot_be_plotted_is_told_and_writes_no_file() {
    let fake = Fake::new(Answers {
        metrics: MetricsReply {
            notes: vec!["no metric `x` was printed; there are: loss".into()],
            ..MetricsReply::default()
        },
        ..answers()
    });
    let ran = fake.run(&["plot", "144", "x", "-o", "out.png"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.err.contains("there are: loss"), "{ran:?}");
    assert!(!fake.path().join("out.png").exists());
    let fake = Fake::new(answers());
    for (words, why) in [
        (
            &["plot", "144", "loss", "-o", "out.pdf"][..],
            ".png or .svg",
        ),
        (
            &["plot", "144", "loss", "--by", "nothing"],
            "no run has a parameter `nothing`",
        ),
        (&["plot", "144", "loss", "--x", "epoch"], "step"),
        (&["plot", "144", "loss", "--band"], "--band"),
    ] {
        let ran = fake.run(words);
        assert_eq!(ran.code, Some(2), "{words:?}: {ran:?}");
        assert!(ran.err.contains(why), "{words:?}: {}", ran.err);
    }
}
