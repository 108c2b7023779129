//! The script of a chaos job, which determines its output to the byte: the same
//! text tells the job what to do, and the check what to expect.

use std::fmt::{self, Display};
use std::str::FromStr;

use super::random::Random;

/// Exit code of a job whose own write failed.
pub const WRITE_FAILED: i32 = 74;

/// One job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// Seed of all its contents, together with the run's name.
    pub seed: u64,
    /// Number of lines that it prints.
    pub lines: u64,
    /// Every `metric_every`th line has a metric.
    pub metric_every: u64,
    /// Pause after each line, in milliseconds.
    pub pause_ms: u64,
    /// Bytes of the file `out.bin` that it writes at the end.
    pub file_bytes: u64,
    /// Whether it leaves a process behind.
    pub stray: bool,
    /// Whether it ignores the polite signal.
    pub stubborn: bool,
    /// End of the job.
    pub end: End,
}

/// How a job ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With this exit code.
    Exit(u8),
    /// By sending itself this signal.
    Signal(u8),
    /// Never: it has to be ended. Before that it prints a loss above
    /// [`TOO_HIGH`].
    Hold,
}

/// Only the last loss of a job that holds is above this.
pub const TOO_HIGH: u64 = 1000;

/// A metric point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The step.
    pub step: f64,
    /// The loss.
    pub loss: f64,
}

impl Script {
    /// The complete output of this run's job, when nothing ends it early.
    pub fn output(&self, run: &str) -> Vec<u8> {
        let mut random = Random::of_text(self.seed, run);
        let mut all = Vec::new();
        for number in 0..self.lines {
            all.extend(self.line(number, &mut random).into_bytes());
        }
        if self.end == End::Hold {
            all.extend(format!("step {} loss {}\n", self.lines, TOO_HIGH + 1).into_bytes());
        }
        all
    }

    /// The lines one by one, as the job prints them.
    pub fn line(&self, number: u64, random: &mut Random) -> String {
        if number.is_multiple_of(self.metric_every) {
            let loss = random.between(0, 999_999);
            format!(
                "step {number} loss {}.{:04}\n",
                loss / 10_000,
                loss % 10_000
            )
        } else {
            let width = random.between(1, 8);
            let words: Vec<String> = (0..width).map(|_| letters(random.bits())).collect();
            words.join(" ") + "\n"
        }
    }

    /// The content of `out.bin`.
    pub fn file(&self, run: &str) -> Vec<u8> {
        let mut random = Random::of_text(!self.seed, run);
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < self.file_bytes {
            bytes.extend(random.bits().to_le_bytes());
        }
        bytes.truncate(self.file_bytes as usize);
        bytes
    }

    /// Shortest time that it takes, in milliseconds.
    pub fn least_ms(&self) -> u64 {
        self.lines * self.pause_ms
    }
}

/// The points in this output; a last line without its end has none.
pub fn points(output: &[u8]) -> Vec<Point> {
    let text = String::from_utf8_lossy(output);
    let mut found = Vec::new();
    for line in text
        .split_inclusive('\n')
        .filter(|line| line.ends_with('\n'))
    {
        let mut words = line.split_whitespace();
        if words.next() == Some("step")
            && let Some(step) = words.next().and_then(|word| word.parse().ok())
            && words.next() == Some("loss")
            && let Some(loss) = words.next().and_then(|word| word.parse().ok())
        {
            found.push(Point { step, loss });
        }
    }
    found
}

/// A word without any digit, so that it is no metric.
fn letters(mut bits: u64) -> String {
    let mut word = String::from("w");
    for _ in 0..9 {
        word.push(char::from(b'a' + (bits % 26) as u8));
        bits /= 26;
    }
    word
}

impl Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = match self.end {
            End::Exit(code) => format!("exit:{code}"),
            End::Signal(number) => format!("signal:{number}"),
            End::Hold => "hold:0".to_owned(),
        };
        write!(
            f,
            "{},{},{},{},{},{},{},{end}",
            self.seed,
            self.lines,
            self.metric_every,
            self.pause_ms,
            self.file_bytes,
            u8::from(self.stray),
            u8::from(self.stubborn),
        )
    }
}

impl FromStr for Script {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("no script: {text}");
        let mut fields = text.split(',');
        let mut number = || -> Result<u64, String> {
            let field = fields.next().ok_or_else(wrong)?;
            field.parse().map_err(|_| wrong())
        };
        let (seed, lines, metric_every, pause_ms) = (number()?, number()?, number()?, number()?);
        let (file_bytes, stray, stubborn) = (number()?, number()?, number()?);
        let (end, value) = fields
            .next()
            .and_then(|end| end.split_once(':'))
            .ok_or_else(wrong)?;
        let value: u8 = value.parse().map_err(|_| wrong())?;
        Ok(Self {
            seed,
            lines,
            metric_every,
            pause_ms,
            file_bytes,
            stray: stray == 1,
            stubborn: stubborn == 1,
            end: match end {
                "exit" => End::Exit(value),
                "signal" => End::Signal(value),
                "hold" => End::Hold,
                _ => return Err(wrong()),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Script {
        Script {
            seed: 7,
            lines: 40,
            metric_every: 4,
            pause_ms: 3,
            file_bytes: 1001,
            stray: true,
            stubborn: false,
            end: End::Signal(11),
        }
    }

    #[test]
    fn a_script_is_parsed_back_from_its_text() {
        assert_eq!(some().to_string().parse(), Ok(some()));
        assert!("1,2,3".parse::<Script>().is_err());
    }

    #[test]
    fn each_run_of_a_script_prints_its_own_and_always_the_same_output() {
        let script = some();
        assert_eq!(script.output("1.1"), script.output("1.1"));
        assert_ne!(script.output("1.1"), script.output("1.2"));
        assert_eq!(script.file("1.1").len(), 1001);
    }

    #[test]
    fn the_points_of_a_script_are_found_in_its_output() {
        let output = some().output("1.1");
        let found = points(&output);
        assert_eq!(found.len(), 10);
        assert_eq!(found[9].step, 36.0);
        assert!(found.iter().all(|point| (0.0..100.0).contains(&point.loss)));
        let torn = &output[..output.len() - 1];
        assert!(points(torn).len() <= found.len());
    }
}
