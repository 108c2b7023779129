//! `Plots`: the pictures that functions of people's modules draw.

use std::path::Path;

use nero_format::OutputPlot;
use nero_wire::v1;
use nero_wire::v1::plots_reply::Picture;

use crate::processing::{Code, ProcessedRun};
use crate::service::Man;
use crate::service::select::ChosenRun;
use nero_home::failure::Failure;
use nero_life::add;
use nero_life::experiment::Experiment;
use nero_life::run::Run;

/// Longest part of a file's name that tells the experiments one by one.
const IDS_CHARS_MAX: usize = 100;

/// A picked run and its experiment.
type PickedRun<'a> = (&'a Experiment, &'a Run);

impl Man {
    /// Makes the plots of the picked experiments, with their modules as they are now.
    pub(crate) async fn plots(&self, request: v1::PlotsRequest) -> Result<v1::PlotsReply, Failure> {
        let selection = self.selection(request.selection, "").await?;
        let (chosen, _) = selection.choose_from(&self.ledger.state()).await?;
        self.settle(&chosen).await;
        let state = self.ledger.state();
        let picked: Vec<PickedRun<'_>> = (chosen.iter())
            .filter_map(|one| {
                let experiment = state.experiment(one.id)?;
                Some((&**experiment, one.of(experiment)?))
            })
            .collect();
        let experiments = chosen.iter().filter_map(|one| state.experiment(one.id));
        let plots = experiments.map(|experiment| &experiment.definition.processing.plots);
        let plots: Vec<&Vec<OutputPlot>> = plots.collect();
        let has_plots = plots.iter().any(|plots| !plots.is_empty());
        match (&picked[..], has_plots) {
            ([one], _) if chosen.len() == 1 => self.plots_of_one(*one, has_plots).await,
            (_, true) => self.plots_of_several(&chosen, &picked, &plots).await,
            (_, false) => Ok(v1::PlotsReply::default()),
        }
    }

    /// Makes everything of one run anew.
    async fn plots_of_one(
        &self,
        (_, run): PickedRun<'_>,
        has_plots: bool,
    ) -> Result<v1::PlotsReply, Failure> {
        let folder = Path::new(run.results().folder());
        let made = self.modules.process(run.made.id, Code::Present).await?;
        let Some(made) = made else {
            let problem = format!("{}: its outputs are not here", run.made.id);
            return Ok(v1::PlotsReply {
                has_plots,
                problems: has_plots.then_some(problem).into_iter().collect(),
                ..v1::PlotsReply::default()
            });
        };
        let files = made.pictures.iter();
        Ok(v1::PlotsReply {
            has_plots,
            files: files
                .map(|name| folder.join(name).display().to_string())
                .collect(),
            problems: made.processed.problems,
            ..v1::PlotsReply::default()
        })
    }

    /// Makes the plots that all of these experiments have, of all of them together.
    async fn plots_of_several(
        &self,
        chosen: &[ChosenRun],
        picked: &[PickedRun<'_>],
        plots: &[&Vec<OutputPlot>],
    ) -> Result<v1::PlotsReply, Failure> {
        let Some((first, others)) = plots.split_first() else {
            return Ok(v1::PlotsReply::default());
        };
        let is_common = |plot: &&OutputPlot| others.iter().all(|plots| plots.contains(plot));
        let common: Vec<OutputPlot> = first.iter().filter(is_common).cloned().collect();
        if common.is_empty() {
            return Err(Failure::usage("no combinable plots")
                .because("a plot is combined where all of these experiments have the very same")
                .hint("name a metric to see curves, or one experiment for its own plots"));
        }
        let runs: Vec<ProcessedRun> = (picked.iter())
            .filter_map(|(experiment, run)| ProcessedRun::of(experiment, run, Code::Present))
            .collect();
        let missing = chosen.len() - runs.len();
        if missing > 0 {
            return Err(Failure::failed(format!(
                "the outputs of {missing} of these experiments are not here"
            ))
            .hint(
                "select those that have ended (neroman status), or name a metric to see curves",
            ));
        }
        let (pictures, problems) = self.modules.combine(runs, &common).await?;
        let ids = ids(chosen);
        let pictures = pictures.into_iter().map(|picture| Picture {
            name: format!("{ids}_{}", picture.name),
            content: picture.content,
        });
        Ok(v1::PlotsReply {
            has_plots: true,
            pictures: pictures.collect(),
            problems,
            ..v1::PlotsReply::default()
        })
    }
}

/// The experiments in the name of a file.
fn ids(chosen: &[ChosenRun]) -> String {
    let each: Vec<String> = chosen.iter().map(|one| one.id.0.to_string()).collect();
    let each = each.join("_");
    if each.len() <= IDS_CHARS_MAX {
        each
    } else {
        let mut ranges = add::ranges(chosen.iter().map(|one| one.id));
        ranges.retain(|c| c != ' ');
        ranges
            .replace(',', "_")
            .chars()
            .take(IDS_CHARS_MAX)
            .collect()
    }
}
