//! One program for each target of `nero_laws`: libFuzzer's main and the target's law.

/// CPU time of one input of at most 1 MB.
pub const SECONDS_MAX: f64 = 1.0;

/// The program of a target. In the folder that `NERO_SEEDS` names it writes what it begins with.
#[macro_export]
macro_rules! fuzz {
    ($target:path) => {
        ::libfuzzer_sys::fuzz_target!(
            init: {
                if let Some(folder) = std::env::var_os("NERO_SEEDS") {
                    $target.write_seeds(folder.as_ref(), $crate::SECONDS_MAX);
                }
            },
            |bytes: &[u8]| $target.judge(bytes, $crate::SECONDS_MAX)
        );
    };
}
