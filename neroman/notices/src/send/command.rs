//! Events for a program of the owner.

use super::deadlines::Deadlines;
use super::outcome::shown;
use super::{SendOutcome, child};

/// The exit code that asks to be tried again (`EX_TEMPFAIL` of `sysexits.h`).
pub(crate) const TRY_AGAIN: i32 = 75;

pub(crate) async fn hand_to(
    command: &[String],
    event: &[u8],
    deadlines: &Deadlines,
) -> SendOutcome {
    let Some((program, arguments)) = command.split_first() else {
        return SendOutcome::Refused("the command is empty".to_owned());
    };
    match child::run(program.as_ref(), arguments, event, deadlines.program).await {
        Ok(ended) if ended.status.success() => SendOutcome::Accepted("exit code 0".to_owned()),
        Ok(ended) if ended.status.code() == Some(TRY_AGAIN) => SendOutcome::Later(shown(&format!(
            "exit code {TRY_AGAIN}: {}",
            ended.last_words()
        ))),
        Ok(ended) => {
            SendOutcome::Refused(shown(&format!("{}: {}", ended.status, ended.last_words())))
        }
        Err(why) => SendOutcome::Later(shown(&why)),
    }
}
