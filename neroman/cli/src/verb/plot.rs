//! `plot SEL METRIC… [-o FILE]`: curves of metrics.

use std::path::Path;

use nero_model::safe::Safe;
use nero_plot::child;
use nero_plot::{HorizontalAxis, TerminalSize, Theme, braille, svg};
use nero_views::curves::{self, Spread, WantedCurves, clock_here};
use nero_wire::hello;
use nero_wire::v1::man_client::ManClient;
use nero_wire::v1::{ListRequest, MetricsRequest, PlotsRequest, RuleListRequest};

use super::results::{save_again, wrote};
use crate::args::{Band, Curves, PlotAxis};
use crate::connect::CHANGE_DEADLINE;
use crate::fault::{Fault, Stop, code};
use crate::say::Screen;
use crate::session::{Session, selection};

/// Pixels of a picture for each of its units: sharp on a screen with small pixels.
const FACTOR: f32 = 2.0;

/// Files that can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PictureFormat {
    Png,
    Svg,
}

pub async fn run(session: &mut Session, args: &Curves) -> Result<u8, Stop> {
    let file = args.output.as_ref();
    let file = file
        .map(|file| format_of(file).map(|format| (file, format)))
        .transpose()?;
    let picked = Some(selection(std::slice::from_ref(&args.picked)));
    if args.names.is_empty()
        && args.by.is_empty()
        && args.x == PlotAxis::Step
        && !args.log
        && file.is_none()
        && let Some(code) = by_modules(session, args).await?
    {
        return Ok(code);
    }
    let asked = MetricsRequest {
        selection: picked.clone(),
        names: args.names.clone(),
        ..MetricsRequest::default()
    };
    let reply = session.read(asked, ManClient::metrics).await;
    let reply = reply.map_err(|fault| with_order(fault, args))?;
    let asked = ListRequest {
        selection: picked.clone(),
        ..ListRequest::default()
    };
    let listed = session.read(asked, ManClient::list).await?;
    let asked = RuleListRequest { selection: picked };
    let rules = session.read(asked, ManClient::rule_list).await?;
    session.out.notes(&reply.notes);
    if reply.series.is_empty() {
        if reply.notes.is_empty() {
            session.out.note("no metric was printed");
        }
        return Ok(code::FAILED);
    }
    let plot = curves::plot(
        &wanted(args),
        &reply.series,
        &listed.experiments,
        &rules.rules,
    )
    .map_err(Fault::from)?;
    let theme = if args.dark { Theme::Dark } else { Theme::Light };
    match file {
        None => {
            let size = size(&session.out.screen, plot.panels.len());
            session.out.text(&braille(&plot, size))?;
        }
        Some((file, format)) => {
            let picture = svg(&plot, theme);
            let bytes = match format {
                PictureFormat::Svg => picture.into_bytes(),
                PictureFormat::Png => png(&picture).await?,
            };
            save_again(Path::new(file), &bytes)?;
            wrote(session, Path::new(file));
        }
    }
    Ok(code::OK)
}

/// A single word that picks nothing is perhaps a metric: the experiments come first.
fn with_order(fault: Fault, args: &Curves) -> Fault {
    let picks_nothing = fault.exit_code == code::USAGE && args.names.is_empty();
    if !picks_nothing || args.picked.contains(char::is_whitespace) {
        return fault;
    }
    let all = format!("`neroman plot all {}` draws a metric", args.picked);
    let hint = match fault.hint.as_str() {
        "" => all,
        hint => format!("{all}; {hint}"),
    };
    fault.hint(hint)
}

async fn png(svg: &str) -> Result<Vec<u8>, Fault> {
    child::png(svg, FACTOR).await.map_err(|why| {
        Fault::failed("the picture could not be drawn as PNG")
            .cause(why.to_string())
            .hint("an .svg is written without that")
    })
}

/// Has the plots of the experiments themselves made; `None` where they have none.
async fn by_modules(session: &mut Session, args: &Curves) -> Result<Option<u8>, Stop> {
    let asked = PlotsRequest {
        selection: Some(selection(std::slice::from_ref(&args.picked))),
    };
    let client = session.client().await?;
    if !client.can(hello::PLOTS) {
        return Ok(None);
    }
    let reply = client.call(CHANGE_DEADLINE, asked, ManClient::plots).await;
    let reply = reply.map_err(|fault| with_order(fault, args))?;
    session.out.notes(&reply.problems);
    for file in &reply.files {
        session.out.note(&format!("wrote {}", Safe::line(file)));
    }
    for picture in &reply.pictures {
        let file = Path::new(&picture.name);
        save_again(file, &picture.content)?;
        wrote(session, file);
    }
    let code = if reply.problems.is_empty() {
        code::OK
    } else {
        code::FAILED
    };
    Ok(reply.has_plots.then_some(code))
}

fn wanted(args: &Curves) -> WantedCurves {
    WantedCurves {
        names: args.names.clone(),
        x: match args.x {
            PlotAxis::Step => HorizontalAxis::Step,
            PlotAxis::Time => HorizontalAxis::Runtime,
            PlotAxis::Clock => clock_here(),
        },
        by: args.by.clone(),
        band: match args.band {
            Band::Deviation => Spread::Deviation,
            Band::Range => Spread::Range,
        },
        log: args.log,
    }
}

/// Panels that can be seen at once, with room for some names.
fn size(screen: &Screen, panels: usize) -> TerminalSize {
    let height = usize::from(screen.height).saturating_sub(8).clamp(12, 36);
    TerminalSize {
        width: usize::from(screen.width),
        height: height.max(panels * 10),
        color: screen.color,
    }
}

fn format_of(file: &str) -> Result<PictureFormat, Fault> {
    let ending = Path::new(file)
        .extension()
        .and_then(|ending| ending.to_str());
    match ending.unwrap_or_default().to_ascii_lowercase().as_str() {
        "png" => Ok(PictureFormat::Png),
        "svg" => Ok(PictureFormat::Svg),
        _ => Err(Fault::usage(format!(
            "`{file}`: the name of a picture ends in .png or .svg"
        ))
        .hint("neroman plot 1 loss -o loss.png")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extension_names_the_picture() {
        assert_eq!(format_of("a.png"), Ok(PictureFormat::Png));
        assert_eq!(format_of("x.y/b.SVG"), Ok(PictureFormat::Svg));
        for file in ["a", "a.pdf", "png"] {
            assert_eq!(
                format_of(file).map_err(|fault| fault.exit_code),
                Err(2),
                "{file}"
            );
        }
    }
}
