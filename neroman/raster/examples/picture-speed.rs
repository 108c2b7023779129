//! What a picture of `picture-speed CURVES POINTS` costs: prints the milliseconds of its SVG, those of SVG
//! and PNG together, and the peak of memory in KiB. Run by `cargo xtask bench`.

use std::time::Instant;

use nero_plot::{Curve, CurveName, CurvePoint, HorizontalAxis, Panel, Plot, Theme, svg};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, curves, points] = &arguments[..] else {
        return Err("picture-speed CURVES POINTS".into());
    };
    let plot = plot(curves.parse()?, points.parse()?);
    let began = Instant::now();
    let picture = svg(&plot, Theme::Light);
    let drawn = began.elapsed();
    let png = nero_raster::png(&picture, 2.0)?;
    let done = began.elapsed();
    assert!(png.starts_with(b"\x89PNG"));
    let peak = std::fs::read_to_string("/proc/self/status")?;
    let peak = peak.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.unwrap_or_default().trim().trim_end_matches(" kB");
    let ms = |time: std::time::Duration| time.as_secs_f64() * 1e3;
    println!("{:.2} {:.2} {peak}", ms(drawn), ms(done));
    Ok(())
}

/// Noisy curves that fall.
fn plot(curves: usize, points: u32) -> Plot {
    let mut noise = 1_u64;
    let mut curve = |name: usize| {
        let points = (0..points).map(|x| {
            noise = noise
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let x = f64::from(x);
            CurvePoint {
                x,
                y: 1.0 / (1.0 + x / 50.0) + (noise >> 40) as f64 / 1e9 + name as f64 / 10.0,
            }
        });
        Curve {
            name,
            parts: vec![points.collect()],
            ..Curve::default()
        }
    };
    let all = (0..curves).map(&mut curve).collect();
    let name = |index: usize| CurveName {
        short: format!("{index}.1"),
        long: format!("rate=0.{index}"),
    };
    Plot {
        x: HorizontalAxis::Step,
        log_across: false,
        log: false,
        names: (0..curves).map(name).collect(),
        panels: vec![Panel {
            title: "loss".into(),
            curves: all,
            thresholds: Vec::new(),
        }],
        remarks: Vec::new(),
    }
}
