//! The end of a watcher: all output is read and recorded.

use std::time::Duration;

use nero_journal::v1::WatchEnded;

use super::files::MetricFile;
use super::{RETRY_MS, Watch, WatchEnd, WatchError, now};
use crate::core::facts::Sight;
use crate::core::intake::Intake;
use crate::core::record::Record;

/// Time that the end waits for a disk that refuses.
const STUCK_MAX_MS: u64 = 60_000;
/// Time for which a reader may take and print nothing after the end of the output, unless
/// the spec has its own grace.
const READER_STILL_MS: u64 = 10_000;
/// Time that readers have after the end of the output.
const READERS_MAX_MS: u64 = 600_000;
/// Interval of looks at readers that are about to end.
const READER_LOOK: Duration = Duration::from_millis(20);
/// Time that the end waits for neromum.
const FAREWELL: Duration = Duration::from_secs(1);

impl Watch {
    /// Ends the watch of a run that is over: reads the remaining output,
    /// records the end, leaves.
    pub(super) async fn end(mut self) -> Result<WatchEnd, WatchError> {
        let since_ms = now().mono_ms;
        self.rules.run_is_over();
        self.asked.retain(|asked| asked.effect.is_command());
        // No process of the job is left to measure.
        self.sample_due_ms = u64::MAX;
        self.check_names();
        for file in &mut self.files {
            file.is_final();
        }
        self.wait_for_readers(since_ms).await?;
        loop {
            self.now = now();
            let more = self.turn()?;
            if self.journal.is_stuck() {
                self.wait_for_the_disk(since_ms).await?;
            } else if !more {
                break;
            }
            // The task of neromum's connection gets its turn, too.
            tokio::task::yield_now().await;
        }
        self.last_words();
        self.write_all(since_ms).await?;
        // The command of a rule has its own limit.
        while !self.acts.is_empty() {
            tokio::time::sleep(READER_LOOK).await;
            self.now = now();
            self.take_ran();
            self.write_all(since_ms).await?;
        }
        self.out.push(Record::Ended(WatchEnded {
            read_to: self.intake.read_to(),
            complete: true,
        }));
        self.write_all(since_ms).await?;
        for reader in self.files.iter_mut().filter_map(MetricFile::reader) {
            reader.sweep();
        }
        let listened = self.journal.is_sent();
        self.journal.send_to(None);
        if let Some(link) = self.link.take().filter(|_| listened) {
            link.finish(FAREWELL).await;
        }
        Ok(WatchEnd::Complete)
    }

    /// Gives the readers of the output time for its rest; ends those that stand still.
    async fn wait_for_readers(&mut self, since_ms: u64) -> Result<(), WatchError> {
        let still_max_ms = match self.place.spec.monitor.map_or(0, |one| one.grace_ms) {
            0 => READER_STILL_MS,
            given => given,
        };
        let mut seen = (Vec::new(), since_ms);
        loop {
            self.now = now();
            self.turn()?;
            let readers = self.files.iter_mut().filter_map(MetricFile::reader);
            let work: Vec<u64> = readers.filter_map(|reader| reader.work()).collect();
            if work.is_empty() {
                return Ok(());
            }
            if work != seen.0 {
                seen = (work, self.now.mono_ms);
            }
            let still_ms = self.now.mono_ms - seen.1;
            if still_ms > still_max_ms || self.now.mono_ms > since_ms + READERS_MAX_MS {
                for reader in self.files.iter_mut().filter_map(MetricFile::reader) {
                    reader.end("did not end when the output did, and was ended".to_owned());
                }
            }
            tokio::time::sleep(READER_LOOK).await;
        }
    }

    fn last_words(&mut self) {
        let (rules, facts, now) = (&mut self.rules, &self.facts, self.now);
        let mut each_line = |intake: &mut Intake, out: &mut Vec<Record>| {
            let sight = Sight {
                facts,
                series: intake.series(),
                now,
            };
            rules.touched(intake.touched(), &sight, out);
        };
        for log in self.intake.logs() {
            self.intake
                .finish(log, now.mono_ms, &mut self.out, &mut each_line);
        }
        self.intake.close_window(&mut self.out);
        self.intake.flush(&mut self.out);
        self.follow_progress(true);
        self.evaluate();
        self.rules.tell_held(&mut self.out);
        self.tell_silent_files();
        self.intake.tell_refused_at_the_end(&mut self.out);
    }

    /// Writes what is decided, as soon as the disk takes it.
    async fn write_all(&mut self, since_ms: u64) -> Result<(), WatchError> {
        self.write()?;
        while self.journal.is_stuck() {
            self.wait_for_the_disk(since_ms).await?;
            self.write()?;
        }
        Ok(())
    }

    async fn wait_for_the_disk(&self, since_ms: u64) -> Result<(), WatchError> {
        if now().mono_ms > since_ms + STUCK_MAX_MS {
            return Err(WatchError::Stuck {
                folder: self.place.folder.clone(),
            });
        }
        tokio::time::sleep(Duration::from_millis(RETRY_MS)).await;
        Ok(())
    }
}
