//! `Annotate`: what a person says of experiments: a note, tags. Runs are not touched.

use nero_format::EditMistake;
use nero_life::annotate::{AnnotatedExperiment, Annotation, annotate, check};
use nero_wire::v1;
use nero_wire::v1::annotate_reply::One;

use crate::service::Man;
use crate::service::change::ChangeRequest as _;
use nero_home::failure::Failure;
use nero_home::ledger::Decision;

impl Man {
    /// Sets the note of the picked experiments, or changes their tags.
    pub(crate) async fn annotate(
        &self,
        request: v1::AnnotateRequest,
    ) -> Result<v1::AnnotateReply, Failure> {
        let head = request.head();
        let annotation = Annotation {
            note: request.note,
            add_tags: request.add_tags,
            remove_tags: request.remove_tags,
        };
        check(&annotation).map_err(refused)?;
        let (ids, picked) = self.picked(request.selection, "").await?;
        self.decided(&head, move |state, now_ms| {
            let (annotated, changes) =
                annotate(state, &ids, &annotation, now_ms).map_err(refused)?;
            Ok(Decision {
                answer: v1::AnnotateReply {
                    experiments: annotated.into_iter().map(reply_part).collect(),
                    notes: picked.notes,
                },
                changes,
            })
        })
        .await
    }
}

fn refused(mistake: EditMistake) -> Failure {
    Failure::usage(mistake.message).hint(mistake.hint)
}

fn reply_part(annotated: AnnotatedExperiment) -> One {
    let tags = annotated.tags.split_whitespace();
    One {
        experiment: annotated.experiment.0,
        name: annotated.name,
        note: annotated.note,
        tags: tags.map(str::to_owned).collect(),
        changed: annotated.is_changed,
    }
}
