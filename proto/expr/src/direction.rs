//! Whether a metric is better when it is high or when it is low.

/// Whether more is better, by names in common use; `None` for others.
pub fn more_is_better(name: &str) -> Option<bool> {
    const MORE: &[&str] = &[
        "acc",
        "score",
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
        "time",
        "latency",
        "logloss",
    ];
    /// Short ones count alone: `layer2` is no `r2`.
    const LESS_WORDS: &[&str] = &["err", "wer", "cer", "fid"];
    const MORE_WORDS: &[&str] = &["f1", "r2"];
    let lower = name.to_lowercase();
    let words: Vec<&str> = lower.split(|c: char| !c.is_alphanumeric()).collect();
    // Words are joined in names (`rmse`, `runtime`, `top5acc`), and `sentiment` is about no `time`.
    let has = |parts: &[&str], alone: &[&str]| {
        words.iter().any(|word| {
            let letters = word.trim_end_matches(|c: char| c.is_ascii_digit());
            let is_end = |part: &&str| letters.starts_with(part) || letters.ends_with(part);
            alone.contains(word) || parts.iter().any(is_end)
        })
    };
    if has(LESS, LESS_WORDS) {
        Some(false)
    } else {
        has(MORE, MORE_WORDS).then_some(true)
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
        ] {
            assert_eq!(more_is_better(name), None, "{name}");
        }
    }
}
