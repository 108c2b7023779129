//! Another user of the machine, who looks for data that is not meant for him.
//!
//! `nero-neighbour look SECRET ROOT…` prints one line per finding:
//! `read PATH` (a file with the secret), `write PATH` (he may change it),
//! `talk PATH` (a socket that answers HTTP/2), `process PID NAME` (a command
//! line or environment with the secret). `nero-neighbour listen PATH` binds a
//! socket's path before its owner does, and answers every connection.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{Access, access};

/// Limit in bytes; no file of ours that could hold a secret is larger.
const FILE_BYTES_MAX: u64 = 16 << 20;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["look", secret, ref roots @ ..] => {
            for root in roots {
                walk(Path::new(root), secret.as_bytes());
            }
            processes(secret.as_bytes());
        }
        ["listen", path] => listen(Path::new(path)),
        _ => {
            eprintln!("usage: nero-neighbour look SECRET ROOT… | listen PATH");
            std::process::exit(2);
        }
    }
}

fn walk(path: &Path, secret: &[u8]) {
    let Ok(found) = path.symlink_metadata() else {
        return;
    };
    let kind = found.file_type();
    if kind.is_symlink() {
        return;
    }
    // Every user may write to a sticky folder by intent, but not to the files
    // in it.
    let sticky = kind.is_dir() && found.permissions().mode() & 0o1000 != 0;
    if !sticky && access(path, Access::WRITE_OK).is_ok() {
        println!("write {}", path.display());
    }
    if kind.is_dir() {
        let mut below: Vec<_> = fs::read_dir(path)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .collect();
        below.sort();
        for path in below {
            walk(&path, secret);
        }
    } else if kind.is_socket() {
        if answers(path) {
            println!("talk {}", path.display());
        }
    } else if kind.is_file()
        && found.len() <= FILE_BYTES_MAX
        && fs::read(path).is_ok_and(|bytes| holds(&bytes, secret))
    {
        println!("read {}", path.display());
    }
}

/// Whether a process answers at the socket with a first frame of HTTP/2.
fn answers(path: &Path) -> bool {
    let talk = || -> std::io::Result<usize> {
        let mut stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        // The preface and empty settings: any gRPC server answers it.
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")?;
        stream.read(&mut [0; 64])
    };
    talk().is_ok_and(|count| count > 0)
}

fn processes(secret: &[u8]) {
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_pid = name
            .to_str()
            .is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
        if !is_pid || name.to_str() == Some(&std::process::id().to_string()) {
            continue;
        }
        for file in ["cmdline", "environ"] {
            let path = entry.path().join(file);
            if fs::read(&path).is_ok_and(|bytes| holds(&bytes, secret)) {
                let command = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
                println!("process {} {file} {}", name.display(), command.trim());
            }
        }
    }
}

fn holds(bytes: &[u8], wanted: &[u8]) -> bool {
    !wanted.is_empty() && bytes.windows(wanted.len()).any(|part| part == wanted)
}

fn listen(path: &Path) {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).expect("a folder");
    }
    let listener = UnixListener::bind(path).expect("the name is free");
    fs::set_permissions(path, fs::Permissions::from_mode(0o777)).expect("own socket");
    println!("listening");
    for stream in listener.incoming() {
        let Ok(mut stream) = stream else { continue };
        println!("somebody came");
        // The first frame that a gRPC server sends, so that the other side goes
        // on.
        let _ = stream.write_all(b"\0\0\0\x04\0\0\0\0\0");
        let mut bytes = [0; 4096];
        while stream.read(&mut bytes).is_ok_and(|count| count > 0) {}
    }
}
