//! The options in the lines of a batch script.

use nero_yaml::Mark;

use super::Dialect;

/// An option of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Directive {
    /// Its name, `--time` or `-t`.
    pub(crate) name: String,
    /// Its value; empty: none.
    pub(crate) value: String,
    /// Where it stands.
    pub(crate) mark: Mark,
}

/// Options of one letter of `sbatch` that have no value.
const SLURM_FLAGS: &[&str] = &["-H", "-I", "-k", "-O", "-Q", "-s", "-v", "-W"];
/// Options of `qsub` that have no value, or more than one.
const ENGINE_FLAGS: &[&str] = &[
    "-clear", "-cwd", "-h", "-hard", "-notify", "-soft", "-terse", "-V", "-verify",
];
/// Those with two values.
const ENGINE_PAIRS: &[&str] = &["-pe"];

/// All options, in the order in which they stand. Those of SLURM end at the first
/// command, as they do for `sbatch`.
pub(crate) fn directives(text: &str, dialect: Dialect) -> Vec<Directive> {
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let is_comment = line.starts_with('#') || line.trim().is_empty();
        if !is_comment && dialect == Dialect::Slurm {
            break;
        }
        let Some(rest) = line.strip_prefix(dialect.prefix()) else {
            continue;
        };
        if !rest.starts_with(char::is_whitespace) && !rest.starts_with('-') {
            continue;
        }
        let number = u32::try_from(index + 1).unwrap_or(u32::MAX);
        // A quote that does not end stays as it is, for the check of the value.
        let words = shlex::split(rest)
            .unwrap_or_else(|| rest.split_whitespace().map(str::to_owned).collect());
        found.extend(of_line(&words, line, number, dialect));
    }
    found
}

fn of_line(words: &[String], line: &str, number: u32, dialect: Dialect) -> Vec<Directive> {
    let mut found = Vec::new();
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        let (name, mut value) = split(word, dialect);
        // A word with quotes is shorter than what stands there.
        let at = line.find(word.as_str()).or_else(|| line.find(&name));
        let column = at.map_or(0, |at| line[..at].chars().count());
        let mark = Mark {
            line: number,
            column: u32::try_from(column + 1).unwrap_or(1),
        };
        let mut wants = wants(&name, &value, dialect);
        while wants > 0
            && let Some(next) = words.next_if(|next| !next.starts_with('-'))
        {
            if !value.is_empty() {
                value.push(' ');
            }
            value.push_str(next);
            wants -= 1;
        }
        found.push(Directive { name, value, mark });
    }
    found
}

/// The name of an option, and the value that stands in the same word.
fn split(word: &str, dialect: Dialect) -> (String, String) {
    if let Some((name, value)) = word.split_once('=')
        && word.starts_with("--")
    {
        return (name.to_owned(), value.to_owned());
    }
    let is_short = word.starts_with('-') && !word.starts_with("--");
    if dialect == Dialect::Slurm && is_short && word.len() > 2 && word.is_char_boundary(2) {
        return (
            word[..2].to_owned(),
            word[2..].trim_start_matches('=').to_owned(),
        );
    }
    (word.to_owned(), String::new())
}

/// How many words behind an option are its value.
fn wants(name: &str, value: &str, dialect: Dialect) -> usize {
    if !value.is_empty() {
        return 0;
    }
    match dialect {
        Dialect::Slurm => usize::from(!SLURM_FLAGS.contains(&name)),
        Dialect::GridEngine if ENGINE_PAIRS.contains(&name) => 2,
        Dialect::GridEngine => usize::from(!ENGINE_FLAGS.contains(&name)),
    }
}

/// The step of indexes: of a single range `1-9:2` its own, else 1.
pub(crate) fn step(text: &str) -> u64 {
    let list = text.split('%').next().unwrap_or_default();
    let step = list.split_once(':').filter(|_| !list.contains(','));
    step.and_then(|(_, step)| step.parse().ok()).unwrap_or(1)
}

/// The indexes of `1-10`, `1,3,5-9:2` and `0-9%4`, with the part behind `%`; `None`: it
/// is none of these.
pub(crate) fn indexes(text: &str) -> Option<(Vec<u64>, Option<String>)> {
    let (list, at_once) = match text.split_once('%') {
        Some((list, at_once)) => (list, Some(at_once.to_owned())),
        None => (text, None),
    };
    let mut all = Vec::new();
    for part in list.split(',') {
        let (range, step) = match part.split_once(':') {
            Some((range, step)) => (range, step.parse::<usize>().ok().filter(|step| *step > 0)?),
            None => (part, 1),
        };
        let (first, last) = match range.split_once('-') {
            Some((first, last)) => (first.parse::<u64>().ok()?, last.parse::<u64>().ok()?),
            None => {
                let one = range.parse::<u64>().ok()?;
                (one, one)
            }
        };
        let room = usize::try_from(super::TASKS_MAX + 1)
            .ok()?
            .saturating_sub(all.len());
        all.extend((first..=last).step_by(step).take(room));
    }
    (!all.is_empty()).then_some((all, at_once))
}

/// The seconds of `minutes`, `minutes:seconds`, `hours:minutes:seconds`, `days-hours` and
/// `days-hours:minutes:seconds`.
pub(crate) fn slurm_seconds(text: &str) -> Option<u64> {
    let (days, rest) = match text.split_once('-') {
        Some((days, rest)) => (Some(u64::from(days.parse::<u32>().ok()?)), rest),
        None => (None, text),
    };
    let parts = rest
        .split(':')
        .map(|part| part.parse::<u32>().ok().map(u64::from));
    let parts: Vec<u64> = parts.collect::<Option<_>>()?;
    let seconds = match (days, parts.as_slice()) {
        (None, [minutes]) => minutes * 60,
        (None, [minutes, seconds]) => minutes * 60 + seconds,
        (Some(_), [hours]) => hours * 3600,
        (Some(_), [hours, minutes]) => hours * 3600 + minutes * 60,
        (_, [hours, minutes, seconds]) => hours * 3600 + minutes * 60 + seconds,
        _ => return None,
    };
    Some(days.unwrap_or(0) * 86_400 + seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_as_sbatch_reads_them() {
        let text = "#!/bin/bash\n#SBATCH --time=1:00 -c4 --mem 2G  # why\n##SBATCH --no=x\n\
                    #SBATCHX\n# a remark\n\n#SBATCH --exclusive\necho\n#SBATCH --late\n";
        let found = directives(text, Dialect::Slurm);
        let shown: Vec<String> = found
            .iter()
            .map(|one| {
                format!(
                    "{} {} {}:{}",
                    one.name, one.value, one.mark.line, one.mark.column
                )
            })
            .collect();
        assert_eq!(
            shown,
            [
                "--time 1:00 2:9",
                "-c 4 2:21",
                "--mem 2G 2:25",
                "--exclusive  7:9"
            ]
        );
    }

    #[test]
    fn options_of_qsub_stand_anywhere_and_may_have_two_values() {
        let text = "#$ -cwd -pe smp 4\nmodule load x\n#$ -l h_rt=1:00:00,h_vmem=2G\n";
        let found = directives(text, Dialect::GridEngine);
        let shown: Vec<String> = found
            .iter()
            .map(|one| format!("{} {}", one.name, one.value))
            .collect();
        assert_eq!(shown, ["-cwd ", "-pe smp 4", "-l h_rt=1:00:00,h_vmem=2G"]);
    }

    #[test]
    fn times_and_indexes_have_the_forms_of_slurm() {
        for (text, seconds) in [
            ("30", 1800),
            ("10:30", 630),
            ("02:00:00", 7200),
            ("1-12", 129_600),
            ("1-0:30", 88_200),
            ("2-00:00:05", 172_805),
        ] {
            assert_eq!(slurm_seconds(text), Some(seconds), "{text}");
        }
        assert_eq!(slurm_seconds("soon"), None);
        assert_eq!(indexes("1-3"), Some((vec![1, 2, 3], None)));
        assert_eq!(
            indexes("0-6:3,9%2"),
            Some((vec![0, 3, 6, 9], Some("2".to_owned())))
        );
        assert_eq!(indexes("x"), None);
        assert_eq!(indexes("0-99999999999").unwrap().0.len(), 100_001);
    }
}
