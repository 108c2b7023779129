//! Generates the Rust of `proto/nero/v1/*.proto` and compares it with the
//! checked-in files. Pure Rust (protox): no `protoc` is needed. `cargo xtask codegen` starts it
//! as `nero-codegen ROOT [--check]`.
//!
//! Two sets come out. The journal set holds messages only, for programs that
//! must stay tiny; the wire set holds gRPC clients and servers.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs, io};

const JOURNAL: &[&str] = &[
    "nero/v1/journal.proto",
    "nero/v1/launcher.proto",
    "nero/v1/submission.proto",
];
const WIRE: &[&str] = &[
    "nero/v1/common.proto",
    "nero/v1/mum.proto",
    "nero/v1/man.proto",
];

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let outcome = match *words.as_slice() {
        [root] => run(Path::new(root), false),
        [root, "--check"] => run(Path::new(root), true),
        _ => Err("usage: nero-codegen ROOT [--check]".to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Writes the generated files; with `check`, returns an error that names the
/// differing ones.
fn run(root: &Path, check: bool) -> Result<(), String> {
    let scratch = tempfile::tempdir().map_err(|error| error.to_string())?;
    let include = root.join("proto");
    generate(&include, JOURNAL, scratch.path(), false)?;
    generate(&include, WIRE, scratch.path(), true)?;

    let mut stale = Vec::new();
    for (name, home) in [
        ("nero.journal.v1.rs", root.join("proto/journal/src/gen")),
        ("nero.v1.rs", root.join("proto/wire/src/gen")),
    ] {
        let fresh = scratch.path().join(name);
        let kept = home.join(name);
        if same(&fresh, &kept).map_err(|error| error.to_string())? {
            continue;
        }
        if check {
            stale.push(kept.display().to_string());
        } else {
            fs::create_dir_all(&home).map_err(|error| error.to_string())?;
            fs::copy(&fresh, &kept).map_err(|error| error.to_string())?;
        }
    }
    if stale.is_empty() {
        return Ok(());
    }
    Err(format!(
        "generated code differs from proto/: {}\nhint: cargo xtask codegen",
        stale.join(", ")
    ))
}

fn generate(include: &Path, files: &[&str], out: &Path, services: bool) -> Result<(), String> {
    let set = protox::compile(files, [include]).map_err(|error| format!("{error:?}"))?;
    tonic_prost_build::configure()
        .build_client(services)
        .build_server(services)
        .build_transport(false)
        .emit_rerun_if_changed(false)
        .out_dir(PathBuf::from(out))
        .compile_fds(set)
        .map_err(|error| format!("cannot generate code from {files:?}: {error}"))
}

fn same(fresh: &Path, kept: &Path) -> io::Result<bool> {
    match fs::read(kept) {
        Ok(bytes) => Ok(bytes == fs::read(fresh)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
