//! `Logs`: a run's output, by offset; from its node, else from the copy that
//! came home.

use std::path::PathBuf;
use std::time::Duration;

use nero_model::RunId;
use nero_model::paths::run::{self as names, STDERR, STDOUT};
use nero_wire::v1;
use nero_wire::v1::mum_client::MumClient;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _};

use crate::service::nodes::unseen::SilentNodes;
use crate::service::select::{self, ChosenRun};
use crate::service::{Man, Sink, leaving};
use nero_home::failure::Failure;
use nero_home::ledger::Audience;
use nero_life::run::Run;
use nero_life::state::State;
use nero_link::connect::mum_client;

/// How long the node may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The pause before the node is asked again, when its connection broke within a
/// log.
const BETWEEN: Duration = Duration::from_millis(300);
/// Bytes of one message from a copy.
const CHUNK: usize = 128 * 1024;

/// A reader's position.
struct LogCursor {
    request: v1::ReadLogRequest,
    told: bool,
}

impl LogCursor {
    /// Where a request for the log of a run begins to read.
    fn at_start(run: &Run, request: &v1::LogsRequest) -> Self {
        let (offset, last_lines) = if request.use_offset {
            (request.offset, 0)
        } else {
            (0, request.lines)
        };
        let run = v1::RunRef {
            token: run.made.token.to_vec(),
            experiment: run.made.id.experiment.0,
            number: run.made.id.number,
        };
        Self {
            request: v1::ReadLogRequest {
                run: Some(run),
                incarnation: request.start,
                stderr: request.stderr,
                offset,
                max_bytes: 0,
                follow: request.follow,
                last_lines,
            },
            told: false,
        }
    }
}

enum ReadOutcome {
    /// Read to its end.
    Done,
    /// The client has left.
    Left,
    /// The connection broke; the bytes read before stay read.
    Lost {
        failure: Failure,
        /// Whether another try may succeed.
        again: bool,
    },
}

impl Man {
    /// Streams a log.
    pub(crate) async fn logs(
        &self,
        request: v1::LogsRequest,
        sink: Sink<v1::LogChunk>,
    ) -> Result<(), Failure> {
        let state = self.ledger.state();
        let mut chosen = select::choose_single(&state, &request.what, self.now())?;
        let newest = state.experiment(chosen.id);
        let newest = newest.and_then(|experiment| experiment.current());
        chosen.run = chosen.run.or(newest.map(|run| run.made.id.number));
        let follow = request.follow;
        let reading = self.read_log(&state, &chosen, request, sink.clone());
        if !follow {
            return reading.await;
        }
        tokio::select! {
            read = reading => read,
            failure = self.tell_reach(&chosen, &sink) => Err(failure),
        }
    }

    /// Reports when the node of a run goes out of reach, and when it is back;
    /// returns when the daemon is leaving.
    async fn tell_reach(&self, chosen: &ChosenRun, sink: &Sink<v1::LogChunk>) -> Failure {
        let mut states = self.ledger.watch(Audience::Runs);
        let mut nodes = self.nodes.watch();
        let mut unseen = SilentNodes::default();
        loop {
            let state = states.state();
            nodes.borrow_and_update();
            let run = chosen.run_in(&state);
            let node = run.filter(|run| run.phase().is_live()).and_then(Run::node);
            let carried = node.map(|node| (node, 1)).into_iter().collect();
            let (notices, again) = unseen.news(&carried, &self.nodes.known(), self.clock.boot_ms());
            for notice in notices {
                let chunk = v1::LogChunk {
                    node: Some(notice),
                    ..v1::LogChunk::default()
                };
                // A client that left ends the call.
                let _ = sink.send(Ok(chunk)).await;
            }
            let later = async {
                match again {
                    Some(after) => tokio::time::sleep(after).await,
                    None => std::future::pending().await,
                }
            };
            let heard = tokio::select! {
                changed = states.changed() => changed,
                changed = nodes.changed() => changed,
                () = later => Ok(()),
            };
            if let Err(error) = heard {
                return leaving(error);
            }
        }
    }

    async fn read_log(
        &self,
        state: &State,
        chosen: &ChosenRun,
        request: v1::LogsRequest,
        sink: Sink<v1::LogChunk>,
    ) -> Result<(), Failure> {
        let run = chosen.run_in(state).ok_or_else(|| {
            Failure::failed(format!("{} has never run", request.what))
                .hint(format!("neroman start {}", chosen.id))
        })?;
        let id = run.made.id;
        let start = request.start;
        if start > 0 && !run.journal.incarnations.contains_key(&start) {
            let newest = run.journal.newest().map_or(0, |(number, _)| number);
            let failure = Failure::usage(format!("{id} has no start {start}"));
            return Err(failure.hint(format!("its newest start is {newest}")));
        }
        if let Some(notice) = earlier_starts(run).filter(|_| start == 0)
            && sink.send(Ok(notice)).await.is_err()
        {
            return Ok(());
        }
        if !self.await_start(id, request.follow).await? {
            let notice = format!("{id} has printed nothing: it was not started");
            let _ = sink.send(Ok(end(&notice))).await;
            return Ok(());
        }
        let place = LogCursor::at_start(run, &request);
        if let Some(at_ms) = run.cleaned_ms() {
            let said = super::clean::cleaned(at_ms);
            let copy = copy_of_start(run, request.stderr, start);
            if !copy.is_some_and(|path| path.is_file()) {
                let _ = sink.send(Ok(end(&said))).await;
                return Ok(());
            }
            return self.home_copy(id, &place, Failure::node(said), &sink).await;
        }
        self.read_from_node(id, place, &sink).await
    }

    /// Reads a log from its node, again while it is followed; else what came home of it.
    async fn read_from_node(
        &self,
        id: RunId,
        mut place: LogCursor,
        sink: &Sink<v1::LogChunk>,
    ) -> Result<(), Failure> {
        loop {
            let node = self.node_of(id);
            let read = match self.nodes.channel(&node, PATIENCE).await {
                Ok(channel) => from_node(mum_client(channel), &mut place, sink).await,
                Err(failure) => ReadOutcome::Lost {
                    failure,
                    again: true,
                },
            };
            let (failure, again) = match read {
                ReadOutcome::Done | ReadOutcome::Left => return Ok(()),
                ReadOutcome::Lost { failure, again } => (failure.of(&node), again),
            };
            let live = self
                .ledger
                .state()
                .run(id)
                .is_some_and(|run| run.phase().is_live());
            if live && place.request.follow && again {
                // Following a log must not cause endless tries to reach the
                // node.
                tokio::select! {
                    () = self.nodes.settled(&node, BETWEEN) => {}
                    ended = self.ended(id) => ended?,
                }
                continue;
            }
            return self.home_copy(id, &place, failure, sink).await;
        }
    }

    /// The node of a run that was started.
    fn node_of(&self, id: RunId) -> String {
        let state = self.ledger.state();
        state
            .run(id)
            .map_or_else(String::new, |run| run.node_word().to_owned())
    }

    /// Returns when a run is not live any more.
    async fn ended(&self, id: RunId) -> Result<(), Failure> {
        let mut states = self.ledger.watch(Audience::Runs);
        let live = |state: &State| state.run(id).is_some_and(|run| run.phase().is_live());
        let ended = states.wait_for(|state| !live(state)).await;
        ended.map_err(leaving)
    }

    /// Waits for the start of a run that is followed. Returns whether there is
    /// a log.
    async fn await_start(&self, id: RunId, follow: bool) -> Result<bool, Failure> {
        let mut states = self.ledger.watch(Audience::Runs);
        loop {
            let state = states.state();
            let Some(run) = state.run(id) else {
                return Ok(false);
            };
            if run.started_ms().is_some() {
                return Ok(true);
            }
            if !follow || run.phase().is_end() {
                return Ok(false);
            }
            states.changed().await.map_err(leaving)?;
        }
    }

    /// Sends the copy of a log that came home, from the reader's position on.
    async fn home_copy(
        &self,
        id: RunId,
        place: &LogCursor,
        lost: Failure,
        sink: &Sink<v1::LogChunk>,
    ) -> Result<(), Failure> {
        let state = self.ledger.state();
        let copy = state
            .run(id)
            .and_then(|run| copy_of_start(run, place.request.stderr, place.request.incarnation));
        let Some(path) = copy else { return Err(lost) };
        let Ok(mut file) = tokio::fs::File::open(&path).await else {
            return Err(lost);
        };
        let unreadable =
            |error| Failure::failed(format!("cannot read {}", path.display())).caused_by(&error);
        let length = file.metadata().await.map_err(unreadable)?.len();
        // If only the end of a long log came home, offsets are still those of
        // the log.
        let printed = state
            .run(id)
            .and_then(|run| printed(run, place.request.stderr, place.request.incarnation));
        let begins = printed.unwrap_or(length).saturating_sub(length);
        let (mut offset, missing) = match u64::try_from(place.request.offset) {
            Ok(wanted) => (
                wanted.saturating_sub(begins).min(length),
                begins.saturating_sub(wanted),
            ),
            Err(_) => (
                length.saturating_sub(place.request.offset.unsigned_abs()),
                0,
            ),
        };
        let cleaned = state.run(id).and_then(|run| run.cleaned_ms());
        let mut said = match cleaned {
            Some(at_ms) => super::clean::cleaned(at_ms),
            None => format!("{lost}; this is what came home"),
        };
        if missing > 0 && place.request.last_lines == 0 {
            said.push_str(&format!(", without {missing} bytes before it"));
        }
        let notice = v1::LogChunk {
            notice: said,
            ..v1::LogChunk::default()
        };
        if sink.send(Ok(notice)).await.is_err() {
            return Ok(());
        }
        if place.request.last_lines > 0 && !place.told {
            offset = last_lines(&mut file, length, place.request.last_lines)
                .await
                .map_err(unreadable)?;
        }
        send_rest(&mut file, begins, offset, sink)
            .await
            .map_err(unreadable)
    }
}

/// Sends what a copy has from here on. `begins`: the offset of its first byte in the log.
async fn send_rest(
    file: &mut tokio::fs::File,
    begins: u64,
    mut offset: u64,
    sink: &Sink<v1::LogChunk>,
) -> std::io::Result<()> {
    file.seek(std::io::SeekFrom::Start(offset)).await?;
    loop {
        let mut data = vec![0; CHUNK];
        let count = file.read(&mut data).await?;
        if count == 0 {
            let _ = sink.send(Ok(end(""))).await;
            return Ok(());
        }
        data.truncate(count);
        let chunk = v1::LogChunk {
            offset: begins + offset,
            data,
            ..v1::LogChunk::default()
        };
        offset += count as u64;
        if sink.send(Ok(chunk)).await.is_err() {
            return Ok(());
        }
    }
}

fn end(notice: &str) -> v1::LogChunk {
    v1::LogChunk {
        notice: notice.to_owned(),
        end: true,
        ..v1::LogChunk::default()
    }
}

fn lost(status: &tonic::Status) -> ReadOutcome {
    ReadOutcome::Lost {
        failure: Failure::node("the log cannot be read").status(status),
        again: !matches!(
            status.code(),
            tonic::Code::NotFound | tonic::Code::InvalidArgument | tonic::Code::Unimplemented
        ),
    }
}

async fn from_node(
    mut client: MumClient<tonic::transport::Channel>,
    place: &mut LogCursor,
    sink: &Sink<v1::LogChunk>,
) -> ReadOutcome {
    let mut parts = match client.read_log(place.request.clone()).await {
        Ok(reply) => reply.into_inner(),
        Err(status) => return lost(&status),
    };
    loop {
        let part = match parts.message().await {
            Ok(Some(part)) => part,
            // A stream that ends is complete.
            Ok(None) => {
                let _ = sink.send(Ok(end(""))).await;
                return ReadOutcome::Done;
            }
            Err(status) => return lost(&status),
        };
        let next = part.offset.saturating_add(part.data.len() as u64);
        place.request.offset = i64::try_from(next).unwrap_or(i64::MAX);
        place.request.last_lines = 0;
        place.told = true;
        let chunk = v1::LogChunk {
            offset: part.offset,
            data: part.data,
            notice: if part.truncated {
                "the job truncated its log".to_owned()
            } else {
                String::new()
            },
            end: part.end,
            node: None,
        };
        let over = chunk.end;
        if sink.send(Ok(chunk)).await.is_err() {
            return ReadOutcome::Left;
        }
        if over {
            return ReadOutcome::Done;
        }
    }
}

/// The notice that starts before the newest one have output, too.
fn earlier_starts(run: &Run) -> Option<v1::LogChunk> {
    let (newest, _) = run.journal.newest()?;
    let starts = run.journal.incarnations.iter();
    let mut began = starts.filter(|(number, one)| **number != newest && one.started_ms.is_some());
    let (last, _) = began.next_back()?;
    let id = run.made.id;
    Some(v1::LogChunk {
        notice: format!(
            "start {newest} of {id}; what it printed before: neroman logs {id} --start {last}"
        ),
        ..v1::LogChunk::default()
    })
}

/// How much a start of an ended run printed, if known; 0: the newest start.
fn printed(run: &Run, stderr: bool, start: u32) -> Option<u64> {
    let found = match start {
        0 => run.journal.newest()?.1,
        start => run.journal.incarnations.get(&start)?,
    };
    let gone = found.gone.as_ref()?;
    Some(if stderr {
        gone.stderr_bytes
    } else {
        gone.stdout_bytes
    })
}

/// The copy of a log in the results of a run.
pub(crate) fn copy_of(run: &Run, stderr: bool) -> Option<PathBuf> {
    let folder = run.results().folder();
    let name = if stderr { STDERR } else { STDOUT };
    (!folder.is_empty()).then(|| PathBuf::from(folder).join(name))
}

/// The copy of a log of one start, 0 for the newest.
fn copy_of_start(run: &Run, stderr: bool, start: u32) -> Option<PathBuf> {
    let newest = run.journal.newest().map_or(0, |(number, _)| number);
    let copy = copy_of(run, stderr)?;
    match start {
        0 => Some(copy),
        start if start == newest => Some(copy),
        start => {
            let folder = names::start_results(start);
            Some(copy.parent()?.join(folder).join(copy.file_name()?))
        }
    }
}

/// Offset of the last lines of a file. A carriage return ends a line as a line
/// feed does, and both together end one.
async fn last_lines(file: &mut tokio::fs::File, length: u64, wanted: u64) -> std::io::Result<u64> {
    let (mut from, mut found) = (length, 0);
    // What follows the byte that is looked at. An end of a line at the very end
    // begins none.
    let mut next = None;
    while from > 0 {
        let size = from.min(CHUNK as u64);
        from -= size;
        let mut data = vec![0; size as usize];
        file.seek(std::io::SeekFrom::Start(from)).await?;
        file.read_exact(&mut data).await?;
        for (index, byte) in data.iter().enumerate().rev() {
            if ends_line(*byte, next) {
                found += 1;
                if found == wanted {
                    return Ok(from + index as u64 + 1);
                }
            }
            next = Some(*byte);
        }
    }
    Ok(0)
}

/// Whether a line ends with this byte, and another one follows.
fn ends_line(byte: u8, next: Option<u8>) -> bool {
    match (byte, next) {
        (_, None) | (b'\r', Some(b'\n')) => false,
        (byte, Some(_)) => matches!(byte, b'\n' | b'\r'),
    }
}
