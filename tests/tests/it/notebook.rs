//! The notebook of the examples, as a new user runs it.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::python::package;
use crate::ssh::Lab;

/// What executes a notebook.
const JUPYTER: [&str; 2] = ["nbconvert==7.16.6", "ipykernel==6.29.5"];

#[test]
fn the_notebook_of_the_examples_runs_from_top_to_bottom_with_calls_over_ssh() {
    let lab = Lab::new(1);
    let folder = lab.home.path().join("notebook");
    fs::create_dir(&folder).unwrap();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/notebook");
    fs::copy(examples.join("sweep.ipynb"), folder.join("sweep.ipynb")).unwrap();
    let jupyter = Path::new(env!("CARGO_TARGET_TMPDIR")).join("jupyter");
    let jupyter = nero_pip::packages(&jupyter, &JUPYTER).unwrap_or_else(|why| panic!("{why}"));
    let paths = [package().join("src"), jupyter];
    let ran = lab
        .home
        .in_environment("python3")
        .args(["-m", "nbconvert", "--to", "notebook", "--execute"])
        .args(["--output", "done.ipynb", "sweep.ipynb"])
        .current_dir(&folder)
        .env("NERONET_PROGRAM", lab.home.neroman())
        .env("PYTHONPATH", std::env::join_paths(paths).unwrap())
        .env("NODE", "h1")
        .output()
        .expect("python3 starts");
    let told = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{told}\n{}", lab.home.logs());
    let done = fs::read(folder.join("done.ipynb")).unwrap();
    let done: Value = serde_json::from_slice(&done).unwrap();
    let cells = done["cells"].as_array().unwrap();
    let outputs = cells.iter().filter_map(|cell| cell["outputs"].as_array());
    let shown: Vec<&Value> = outputs.flatten().map(|output| &output["data"]).collect();
    let has = |kind: &str, part: &str| {
        let of_kind = shown.iter().map(|data| data[kind].to_string());
        of_kind.filter(|text| text.contains(part)).count()
    };
    assert_eq!(has("text/html", "<td>descent_rate-0.3</td>"), 1, "{done:#}");
    assert_eq!(has("image/svg+xml", "<svg"), 1, "{done:#}");
    assert_eq!(has("text/plain", "362880"), 1, "{done:#}");
    if lab.hosts.isolated() {
        assert_eq!(has("text/plain", "{'h1'}"), 1, "{done:#}");
    }
}
