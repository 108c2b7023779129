//! Faults of a node, each with its own message.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use nero_agents::{AgentError, NodeFault};

use crate::rig::{Node, names};

/// Starts, and expects a fault of the node.
async fn fault(node: &Node) -> NodeFault {
    fault_with_root(node, None).await
}

async fn fault_with_root(node: &Node, root: Option<&str>) -> NodeFault {
    let mut cancel = node.cancel();
    cancel.root = root.map(str::to_owned);
    match node.start_with(&cancel).await {
        Err(AgentError::Node(fault)) => fault,
        Err(error) => panic!("another failure: {error:?}\n{}", node.state()),
        Ok(_) => panic!("nothing was in the way"),
    }
}

#[tokio::test]
async fn a_home_that_runs_no_programs() {
    let node = Node::with("mount -t tmpfs -o noexec,mode=700 none \"$HOME\"");
    let fault = fault(&node).await;
    assert!(matches!(fault, NodeFault::NoExec { .. }), "{fault}");
    assert!(fault.to_string().contains("Permission denied"), "{fault}");
    assert!(fault.hint().contains("`root:`"), "{}", fault.hint());
    assert!(fault.needs_user());
}

#[tokio::test]
async fn a_home_that_cannot_be_written_to() {
    let node = Node::with("mount -t tmpfs -o ro,mode=700 none \"$HOME\"");
    let fault = fault(&node).await;
    assert!(matches!(fault, NodeFault::Write { .. }), "{fault}");
    assert!(
        fault.to_string().contains("Read-only file system"),
        "{fault}"
    );
    assert!(fault.hint().contains("`root:`"), "{}", fault.hint());
}

#[tokio::test]
async fn a_disk_without_room_is_told_before_anything_is_sent() {
    let node = Node::with("mount -t tmpfs -o size=9m,mode=700 none \"$HOME\"");
    let fault = fault(&node).await;
    let NodeFault::NoSpace { why, .. } = &fault else {
        panic!("{fault}");
    };
    assert!(why.ends_with("MB are free"), "{why}");
    assert!(fault.hint().contains("MB are needed"), "{}", fault.hint());
    assert!(!fault.needs_user());
}

#[tokio::test]
async fn a_disk_that_fills_up_leaves_nothing_and_the_next_push_repairs() {
    let node = Node::new();
    // As with a quota: a file ends before the pack does.
    node.login_shell("ulimit -f 4000; exec \"$shell\" -c \"$SSH_ORIGINAL_COMMAND\"");
    let fault = fault(&node).await;
    assert!(matches!(fault, NodeFault::NoSpace { .. }), "{fault}");
    assert_eq!(names(&node.builds()), [] as [&str; 0]);
    node.login_shell("exec \"$shell\" -c \"$SSH_ORIGINAL_COMMAND\"");
    assert!(node.start().await.unwrap().pushed_bytes > 0);
    assert_eq!(node.litter(), [] as [&str; 0]);
}

#[tokio::test]
async fn a_disk_that_says_it_has_room_and_has_none() {
    let node = Node::with("mount -t tmpfs -o size=4m,mode=700 none \"$HOME\"");
    node.program(
        "df",
        "#!/bin/sh\necho Filesystem\necho none 99999999 1 99999999 1% /\n",
    );
    let fault = fault(&node).await;
    let NodeFault::NoSpace { why, .. } = &fault else {
        panic!("{fault}");
    };
    assert!(why.contains("No space left on device"), "{why}");
}

#[tokio::test]
async fn a_machine_that_we_have_no_agents_for() {
    let node = Node::new();
    let uname = |machine: &str| {
        let text = format!(
            "#!/bin/sh\ncase $1 in -m) echo {machine} ;; -s) echo Linux ;; *) exec /bin/uname \"$@\" ;; esac\n"
        );
        node.program("uname", &text);
    };
    uname("ppc64le");
    let fault = fault(&node).await;
    let shown = fault.to_string();
    assert!(
        shown.starts_with("there are no agents for ppc64le here, only for"),
        "{shown}"
    );
    assert!(
        fault.hint().contains("cargo xtask portable"),
        "{}",
        fault.hint()
    );
    node.program("uname", "#!/bin/sh\necho Darwin\n");
    let fault = self::fault(&node).await;
    assert!(fault.to_string().starts_with("it runs Darwin"), "{fault}");
}

#[tokio::test]
async fn libraries_that_are_too_old_or_others() {
    let node = Node::new();
    node.program("getconf", "#!/bin/sh\necho glibc 2.5\n");
    let fault = fault(&node).await;
    assert!(matches!(fault, NodeFault::OldLibc { .. }), "{fault}");
    assert!(
        fault.to_string().contains("(glibc 2.5) is older"),
        "{fault}"
    );
    node.program("getconf", "#!/bin/sh\nexit 1\n");
    node.program("ldd", "#!/bin/sh\necho 'musl libc (x86_64)' >&2\nexit 1\n");
    let fault = self::fault(&node).await;
    assert!(matches!(fault, NodeFault::OtherLibc { .. }), "{fault}");
}

#[tokio::test]
async fn a_root_that_is_not_ours_to_use() {
    let node = Node::new();
    let elsewhere = node.path("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    symlink(&elsewhere, node.home().join(".neronet")).unwrap();
    let fault = fault(&node).await;
    assert!(matches!(fault, NodeFault::Link { .. }), "{fault}");
    assert!(
        fault.hint().ends_with(elsewhere.to_str().unwrap()),
        "{}",
        fault.hint()
    );

    fs::remove_file(node.home().join(".neronet")).unwrap();
    fs::write(node.home().join(".neronet"), "").unwrap();
    let fault = self::fault(&node).await;
    assert!(matches!(fault, NodeFault::NotFolder { .. }), "{fault}");

    let foreign = if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&elsewhere, Some(12345), None).unwrap();
        elsewhere.to_str().unwrap()
    } else {
        "/usr"
    };
    let fault = fault_with_root(&node, Some(foreign)).await;
    assert!(matches!(fault, NodeFault::Foreign { .. }), "{fault}");

    let fault = fault_with_root(&node, Some("$NOWHERE/x")).await;
    assert_eq!(
        fault,
        NodeFault::Unset {
            name: "NOWHERE".to_owned()
        }
    );
    let fault = fault_with_root(&node, Some("$LANGUAGE_OF_TEST/x")).await;
    assert!(matches!(fault, NodeFault::Unset { .. }), "{fault}");
}

#[tokio::test]
async fn a_root_that_every_user_can_write_to() {
    let node = Node::new();
    let root = node.home().join(".neronet");
    fs::create_dir(&root).unwrap();
    fs::set_permissions(&root, fs::Permissions::from_mode(0o777)).unwrap();
    let fault = fault(&node).await;
    assert!(matches!(fault, NodeFault::Open { .. }), "{fault}");
    assert!(fault.hint().contains("chmod o-w"), "{}", fault.hint());
    assert!(!root.join("bin").exists(), "nothing is put there");
    // With the sticky bit no user can remove another's files; a group often has
    // one user only.
    for mode in [0o1777, 0o775] {
        fs::set_permissions(&root, fs::Permissions::from_mode(mode)).unwrap();
        node.start().await.unwrap();
    }
}

#[tokio::test]
async fn roots_that_are_expanded_there_or_need_quotes() {
    let node = Node::new();
    let work = node.path("work");
    fs::create_dir(&work).unwrap();
    let profile = node.home().join(".bash_profile");
    fs::write(
        profile,
        format!("echo welcome\nexport WORK={}\n", work.display()),
    )
    .unwrap();
    for (root, expected) in [
        ("$WORK/${WORK}x", format!("{0}/{0}x", work.display())),
        ("~/it's \"ü\" \\ $USERS!`", String::new()),
        (
            "~/it's \"ü\" \\ !`x` *",
            format!("{}/it's \"ü\" \\ !`x` *", node.home().display()),
        ),
    ] {
        let mut cancel = node.cancel();
        cancel.root = Some(root.to_owned());
        let started = node.start_with(&cancel).await;
        match started {
            Ok(remote) => assert_eq!(remote.facts.root, expected.replace("//", "/")),
            Err(error) => assert!(expected.is_empty(), "{root}: {error}"),
        }
    }
}

#[tokio::test]
async fn a_shell_that_talks_and_a_node_without_gzip() {
    let node = Node::new();
    let tools = node.path("tools");
    fs::create_dir(&tools).unwrap();
    for tool in [
        "sh", "bash", "uname", "id", "date", "cat", "sed", "ls", "awk", "mkdir", "chmod", "rm",
        "df", "stat", "dirname", "tr", "find", "wc", "readlink", "tail", "sleep",
    ] {
        let found = ["/usr/bin", "/bin"]
            .iter()
            .map(|folder| format!("{folder}/{tool}"));
        let found = found.into_iter().find(|path| fs::metadata(path).is_ok());
        symlink(found.expect("a basic tool"), tools.join(tool)).unwrap();
    }
    let shown = tools.display();
    node.login_shell(&format!(
        "PATH={shown}; export PATH; i=0; while [ $i -lt 500 ]; do echo 'Welcome! Use the queue. ...................................... '; i=$((i+1)); done\nexec \"$shell\" -c \"$SSH_ORIGINAL_COMMAND\""
    ));
    let remote = node.start().await.unwrap();
    assert!(!remote.facts.has_gzip);
    let bytes: u64 = nero_model::builds::inside(crate::rig::programs())
        .iter()
        .map(|path| path.metadata().unwrap().len())
        .sum();
    assert!(remote.pushed_bytes > bytes);
}

#[tokio::test]
async fn a_shell_that_never_stops_talking_is_named() {
    let node = Node::new();
    node.login_shell(
        "head -c 1000000 /dev/zero | tr '\\0' x; exec \"$shell\" -c \"$SSH_ORIGINAL_COMMAND\"",
    );
    let error = node.start().await.unwrap_err();
    assert!(error.to_string().contains("over ssh"), "{error}");
    let cause = std::error::Error::source(&error)
        .expect("it has a cause")
        .to_string();
    assert!(cause.contains("login shell"), "{cause}");
    assert!(error.hint().unwrap().contains("start-up files"));
}

#[tokio::test]
async fn a_root_that_others_could_read_gets_a_private_bin() {
    let node = Node::new();
    let root = node.home().join(".neronet");
    fs::create_dir(&root).unwrap();
    fs::create_dir(root.join("bin")).unwrap();
    fs::set_permissions(root.join("bin"), fs::Permissions::from_mode(0o777)).unwrap();
    node.start().await.unwrap();
    let mode = root.join("bin").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    for build in names(&root.join("bin")) {
        let folder = root.join("bin").join(build);
        assert_eq!(
            folder.metadata().unwrap().permissions().mode() & 0o777,
            0o700
        );
        for program in nero_model::builds::inside(&folder) {
            assert_eq!(
                program.metadata().unwrap().permissions().mode() & 0o777,
                0o500
            );
        }
    }
}
