//! `noodles … --check`: what a spec would do, without any daemon or server; mistakes of `noodles`.

use std::fs;

use crate::fake::{Answers, Fake};

const SPEC: &str = "\
servers:
- name: gpu1
  hostname: gpu1.example.org
- name: here
before_all_experiments:
- name: init
  commands: {run: ['local:tar czf code.tgz src', 'local:scp code.tgz $NOODLES_SERVER_AUTHORITY:', tar xf code.tgz]}
experiments:
- name: train
  requirements: {run: [cpu_load: <2]}
  commands: {run: python3 train.py}
- name: test
  depends_on: {run: tain}
  commands: {run: python3 test.py}
";

struct Folder {
    folder: tempfile::TempDir,
    fake: Fake,
}

impl Folder {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            fake: Fake::new(Answers::default()),
        }
    }

    /// Exit code, and what is printed, with the folder left out.
    fn noodles(&self, command_type: &str, text: &str, rest: &[&str]) -> (Option<i32>, String) {
        let path = self.folder.path().join("spec.yml");
        fs::write(&path, text).unwrap();
        let path = path.display().to_string();
        let spec = format!("{path}{}", rest.first().unwrap_or(&""));
        let mut words = vec!["noodles", command_type, &spec];
        words.extend(rest.iter().skip(1));
        let ran = self.fake.run(&words);
        let printed = format!("{}{}", ran.out, ran.err).replace(&path, "spec.yml");
        (ran.code, printed)
    }
}

#[test]
fn a_spec_is_shown_without_daemon_or_server() {
    let folder = Folder::new();
    let (code, shown) = folder.noodles("run", SPEC, &["", "--check"]);
    assert_eq!(code, Some(0), "{shown}");
    insta::assert_snapshot!(shown);
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/noodles.md");
    let page = fs::read_to_string(page).unwrap();
    assert!(
        page.contains(SPEC) && page.contains(&shown),
        "the documentation shows another"
    );
    assert!(folder.fake.requests().is_empty(), "a spec needs no daemon");
}

#[test]
fn the_check_fails_when_an_experiment_can_never_be_deployed() {
    let folder = Folder::new();
    let none = "experiments: [{name: a, commands: {run: x}}]";
    let (code, shown) = folder.noodles("run", none, &["", "--check"]);
    assert_eq!(code, Some(1), "{shown}");
    assert!(
        shown.contains("never: the spec has no servers (spec.yml)\n"),
        "{shown}"
    );
    // Without that experiment nothing needs a server.
    let (code, shown) = folder.noodles("run", none, &[":b", "--check"]);
    assert_eq!(code, Some(0), "{shown}");
    assert!(
        shown.contains("warning: no experiment is called `b` (spec.yml)\n"),
        "{shown}"
    );
    let (code, shown) = folder.noodles("stop", none, &["", "--check"]);
    assert_eq!(code, Some(0), "{shown}");
    assert!(
        shown.contains("no experiment has commands for `stop`"),
        "{shown}"
    );
}

#[test]
fn what_is_no_spec_is_refused_as_there() {
    let folder = Folder::new();
    let odd = "experiments:\n- commands: {run: ['echo:foo']}\n- envs: 5\n";
    let (code, told) = folder.noodles("run", odd, &["", "--check"]);
    assert_eq!(code, Some(1), "{told}");
    for part in [
        "spec.yml:2:20: `echo` is no prefix of a command\n",
        "spec.yml:3:9: `envs` is a map, not a number\n",
        "error: spec.yml has 2 mistakes\n",
    ] {
        assert!(told.contains(part), "{told}");
    }
    let (code, told) = folder.noodles("run", odd, &[":a:b", "--check"]);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("more than one `:`"), "{told}");
    let missing = folder
        .fake
        .run(&["noodles", "run", "nowhere.yml", "--check"]);
    assert_eq!(missing.code, Some(1), "{}", missing.err);
    assert!(
        missing.err.contains("cannot read nowhere.yml"),
        "{}",
        missing.err
    );
    let nothing = folder.fake.run(&["noodles", "run"]);
    assert_eq!(nothing.code, Some(2), "{}", nothing.err);
    let unknown = folder
        .fake
        .run(&["noodles", "--resume", "0123456789abcdef"]);
    assert_eq!(unknown.code, Some(2), "{}", unknown.err);
    assert!(unknown.err.contains("there is no flow"), "{}", unknown.err);
}
