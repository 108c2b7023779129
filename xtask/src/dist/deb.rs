//! A package of Debian, made without root and without its tools: an archive of `ar` with two
//! tarballs.

use std::fs;
use std::path::Path;

use super::{VERSION, at, copy_folder, tarball};
use crate::portable::Arch;

/// The package's file.
pub fn name(arch: Arch) -> String {
    format!("neronet_{VERSION}_{}.deb", machine(arch))
}

/// What Debian calls a kind of machine.
fn machine(arch: Arch) -> &'static str {
    match arch {
        Arch::X86_64 => "amd64",
        Arch::Aarch64 => "arm64",
    }
}

/// Writes the package of a filled prefix, which becomes `/usr`.
pub fn write(root: &Path, arch: Arch, prefix: &Path, to: &Path) -> Result<(), String> {
    let work = tempfile::tempdir_in(to.parent().unwrap_or(to)).map_err(at(to))?;
    let (data, control) = (work.path().join("data"), work.path().join("control"));
    let usr = data.join("usr");
    copy_folder(prefix, &usr)?;
    // What belongs to a prefix of its own has no place in `/usr`.
    fs::remove_dir_all(usr.join("share/modulefiles")).map_err(at(&usr))?;
    let unit = root.join("deploy/neronet.service");
    let unit = fs::read_to_string(&unit).map_err(at(&unit))?;
    let unit = unit.replace("@NEROMAN@", "/usr/bin/neroman");
    write_file(&usr.join("lib/systemd/user/neronet.service"), &unit)?;
    let manual = usr.join("share/doc/neronet");
    fs::copy(manual.join("LICENSE"), manual.join("copyright")).map_err(at(&manual))?;
    let template = root.join("deploy/deb/control");
    let text = fs::read_to_string(&template).map_err(at(&template))?;
    let text = text
        .replace("@VERSION@", VERSION)
        .replace("@ARCH@", machine(arch))
        .replace("@KIB@", &bytes_below(&data)?.div_ceil(1024).to_string());
    write_file(&control.join("control"), &text)?;
    let members =
        ["control", "data"].map(|name| (name, work.path().join(format!("{name}.tar.gz"))));
    for (name, file) in &members {
        tarball(&work.path().join(name), ".", file)?;
    }
    let mut archive = b"!<arch>\n".to_vec();
    member(&mut archive, "debian-binary", b"2.0\n");
    for (name, file) in &members {
        let content = fs::read(file).map_err(at(file))?;
        member(&mut archive, &format!("{name}.tar.gz"), &content);
    }
    fs::write(to, archive).map_err(at(to))
}

fn write_file(file: &Path, text: &str) -> Result<(), String> {
    super::write(file, text.as_bytes())
}

/// Appends a file to an archive of `ar`.
fn member(archive: &mut Vec<u8>, name: &str, content: &[u8]) {
    let size = content.len();
    archive.extend(
        format!(
            "{name:<16}{:<12}{:<6}{:<6}{:<8}{size:<10}`\n",
            0, 0, 0, 100_644
        )
        .bytes(),
    );
    archive.extend(content);
    if size % 2 == 1 {
        archive.push(b'\n');
    }
}

fn bytes_below(folder: &Path) -> Result<u64, String> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder).map_err(at(folder))? {
        let path = entry.map_err(at(folder))?.path();
        bytes += if path.is_dir() {
            bytes_below(&path)?
        } else {
            path.metadata().map_err(at(&path))?.len()
        };
    }
    Ok(bytes)
}
