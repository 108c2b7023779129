//! The message of a bug of ours: what to report, without a stack trace.

use std::io::Write as _;

use nero_model::VERSION;
use nero_model::safe::Safe;

/// Makes a panic print what to report. `main` sets the exit code.
pub fn report_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let what = panic
            .payload()
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| panic.payload().downcast_ref::<String>().map(String::as_str))
            .unwrap_or("something went wrong");
        let place = panic.location().map(ToString::to_string);
        let place = place.unwrap_or_default();
        let verb = std::env::args().nth(1).unwrap_or_default();
        // A panic while standard error is closed cannot be reported.
        let _ = write!(
            std::io::stderr().lock(),
            "error: neroman {VERSION} has a bug: {}\ncaused by: {place}\n\
             hint: no run was harmed; please report these lines, `neroman --version --verbose`, \
             and what was typed (`{} …`)\n",
            Safe::line(what),
            Safe::line(&verb),
        );
    }));
}
