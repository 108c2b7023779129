//! Events for a program of the owner.

use super::deadlines::Deadlines;
use super::outcome::safe_line;
use super::{SendResult, child};

/// The exit code that asks to be tried again (`EX_TEMPFAIL` of `sysexits.h`).
pub(crate) const TRY_AGAIN: i32 = 75;

pub(crate) async fn hand_to(command: &[String], event: &[u8], deadlines: &Deadlines) -> SendResult {
    let Some((program, arguments)) = command.split_first() else {
        return SendResult::Refused("the command is empty".to_owned());
    };
    match child::run(program.as_ref(), arguments, event, deadlines.program).await {
        Ok(ended) if ended.status.success() => SendResult::Accepted("exit code 0".to_owned()),
        Ok(ended) if ended.status.code() == Some(TRY_AGAIN) => SendResult::Later(safe_line(
            &format!("exit code {TRY_AGAIN}: {}", ended.last_words()),
        )),
        Ok(ended) => SendResult::Refused(safe_line(&format!(
            "{}: {}",
            ended.status,
            ended.last_words()
        ))),
        Err(why) => SendResult::Later(safe_line(&why)),
    }
}
