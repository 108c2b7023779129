//! Sends files of a job. They are read in short steps off the reactor; each
//! step begins only when the one before was taken, so that a slow reader costs
//! neither memory nor a thread.

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::StreamExt as _;
use nero_node::files::read::Reader;
use nero_wire::v1::read_files_request::Want;
use nero_wire::v1::{FilePart, ReadFilesRequest};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::answers::Answers;
use super::{ServiceState, io_status};

/// Limit of steps that wait for the peer; one waits while the next is read.
const STEPS_WAITING: usize = 1;

/// One file; a failure to read it is the stream's error.
pub async fn read_file(
    inner: Arc<ServiceState>,
    work: PathBuf,
    want: Want,
) -> Result<Answers<FilePart>, Status> {
    let open = move || {
        let mut reader = Reader::new(&work, &work, vec![want])?;
        reader.open_first().map(|()| reader)
    };
    match inner.file_work(open).await? {
        Ok(reader) => Ok(stream(inner, reader, true)),
        Err(error) => {
            let status = io_status("cannot read the file", &error);
            Ok(Box::pin(tokio_stream::once(Err(status))))
        }
    }
}

/// Many files, in the requested order; a file that cannot be read has its error
/// in the stream.
pub async fn many(
    inner: Arc<ServiceState>,
    work: PathBuf,
    logs: PathBuf,
    request: ReadFilesRequest,
) -> Result<Answers<FilePart>, Status> {
    let open = move || {
        let reader = Reader::new(&work, &logs, request.files)?;
        Ok::<_, std::io::Error>(reader.hashing(request.hash_only))
    };
    let opened = inner.file_work(open).await?;
    let reader = opened.map_err(|error| io_status("cannot open the run's folder", &error))?;
    Ok(stream(inner, reader, false))
}

fn stream(inner: Arc<ServiceState>, reader: Reader, alone: bool) -> Answers<FilePart> {
    let (steps, answers) = mpsc::channel(STEPS_WAITING);
    #[expect(
        clippy::disallowed_methods,
        reason = "the end of the answers tells its end"
    )]
    let reading = tokio::spawn(read(inner, reader, alone, steps));
    let answers = ReceiverStream::new(answers).flat_map(futures_util::stream::iter);
    Box::pin(answers.chain(super::end_of(reading)))
}

type FileParts = Vec<Result<FilePart, Status>>;

async fn read(
    inner: Arc<ServiceState>,
    mut reader: Reader,
    alone: bool,
    steps: mpsc::Sender<FileParts>,
) {
    loop {
        // If the reader has left, this ends here, before anything more is read.
        let Ok(room) = steps.reserve().await else {
            return;
        };
        let step = inner.file_work(move || {
            let parts = reader.next_parts();
            (reader, parts)
        });
        let parts = match step.await {
            Ok((back, parts)) => {
                reader = back;
                parts
            }
            Err(status) => return room.send(vec![Err(status)]),
        };
        if parts.is_empty() {
            return;
        }
        let answer = |part: FilePart| match part.problem.as_str() {
            problem if alone && !problem.is_empty() => {
                Err(Status::internal(format!("cannot read the file: {problem}")))
            }
            _ => Ok(part),
        };
        room.send(parts.into_iter().map(answer).collect());
    }
}
