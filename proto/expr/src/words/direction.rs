//! Whether a metric is better when it is high or when it is low.

/// Whether more is better, by names in common use; `None` for others.
pub fn more_is_better(name: &str) -> Option<bool> {
    const MORE: &[&str] = &[
        "accuracy",
        "accuracies",
        "reward",
        "return",
        "precision",
        "recall",
        "auc",
        "auroc",
        "iou",
        "dice",
        "bleu",
        "rouge",
        "psnr",
        "ssim",
        "throughput",
        "likelihood",
        "kappa",
        "success",
        "ndcg",
        "mrr",
        "winrate",
        "correlation",
        "fps",
    ];
    const LESS: &[&str] = &[
        "loss",
        "error",
        "neg",
        "mse",
        "mae",
        "mape",
        "ppl",
        "perplexity",
        "nll",
        "residual",
        "latency",
        "logloss",
    ];
    /// These count at the end of a word alone: `access` and `timesteps` are neither.
    const MORE_ENDS: &[&str] = &["acc", "score"];
    const LESS_ENDS: &[&str] = &["time"];
    /// Words that end so by chance.
    const NEITHER: &[&str] = &["underscore"];
    /// Short ones count alone: `layer2` is no `r2`.
    const LESS_WORDS: &[&str] = &["err", "wer", "cer", "fid"];
    const MORE_WORDS: &[&str] = &["f1", "r2"];
    let lower = name.to_lowercase();
    let words: Vec<&str> = lower.split(|c: char| !c.is_alphanumeric()).collect();
    // Words are joined in names (`rmse`, `runtime`, `top5acc`), and `sentiment` is about no `time`.
    let has = |parts: &[&str], ends: &[&str], alone: &[&str]| {
        words.iter().any(|word| {
            let letters = word.trim_end_matches(|c: char| c.is_ascii_digit());
            let singular = letters.strip_suffix('s').unwrap_or(letters);
            let is_edge = |part: &&str| letters.starts_with(part) || letters.ends_with(part);
            let is_end = |end: &&str| singular.ends_with(end) && !NEITHER.contains(&singular);
            alone.contains(word) || parts.iter().any(is_edge) || ends.iter().any(is_end)
        })
    };
    if has(LESS, LESS_ENDS, LESS_WORDS) {
        Some(false)
    } else {
        has(MORE, MORE_ENDS, MORE_WORDS).then_some(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn direction_is_that_of_the_name() {
        for name in [
            "test error",
            "val_loss",
            "time",
            "ppl",
            "negative_reward",
            "RMSE",
            "losses/train",
            "runtime",
            "step times",
            "loss2",
        ] {
            assert_eq!(more_is_better(name), Some(false), "{name}");
        }
        for name in [
            "test accuracy",
            "F1",
            "mean_reward",
            "sentiment_accuracy",
            "multimedia score",
            "enrollment acc",
            "top5acc",
            "f1score",
            "scores/test",
        ] {
            assert_eq!(more_is_better(name), Some(true), "{name}");
        }
        for name in [
            "x",
            "alpha",
            "mAP",
            "energy",
            "layer2",
            "sentiment",
            "indices",
            "accelerator_mem",
            "access_count",
            "underscore",
            "timesteps",
        ] {
            assert_eq!(more_is_better(name), None, "{name}");
        }
    }
}
