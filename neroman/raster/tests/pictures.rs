//! A picture becomes PNG with the font of this crate, whatever the machine has.

use nero_plot::{Curve, CurveName, CurvePoint, HorizontalAxis, Panel, Plot, Theme, svg};
use resvg::tiny_skia::Pixmap;

fn plot(title: &str) -> Plot {
    let point = |x: u32| CurvePoint {
        x: f64::from(x),
        y: f64::from(x * x),
    };
    Plot {
        x: HorizontalAxis::Step,
        log_across: false,
        log: false,
        names: vec![CurveName {
            short: "1.1".into(),
            long: "Ångström λ≥µ × 10⁻³".into(),
        }],
        panels: vec![Panel {
            title: title.into(),
            curves: vec![Curve {
                parts: vec![(0..50).map(point).collect()],
                ..Curve::default()
            }],
            thresholds: Vec::new(),
        }],
        remarks: Vec::new(),
    }
}

fn drawn(title: &str, theme: Theme) -> Pixmap {
    let png = nero_raster::png(&svg(&plot(title), theme), 2.0).unwrap();
    Pixmap::decode_png(&png).unwrap()
}

#[test]
fn a_picture_has_its_size_its_ground_and_its_text() {
    let light = drawn("loss", Theme::Light);
    assert_eq!(light.width(), 1800);
    assert_eq!(light.pixel(1, 1).unwrap().demultiply().red(), 0xff);
    let dark = drawn("loss", Theme::Dark);
    assert_eq!(dark.pixel(1, 1).unwrap().demultiply().red(), 0x16);
    // Two titles differ in nothing else: the font has letters.
    assert!(light.data() != drawn("gain", Theme::Light).data());
    assert!(drawn("λ", Theme::Light).data() != drawn("µ", Theme::Light).data());
}

#[test]
fn what_is_no_picture_or_too_large_is_refused() {
    for svg in [
        "",
        "<svg",
        "<svg xmlns='http://www.w3.org/2000/svg' width='1e9' height='1'/>",
        "<svg xmlns='http://www.w3.org/2000/svg' width='0' height='1'/>",
    ] {
        assert!(nero_raster::png(svg, 2.0).is_err(), "{svg}");
    }
}
