//! Whether the clock shows a sensible time and runs evenly. Order, leases and
//! time limits do not depend on it; times that people read do.

use nero_journal::Clocks;

use super::Findings;

const WHAT: &str = "clock's pace";
/// Lowest believable time, the beginning of 2024: no node was used before.
const EARLIEST_MS: i64 = 1_704_067_200_000;
/// Limit by which the wall clock may differ from the steady clock during an
/// examination.
const STEP_NS: i64 = 20_000_000;

/// The clocks when an examination began.
#[derive(Debug)]
pub struct ExaminationStart(Clocks);

impl ExaminationStart {
    pub fn now() -> Self {
        Self(Clocks::now())
    }

    pub fn judge(self, findings: &mut Findings) {
        let now = Clocks::now();
        let wall = now.wall_ns - self.0.wall_ns;
        let steady =
            i64::try_from(now.mono_ns).unwrap_or(0) - i64::try_from(self.0.mono_ns).unwrap_or(0);
        let step = wall - steady;
        let now_ms = now.wall_ns / 1_000_000;
        if now_ms < EARLIEST_MS {
            findings.bad(
                WHAT,
                format!(
                    "it is more than {} days behind",
                    (EARLIEST_MS - now_ms) / 86_400_000
                ),
                "set the machine's clock; dates of runs there would be wrong",
            );
        } else if step.abs() > STEP_NS {
            findings.warning(
                WHAT,
                format!("it was set by {} ms just now", step / 1_000_000),
                "dates of runs there may be off; nothing else depends on it",
            );
        } else {
            findings.good(WHAT, "it runs evenly");
        }
    }
}
