//! Power cuts: every effect that a command has reported is there after them.
//!
//! One story is traced; its changes of files are made again up to twelve
//! moments, and each time the machine "starts anew" with what a disk would hold.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use nero_tests::home::program;
use nero_tests::power::{Change, Disk, changes, trace};
use nero_tests::{Home, until};
use serde_json::Value;

/// The replies to the user's commands, in order; each line is a moment after
/// which its effect must last.
const SAID: [&str; 6] = [
    "added", "started", "finished", "shown", "running", "aborted",
];
const CUTS: usize = 12;

/// The files of one story.
struct Story {
    home: Home,
    /// Folder outside of the power cuts.
    beside: PathBuf,
}

impl Story {
    fn new() -> Self {
        let home = Home::new();
        let beside = home.path().join("beside");
        fs::create_dir(&beside).unwrap();
        let starts = beside.join("starts").display().to_string();
        let go = beside.join("go").display().to_string();
        let note = format!("echo $NERO_RUN $(basename $NERO_DIR) >> {starts}");
        let yaml = format!(
            "collection: e
+short: {{command: [sh, -c, '{note}; echo \"loss 3\"']}}
+long: {{command: [sh, -c, '{note}; until test -e {go}; do sleep 0.1; done']}}
"
        );
        home.experiment("e", &yaml);
        Self { home, beside }
    }

    /// All commands of the user.
    fn script(&self) -> String {
        let neroman = program("neroman").display().to_string();
        let beside = self.beside.display();
        let folder = self.home.path().join("e").display().to_string();
        let shown = beside.to_string() + "/shown.json";
        format!(
            "set -e
trap 'mkdir {beside}/over' EXIT
{neroman} add {folder} >/dev/null
mkdir {beside}/added
{neroman} start 1 >/dev/null
mkdir {beside}/started
{neroman} wait 1 >/dev/null
mkdir {beside}/finished
{neroman} status 1 --json >{shown}
{neroman} metrics 1 loss >/dev/null
mkdir {beside}/shown
{neroman} start 2 >/dev/null
until {neroman} status 2 --json | grep -q '\"state\":\"running\"'; do :; done
mkdir {beside}/running
{neroman} abort 2 --yes >/dev/null
{neroman} wait 2 >/dev/null || true
mkdir {beside}/aborted
"
        )
    }

    /// Runs the script under `strace`; returns its changes of files and the
    /// output of `status`.
    fn trace(&self) -> (Vec<Change>, Value) {
        let (script, into) = (
            self.home.path().join("script"),
            self.home.path().join("trace"),
        );
        fs::write(&script, self.script()).unwrap();
        let typed = self.home.command::<&str>(&[]);
        let mut shell = std::process::Command::new("sh");
        shell.arg(&script);
        shell.envs(
            typed
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
        let mut traced = trace(&shell, &into);
        until("the story to be over", || {
            let over = self.beside.join("over").exists();
            over.then_some(()).ok_or_else(|| self.home.logs())
        });
        for word in SAID {
            assert!(
                self.beside.join(word).exists(),
                "not {word}: {}",
                self.home.logs()
            );
        }
        self.home.end_everything();
        traced.wait().unwrap();
        let shown = fs::read_to_string(self.beside.join("shown.json")).unwrap();
        let shown: Value = serde_json::from_str(&shown).unwrap();
        (
            changes(&fs::read(&into).unwrap()),
            shown["experiments"][0].clone(),
        )
    }

    /// Number of starts of each run, from the notes of the jobs.
    fn starts(&self) -> BTreeMap<String, usize> {
        let mut starts = BTreeMap::new();
        let text = fs::read_to_string(self.beside.join("starts")).unwrap_or_default();
        for line in text.lines() {
            *starts.entry(line.to_owned()).or_default() += 1;
        }
        starts
    }

    /// Puts the disk after a cut in place, on a machine that was started anew.
    fn boot(&mut self, disk: &Disk, number: usize) {
        disk.cut(&self.home.base()).unwrap();
        // The jobs' own notes are on another disk.
        let starts = self.beside.join("starts");
        fs::write(&starts, disk.read(&starts).unwrap_or_default()).unwrap();
        let folder = self.home.path().join(format!("boot{number}"));
        fs::create_dir(&folder).unwrap();
        let boot_id = folder.join("boot_id");
        fs::write(&boot_id, format!("00000000-0000-4000-8000-{number:012}\n")).unwrap();
        let wrapper = format!(
            "#!/bin/sh
exec unshare --mount --propagation private sh -c \
'mount --bind {} /proc/sys/kernel/random/boot_id && exec \"$0\" \"$@\"' {} \"$@\"
",
            boot_id.display(),
            program("neroman").display()
        );
        self.home.script(&folder.join("neroman"), wrapper);
        self.home.use_programs(&folder);
    }

    /// Compares the state after the cut with the replies before it.
    fn check(&self, said: &[&str], before: &BTreeMap<String, usize>, shown: &Value) {
        let home = &self.home;
        let was = |word: &str| said.contains(&word);
        if !was("added") {
            return;
        }
        let now = |id: u64| home.experiment_json(id);
        assert_eq!(
            home.json(&["status", "all"])["experiments"]
                .as_array()
                .unwrap()
                .len(),
            2
        );
        if was("started") {
            home.run(&["wait", "1", "--timeout", "60"]);
            let state = now(1)["state"].clone();
            assert!(
                state == "finished" || state == "lost",
                "{said:?}: {:#}",
                now(1)
            );
        }
        if was("finished") {
            let one = home.until_settled(1);
            assert_eq!(
                (&one["state"], &one["exit_code"]),
                (&shown["state"], &shown["exit_code"])
            );
            let starts = self.starts();
            assert_eq!(starts["1.1 work"], 1, "{said:?}: {starts:?}");
        }
        if was("shown") {
            let one = now(1);
            for time in ["started_at", "ended_at", "runtime_s"] {
                assert_eq!(one[time], shown[time], "{said:?}: {time}");
            }
            let points = home.ok(&["metrics", "1", "loss"]);
            assert!(points.contains('3'), "{said:?}: {points}");
        }
        if was("running") {
            home.run(&["wait", "2", "--timeout", "60"]);
            let state = now(2)["state"].clone();
            let over = if was("aborted") { "aborted" } else { "lost" };
            assert!(
                state == over || state == "aborted",
                "{said:?}: {:#}\n{}",
                now(2),
                home.logs()
            );
            let starts = self.starts();
            assert_eq!(
                starts.get("2.1 work"),
                before.get("2.1 work"),
                "{said:?}: started again"
            );
        }
    }
}

/// The moments of the cuts: after each reply, and half way to the next one.
fn moments(changes: &[Change], beside: &Path) -> Vec<usize> {
    let answers: Vec<usize> = SAID
        .iter()
        .map(|word| {
            let path = beside.join(word);
            let made = |change: &Change| matches!(change, Change::Folder { path: its, .. } if *its == path);
            changes.iter().position(made).expect("it was said")
        })
        .collect();
    let mut moments = Vec::new();
    let mut before = 0;
    for answer in answers {
        moments.extend([before + (answer - before) / 2, answer + 1]);
        before = answer;
    }
    moments
}

#[test]
fn twelve_power_cuts_take_back_nothing_that_was_said() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: another boot id needs root");
        return;
    }
    let mut story = Story::new();
    let (changes, shown) = story.trace();
    let mut disk = Disk::new(story.home.path());
    // The rig made it before the story began.
    let (path, mode) = (story.home.base(), 0o700);
    disk.apply(&Change::Folder {
        path: path.clone(),
        mode,
    });
    disk.apply(&Change::Synced { path });
    let moments = moments(&changes, &story.beside);
    assert_eq!(moments.len(), CUTS);
    let mut cuts = Vec::new();
    for (number, change) in changes.iter().enumerate() {
        if moments.contains(&number) {
            cuts.push(disk.clone());
        }
        disk.apply(change);
    }
    cuts.resize(CUTS, disk.clone());
    // Otherwise the cuts would prove nothing.
    assert_eq!(disk.differences(&story.home.base()), Vec::<String>::new());
    let go = story.beside.join("go");
    fs::write(&go, "").unwrap();
    for (number, disk) in cuts.iter().enumerate() {
        let is_said = |word: &&&str| disk.is_there(&story.beside.join(**word));
        let said: Vec<&str> = SAID.iter().filter(is_said).copied().collect();
        story.boot(disk, number);
        let before = story.starts();
        story.check(&said, &before, &shown);
        story.home.end_everything();
    }
}
