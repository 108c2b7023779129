//! A release: packed, installed for one user, upgraded, used and removed.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use nero_tests::Home;
use nero_tests::hosts::isolates;

/// The release that holds small programs: its neroman calls the one that is tested.
struct Release {
    home: Home,
    folder: PathBuf,
}

impl Release {
    fn new() -> Self {
        let home = Home::new();
        let programs = home.path().join("programs");
        fs::create_dir(&programs).unwrap();
        for name in ["neroman-office", "neromum", "nerokid", "nerokid-shim"] {
            fs::write(programs.join(name), name).unwrap();
        }
        let folder = home.path().join("release");
        let release = Self { home, folder };
        release.pack("first");
        release
    }

    /// Packs a neroman that differs by a word.
    fn pack(&self, word: &str) -> String {
        let programs = self.home.path().join("programs");
        let text = format!(
            "#!/bin/sh\n# {word}\nexec '{}' \"$@\"\n",
            self.home.neroman().display()
        );
        self.home.script(&programs.join("neroman"), text);
        packed(&self.home, &programs, &self.folder)
    }

    fn installer(&self, shell: &[&str], prefix: &Path) -> Command {
        let mut command = Command::new(shell[0]);
        command
            .args(&shell[1..])
            .arg(self.folder.join("install.sh"));
        command.arg("--prefix").arg(prefix).stdin(Stdio::null());
        command
    }

    fn install(&self, prefix: &Path) -> Output {
        self.installer(&["sh"], prefix).output().unwrap()
    }

    fn tarball(&self) -> PathBuf {
        let entries = fs::read_dir(&self.folder).unwrap();
        let mut paths = entries.map(|entry| entry.unwrap().path());
        paths
            .find(|path| path.to_string_lossy().ends_with(".tar.gz"))
            .unwrap()
    }
}

/// Packs programs; returns what was said.
#[track_caller]
fn packed(home: &Home, programs: &Path, out: &Path) -> String {
    let mut pack = Command::new(home.neroman().with_file_name("xtask"));
    pack.args(["dist", "--programs"])
        .arg(programs)
        .arg("--out")
        .arg(out);
    let output = pack.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[track_caller]
fn installed(output: &Output) -> String {
    assert!(output.status.success(), "{}", said(output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), &output.stderr].concat()).into_owned()
}

/// What the link runs.
#[track_caller]
fn works(prefix: &Path) {
    let output = Command::new(prefix.join("bin/neroman"))
        .arg("--version")
        .output();
    let output = output.unwrap();
    assert!(
        output.status.success() && said(&output).starts_with("neroman "),
        "{output:?}"
    );
}

/// Nothing of an attempt lies about.
#[track_caller]
fn is_tidy(prefix: &Path) {
    let entries = fs::read_dir(prefix.join("lib/neronet")).unwrap();
    let names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
    let left: Vec<_> = names
        .iter()
        .filter(|name| name.to_string_lossy().starts_with('.'))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn equal_programs_give_equal_bytes_wherever_they_are_packed() {
    let release = Release::new();
    let programs = release.home.path().join("programs");
    let moved = release.home.path().join("moved elsewhere");
    fs::create_dir(&moved).unwrap();
    for entry in fs::read_dir(&programs).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, moved.join(path.file_name().unwrap())).unwrap();
        // Neither the time of a file nor its mode is in the release.
        let copy = moved.join(path.file_name().unwrap());
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o700)).unwrap();
    }
    let other = release.home.path().join("other");
    packed(&release.home, &moved, &other);
    let sums = |folder: &Path| fs::read_to_string(folder.join("SHA256SUMS")).unwrap();
    assert_eq!(sums(&release.folder), sums(&other));
    let checked = Command::new("sha256sum")
        .args(["--check", "--strict", "SHA256SUMS"])
        .current_dir(&other)
        .output()
        .unwrap();
    assert!(checked.status.success(), "{}", said(&checked));
    assert!(sums(&other).contains("install.sh"), "{}", sums(&other));
    let listed = Command::new("tar")
        .arg("-tvzf")
        .arg(release.tarball())
        .output();
    let listed = said(&listed.unwrap());
    for wanted in [
        "bin/neroman\n",
        "bin/neroman-office\n",
        "share/man/man1/neroman.1\n",
        "share/man/man1/neroman-start.1\n",
        "completions/neroman\n",
        "_neroman\n",
        "share/doc/neronet/start.md\n",
        "share/doc/neronet/LICENSES-LINKED\n",
        "agents/x86_64-linux/nerokid-shim\n",
    ] {
        let wanted = wanted.replace("x86_64", std::env::consts::ARCH);
        assert!(listed.contains(&wanted), "{wanted} {listed}");
    }
    assert!(
        !listed
            .lines()
            .any(|line| line.contains(" root/root ") && line.contains("rwxrwx"))
    );
}

#[test]
fn a_release_is_installed_by_every_shell_and_what_cannot_be_installed_is_told() {
    let release = Release::new();
    installs_by_every_shell(&release);
    full_and_noexec_disks_are_told(&release);
    refusals_leave_the_earlier_version(&release);
}

/// In folders with blanks, quotes and a dollar.
fn installs_by_every_shell(release: &Release) {
    let shells: [&[&str]; 3] = [&["dash"], &["bash", "--posix"], &["busybox", "sh"]];
    for (number, shell) in shells.into_iter().enumerate() {
        let prefix = release
            .home
            .path()
            .join(format!("pre fix's \"{number}\" $x"));
        if Command::new(shell[0]).arg("--help").output().is_err() {
            eprintln!("skipped: {} is not here", shell[0]);
            continue;
        }
        let first = installed(&release.installer(shell, &prefix).output().unwrap());
        assert!(first.contains("export PATH="), "{first}");
        works(&prefix);
        // Once more changes nothing.
        installed(&release.installer(shell, &prefix).output().unwrap());
        works(&prefix);
        is_tidy(&prefix);
        let mut remove = release.installer(shell, &prefix);
        installed(&remove.arg("--remove").output().unwrap());
        assert!(!prefix.join("bin/neroman").exists() && !prefix.join("lib/neronet").exists());
    }
}

fn refusals_leave_the_earlier_version(release: &Release) {
    let prefix = release.home.path().join("prefix");
    installed(&release.install(&prefix));
    let refused = |output: Output, wanted: &str| {
        let said = said(&output);
        assert!(!output.status.success() && said.contains(wanted), "{said}");
        assert!(said.contains("hint: "), "{said}");
        works(&prefix);
        is_tidy(&prefix);
    };
    // A tarball that is cut, then one of other content.
    let tarball = release.tarball();
    let whole = fs::read(&tarball).unwrap();
    fs::write(&tarball, &whole[..whole.len() / 2]).unwrap();
    refused(release.install(&prefix), "damaged or not whole");
    fs::write(&tarball, &whole).unwrap();
    let mut elsewhere = release.installer(&["sh"], &prefix);
    elsewhere.args(["--from", "/nowhere/at all"]);
    refused(elsewhere.output().unwrap(), "cannot be read");
    // A network without programs for it, and one that does not answer.
    let bare = release.home.path().join("bare");
    fs::create_dir(&bare).unwrap();
    let tools = [
        "cut",
        "dirname",
        "gzip",
        "mkdir",
        "mv",
        "ln",
        "rm",
        "tar",
        "uname",
        "grep",
        "head",
        "readlink",
        "sha256sum",
        "cp",
    ];
    for tool in tools {
        let found = Command::new("sh")
            .args(["-c", &format!("command -v {tool}")])
            .output()
            .unwrap();
        let path = String::from_utf8(found.stdout).unwrap();
        std::os::unix::fs::symlink(path.trim(), bare.join(tool)).unwrap();
    }
    let mut without = release.installer(&["/bin/sh"], &prefix);
    without
        .args(["--from", "http://127.0.0.1:9/x"])
        .env("PATH", &bare);
    refused(without.output().unwrap(), "neither curl nor wget");
    let mut silent = release.installer(&["sh"], &prefix);
    silent.args(["--from", "http://127.0.0.1:9/x"]);
    refused(silent.output().unwrap(), "cannot be had");
    fs::remove_file(bare.join("sha256sum")).unwrap();
    let mut without = release.installer(&["/bin/sh"], &prefix);
    refused(
        without.env("PATH", &bare).output().unwrap(),
        "computes SHA-256",
    );
    let mut unknown = release.installer(&["sh"], &prefix);
    refused(
        unknown.arg("--prefx").output().unwrap(),
        "unknown word: --prefx",
    );
    let mut homeless = Command::new("sh");
    homeless
        .arg(release.folder.join("install.sh"))
        .env_remove("HOME");
    refused(homeless.output().unwrap(), "HOME is not set");
    // Somebody's own program is not replaced.
    let taken = release.home.path().join("taken");
    fs::create_dir_all(taken.join("bin")).unwrap();
    fs::write(taken.join("bin/neroman"), "mine").unwrap();
    refused(release.install(&taken), "no link of ours");
    assert_eq!(fs::read(taken.join("bin/neroman")).unwrap(), b"mine");
    fs::write(release.home.path().join("file"), "").unwrap();
    refused(
        release.install(&release.home.path().join("file")),
        "cannot be written",
    );
}

fn full_and_noexec_disks_are_told(release: &Release) {
    if !isolates() {
        eprintln!("skipped: a disk of its own needs root");
        return;
    }
    let place = release.home.path().join("disk");
    fs::create_dir(&place).unwrap();
    for (options, wanted) in [("size=64k", "room"), ("noexec", "noexec")] {
        let line = format!(
            "mount -t tmpfs -o {options} none '{0}' && exec sh '{1}' --prefix '{0}/x'",
            place.display(),
            release.folder.join("install.sh").display()
        );
        let mut apart = Command::new("unshare");
        let output = apart.args(["--mount", "sh", "-c", &line]).output().unwrap();
        assert!(!output.status.success(), "{options}");
        assert!(
            said(&output).contains(wanted),
            "{options}: {}",
            said(&output)
        );
    }
}

#[test]
fn an_upgrade_that_dies_anywhere_leaves_a_version_that_works() {
    let release = Release::new();
    let prefix = release.home.path().join("prefix");
    installed(&release.install(&prefix));
    let place = |prefix: &Path| fs::read_link(prefix.join("bin/neroman")).unwrap();
    let before = place(&prefix);
    release.pack("second");
    // Each command of the script in turn is its last.
    let mut at = 1;
    loop {
        let script = format!(
            "at=0; PS4=; step() {{ at=$((at + 1)); [ $at -ne {at} ] || kill -KILL $$; }}; trap step DEBUG; set -T; \
             set -- --prefix '{}'; . '{}'",
            prefix.display(),
            release.folder.join("install.sh").display()
        );
        let mut killed = Command::new("bash");
        let output = killed
            .args(["-c", &script])
            .arg(release.folder.join("install.sh"))
            .output();
        works(&prefix);
        if output.unwrap().status.success() {
            break;
        }
        at += 3;
        assert!(at < 1000);
    }
    assert!(at > 30, "{at}");
    assert_ne!(place(&prefix), before);
    // Two at once, of a third version.
    release.pack("third");
    let twice = [0, 1].map(|_| {
        let mut installer = release.installer(&["sh"], &prefix);
        installer
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    });
    for installer in twice {
        installed(&installer.wait_with_output().unwrap());
    }
    works(&prefix);
    is_tidy(&prefix);
}

#[test]
fn an_installed_release_runs_a_job_is_upgraded_below_it_and_removed() {
    let mut home = Home::new();
    let programs = home.neroman().parent().unwrap().to_path_buf();
    let folder = home.path().join("release");
    let said_by = packed(&home, &programs, &folder);
    assert!(!said_by.contains("left out"), "{said_by}");
    let prefix = home.path().join("pre fix");
    let install = || {
        let mut installer = Command::new("sh");
        installer
            .arg(folder.join("install.sh"))
            .arg("--prefix")
            .arg(&prefix);
        installed(&installer.output().unwrap())
    };
    install();
    home.use_programs(&prefix.join("bin"));
    let job = home.experiment(
        "job",
        "command: [sh, -c, 'echo loss 3; while [ ! -e go ]; do sleep 0.05; done']",
    );
    home.ok(&["start", job.to_str().unwrap()]);
    home.until_state(1, "running");
    install();
    let path = home.json(&["path", "1", "--work"])["paths"][0]["path"].clone();
    fs::write(Path::new(path.as_str().unwrap()).join("go"), "").unwrap();
    let seen = home.until_settled(1);
    assert_eq!(seen["state"], "finished", "{seen:#}");
    assert_eq!(seen["metrics"]["loss"]["last"], 3.0, "{seen:#}");
    home.ok(&["daemon", "stop"]);
    module(&prefix);
    unit(&home);
    let mut remove = Command::new("sh");
    remove
        .arg(folder.join("install.sh"))
        .arg("--prefix")
        .arg(&prefix)
        .arg("--remove");
    installed(&remove.output().unwrap());
    assert!(home.base().join("data").is_dir() || home.base().is_dir());
    deb(&folder, home.path());
}

/// The module that a release contains, by Environment Modules.
fn module(prefix: &Path) {
    let program = fs::canonicalize(prefix.join("bin/neroman")).unwrap();
    let root = program.parent().unwrap().parent().unwrap();
    let line = "eval \"$(modulecmd sh load neronet)\" && command -v neroman && neroman --version";
    let mut loaded = Command::new("sh");
    loaded.args(["-c", line]);
    // A name with blanks and quotes: modules keep lists of names.
    let linked = tempfile::tempdir().unwrap();
    let place = linked.path().join("neronet");
    std::os::unix::fs::symlink(root, &place).unwrap();
    loaded.env("MODULEPATH", place.join("share/modulefiles"));
    if Command::new("modulecmd").output().is_err() {
        eprintln!("skipped: modulecmd is not here");
        return;
    }
    let output = loaded.output().unwrap();
    let wanted = format!("{}/bin/neroman\nneroman ", place.display());
    assert!(said(&output).contains(&wanted), "{}", said(&output));
}

/// The unit that the installed program prints: systemd understands it, and it names the link.
fn unit(home: &Home) {
    let unit = home.ok(&["daemon", "unit"]);
    let file = home.path().join("neronet.service");
    fs::write(&file, &unit).unwrap();
    assert!(unit.contains("Environment=\"NERONET_HOME="), "{unit}");
    let mut verify = Command::new("systemd-analyze");
    verify.args(["--user", "verify"]).arg(&file);
    let verify = verify.env("XDG_RUNTIME_DIR", home.path()).output();
    let Ok(verified) = verify else {
        eprintln!("skipped: systemd-analyze is not here");
        return;
    };
    assert!(verified.status.success(), "{}", said(&verified));
    assert!(
        !said(&verified).contains("neronet.service:"),
        "{}",
        said(&verified)
    );
}

/// The package of Debian: what is in it, and that it is whole.
fn deb(folder: &Path, scratch: &Path) {
    let entries = fs::read_dir(folder).unwrap();
    let mut paths = entries.map(|entry| entry.unwrap().path());
    let package = paths
        .find(|path| path.extension().is_some_and(|end| end == "deb"))
        .unwrap();
    let told = Command::new("dpkg-deb")
        .arg("--info")
        .arg(&package)
        .output();
    let Ok(told) = told else {
        eprintln!("skipped: dpkg-deb is not here");
        return;
    };
    assert!(said(&told).contains("Package: neronet"), "{}", said(&told));
    let root = scratch.join("root");
    let unpacked = Command::new("dpkg-deb")
        .arg("--extract")
        .arg(&package)
        .arg(&root)
        .output();
    assert!(unpacked.unwrap().status.success());
    let version = Command::new(root.join("usr/bin/neroman"))
        .arg("--version")
        .output();
    assert!(said(&version.unwrap()).starts_with("neroman "));
    let unit = fs::read_to_string(root.join("usr/lib/systemd/user/neronet.service")).unwrap();
    assert!(
        unit.contains("ExecStart=/usr/bin/neroman daemon run\n"),
        "{unit}"
    );
}
