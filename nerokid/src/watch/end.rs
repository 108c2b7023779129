//! The end of a watcher: all output is read and recorded.

use std::time::Duration;

use nero_journal::v1::WatchEnded;

use super::{RETRY_MS, Watch, WatchError, Watched, now};
use crate::core::facts::Sight;
use crate::core::intake::Intake;
use crate::core::log::Log;
use crate::core::record::Record;

/// Time that the end waits for a disk that refuses.
const STUCK_MAX_MS: u64 = 60_000;
/// Time that the end waits for neromum.
const FAREWELL: Duration = Duration::from_secs(1);

impl Watch {
    /// Ends the watch of a run that is over: reads the remaining output,
    /// records the end, leaves.
    pub(super) async fn end(mut self) -> Result<Watched, WatchError> {
        let since_ms = now().mono_ms;
        self.rules.run_is_over();
        self.asked.clear();
        // No process of the job is left to measure.
        self.sample_due_ms = u64::MAX;
        self.check_names();
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
        self.write()?;
        while self.journal.is_stuck() {
            self.wait_for_the_disk(since_ms).await?;
            self.write()?;
        }
        let listened = self.journal.is_sent();
        self.journal.send_to(None);
        if let Some(link) = self.link.take().filter(|_| listened) {
            link.finish(FAREWELL).await;
        }
        Ok(Watched::Complete)
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
        for log in Log::BOTH {
            self.intake
                .finish(log, now.mono_ms, &mut self.out, &mut each_line);
        }
        self.intake.close_window(&mut self.out);
        self.intake.flush(&mut self.out);
        self.follow_progress(true);
        self.evaluate();
        self.rules.tell_held(&mut self.out);
        self.intake.tell_refused_at_the_end(&mut self.out);
        self.out.push(Record::Ended(WatchEnded {
            read_to: self.intake.read_to(),
            complete: true,
        }));
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
