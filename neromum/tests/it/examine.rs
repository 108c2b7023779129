//! `node doctor`: what a real node answers, and what one with programs made for
//! the test does.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use nero_wire::v1::finding::Level;
use nero_wire::v1::{ExamineRequest, Finding};

use crate::rig::{Mum, Node, wait_for};

async fn examine(mum: &mut Mum, programs: &[&str]) -> Vec<Finding> {
    let request = ExamineRequest {
        programs: programs.iter().map(|&name| name.to_owned()).collect(),
    };
    let asked = mum.client.examine(request).await;
    asked.unwrap().into_inner().findings
}

fn of<'a>(findings: &'a [Finding], what: &str) -> &'a Finding {
    let found = findings.iter().find(|finding| finding.what == what);
    found.unwrap_or_else(|| panic!("nothing about {what}: {findings:#?}"))
}

fn program(folder: &Path, name: &str, body: &str) {
    std::fs::create_dir_all(folder).unwrap();
    let path = folder.join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
}

#[tokio::test]
async fn a_node_is_looked_at_closely() {
    let mut node = Node::new();
    let tools = node.root.with_file_name("tools");
    let touched = tools.join("touched");
    program(&tools, "python3", "echo 'Python 3.99.1'");
    program(
        &tools,
        "train",
        &format!("echo ran > {}", touched.display()),
    );
    program(&tools, "sbatch", "echo 'slurm 23.02.1'");
    program(&tools, "qstat", "[ $1 = -help ] && echo 'SGE 8.1.9'");
    program(
        &tools,
        "condor_version",
        &format!("sleep 1000 & echo $! > {}/sleeper; wait", tools.display()),
    );
    program(&tools, "nvidia-smi", "exit 9");
    let path = format!("{}:/usr/bin:/bin", tools.display());
    let mut mum = node
        .start_with_env(&[("PATH", &path), ("HOME", "/"), ("TMPDIR", "/nowhere")])
        .await;
    let begun = std::time::Instant::now();
    let findings = examine(&mut mum, &["python3", "train", "ruby9.9"]).await;
    assert!(begun.elapsed() < Duration::from_secs(30));
    assert_eq!(of(&findings, "file operations").level(), Level::Good);
    assert!(of(&findings, "clock's pace").text.contains("runs evenly"));
    assert!(!of(&findings, "file system").text.is_empty());
    for what in [
        "survives logout",
        "process limit",
        "open files",
        "space",
        "system",
    ] {
        assert_ne!(of(&findings, what).level(), Level::Unspecified);
    }
    let python = of(&findings, "program python3");
    assert!(
        python.text.ends_with("tools/python3: Python 3.99.1"),
        "{python:?}"
    );
    assert_eq!(of(&findings, "program train").level(), Level::Good);
    assert!(!touched.exists(), "only interpreters are asked");
    assert_eq!(of(&findings, "program ruby9.9").level(), Level::Bad);
    let schedulers: Vec<&str> = findings
        .iter()
        .filter(|finding| finding.what == "scheduler")
        .map(|finding| &*finding.text)
        .collect();
    let expected = [
        "SLURM (slurm 23.02.1) is",
        "Grid Engine (SGE 8.1.9) is",
        "HTCondor is",
    ];
    for (text, begin) in schedulers.iter().zip(expected) {
        assert!(text.starts_with(begin), "{schedulers:?}");
    }
    assert_eq!(schedulers.len(), 3);
    let sleeper = std::fs::read_to_string(tools.join("sleeper")).unwrap();
    wait_for("the end of what was asked in vain", || {
        let stat = nero_model::process::Stat::read(sleeper.trim().parse().unwrap());
        stat.is_ok_and(|stat| stat.state == b'Z')
            .then_some(())
            .or_else(|| {
                let gone = !Path::new("/proc").join(sleeper.trim()).exists();
                gone.then_some(())
            })
    })
    .await;
    let temporary = of(&findings, "temporary files");
    assert_eq!(temporary.level(), Level::Warning);
    assert!(!temporary.hint.is_empty());
}
