//! `results --like mlframework`: its `output.csv`. First a line for each task with its parameters,
//! then each line that a task printed, behind the task's number. A task is a run here.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use nero_wire::v1::man_client::ManClient;
use nero_wire::v1::{ExperimentView, LogsRequest};

use super::{beside, cannot_write, check_ours, replace, wrote};
use crate::connect::{Next, READ_DEADLINE};
use crate::fault::{Fault, Stop, code};
use crate::session::Session;

/// Writes or prints the lines. A log that cannot be read is reported and keeps none of the others
/// back; the exit code.
pub async fn run(
    session: &mut Session,
    views: &[ExperimentView],
    output: Option<&str>,
) -> Result<u8, Stop> {
    let Some(path) = output.map(Path::new) else {
        let mut text = Vec::new();
        let worst = lines(session, views, &mut text).await?;
        session.out.raw(&text)?;
        return Ok(worst);
    };
    check_ours(path)?;
    let beside = beside(path);
    let file = File::create(&beside).map_err(|error| cannot_write(path).because(&error))?;
    let mut to = BufWriter::new(file);
    let read = lines(session, views, &mut to).await;
    let written = to.flush();
    if read.is_err() {
        // What stopped it is reported, not what is left.
        let _ = std::fs::remove_file(&beside);
    }
    let worst = read?;
    replace(path, &beside, written)?;
    wrote(session, path);
    Ok(worst)
}

async fn lines(
    session: &mut Session,
    views: &[ExperimentView],
    to: &mut impl Write,
) -> Result<u8, Stop> {
    for view in views {
        let line = parameters(view);
        to.write_all(line.as_bytes()).map_err(unwritten)?;
    }
    let mut worst = code::OK;
    for view in views {
        let mut log = LogLines::new(run_of(view), &mut *to);
        let read = log.read(session).await;
        log.end().map_err(unwritten)?;
        match read {
            Ok(()) => {}
            Err(Stop::Fault(fault)) => {
                let text = fault.text();
                let run = run_of(view);
                session.out.note(&format!("{run}: {}", text.trim_end()));
                worst = worst.max(fault.exit_code);
            }
            Err(stop @ Stop::PipeClosed) => return Err(stop),
        }
    }
    Ok(worst)
}

fn unwritten(error: std::io::Error) -> Fault {
    Fault::failed("cannot write the lines").because(&error)
}

fn run_of(view: &ExperimentView) -> String {
    format!("{}.{}", view.id, view.run)
}

/// `144.2,lr=0.1,amp=,`: a true parameter has no value, a false one is not handed over.
fn parameters(view: &ExperimentView) -> String {
    let mut line = format!("{},", run_of(view));
    for param in &view.params {
        let text = match param.json.as_str() {
            "false" | "null" => continue,
            "true" => "",
            _ => &param.text,
        };
        line.push_str(&format!("{}={text},", param.name));
    }
    line.retain(|c| c >= ' ');
    line.push('\n');
    line
}

/// The lines of a run's log behind its number, without control characters, as they come.
struct LogLines<'w, W> {
    run: String,
    to: &'w mut W,
    is_within: bool,
}

impl<'w, W: Write> LogLines<'w, W> {
    fn new(run: String, to: &'w mut W) -> Self {
        Self {
            run,
            to,
            is_within: false,
        }
    }

    async fn read(&mut self, session: &mut Session) -> Result<(), Stop> {
        let mut offset = 0;
        loop {
            let asked = LogsRequest {
                what: self.run.clone(),
                offset,
                use_offset: true,
                ..LogsRequest::default()
            };
            let client = session.client().await?;
            let mut chunks = client.call(READ_DEADLINE, asked, ManClient::logs).await?;
            loop {
                match client.next(&mut chunks).await? {
                    Next::Message(chunk) => {
                        self.take(&chunk.data).map_err(unwritten)?;
                        let end = chunk.offset + chunk.data.len() as u64;
                        offset = i64::try_from(end).unwrap_or(i64::MAX).max(offset);
                        if chunk.end {
                            return Ok(());
                        }
                    }
                    Next::End => return Ok(()),
                    // The daemon was started again; the next call goes on behind what came.
                    Next::Lost => break,
                }
            }
        }
    }

    fn take(&mut self, data: &[u8]) -> std::io::Result<()> {
        for part in data.split_inclusive(|byte| *byte == b'\n') {
            if !std::mem::replace(&mut self.is_within, true) {
                write!(self.to, "{},", self.run)?;
            }
            let shown: Vec<u8> = part.iter().copied().filter(|byte| *byte >= b' ').collect();
            self.to.write_all(&shown)?;
            if part.ends_with(b"\n") {
                self.end()?;
            }
        }
        Ok(())
    }

    /// Ends the line that was begun.
    fn end(&mut self) -> std::io::Result<()> {
        if std::mem::take(&mut self.is_within) {
            self.to.write_all(b"\n")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use nero_wire::v1::Param;

    use super::*;

    #[test]
    fn lines_have_the_run_before_them_and_no_control_characters() {
        let mut text = Vec::new();
        let mut log = LogLines::new("3.1".to_owned(), &mut text);
        for part in ["ep", "och 1\r\n\n\x1b[1mx", "\ty\n", "last"] {
            log.take(part.as_bytes()).unwrap();
        }
        log.end().unwrap();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(text, "3.1,epoch 1\n3.1,\n3.1,[1mxy\n3.1,last\n");
    }

    #[test]
    fn parameters_are_those_that_the_program_gets() {
        let param = |name: &str, text: &str, json: &str| Param {
            name: name.to_owned(),
            text: text.to_owned(),
            json: json.to_owned(),
        };
        let view = ExperimentView {
            id: 3,
            run: 2,
            params: vec![
                param("lr", "0.10", "0.1"),
                param("amp", "true", "true"),
                param("no", "false", "false"),
                param("gpu", "-1", "\"-1\""),
            ],
            ..ExperimentView::default()
        };
        assert_eq!(parameters(&view), "3.2,lr=0.10,amp=,gpu=-1,\n");
    }
}
