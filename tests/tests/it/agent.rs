//! A coding agent plans, starts, watches, compares and aborts by tools; the client is that of the
//! protocol's own package.

use std::fs;
use std::path::{Path, PathBuf};

use nero_tests::Home;

/// What pip installs.
const CLIENT: &str = "mcp==2.3.0";

/// What the agent does.
const STORY: &str = include_str!("agent.py");

/// The folder of the client and what it needs.
fn packages() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mcp");
    nero_pip::packages(&folder, &[CLIENT]).unwrap_or_else(|why| panic!("{why}"))
}

#[test]
fn an_agent_tries_each_line_out_before_it_is_done() {
    let home = Home::new();
    let folder = home.experiment(
        "sweep",
        r#"collection: s
resources: {cpus: 0.1}
+fit:
  command: "sh -c 'for i in $(seq 0 49); do echo step $i loss $((i * $0 / 10)).$((i * $0 % 10)); done' {lr}"
  parameters: {lr: [1, 2, 3]}
+long: {command: sleep 600}
"#,
    );
    let program = home.path().join("agent.py");
    fs::write(&program, STORY).expect("a file");
    let played = home
        .in_environment("python3")
        .arg(&program)
        .arg(home.neroman())
        .arg(&folder)
        .env("PYTHONPATH", packages())
        .output()
        .expect("python3 starts");
    let (out, err) = (
        String::from_utf8_lossy(&played.stdout),
        String::from_utf8_lossy(&played.stderr),
    );
    assert!(played.status.success(), "{out}\n{err}\n{}", home.logs());
    assert_eq!(out, "played\n");
    assert_eq!(home.experiment_json(4)["state"], "aborted");
}
