//! What a picture promises, in both forms.

use nero_plot::{
    BandPoint, Curve, CurveName, CurvePoint, HorizontalAxis, Panel, Plot, TerminalSize, Theme,
    Threshold, braille, plot_area, svg, svg_of_width,
};

fn curve(name: usize, values: &[f64]) -> Curve {
    let point = |(x, y): (usize, &f64)| CurvePoint { x: x as f64, y: *y };
    Curve {
        name,
        parts: vec![values.iter().enumerate().map(point).collect()],
        ..Curve::default()
    }
}

fn plot(curves: Vec<Curve>) -> Plot {
    let name = |index: usize| CurveName {
        short: format!("{}.1", 124 + index),
        long: format!("lr=0.{index} layers={}", index % 3),
    };
    Plot {
        x: HorizontalAxis::Step,
        log_across: false,
        log: false,
        names: (0..curves.len()).map(name).collect(),
        panels: vec![Panel {
            title: "loss".into(),
            curves,
            thresholds: Vec::new(),
        }],
        remarks: Vec::new(),
    }
}

fn many(count: usize) -> Plot {
    let values = |name: usize| -> Vec<f64> {
        (1..=1200)
            .map(|x| (1.0 + name as f64) / f64::from(x))
            .collect()
    };
    plot((0..count).map(|name| curve(name, &values(name))).collect())
}

fn terminal(width: usize) -> TerminalSize {
    TerminalSize {
        width,
        height: 20,
        color: false,
    }
}

fn dots(text: &str) -> usize {
    let is_dots = |c: &char| ('\u{2801}'..='\u{28ff}').contains(c);
    text.chars().filter(is_dots).count()
}

#[test]
fn no_line_is_wider_than_the_terminal_and_a_legend_has_a_dozen_lines() {
    for (count, width) in [
        (1, 80),
        (8, 80),
        (50, 80),
        (1, 200),
        (8, 200),
        (50, 200),
        (3, 20),
    ] {
        let plot = many(count);
        let text = braille(&plot, terminal(width));
        for line in text.lines() {
            assert!(
                line.chars().count() <= width.max(20),
                "{count} at {width}: {line}"
            );
        }
        assert!(dots(&text) > 15, "{text}");
        let picture = svg(&plot, Theme::Light);
        let legend = text.lines().filter(|line| line.starts_with("━━"));
        assert!(legend.count() <= 12, "{text}");
        let is_listed = |name: &&CurveName| text.contains(&format!(" {} ", name.short));
        let listed = plot.names.iter().filter(is_listed).count();
        let more = plot.names.len() - listed;
        assert!(listed >= count.min(12) || width < 80, "{text}");
        if more > 0 && width >= 80 {
            assert!(text.contains(&format!("… and {more} more")), "{text}");
        }
        for name in plot.names.iter().take(12) {
            assert!(picture.contains(&format!(">{}<", name.short)));
        }
    }
}

#[test]
fn a_terminal_without_colours_gets_none_and_each_curve_ends_with_its_sign() {
    let plot = many(3);
    let text = braille(&plot, terminal(80));
    assert!(!text.contains('\x1b'), "{text}");
    for (key, name) in ["a", "b", "c"].iter().zip(&plot.names) {
        assert!(text.contains(&format!("{key} {}", name.short)), "{text}");
        let is_end = |line: &str| {
            line.split(' ')
                .next_back()
                .is_some_and(|end| end.contains(key))
        };
        assert!(text.lines().any(is_end), "{key} ends no curve:\n{text}");
    }
    let color = TerminalSize {
        color: true,
        ..terminal(80)
    };
    assert!(braille(&plot, color).contains("\x1b[38;5;"));
}

#[test]
fn one_spike_among_a_million_points_is_seen() {
    let mut values = vec![1.0; 1_000_000];
    values[700_000] = 9.0;
    let plot = plot(vec![curve(0, &values)]);
    let text = braille(&plot, terminal(80));
    let high = text.lines().take(4).map(dots).sum::<usize>();
    assert!(high > 0, "{text}");
    let picture = svg(&plot, Theme::Light);
    assert!(picture.len() < 100_000, "{}", picture.len());
    // The curve goes up to the height of the spike and nothing else does.
    let path = picture
        .lines()
        .find(|line| line.contains("stroke-width=\"1.8\""))
        .unwrap();
    let ups = path
        .split(['M', 'L'])
        .filter_map(|part| part.split([' ', '"']).nth(1)?.parse::<f64>().ok());
    let ups: Vec<f64> = ups.collect();
    let top = ups.iter().copied().fold(f64::INFINITY, f64::min);
    assert_eq!(ups.iter().filter(|up| **up < top + 100.0).count(), 1);
}

#[test]
fn what_cannot_be_drawn_is_told() {
    let empty = [
        plot(Vec::new()),
        plot(vec![curve(0, &[])]),
        plot(vec![curve(0, &[f64::NAN, f64::INFINITY])]),
        Plot {
            panels: Vec::new(),
            ..plot(Vec::new())
        },
    ];
    for plot in empty {
        let (text, picture) = (braille(&plot, terminal(80)), svg(&plot, Theme::Dark));
        if !plot.panels.is_empty() {
            assert!(
                text.contains("no points") && picture.contains("no points"),
                "{text}"
            );
        }
        assert!(
            !picture.contains("NaN\"") && !picture.contains("inf\""),
            "{picture}"
        );
    }
    let broken = plot(vec![curve(
        0,
        &[1.0, f64::NAN, 2.0, f64::INFINITY, 3.0, 4.0],
    )]);
    for text in [braille(&broken, terminal(80)), svg(&broken, Theme::Light)] {
        assert!(text.contains("not drawn: 1 NaN, 1 infinite"), "{text}");
        assert!(!text.contains("no points"));
    }
    // A run that became NaN did not end there: its crosses are within the picture.
    let lost = plot(vec![curve(0, &[3.0, 2.0, f64::NAN, f64::NAN])]);
    let text = braille(&lost, terminal(80));
    assert!(text.contains('×') && text.contains(" 3"), "{text}");
    let log = Plot {
        log: true,
        ..plot(vec![curve(0, &[-1.0, 0.0, 0.1, 100.0])])
    };
    for text in [braille(&log, terminal(80)), svg(&log, Theme::Light)] {
        assert!(text.contains("not drawn: 2 not above 0"), "{text}");
    }
}

#[test]
fn a_single_point_and_equal_values_are_seen() {
    for values in [
        &[3.0][..],
        &[0.0],
        &[5.0; 9],
        &[-1e300, 1e300],
        &[5e-324, 0.0],
    ] {
        let plot = plot(vec![curve(0, values)]);
        assert!(dots(&braille(&plot, terminal(80))) > 0, "{values:?}");
        let picture = svg(&plot, Theme::Light);
        let is_drawn = picture.contains("<circle") || picture.contains("stroke-width=\"1.8\"");
        assert!(
            is_drawn && !picture.contains("NaN"),
            "{values:?}: {picture}"
        );
    }
}

#[test]
fn rules_are_lines_and_their_firings_are_marked() {
    let mut plot = plot(vec![curve(0, &[1.0, 2.0, 6.0])]);
    plot.panels[0].thresholds = vec![
        Threshold {
            y: 5.0,
            rule: "abort: loss > 5".into(),
        },
        Threshold {
            y: 1e9,
            rule: "warn: loss > 1e9".into(),
        },
    ];
    plot.panels[0].curves[0].firings = vec![CurvePoint { x: 2.0, y: 6.0 }];
    let text = braille(&plot, terminal(80));
    for part in [
        "╌╌╌╌╌╌",
        "◆",
        "abort: loss > 5\n",
        "warn: loss > 1e9 (outside the picture)",
        "firing of a rule",
    ] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
    let picture = svg(&plot, Theme::Light);
    for part in [
        "stroke-dasharray",
        "abort: loss &gt; 5<",
        "(outside the picture)",
        "firing of a rule",
    ] {
        assert!(picture.contains(part), "{part}: {picture}");
    }
}

#[test]
fn a_band_is_drawn_around_its_curve() {
    let mut plot = plot(vec![curve(0, &[2.0, 2.0, 2.0])]);
    let plain = dots(&braille(&plot, terminal(80)));
    let band = |x| BandPoint {
        x,
        low: 1.0,
        high: 3.0,
    };
    plot.panels[0].curves[0].band = [0.0, 1.0, 2.0].map(band).to_vec();
    let text = braille(&plot, terminal(80));
    assert!(
        text.contains("3.0") && text.contains("1.0"),
        "the ends have no place:\n{text}"
    );
    assert!(dots(&text) > plain);
    assert!(svg(&plot, Theme::Light).contains("fill-opacity"));
}

#[test]
fn text_of_jobs_is_neither_markup_nor_obeyed() {
    let mut plot = plot(vec![curve(0, &[1.0, 2.0])]);
    let hostile = "<x>&\u{1b}[2J\u{0}\u{ffff}\"".to_owned();
    plot.names[0].long.clone_from(&hostile);
    plot.panels[0].title.clone_from(&hostile);
    plot.remarks = vec![hostile];
    let text = braille(&plot, terminal(80));
    assert!(
        !text.chars().any(|c| c != '\n' && c.is_control()),
        "{text:?}"
    );
    let picture = svg(&plot, Theme::Light);
    assert!(picture.contains("&lt;x&gt;&amp;"), "{picture}");
    let is_bad = |c: char| c != '\n' && c.is_control() || c == '\u{ffff}';
    assert!(
        !picture.contains("<x>") && !picture.chars().any(is_bad),
        "{picture}"
    );
}

#[test]
fn the_place_of_the_curves_is_that_of_the_picture() {
    let plot = plot(vec![curve(0, &[1.0, 2.0, 3.0])]);
    let area = plot_area(&plot, 500.0).expect("an area");
    assert_eq!(area.x, (0.0, 2.0));
    assert!(area.y.0 < 1.0 && area.y.1 > 3.0, "{area:?}");
    let picture = svg_of_width(&plot, Theme::Light, 500.0);
    let axes = format!(
        "M{:.1} {:.1}V{:.1}H{:.1}",
        area.left, area.top, area.bottom, area.right
    );
    assert!(picture.contains(&axes), "{axes}: {picture}");
    assert_eq!(plot_area(&self::plot(Vec::new()), 500.0), None);
}

#[test]
fn powers_of_ten_are_equally_far_apart_on_a_logarithmic_axis() {
    let mut all = curve(0, &[1.0; 1001]);
    all.parts[0].retain(|point| point.x > 0.0);
    let plot = Plot {
        log_across: true,
        ..plot(vec![all])
    };
    let picture = svg(&plot, Theme::Light);
    let places: Vec<f64> = ["1", "10", "100", "1000"]
        .iter()
        .map(|text| {
            let end = format!(">{text}</text>");
            let mut line = picture
                .lines()
                .filter(|line| line.ends_with(&end) && line.contains("middle"));
            let place = line.next_back().and_then(|line| line.split('"').nth(1));
            place
                .and_then(|place| place.parse().ok())
                .unwrap_or_else(|| panic!("{text}: {picture}"))
        })
        .collect();
    let gaps: Vec<f64> = places.windows(2).map(|two| two[1] - two[0]).collect();
    assert!(
        gaps.iter().all(|gap| (gap - gaps[0]).abs() < 0.2),
        "{gaps:?}"
    );
}
