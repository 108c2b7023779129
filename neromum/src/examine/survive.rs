//! Whether processes that we start go on after the user has logged out.

use std::path::Path;

use super::Findings;
use super::programs::ask;

const WHAT: &str = "survives logout";

/// Whether systemd kills processes at logout; `None` when that cannot be found
/// out.
pub async fn kills_at_logout() -> Option<bool> {
    if !is_systemd() {
        return Some(false);
    }
    let words = [
        "get-property",
        "org.freedesktop.login1",
        "/org/freedesktop/login1",
        "org.freedesktop.login1.Manager",
        "KillUserProcesses",
    ];
    match ask("busctl", &words).await {
        Some(said) if said.contains("true") => Some(true),
        Some(said) if said.contains("false") => Some(false),
        _ => configured(),
    }
}

fn is_systemd() -> bool {
    Path::new("/run/systemd/system").exists()
}

/// The last `KillUserProcesses=` of the files that systemd reads.
fn configured() -> Option<bool> {
    let mut files = vec![
        "/usr/lib/systemd/logind.conf".into(),
        "/etc/systemd/logind.conf".into(),
    ];
    for folder in [
        "/usr/lib/systemd/logind.conf.d",
        "/run/systemd/logind.conf.d",
        "/etc/systemd/logind.conf.d",
    ] {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut inside: Vec<std::path::PathBuf> = entries.map(|entry| entry.path()).collect();
        inside.sort();
        files.extend(inside);
    }
    files
        .iter()
        .filter_map(|file| std::fs::read_to_string(file).ok())
        .filter_map(|text| setting(&text))
        .next_back()
}

fn setting(text: &str) -> Option<bool> {
    let mut values = text.lines().filter_map(|line| {
        let (name, value) = line.split_once('=')?;
        (name.trim() == "KillUserProcesses").then(|| value.trim().to_ascii_lowercase())
    });
    let last = values.next_back()?;
    Some(matches!(last.as_str(), "yes" | "true" | "on" | "1"))
}

/// Owner of a process, by its control group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Home {
    /// A login: systemd ends the process with it where `KillUserProcesses` is
    /// set.
    Session,
    /// The user's service manager, which ends with the last login unless the
    /// user lingers.
    UserManager,
    /// Neither.
    Elsewhere,
}

fn home(cgroup: &str) -> Home {
    let in_session = |path: &str| {
        path.split('/')
            .any(|part| part.starts_with("session-") && part.ends_with(".scope"))
    };
    let in_manager = |path: &str| {
        path.split('/')
            .any(|part| part.starts_with("user@") && part.ends_with(".service"))
    };
    let paths = || cgroup.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    if paths().any(in_session) {
        Home::Session
    } else if paths().any(in_manager) {
        Home::UserManager
    } else {
        Home::Elsewhere
    }
}

fn lingers() -> bool {
    let user = std::env::var("USER").or_else(|_| std::env::var("LOGNAME"));
    user.is_ok_and(|user| {
        let plain = !user.is_empty() && !user.contains('/') && user != "..";
        plain && Path::new("/var/lib/systemd/linger").join(user).exists()
    })
}

pub fn judge(findings: &mut Findings, kills: Option<bool>) {
    let cgroup = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    judge_as(findings, is_systemd(), home(&cgroup), kills, lingers());
}

fn judge_as(
    findings: &mut Findings,
    systemd: bool,
    home: Home,
    kills: Option<bool>,
    lingers: bool,
) {
    const LINGER: &str = "run `loginctl enable-linger` there once";
    match (systemd, home, kills) {
        (false, _, _) => findings.good(WHAT, "yes: no systemd ends processes at logout"),
        (_, Home::Session, Some(true)) => findings.bad(
            WHAT,
            "no: KillUserProcesses ends everything that a login started when it is over",
            "ask the administrator for KillUserProcesses=no (logind.conf), or \
             KillExcludeUsers= with your name",
        ),
        (_, Home::Session, None) => findings.warning(
            WHAT,
            "unknown: KillUserProcesses of systemd-logind could not be read",
            "log out while a short run goes on, and see whether it ends",
        ),
        (_, Home::UserManager, _) if !lingers => findings.warning(
            WHAT,
            "only while you are logged in somewhere: the agent belongs to your service manager, \
             which ends with your last login",
            LINGER,
        ),
        (_, Home::UserManager, _) => findings.good(WHAT, "yes: lingering is on for your user"),
        (_, Home::Session, Some(false)) => {
            findings.good(WHAT, "yes: systemd leaves processes alone at logout");
        }
        (_, Home::Elsewhere, _) => findings.good(WHAT, "yes: the agent belongs to no login"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nero_wire::v1::finding::Level;

    #[test]
    fn groups_and_settings_are_understood() {
        let session = "0::/user.slice/user-1000.slice/session-12.scope\n";
        assert_eq!(home(session), Home::Session);
        let manager = "12:pids:/\n0::/user.slice/user-1.slice/user@1.service/app.slice/x\n";
        assert_eq!(home(manager), Home::UserManager);
        assert_eq!(home("0::/init.scope"), Home::Elsewhere);
        assert_eq!(setting("[Login]\n#KillUserProcesses=yes\n"), None);
        assert_eq!(
            setting("KillUserProcesses = yes\nKillUserProcesses=no"),
            Some(false)
        );
        assert_eq!(setting("KillUserProcesses=YES"), Some(true));
    }

    #[test]
    fn whether_neromum_outlives_a_logout_is_judged_by_its_home_and_the_settings_of_logind() {
        for (home, kills, lingers, expected) in [
            (Home::Session, Some(true), true, Level::Bad),
            (Home::Session, Some(false), false, Level::Good),
            (Home::Session, None, false, Level::Warning),
            (Home::UserManager, Some(false), false, Level::Warning),
            (Home::UserManager, Some(true), true, Level::Good),
            (Home::Elsewhere, None, false, Level::Good),
        ] {
            let mut findings = Findings::default();
            judge_as(&mut findings, true, home, kills, lingers);
            assert_eq!(findings.0[0].level(), expected, "{home:?} {kills:?}");
        }
    }
}
