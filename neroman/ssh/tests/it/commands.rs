//! Scripts and commands under every login shell.

use std::fs;
use std::process::Command;

use nero_ssh::Fault;

use crate::rig::{SshNode, exec};

/// Shells that read our line in different ways; the last one refuses `/` in
/// names of commands, `exec` and redirections.
const SHELLS: [&str; 5] = [
    "/bin/bash",
    "/bin/dash",
    "/usr/bin/tcsh",
    "/usr/bin/fish",
    "/bin/rbash",
];

/// Characters that one shell or another treats in its own way.
const NASTY: &str = "a'b\"c!d\\e$HOME`id`%s%d;#&|<>(){}[]*?~^ ü\t\\n !!";

#[tokio::test]
async fn a_script_arrives_whole_under_every_login_shell() {
    let node = SshNode::new();
    let host = node.connect().await;
    for shell in SHELLS {
        assert!(
            fs::exists(shell).is_ok_and(|there| there),
            "{shell} is needed: apt-get install tcsh fish"
        );
        node.login_shell(shell);
        let script = format!(
            "cat <<'END'\n{NASTY}\nEND\nprintf 'no line end' >&2\nif read -r line; then echo input; fi\nexit 7"
        );
        let said = host.script(&script).await.expect(shell);
        assert_eq!(
            String::from_utf8_lossy(&said.out),
            format!("{NASTY}\n"),
            "{shell}"
        );
        assert_eq!(said.err, b"no line end", "{shell}");
        assert_eq!(said.status, 7, "{shell}");
    }
    assert_eq!(node.connections(), 1);
}

#[tokio::test]
async fn a_command_is_fed_under_every_login_shell() {
    let node = SshNode::new();
    let host = node.connect().await;
    for shell in SHELLS {
        node.login_shell(shell);
        let body: Vec<u8> = (0..3_000_000u32).map(|i| (i * 7 / 3) as u8).collect();
        let to = node.home().join("it's $fed!");
        let command = format!(
            "cat > \"$HOME/it's \\$fed!\" && wc -c < \"{}\"",
            "$HOME/it's \\$fed!"
        );
        let said = host.feed(&command, body.as_slice()).await.expect(shell);
        assert_eq!(
            String::from_utf8_lossy(&said.out).trim(),
            "3000000",
            "{shell}: {said:?}"
        );
        assert_eq!(said.status, 0, "{shell}");
        assert!(fs::read(&to).expect("it was made") == body, "{shell}");
    }
}

#[tokio::test]
async fn a_command_that_wants_no_more_ends_the_feeding() {
    let node = SshNode::new();
    let host = node.connect().await;
    let endless = tokio::io::repeat(b'x');
    let said = host
        .feed("head -c 10; echo full >&2; exit 3", endless)
        .await
        .expect("its status");
    assert_eq!(
        (said.status, said.out.as_slice()),
        (3, b"xxxxxxxxxx".as_slice())
    );
    assert_eq!(said.err, b"full\n");
}

#[tokio::test]
async fn the_output_of_login_files_is_cut_away() {
    let node = SshNode::new();
    let noise =
        "echo Welcome; echo; echo 'mail: 3 new' >&2; printf 'no end'; printf 'no end' >&2\n";
    fs::write(node.home().join(".bashrc"), noise).expect("a file");
    fs::write(node.home().join(".cshrc"), "echo Welcome to csh\n").expect("a file");
    let host = node.connect().await;
    for shell in ["/bin/bash", "/usr/bin/tcsh"] {
        node.login_shell(shell);
        let said = host.script("echo out; echo err >&2").await.expect(shell);
        assert_eq!(
            (said.out.as_slice(), said.err.as_slice()),
            (b"out\n".as_slice(), b"err\n".as_slice())
        );
        assert_eq!(said.status, 0);
    }
}

#[tokio::test]
async fn a_login_file_that_ends_or_floods_is_told_with_its_words() {
    let node = SshNode::new();
    let host = node.connect().await;
    let file = node.home().join(".bashrc");
    let ends = "echo 'project \u{1b}]0;x\u{7} expired'; exit 1\n";
    fs::write(&file, ends).expect("a file");
    let error = host.script("echo hi").await.expect_err("no shell");
    assert_eq!(error.fault(), Fault::Shell);
    let said = error.trouble.to_string();
    assert!(
        said.contains("project") && said.contains("expired"),
        "{said}"
    );
    assert!(
        !said.contains('\u{1b}') && !said.contains('\u{7}'),
        "{said:?}"
    );
    assert!(
        error
            .hint()
            .is_some_and(|hint| hint.contains("start-up files"))
    );
    assert!(!error.needs_user());

    node.login_shell("/usr/sbin/nologin");
    let error = host.script("echo hi").await.expect_err("no shell");
    assert_eq!(error.fault(), Fault::Shell);
    node.login_shell("/bin/bash");

    let floods = "echo first line; head -c 1000000 /dev/zero | tr '\\0' x\n";
    fs::write(&file, floods).expect("a file");
    for fed in [false, true] {
        let error = if fed {
            host.feed("cat", b"x".as_slice()).await
        } else {
            host.script("echo hi").await
        };
        let error = error.expect_err("too much");
        assert_eq!(error.fault(), Fault::Shell);
        let said = error.trouble.to_string();
        assert!(
            said.contains("64 KiB") && said.contains("first line"),
            "{said}"
        );
        assert!(said.len() < 1000, "{}", said.len());
    }
}

#[tokio::test]
async fn a_script_that_prints_for_ever_is_ended() {
    let node = SshNode::new();
    let host = node.connect().await;
    let error = host.script("yes").await.expect_err("too much");
    assert_eq!(error.fault(), Fault::Other);
    assert!(error.trouble.to_string().contains("1048576 bytes"));
}

#[tokio::test]
async fn a_script_may_leave_something_running() {
    let node = SshNode::new();
    let host = node.connect().await;
    let said = host
        .script("sleep 100 & echo $!")
        .await
        .expect("it does not wait for what it left");
    let pid = String::from_utf8(said.out).expect("a number");
    let ended = Command::new("kill").arg(pid.trim()).status();
    assert!(ended.expect("kill runs").success());
}

#[tokio::test]
async fn statuses_come_as_sh_tells_them() {
    let node = SshNode::new();
    let host = node.connect().await;
    for (script, status) in [
        ("true", 0),
        ("false", 1),
        ("no-such-command", 127),
        ("kill -9 $(exec sh -c 'echo $PPID')", 137),
        ("exit 255", 255),
    ] {
        let said = host.script(script).await.expect(script);
        assert_eq!(said.status, status, "{script}: {said:?}");
    }
    let said = host.script("if").await.expect("a shell answers");
    assert_ne!(said.status, 0);
    assert!(!said.err.is_empty());
    let error = host.script("echo \0").await;
    // A script is input, so the shell decides about a zero byte.
    assert!(error.is_ok());
    let error = host.feed("echo \0", b"".as_slice()).await;
    assert!(error.is_err());
}

#[tokio::test]
async fn settings_for_other_uses_are_not_in_the_way() {
    let node = SshNode::new();
    let spoiled = node.path("spoiled");
    let lines = format!(
        "RemoteCommand echo wrong\nRequestTTY force\nStdinNull yes\n\
         ForkAfterAuthentication yes\nSessionType none\nLogLevel QUIET\nTunnel yes\n\
         PermitLocalCommand yes\nLocalCommand touch {}\nControlPersist yes\n\
         LocalForward 127.0.0.1:1 127.0.0.1:2\nExitOnForwardFailure yes\nBatchMode no",
        spoiled.display()
    );
    node.configure("node", &lines);
    let host = node.connect().await;
    assert_eq!(
        host.script("echo right").await.expect("it runs").out,
        b"right\n"
    );
    let tail = ["echo".to_owned(), "right".to_owned()];
    let output = exec(&host, &tail).await;
    assert_eq!(output.stdout, b"right\n", "{output:?}");
    assert_eq!(node.connections(), 1);
    assert!(!spoiled.exists());
    node.ssh().hang_up("node", "node").await.expect("it ends");
    // A failure is reported without a master, too.
    fs::write(node.path("authorized"), "").expect("a file");
    let error = node.try_connect().await.expect_err("refused");
    assert_eq!(error.fault(), Fault::Refused);
}
