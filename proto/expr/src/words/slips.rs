//! What people type by habit of other languages, and what to type here.

use super::fact::Fact;

/// Actions of rules: words that stand before a condition in a file.
pub const ACTIONS: &[&str] = &[
    "abort",
    "warn",
    "notify",
    "pause",
    "restart",
    "requeue",
    "signal",
    "run",
    "run_local",
];

/// The operator that is meant by a word between two values.
pub(crate) fn operator_meant(word: &str) -> Option<&'static str> {
    Some(match word.to_ascii_lowercase().as_str() {
        "and" | "but" => "&&",
        "or" => "||",
        "is" | "eq" | "equal" | "equals" => "==",
        "ne" | "neq" | "isnt" => "!=",
        "gt" | "above" | "over" | "exceeds" | "greater" | "more" | "bigger" | "higher" => ">",
        "ge" | "geq" | "gte" => ">=",
        "lt" | "below" | "under" | "less" | "smaller" | "lower" => "<",
        "le" | "leq" | "lte" => "<=",
        "mod" => "%",
        "during" | "since" | "within" => "for",
        _ => return None,
    })
}

/// The hint for a word that stands where an operator or the end is expected.
pub(crate) fn word_hint(word: &str) -> Option<String> {
    if let Some(operator) = operator_meant(word) {
        return Some(format!("write `{operator}`"));
    }
    let hint = match word.to_ascii_lowercase().as_str() {
        "like" | "matches" | "contains" | "startswith" | "endswith" | "has" => {
            "a pattern stands behind `=`: `name = *fib*`"
        }
        "between" => "join two comparisons: `x > 1 && x < 5`",
        "xor" => "write `(a || b) && !(a && b)`",
        "utc" | "gmt" => "UTC is a `Z` that touches: `2026-11-20T14:00Z`",
        "ago" => "an age needs no word: `tmod < 1h`",
        "to" => "a range is written `124-186`",
        "then" | "else" | "do" => "leave it out: the condition stands alone",
        _ => return None,
    };
    Some(hint.to_owned())
}

/// The hint for a function that there is not.
pub(crate) fn function_hint(word: &str) -> Option<&'static str> {
    Some(match word.to_ascii_lowercase().as_str() {
        "avg" | "average" | "ma" => "write `mean(…)`",
        "maximum" | "highest" => "write `max(…)`",
        "minimum" | "lowest" => "write `min(…)`",
        "latest" | "newest" | "current" => "write `last(…)`",
        "oldest" => "write `first(…)`",
        "len" | "size" | "number" => "write `count(…)`; it takes a metric",
        "slope" | "diff" | "delta" | "derivative" => "write `rate(…)`, change per second",
        "ln" => "write `log(…)`",
        "log10" => "write `log(…) / 2.302585`",
        "log2" => "write `log(…) / 0.693147`",
        "pow" | "power" | "square" => "write `x * x`",
        "floor" | "ceil" | "int" | "trunc" => "write `round(…)`",
        "isnan" | "is_nan" => "write `loss == nan`",
        "isinf" | "is_inf" => "write `abs(loss) == inf`",
        "isfinite" => "write `!(loss == nan) && abs(loss) < inf`",
        "now" | "today" | "yesterday" => "write it without parentheses",
        "float" | "number_of" | "str" | "string" => {
            "leave it out: numbers and texts are told apart"
        }
        "params" | "parameter" | "parameters" => "write `param('…')`",
        "metrics" => "write `metric('…')`",
        _ => return None,
    })
}

/// The fact that other programs call so.
pub(crate) fn fact_meant(word: &str) -> Option<Fact> {
    let plain: String = word
        .chars()
        .filter(|c| !matches!(c, '_' | '-' | '.' | ' '))
        .flat_map(char::to_lowercase)
        .collect();
    Some(match plain.as_str() {
        "status" => Fact::State,
        "host" | "hostname" | "machine" | "server" => Fact::Node,
        "time" | "duration" | "elapsed" | "walltime" | "elapsedtime" | "uptime" => Fact::Runtime,
        "exitcode" | "exitstatus" | "returncode" | "retcode" | "rc" => Fact::Exit,
        "memory" | "ram" | "rss" => Fact::Mem,
        "gpumemory" | "vram" => Fact::Gpumem,
        "cpus" | "cores" => Fact::Cpu,
        "start" | "started" | "startedat" | "starttime" => Fact::Tstart,
        "end" | "ended" | "endedat" | "endtime" => Fact::Tend,
        "modified" | "mtime" | "changedat" => Fact::Tmod,
        "submit" | "submittedat" | "submittime" => Fact::Tsub,
        "waiting" | "queuetime" => Fact::Waittime,
        "remaining" | "timeremaining" => Fact::Timeleft,
        "tries" | "retries" | "restarts" | "attempts" => Fact::Attempt,
        "args" | "arguments" => Fact::Params,
        "cmd" | "cmdline" => Fact::Command,
        "folder" | "directory" | "dir" => Fact::Path,
        _ => return None,
    })
}

/// A word of the language in another case, or of another language, that would be taken
/// for a name; with the word to write.
pub(crate) fn literal_meant(word: &str) -> Option<&'static str> {
    Some(match word.to_ascii_lowercase().as_str() {
        "true" => "true",
        "false" => "false",
        "nan" => "nan",
        "inf" | "infinity" => "inf",
        "now" => "now",
        "today" => "today",
        "yesterday" => "yesterday",
        "yes" | "on" => "true",
        "no" | "off" => "false",
        _ => return None,
    })
}

/// Whether the word means "no value" in other languages.
pub(crate) fn means_nothing(word: &str) -> bool {
    matches!(
        word.to_ascii_lowercase().as_str(),
        "null" | "none" | "nil" | "undefined"
    )
}

/// What is meant by a character that is no part of the language.
pub(crate) fn character_hint(c: char) -> Option<&'static str> {
    Some(match c {
        '≥' => "write `>=`",
        '≤' => "write `<=`",
        '≠' => "write `!=`",
        '−' | '–' | '—' | '‐' | '‑' => "write `-`",
        '×' | '·' => "write `*`",
        '÷' => "write `/`",
        '¬' => "write `!`",
        '∧' => "write `&&`",
        '∨' => "write `||`",
        '∞' => "write `inf`",
        '´' => "use plain quotes: ' or \"",
        '~' => "a regular expression stands behind `=~`: `name =~ 'n-1.$'`, `!(name =~ 'x')`",
        '^' => "powers are written `x * x`, powers of ten `1e-3`",
        '[' | ']' => {
            "a list stands in parentheses: `x in (1, 2)`; a step is `loss@10`, a window `mean(loss, 10m)`"
        }
        '{' | '}' | '$' => "names stand without braces and `$`: `lr > 0.1`",
        ';' => "join conditions with `&&` or `||`",
        ':' => "values are compared with `==`: `state == crashed`",
        '?' => "`?` and `*` stand in patterns only: `name = fib_?`",
        '#' => "numbers and conditions stand alone, without `#`",
        _ => return None,
    })
}
