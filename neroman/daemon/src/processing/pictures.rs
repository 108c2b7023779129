//! The pictures of a call: drawn here where the built-in function was asked, and put among the
//! results of a run, or handed back where they show several runs.

use std::fs;
use std::io::{self, Read as _};
use std::path::Path;

use nero_plot::{Curve, CurveName, CurvePoint, HorizontalAxis, Panel, Plot, Theme};
use nero_python::{CurvesMade, FunctionProblem, ModulesAnswer, NumbersReader, PICTURES};

use super::{CombinedPicture, replace};

/// The largest picture of several runs.
const PICTURE_BYTES_MAX: u64 = 64 << 20;

/// The names among these that are ours or free. Blocks.
pub(super) fn claimable(results: &Path, names: Vec<String>, ours: &[String]) -> Vec<String> {
    let is_free = |name: &str| fs::symlink_metadata(results.join(name)).is_err();
    let names = names.into_iter().filter(|name| !name.contains('/'));
    names
        .filter(|name| ours.contains(name) || is_free(name))
        .collect()
}

/// Puts the pictures among the results of their run; those that are ours are replaced. Returns
/// their names, and what failed. Blocks.
pub(super) fn save(
    call: &Path,
    results: &Path,
    answer: &ModulesAnswer,
    ours: &[String],
) -> (Vec<String>, Vec<String>) {
    let mut saved = Vec::new();
    let mut problems = Vec::new();
    for (name, drawn) in drawn(call, answer) {
        let place = results.join(&name);
        let is_foreign = !ours.contains(&name) && fs::symlink_metadata(&place).is_ok();
        if is_foreign {
            problems.push(format!(
                "plot {name}: the run has a file of this name already; give the plot another"
            ));
            continue;
        }
        match drawn.and_then(|()| replace(&call.join(PICTURES).join(&name), &place)) {
            Ok(()) => saved.push(name),
            Err(error) => problems.push(format!("plot {name}: {error}")),
        }
    }
    (saved, problems)
}

/// The pictures of several runs, and what failed. Blocks.
pub(super) fn combined(
    call: &Path,
    answer: &ModulesAnswer,
    in_words: impl Fn(&FunctionProblem) -> String,
) -> (Vec<CombinedPicture>, Vec<String>) {
    let mut problems: Vec<String> = answer.problems.iter().map(in_words).collect();
    let mut pictures = Vec::new();
    for (name, drawn) in drawn(call, answer) {
        let read = || {
            let mut content = Vec::new();
            let file = fs::File::open(call.join(PICTURES).join(&name))?;
            file.take(PICTURE_BYTES_MAX).read_to_end(&mut content)?;
            Ok(content)
        };
        match drawn.and_then(|()| read()) {
            Ok(content) => pictures.push(CombinedPicture { name, content }),
            Err(error) => problems.push(format!("plot {name}: {error}")),
        }
    }
    (pictures, problems)
}

/// The names of the pictures; each is a plain file of the call's folder when it is there.
fn drawn(call: &Path, answer: &ModulesAnswer) -> Vec<(String, io::Result<()>)> {
    let names = answer.pictures.iter().filter(|name| !name.contains('/'));
    names
        .map(|name| {
            let path = call.join(PICTURES).join(name);
            let curves = answer.drawn.iter().rev().find(|one| one.path == path);
            let drawn = match curves {
                Some(curves) => draw(call, curves).and_then(|svg| fs::write(&path, svg)),
                None => match fs::symlink_metadata(&path) {
                    Ok(found) if found.is_file() => Ok(()),
                    Ok(_) => Err(io::Error::other("it is no plain file")),
                    Err(error) => Err(error),
                },
            };
            (name.clone(), drawn)
        })
        .collect()
}

fn draw(call: &Path, made: &CurvesMade) -> io::Result<String> {
    let numbers = Path::new(&made.numbers).file_name().unwrap_or_default();
    let mut numbers = NumbersReader::open(&call.join(numbers))?;
    let mut curves = Vec::new();
    for (name, (_, count)) in made.curves.iter().enumerate() {
        let (across, up) = (numbers.column(*count)?, numbers.column(*count)?);
        let points = across.into_iter().zip(up);
        curves.push(Curve {
            name,
            parts: vec![points.map(|(x, y)| CurvePoint { x, y }).collect()],
            ..Curve::default()
        });
    }
    let plot = Plot {
        x: match made.x.as_str() {
            "" => HorizontalAxis::Step,
            name => HorizontalAxis::Values(name.to_owned()),
        },
        log_across: false,
        log: false,
        names: (made.curves.iter())
            .map(|(name, _)| CurveName {
                short: name.clone(),
                long: String::new(),
            })
            .collect(),
        panels: vec![Panel {
            title: made.y.clone(),
            curves,
            thresholds: Vec::new(),
        }],
        remarks: Vec::new(),
    };
    Ok(nero_plot::svg(&plot, Theme::Light))
}
