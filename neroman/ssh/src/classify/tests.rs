//! Real texts of OpenSSH 9.2, with `LogLevel=DEBUG1` where they are ours; lines
//! of no use were taken out.

use super::*;
use crate::Fault;

const NOTES: &str = "\
debug1: Authenticating to 10.0.0.7:22 as 'me'
debug1: Server host key: ssh-ed25519 SHA256:fxAA/Oxuc+60/dNn93N60szThyu3VVOdiQybTROGc5I
debug1: Authentications that can continue: publickey,password
debug1: Offering public key: /home/me/.ssh/id_ed25519 ED25519 SHA256:iHuBGJA3 agent
debug1: Offering public key: /home/me/.ssh/id_ed25519 ED25519 SHA256:iHuBGJA3 agent
debug1: Offering public key: /home/me/.ssh/id_rsa RSA SHA256:NqdK
";

fn of(lines: &str) -> Trouble {
    let text = format!("{NOTES}{lines}");
    classify(text.as_bytes(), "exit status: 255", &Settings::default())
}

fn jump(lines: &str) -> Trouble {
    let settings = Settings::parse(b"proxyjump me@gate\n");
    classify(lines.as_bytes(), "exit status: 255", &settings)
}

#[test]
fn each_message_of_ssh_is_classified_as_its_fault() {
    let table = [
        (
            "ssh: Could not resolve hostname n: Name or service not known\r\n",
            Fault::NoSuchHost,
        ),
        (
            "ssh: Could not resolve hostname n: Temporary failure in name resolution\r\n",
            Fault::NoSuchHost,
        ),
        (
            "debug1: connect to address 10.0.0.7 port 22: Connection refused\r\nssh: connect to host n port 22: Connection refused\r\n",
            Fault::Unreachable,
        ),
        (
            "ssh: connect to host n port 22: No route to host\r\n",
            Fault::Unreachable,
        ),
        (
            "ssh: connect to host n port 22: Network is unreachable\r\n",
            Fault::Unreachable,
        ),
        (
            "kex_exchange_identification: read: Connection reset by peer\r\nConnection reset by 10.0.0.7 port 22\r\n",
            Fault::Unreachable,
        ),
        (
            "ssh: connect to host n port 22: Connection timed out\r\n",
            Fault::Timeout,
        ),
        (
            "ssh: connect to host n port 22: Operation timed out\n",
            Fault::Timeout,
        ),
        (
            "Connection timed out during banner exchange\r\nConnection to 10.0.0.7 port 22 timed out\r\n",
            Fault::Timeout,
        ),
        ("Host key verification failed.\r\n", Fault::HostKeyUnknown),
        (
            "No ED25519 host key is known for n and you have requested strict checking.\r\nHost key verification failed.\r\n",
            Fault::HostKeyUnknown,
        ),
        (
            "@       WARNING: REVOKED HOST KEY DETECTED!               @\r\nED25519 host key for n was revoked and you have requested strict checking.\r\nHost key verification failed.\r\n",
            Fault::HostKeyChanged,
        ),
        (
            "me@n: Permission denied (publickey,gssapi-with-mic).\r\n",
            Fault::Refused,
        ),
        (
            "Received disconnect from 10.0.0.7 port 22:2: Too many authentication failures\r\nDisconnected from 10.0.0.7 port 22\r\n",
            Fault::Refused,
        ),
        (
            "me@n: Permission denied (publickey,password,keyboard-interactive).\r\n",
            Fault::NeedsPerson,
        ),
        (
            "n: line 1: Bad configuration option: foo\r\nn: terminating, 1 bad configuration options\r\n",
            Fault::Program,
        ),
        (
            "Unable to negotiate with 10.0.0.7 port 22: no matching host key type found. Their offer: ssh-rsa\r\n",
            Fault::Other,
        ),
        ("", Fault::Other),
    ];
    for (lines, fault) in table {
        let trouble = of(lines);
        assert_eq!(trouble.fault(), fault, "{lines:?} was read as {trouble:?}");
    }
}

#[test]
fn a_changed_key_names_the_old_place_and_the_new_key() {
    let trouble = of("\
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@\r
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\r
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@\r
IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!\r
The fingerprint for the ED25519 key sent by the remote host is\r
SHA256:zH/oEbbEKVnsiIFNQq+cMnNK8I9QRAfqJbi3toujEH0.\r
Please contact your system administrator.\r
Add correct host key in /home/me/.ssh/known_hosts to get rid of this message.\r
Offending ED25519 key in /home/me/.ssh/known_hosts:12\r
  remove with:\r
  ssh-keygen -f \"/home/me/.ssh/known_hosts\" -R \"n\"\r
Host key for n has changed and you have requested strict checking.\r
Host key verification failed.\r
");
    let Trouble::HostKeyChanged {
        fingerprint,
        place,
        forget,
        ..
    } = trouble
    else {
        panic!("{trouble:?}");
    };
    // The fingerprint that ssh saw is in its notes, too.
    assert!(fingerprint.is_some_and(|print| print.starts_with("SHA256:fxAA/")));
    assert_eq!(place.as_deref(), Some("/home/me/.ssh/known_hosts:12"));
    assert_eq!(
        forget.as_deref(),
        Some("ssh-keygen -f \"/home/me/.ssh/known_hosts\" -R \"n\"")
    );
}

#[test]
fn a_login_that_needs_a_person_is_told_apart() {
    let denied = "me@n: Permission denied (publickey,keyboard-interactive).\r\n";
    let need = |lines: &str| match of(&format!("{lines}{denied}")) {
        Trouble::NeedsPerson {
            need,
            methods,
            keys,
        } => {
            assert_eq!(methods, "publickey,keyboard-interactive");
            assert_eq!(keys.len(), 2, "each key once: {keys:?}");
            need
        }
        other => panic!("{other:?}"),
    };
    let accepted = "debug1: Server accepts key: /home/me/.ssh/id_rsa RSA SHA256:NqdK\r\n";
    assert_eq!(need(""), SecretKind::Password);
    assert_eq!(need(accepted), SecretKind::Unlock);
    let partial = "Authenticated using \"publickey\" with partial success.\r\n";
    assert_eq!(
        need(&format!("{accepted}{partial}")),
        SecretKind::SecondFactor
    );
    let agent = "sign_and_send_pubkey: signing failed for ED25519 \"/home/me/.ssh/id_ed25519\" from agent: agent refused operation\r\n";
    assert_eq!(need(&format!("{accepted}{agent}")), SecretKind::Agent);
}

#[test]
fn a_key_whose_disk_fails_is_tried_again() {
    let said = "debug1: Server accepts key: /home/me/.ssh/id ED25519 SHA256:abc\r\n\
        Load key \"/home/me/.ssh/id\": Input/output error\r\nme@h: Permission denied (publickey).\r\n";
    let trouble = classify(said.as_bytes(), "exit status: 255", &Settings::default());
    assert_eq!(trouble.fault(), Fault::Other);
    assert!(
        trouble.to_string().contains("Input/output error"),
        "{trouble}"
    );
}

#[test]
fn a_failure_at_a_jump_host_is_told_as_such() {
    let end = "kex_exchange_identification: Connection closed by remote host\r\nConnection closed by UNKNOWN port 65535\r\n";
    let table = [
        (
            "ssh: Could not resolve hostname gate: Name or service not known\r\n",
            Fault::NoSuchHost,
        ),
        (
            "ssh: connect to host gate port 22: Connection refused\r\n",
            Fault::Unreachable,
        ),
        (
            "me@gate: Permission denied (publickey).\r\n",
            Fault::Refused,
        ),
        ("Host key verification failed.\r\n", Fault::HostKeyUnknown),
        ("sh: 1: exec: nc: not found\r\n", Fault::Other),
    ];
    for (lines, fault) in table {
        let trouble = jump(&format!("{lines}{end}"));
        assert_eq!(trouble.fault(), fault, "{trouble:?}");
        assert!(trouble.to_string().contains("me@gate"), "{trouble}");
    }
    let behind = jump(&format!(
        "channel 0: open failed: connect failed: Connection refused\r\nstdio forwarding failed\r\n{end}"
    ));
    assert!(matches!(behind, Trouble::Unreachable { .. }), "{behind:?}");
    // The node itself, seen through the jump host, is no fault of the jump host.
    let denied = jump(&format!("{NOTES}me@n: Permission denied (publickey).\r\n"));
    assert!(matches!(denied, Trouble::Refused { .. }), "{denied:?}");
}

#[test]
fn hostile_text_is_bounded_and_acts_on_no_terminal() {
    let mut text = b"\x1b]52;c;aGk=\x07\xff".to_vec();
    text.resize(60_000, b'!');
    let trouble = classify(&text, "exit status: 255", &Settings::default());
    let shown = trouble.to_string();
    assert!(shown.len() < 1000, "{}", shown.len());
    assert!(shown.chars().all(|c| !c.is_control()), "{shown:?}");
}
