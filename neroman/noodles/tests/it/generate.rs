//! Makes specs of every kind.

/// Random choices that follow from a seed.
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Self {
        let mut chance = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for _ in 0..8 {
            chance.next();
        }
        chance
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, most: usize) -> usize {
        usize::try_from(self.next() >> 33).expect("31 bits") % most
    }

    pub fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }

    pub fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}

/// A spec with the words of a command line.
pub struct Case {
    pub text: String,
    pub command_type: &'static str,
    pub only: Option<Vec<String>>,
}

const TYPES: &[&str] = &["run", "stop", "clean", "on"];
const NAMES: &[&str] = &["a", "b", "s 1", "train", "Exp.3", "'7'", "\"x:y\"", "ünï"];
const ODD_NAMES: &[&str] = &["7", "1.0", "true", "~", "2026-11-20"];
/// Values that mean the same to everybody.
const PLAIN: &[&str] = &[
    "x",
    "hello world",
    "'x$HOME'",
    "\"a \\\"b\\\" c\"",
    "'a\\nb'",
    "\"a\\nb\\t\\x41\\u00e9\"",
    "$HOME/marker_$EXPERIMENT.txt",
    "it''s",
    "'it''s'",
    "a: ",
    "http://x.y/z",
    "\"\"",
    "''",
    "1e3",
    "08",
    "-",
    "y",
    "nO",
    "x #no",
    "é",
    "~/x",
    "`date`",
    "a, b",
];
/// Values that YAML 1.1 reads in its own way.
const TYPED: &[&str] = &[
    "1",
    "0777",
    "1.0",
    "1.50",
    "1.0e+3",
    "1.0e-7",
    "123456789012345678901234567890",
    "0x1F",
    "0b101",
    "-0b11",
    "1_000",
    "12:30:45",
    "1:30.5",
    "-12:30:45",
    "01:30",
    "true",
    "Yes",
    "off",
    "NO",
    "~",
    "",
    "null",
    ".5",
    "-.5",
    ".inf",
    "-.INF",
    ".NaN",
    "1.",
    "1e16",
    "10000000000000000.0",
    "0.00001",
    "-0.0",
    "+12",
    "0o17",
    "!!str 5",
    "!!float 5",
    "!!int '0x10'",
    "! 5",
    "[a, 1, 'it''s', 2.50, yes, ~]",
    "{a: 1, 2: [x, \"\\n\"]}",
    "[]",
    "{}",
];
/// Values that the original crashes at.
const ODD: &[&str] = &[
    "2026-11-20",
    "2001-12-14t21:59:43.10-05:00",
    "2026-02-30",
    "0b_",
    "=",
    "2001-12-15 2:59:43",
];
const COMMANDS: &[&str] = &[
    "echo hi",
    "local:cp a b",
    "remote:ls",
    "'local: x'",
    "scp a:b c",
    "PATH=x:y z",
    "\"echo \\\"$A\\\"\"",
    "'true'",
    "cd ~/x && python3 train.py --lr 0.1",
    "'sed -n \"s/a/b/p\" <x'",
    "git clone git@x.y:z.git",
    "local:echo $NOODLES_SERVER_AUTHORITY",
    "''",
    "'echo \"a: b\"'",
    "a:b",
    "'9x:y'",
];
const ODD_COMMANDS: &[&str] = &[
    "5",
    "true",
    "~",
    "2026-11-20",
    "echo:foo",
    "[a]",
    "{echo a: b}",
];
const IDS: &[&str] = &[
    "cpu_load",
    "has_env",
    "cpu_usage",
    "nothing",
    "memory_usage",
];
const ODD_IDS: &[&str] = &["static:cpu_load", "dynamic:has_env", "often:x", "1"];
const EXPRESSIONS: &[&str] = &[
    "<0.5",
    "'>=10'",
    "==Yes",
    "'==''Yes'''",
    "'!=None'",
    "'<= 1_000'",
    "==True",
    "\"==a b\"",
    "' <1e-3 '",
    "==0777",
    "'==[1, 2]'",
    "==0x1f",
    "==3j",
    "'==\"a\" \"b\"'",
];
const ODD_EXPRESSIONS: &[&str] = &["5", "'== Yes'", "Yes", "'=5'", "''", "true", "~", "1.50"];

/// A spec that follows from a seed.
pub fn case(seed: u64) -> Case {
    let mut chance = Chance::new(seed);
    // Most specs hold nothing that the original crashes at.
    let odd = chance.one_in(3);
    let mut maker = Maker {
        chance,
        odd,
        text: String::new(),
        anchors: Vec::new(),
    };
    maker.spec();
    let command_type = maker.chance.of(TYPES);
    let only = maker.chance.one_in(4).then(|| {
        let count = 1 + maker.chance.below(3);
        let mut name = || maker.chance.of(NAMES).trim_matches(['\'', '"']).to_owned();
        (0..count).map(|_| name()).collect()
    });
    Case {
        text: maker.text,
        command_type: if command_type == "on" && !odd {
            "run"
        } else {
            command_type
        },
        only,
    }
}

struct Maker {
    chance: Chance,
    odd: bool,
    text: String,
    /// Anchors of maps of variables.
    anchors: Vec<String>,
}

impl Maker {
    fn line(&mut self, indent: usize, text: &str) {
        self.text.push_str(&" ".repeat(indent));
        self.text.push_str(text);
        self.text.push('\n');
    }

    /// Something of the usual kinds, or once in a while what the original crashes at.
    fn pick(&mut self, usual: &[&'static str], odd: &[&'static str]) -> &'static str {
        if self.odd && self.chance.one_in(6) {
            self.chance.of(odd)
        } else {
            self.chance.of(usual)
        }
    }

    fn value(&mut self) -> &'static str {
        if self.chance.one_in(2) {
            self.pick(PLAIN, ODD)
        } else {
            self.pick(TYPED, ODD)
        }
    }

    fn spec(&mut self) {
        if self.chance.one_in(40) {
            return;
        }
        for key in ["name", "description", "shell_string", "shell_stdin"] {
            if self.chance.one_in(6) {
                let value = self.value();
                self.line(0, &format!("{key}: {value}"));
            }
        }
        for key in ["round_interval", "deployment_interval", "commands_interval"] {
            if self.chance.one_in(4) {
                let value = self.pick(
                    &["0", "1", "0.5", "~", "1_0", "true", "-1"],
                    &["ten", "[]", ".inf"],
                );
                self.line(0, &format!("{key}: {value}"));
            }
        }
        if self.chance.one_in(4) {
            let value = self.value();
            self.line(0, &format!("check_any_errors: {value}"));
        }
        if self.chance.one_in(10) {
            self.line(0, "rounds_interval: 5");
        }
        if self.chance.one_in(2) {
            self.default();
        }
        self.requirements_of_spec();
        self.servers();
        for stage in [
            "before_all_experiments",
            "experiments",
            "after_all_experiments",
        ] {
            if stage == "experiments" || self.chance.one_in(3) {
                self.stage(stage);
            }
        }
        if self.chance.one_in(4) {
            let value = self.value();
            self.line(0, "write_status_to:");
            self.line(2, &format!("run: {value}"));
        }
    }

    fn default(&mut self) {
        if self.odd && self.chance.one_in(5) {
            self.line(0, "experiment_default:");
            return;
        }
        self.line(0, "experiment_default:");
        let before = self.text.len();
        self.experiment(2, true);
        if self.text.len() == before {
            self.line(2, "envs: {}");
        }
    }

    fn requirements_of_spec(&mut self) {
        if self.chance.one_in(2) {
            return;
        }
        self.line(0, "requirements:");
        let command = self.pick(COMMANDS, ODD_COMMANDS);
        self.line(2, &format!("has_env: {command}"));
        if self.chance.one_in(2) {
            self.line(2, "cpu_load: [echo 1, 'local:echo 2']");
        }
    }

    fn servers(&mut self) {
        if self.chance.one_in(3) {
            self.line(0, "server_default:");
            let key = self
                .chance
                .of(&["port", "username", "hostname", "private_key_path"]);
            let value = self.chance.of(&["22", "me", "'~/k'", "0777"]);
            self.line(2, &format!("{key}: {value}"));
        }
        match self.chance.below(8) {
            0 => return,
            1 => {
                self.line(0, "servers:");
                return;
            }
            _ => self.line(0, "servers:"),
        }
        for _ in 0..=self.chance.below(3) {
            let name = self.pick(NAMES, ODD_NAMES);
            self.line(0, &format!("- name: {name}"));
            for key in ["port", "username", "private_key_path", "hostname", "colour"] {
                if self.chance.one_in(3) {
                    let usual = [
                        "22",
                        "x",
                        "~",
                        "h.example.org",
                        "localhost",
                        "$HOME/k",
                        "1.0",
                    ];
                    let value = match key {
                        "hostname" => self.pick(&usual[3..5], &["~"]),
                        _ => self.chance.of(&usual),
                    };
                    self.line(2, &format!("{key}: {value}"));
                }
            }
        }
    }

    fn stage(&mut self, stage: &str) {
        match self.chance.below(12) {
            0 => return self.line(0, &format!("{stage}:")),
            1 => return self.line(0, &format!("{stage}: []")),
            _ => self.line(0, &format!("{stage}:")),
        }
        for _ in 0..=self.chance.below(4) {
            let before = self.text.len();
            self.experiment(2, false);
            if self.text.len() == before {
                self.line(2, "envs: {}");
            }
            // The first line of an item has the dash.
            self.text.replace_range(before..before + 2, "- ");
        }
    }

    fn experiment(&mut self, indent: usize, default: bool) {
        if !default || self.chance.one_in(4) {
            if self.chance.one_in(10) {
                self.line(indent, "colour: red");
            } else {
                let name = self.pick(NAMES, ODD_NAMES);
                self.line(indent, &format!("name: {name}"));
            }
        }
        if self.chance.one_in(2) {
            self.variables(indent);
        }
        if self.chance.one_in(2) || !default {
            self.typed(indent, "commands", |maker, indent, key| {
                maker.list(indent, key, COMMANDS, ODD_COMMANDS);
            });
        }
        if self.chance.one_in(3) {
            self.typed(indent, "depends_on", |maker, indent, key| {
                maker.list(indent, key, NAMES, ODD_NAMES);
            });
        }
        if self.chance.one_in(3) {
            self.typed(indent, "requirements", Self::requirements);
        }
        if self.chance.one_in(4) {
            self.typed(indent, "write_outputs", |maker, indent, key| {
                let (out, err) = (maker.value(), maker.value());
                maker.line(indent, &format!("{key}:"));
                maker.line(indent + 2, &format!("stdout_to: {out}"));
                if maker.chance.one_in(2) {
                    maker.line(indent + 2, &format!("stderr_to: {err}"));
                }
            });
        }
    }

    fn variables(&mut self, indent: usize) {
        match self.chance.below(8) {
            0 => return self.line(indent, "envs:"),
            1 => return self.line(indent, "envs: {A: 1, B: 'x', A: 2}"),
            2 if !self.anchors.is_empty() => {
                let anchor = self.anchors[self.chance.below(self.anchors.len())].clone();
                return self.line(indent, &format!("envs: *{anchor}"));
            }
            _ => {}
        }
        let anchor = if self.chance.one_in(3) {
            let anchor = format!("v{}", self.text.len());
            self.line(indent, &format!("envs: &{anchor}"));
            Some(anchor)
        } else {
            self.line(indent, "envs:");
            None
        };
        if !self.anchors.is_empty() && self.chance.one_in(3) {
            let one = self.anchors[self.chance.below(self.anchors.len())].clone();
            if self.odd && self.chance.one_in(2) {
                let other = self.anchors[self.chance.below(self.anchors.len())].clone();
                self.line(indent + 2, &format!("<<: [*{one}, *{other}]"));
            } else {
                self.line(indent + 2, &format!("<<: *{one}"));
            }
        }
        let mut keys: Vec<&str> = Vec::new();
        for _ in 0..=self.chance.below(4) {
            let usual = [
                "A",
                "B",
                "C_1",
                "EXPERIMENT",
                "NOODLES_SERVER_NAME",
                "'a b'",
            ];
            let key = self.pick(&usual, &["NO", "1", "on"]);
            // Of a key that a merged map has twice, PyYAML takes the first value if the key is a
            // single letter, else the last.
            if anchor.is_some() && keys.contains(&key) {
                continue;
            }
            keys.push(key);
            match self.chance.below(10) {
                0 => {
                    self.line(indent + 2, &format!("{key}: |"));
                    self.line(indent + 4, "first \"line\"");
                    self.line(indent + 4, "  second");
                }
                1 => {
                    self.line(indent + 2, &format!("{key}: >-"));
                    self.line(indent + 4, "first");
                    self.line(indent + 4, "second");
                }
                2 => {
                    self.line(indent + 2, &format!("{key}: first"));
                    self.line(indent + 4, "second # comment");
                }
                _ => {
                    let value = self.value();
                    self.line(indent + 2, &format!("{key}: {value}"));
                }
            }
        }
        if keys.is_empty() {
            self.line(indent + 2, "A: 1");
        }
        self.anchors.extend(anchor);
    }

    fn typed(&mut self, indent: usize, key: &str, one: impl Fn(&mut Self, usize, &str)) {
        if self.odd && self.chance.one_in(8) {
            let nothing = self.chance.of(&["", "~", "5", "[]", "{}"]);
            return self.line(indent, &format!("{key}: {nothing}"));
        }
        self.line(indent, &format!("{key}:"));
        let first = self.chance.below(3);
        for command_type in &TYPES[first..first + 1 + self.chance.below(2)] {
            if *command_type != "on" || self.odd {
                one(self, indent + 2, command_type);
            } else {
                one(self, indent + 2, "\"on\"");
            }
        }
    }

    fn list(&mut self, indent: usize, key: &str, usual: &[&'static str], odd: &[&'static str]) {
        match self.chance.below(6) {
            0 => {
                let one = self.pick(usual, odd);
                self.line(indent, &format!("{key}: {one}"));
            }
            1 => self.line(indent, &format!("{key}: []")),
            2 if usual == COMMANDS => {
                self.line(indent, &format!("{key}: |"));
                self.line(indent + 2, "local:echo 1");
                self.line(indent + 2, "echo \"2: 3\"");
            }
            _ => {
                self.line(indent, &format!("{key}:"));
                for _ in 0..=self.chance.below(4) {
                    let one = self.pick(usual, odd);
                    self.line(indent, &format!("- {one}"));
                }
            }
        }
    }

    fn requirements(&mut self, indent: usize, key: &str) {
        if self.odd && self.chance.one_in(4) {
            let odd = self.chance.of(&[
                "{cpu_load: <1, has_env: ==Yes}",
                "[{cpu_load: <1, has_env: ==Yes}]",
                "[cpu_load<2]",
                "cpu_load<2",
                "[~]",
                "[5]",
            ]);
            return self.line(indent, &format!("{key}: {odd}"));
        }
        self.line(indent, &format!("{key}:"));
        for _ in 0..=self.chance.below(2) {
            let id = self.pick(IDS, ODD_IDS);
            let expression = self.pick(EXPRESSIONS, ODD_EXPRESSIONS);
            self.line(indent, &format!("- {id}: {expression}"));
        }
    }
}
