//! What an archive of results tells of its runs, and what is kept out of it: values of
//! secrets, files that hold secrets, paths of home folders.

use nero_model::safe::looks_secret;
use nero_wire::v1::{ExperimentView, Param, ShowReply};
use serde_json::{Value, json};

use crate::json::{self as forms, environment, number, parameter, run_id};

/// Shorter values are not looked for: they stand in ordinary words.
const SECRET_BYTES_MIN: usize = 8;

/// Bytes that tell whether a file is text.
const TEXT_BYTES: usize = 8 * 1024;

/// Endings of files in which secrets are given values.
const SETTINGS: &[&str] = &[
    "yaml", "yml", "toml", "json", "ini", "cfg", "conf", "sh", "bash", "env",
];

/// Replaces what is not for others.
#[derive(Clone, Debug, Default)]
pub struct Scrubber {
    homes: Vec<Vec<u8>>,
    secrets: Vec<Vec<u8>>,
    /// Whether one of these begins with this byte.
    begins: Vec<bool>,
}

impl Scrubber {
    /// Takes the values of an environment's variables whose names look secret.
    pub fn new(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut new = Self {
            begins: vec![false; 256],
            ..Self::default()
        };
        for (name, value) in variables {
            if looks_secret(&name) {
                new.add_secret(&value);
            }
        }
        new
    }

    /// Learns a home folder. The root and what is no absolute path are none.
    pub fn add_home(&mut self, path: &str) {
        let path = path.trim_end_matches('/');
        if path.len() > 1 && path.starts_with('/') {
            add(&mut self.homes, &mut self.begins, path);
        }
    }

    /// Learns the value of a secret.
    fn add_secret(&mut self, value: &str) {
        if value.len() >= SECRET_BYTES_MIN {
            add(&mut self.secrets, &mut self.begins, value);
        }
    }

    /// Learns the values that a file of settings gives to names that look secret.
    pub fn learn(&mut self, path: &str, content: &[u8]) {
        let ending = path.rsplit(['.', '/']).next().unwrap_or_default();
        let Ok(text) = std::str::from_utf8(content) else {
            return;
        };
        if SETTINGS.contains(&ending) {
            for line in text.lines() {
                for value in secret_values(line) {
                    self.add_secret(value);
                }
            }
        }
    }

    /// The longest text that is looked for.
    fn longest(&self) -> usize {
        let all = self.homes.iter().chain(&self.secrets);
        all.map(Vec::len).max().unwrap_or(0)
    }

    /// A text without them.
    pub fn text(&self, text: &str) -> String {
        let mut clean = Vec::new();
        self.take(text.as_bytes(), text.len(), &mut clean);
        String::from_utf8_lossy(&clean).into_owned()
    }

    /// Appends to `out` what `bytes` become; returns how many of them were taken. These are `until`
    /// bytes, or more where a text that is replaced ends later.
    fn take(&self, bytes: &[u8], until: usize, out: &mut Vec<u8>) -> usize {
        let mut at = 0;
        while at < until {
            let begins = self.begins.get(usize::from(bytes[at]));
            let found = match begins {
                Some(true) => self.at(&bytes[at..]),
                _ => None,
            };
            match found {
                Some((length, instead)) => {
                    out.extend_from_slice(instead);
                    at += length;
                }
                None => {
                    out.push(bytes[at]);
                    at += 1;
                }
            }
        }
        at
    }

    /// What begins here: its length, and what is written instead.
    fn at(&self, bytes: &[u8]) -> Option<(usize, &'static [u8])> {
        let secret = self.secrets.iter().find(|one| bytes.starts_with(one));
        if let Some(secret) = secret {
            return Some((secret.len(), b"***"));
        }
        let home = self.homes.iter().find(|one| {
            let next = bytes.get(one.len()).copied();
            bytes.starts_with(one) && !next.is_some_and(is_of_name)
        });
        home.map(|home| (home.len(), &b"~"[..]))
    }

    /// Whether a secret, or a home folder, stands in these bytes.
    fn finds(&self, bytes: &[u8]) -> (bool, bool) {
        let stands = |all: &[Vec<u8>]| {
            let mut all = all.iter();
            all.any(|one| bytes.windows(one.len()).any(|part| part == one))
        };
        (stands(&self.secrets), stands(&self.homes))
    }
}

fn add(all: &mut Vec<Vec<u8>>, begins: &mut [bool], text: &str) {
    let text = text.as_bytes().to_vec();
    begins[usize::from(text[0])] = true;
    if !all.contains(&text) {
        all.push(text);
        // The longest one first: a folder may lie in another.
        all.sort_by_key(|one| std::cmp::Reverse(one.len()));
    }
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

/// The values of a line that are given to names that look secret: `API_TOKEN: abc`,
/// `"api_key" = 'abc'`, `{env: {KEY: abc}}`. What is taken from a variable is no value.
fn secret_values(line: &str) -> Vec<&str> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    let mut values = Vec::new();
    for (at, _) in line.match_indices([':', '=']) {
        let before = line[..at].trim_end_matches([' ', '"', '\'']);
        let begin = before.rfind(|c| !is_name(c)).map_or(0, |at| {
            at + before[at..].chars().next().map_or(1, char::len_utf8)
        });
        if !looks_secret(&before[begin..]) {
            continue;
        }
        let after = line[at + 1..].trim_start();
        let value = match after.chars().next() {
            Some(quote @ ('"' | '\'')) => after[1..].split(quote).next().unwrap_or_default(),
            _ => after
                .split([' ', ',', '}', ';', '#'])
                .next()
                .unwrap_or_default(),
        };
        if !value.starts_with(['$', '{']) && !value.contains('(') {
            values.push(value);
        }
    }
    values
}

/// Whether a file holds secrets, by its name.
pub fn is_secret_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
    let named = [".env", ".netrc", ".npmrc", ".pypirc", ".htpasswd"];
    let begins = [
        ".env.",
        "id_rsa",
        "id_dsa",
        "id_ecdsa",
        "id_ed25519",
        "credentials",
    ];
    let ends = [".pem", ".key", ".p12", ".pfx", ".kdbx"];
    let in_folder = path
        .split('/')
        .any(|part| [".ssh", ".aws", ".gnupg"].contains(&part));
    in_folder
        || named.contains(&&*name)
        || (begins.iter().any(|begin| name.starts_with(begin)) && !name.ends_with(".pub"))
        || ends.iter().any(|end| name.ends_with(end))
}

/// Turns a file as it is read into a file for others.
#[derive(Debug)]
pub struct CleanFile<'a> {
    scrubber: &'a Scrubber,
    /// Whether it is text; unknown before its first bytes.
    is_text: Option<bool>,
    left: Vec<u8>,
    /// A secret stands in it, which cannot be replaced.
    pub has_secret: bool,
    /// A home folder stands in it, which cannot be replaced.
    pub has_home: bool,
}

impl<'a> CleanFile<'a> {
    /// Begins a file.
    pub fn new(scrubber: &'a Scrubber) -> Self {
        Self {
            scrubber,
            is_text: None,
            left: Vec::new(),
            has_secret: false,
            has_home: false,
        }
    }

    /// What the next bytes become.
    pub fn next(&mut self, bytes: &[u8]) -> Vec<u8> {
        let is_text = *self.is_text.get_or_insert_with(|| {
            let head = &bytes[..bytes.len().min(TEXT_BYTES)];
            !head.contains(&0)
        });
        self.left.extend_from_slice(bytes);
        let longest = self.scrubber.longest();
        if !is_text {
            let (secret, home) = self.scrubber.finds(&self.left);
            self.has_secret |= secret;
            self.has_home |= home;
            let keep = self.left.len().saturating_sub(longest);
            self.left.drain(..keep);
            return bytes.to_vec();
        }
        // A text that begins in what stays may go on in the next bytes.
        let until = self.left.len().saturating_sub(longest + 1);
        self.give(until)
    }

    /// What is left.
    pub fn end(mut self) -> Vec<u8> {
        match self.is_text {
            Some(true) => self.give(self.left.len()),
            _ => Vec::new(),
        }
    }

    fn give(&mut self, until: usize) -> Vec<u8> {
        let mut clean = Vec::with_capacity(until);
        let taken = self.scrubber.take(&self.left, until, &mut clean);
        self.left.drain(..taken);
        clean
    }
}

/// A run in the manifest. `code` is the folder of its code in the archive.
pub fn run(view: &ExperimentView, reply: &ShowReply, code: &str) -> Value {
    let mut run = forms::experiment(view);
    let more = json!({
        "command": reply.argv,
        "environment": environment(&reply.env),
        "recorded": reply.facts,
        "tree": forms::some(&reply.tree),
        "git": forms::some(&reply.git),
        "user_cpu_s": number(reply.user_cpu_s),
        "system_cpu_s": number(reply.system_cpu_s),
        "peak_rss_bytes": reply.peak_rss_bytes,
        "rules": reply.rules.iter().map(forms::rule).collect::<Vec<_>>(),
        "code": forms::some(code),
        "files": run_id(view.id, view.run).map(|run| format!("runs/{run}")),
    });
    if let (Value::Object(run), Value::Object(more)) = (&mut run, more) {
        // Folders of this machine are of no use to others.
        for here in ["path", "results"] {
            run.remove(here);
        }
        run.extend(more);
    }
    run
}

/// The parameters of a run, each with its type.
pub fn parameters(params: &[Param]) -> Value {
    let fields = params
        .iter()
        .map(|param| (param.name.clone(), parameter(param)));
    Value::Object(fields.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scrubber() -> Scrubber {
        let variables = [("API_TOKEN", "0123456789"), ("LANG", "C.UTF-8 and more")];
        let mut scrubber =
            Scrubber::new(variables.map(|(name, value)| (name.to_owned(), value.to_owned())));
        scrubber.add_home("/home/ada/");
        scrubber.add_home("/");
        scrubber
    }

    fn clean(scrubber: &Scrubber, bytes: &[u8], size: usize) -> Vec<u8> {
        let mut file = CleanFile::new(scrubber);
        let mut clean: Vec<u8> = bytes
            .chunks(size)
            .flat_map(|part| file.next(part))
            .collect();
        clean.extend(file.end());
        clean
    }

    #[test]
    fn homes_and_secrets_are_replaced_wherever_a_file_is_cut() {
        let scrubber = scrubber();
        let text = b"at /home/ada/x.py, /home/adam, /home/ada: token 0123456789.";
        let want = b"at ~/x.py, /home/adam, ~: token ***.";
        for size in 1..text.len() {
            let found = clean(&scrubber, text, size);
            assert_eq!(
                String::from_utf8_lossy(&found),
                String::from_utf8_lossy(want)
            );
        }
        assert_eq!(scrubber.text("C.UTF-8 and more"), "C.UTF-8 and more");
    }

    #[test]
    fn a_binary_file_stays_as_it_is_and_tells_what_it_holds() {
        let scrubber = scrubber();
        let bytes = b"\0..../home/ada/x 0123456789";
        for size in 1..bytes.len() {
            let mut file = CleanFile::new(&scrubber);
            let found: Vec<u8> = bytes
                .chunks(size)
                .flat_map(|part| file.next(part))
                .collect();
            assert_eq!(found, bytes);
            assert!(file.has_home && file.has_secret, "{size}");
        }
    }

    #[test]
    fn values_of_secrets_are_learnt_from_settings() {
        let lines = [
            ("  API_TOKEN: abcdefgh", vec!["abcdefgh"]),
            ("env: {A: b, api-key: 'a b c', X: y}", vec!["a b c"]),
            ("export DB_PASSWORD=\"p q\" # no", vec!["p q"]),
            ("\"secret\": \"v\",", vec!["v"]),
            ("HF_TOKEN: $HF_TOKEN", vec![]),
            ("monkeys = count(x)", vec![]),
            ("epochs: 12", vec![]),
        ];
        for (line, want) in lines {
            assert_eq!(secret_values(line), want, "{line}");
        }
        let mut scrubber = scrubber();
        scrubber.learn("conf/neronet.yaml", b"env: {WANDB_API_KEY: 99887766}\n");
        scrubber.learn("main.py", b"key = 'abcdefghij'\n");
        assert_eq!(scrubber.text("99887766 abcdefghij"), "*** abcdefghij");
    }

    #[test]
    fn files_of_secrets_are_known_by_name() {
        for secret in [".env", "a/.env.local", "x/id_rsa", "tls.pem", ".ssh/config"] {
            assert!(is_secret_file(secret), "{secret}");
        }
        for other in ["env.yaml", "keys.py", "id_rsa.pub", "model.pt"] {
            assert!(!is_secret_file(other), "{other}");
        }
    }
}
