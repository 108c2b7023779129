//! Another protocol on every link: refused with both versions and what to do,
//! and nothing that runs is touched. Further capabilities of a later build are
//! no reason to refuse it.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use nero_journal::v1::{FromLauncher, LauncherHello, ToLauncher, from_launcher, to_launcher};
use nero_model::paths::NodePaths;
use nero_model::process::ProcessId;
use nero_model::{DeploymentId, Home as Folders, PROTOCOL_HIGHEST, PROTOCOL_LOWEST, VERSION};
use nero_tests::{DEADLINE, Part, until};
use nero_wire::hello;
use nero_wire::v1::kids_client::KidsClient;
use nero_wire::v1::man_client::ManClient;
use nero_wire::v1::mum_client::MumClient;
use nero_wire::v1::watcher_message::Message as WatcherSays;
use nero_wire::v1::{Failure, Hello, Role, WatcherHello, WatcherMessage};
use prost::Message as _;

use super::Mix;

/// The hello of a later build whose protocols we do not know.
fn later(role: Role, deployment: Option<DeploymentId>) -> Hello {
    Hello {
        protocol_lowest: 98,
        protocol_highest: 99,
        ..hello::own(role, "9.9.9+later", deployment)
    }
}

/// As [`later`], for a build that also knows our protocol.
fn able(role: Role, deployment: Option<DeploymentId>) -> Hello {
    Hello {
        protocol_highest: 99,
        capabilities: vec!["of-a-later-build".to_owned()],
        ..hello::own(role, "9.9.9+later", deployment)
    }
}

/// Checks that the text names both sides.
#[track_caller]
fn names_both(said: &str) {
    let ours = format!("this build ({VERSION}) {PROTOCOL_LOWEST} to {PROTOCOL_HIGHEST}");
    assert!(
        said.contains("9.9.9+later speaks protocols 98 to 99"),
        "{said}"
    );
    assert!(said.contains(&ours), "{said}");
}

#[tokio::test]
async fn another_protocol_is_refused_with_words() {
    let mut mix = Mix::new(1);
    mix.upgrade();
    mix.begin(1);
    let folders = Folders::below(&mix.home.base());
    let mut man = ManClient::new(nero_wire::dial(&folders.socket()).await.unwrap());
    let refused = man.greet(later(Role::Client, None)).await.unwrap_err();
    let failure = Failure::decode(refused.details()).unwrap();
    names_both(&failure.causes.join(" "));
    assert!(failure.hint.contains("daemon stop"), "{failure:?}");
    let daemon = man
        .greet(able(Role::Client, None))
        .await
        .unwrap()
        .into_inner();

    let deployment = DeploymentId::from_slice(&daemon.deployment);
    let paths = NodePaths::new(&folders.local_root, &deployment.unwrap(), "local");
    let mum = nero_wire::dial(&paths.sockets().join("mum.sock"))
        .await
        .unwrap();
    for role in [Role::Neroman, Role::Nerokid] {
        let mut client = MumClient::new(mum.clone());
        let refused = client.greet(later(role, deployment)).await.unwrap_err();
        names_both(refused.message());
        assert!(refused.message().contains("end this neromum"), "{refused}");
        client.greet(able(role, deployment)).await.unwrap();
    }
    let first = WatcherMessage {
        message: Some(WatcherSays::Hello(WatcherHello {
            hello: Some(later(Role::Nerokid, deployment)),
            token: vec![1; 16],
            incarnation: 1,
            segment: vec![1; 8],
        })),
    };
    let attached = KidsClient::new(mum).attach(tokio_stream::once(first)).await;
    names_both(attached.unwrap_err().message());

    launcher_names_itself(&launcher_socket(&paths));
    mix.ends_well(1);
}

/// The socket of the one launcher.
fn launcher_socket(paths: &NodePaths) -> PathBuf {
    let all = fs::read_dir(paths.sockets()).unwrap();
    let mut sockets = all.map(|entry| entry.unwrap().path()).filter(|path| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with("launcher-") && name.ends_with(".sock")
    });
    sockets.next().unwrap()
}

/// Checks that a launcher sends the protocols that it knows, and then nothing.
fn launcher_names_itself(socket: &std::path::Path) {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let message = ToLauncher {
        message: Some(to_launcher::Message::Hello(LauncherHello {
            build: "9.9.9+later".to_owned(),
            protocol_lowest: 98,
            protocol_highest: 99,
            process: None,
        })),
    };
    stream.write_all(&framed(&message)).unwrap();
    let mut said = Vec::new();
    stream.read_to_end(&mut said).unwrap();
    let said = FromLauncher::decode(&said[4..]).unwrap();
    let Some(from_launcher::Message::Hello(hello)) = said.message else {
        panic!("{said:?}");
    };
    assert_eq!(
        (hello.protocol_lowest, hello.protocol_highest),
        (PROTOCOL_LOWEST, PROTOCOL_HIGHEST)
    );
}

fn framed(message: &impl prost::Message) -> Vec<u8> {
    let mut bytes = (message.encoded_len() as u32).to_le_bytes().to_vec();
    message.encode(&mut bytes).unwrap();
    bytes
}

/// A launcher of a build whose protocols neromum does not know is told to
/// leave, and its run is followed as before.
#[test]
fn a_launcher_that_cannot_be_spoken_to_is_sent_home() {
    let mut mix = Mix::new(1);
    mix.upgrade();
    mix.begin(1);
    let mum = mix.home.until_alive(Part::Mum);
    let launcher = mix.home.until_alive(Part::Launcher);
    let folder = socket_folder(launcher);
    let listener = UnixListener::bind(folder.join("launcher-later.sock")).unwrap();
    let mut later = Command::new("sleep")
        .arg("600")
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let process = ProcessId::of(later.id() as i32).unwrap();
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let message = FromLauncher {
            message: Some(from_launcher::Message::Hello(LauncherHello {
                build: "9.9.9+later".to_owned(),
                protocol_lowest: 98,
                protocol_highest: 99,
                process: Some(process.into()),
            })),
        };
        stream.write_all(&framed(&message)).unwrap();
        stream.read_to_end(&mut Vec::new()).unwrap();
    });
    mix.home.kill(Part::Mum);
    until("another neromum", || {
        mix.home.ok(&["status"]);
        let all = mix.home.alive(Part::Mum);
        if all.iter().any(|one| *one != mum) {
            Ok(())
        } else {
            Err(mix.home.logs())
        }
    });
    let ended = until("the launcher to be sent home", || {
        later.try_wait().unwrap().ok_or_else(|| mix.home.logs())
    });
    assert_eq!(ended.signal(), Some(15), "{ended}");
    answering.join().unwrap();
    let ours = format!("this neromum ({VERSION}) {PROTOCOL_LOWEST} to {PROTOCOL_HIGHEST}");
    // The log line is written when the launcher is told to leave, perhaps after
    // it left.
    until("the protocols to be told", || {
        let log = mix.home.logs();
        let theirs = log.contains("9.9.9+later speaks protocols 98 to 99");
        (theirs && log.contains(&ours)).then_some(()).ok_or(log)
    });
    assert_eq!(mix.home.alive(Part::Launcher), [launcher]);
    mix.ends_well(1);
}

/// Folder of a launcher's socket, from its command line.
fn socket_folder(launcher: ProcessId) -> PathBuf {
    let line = fs::read(format!("/proc/{}/cmdline", launcher.pid)).unwrap();
    let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
    let at = words.iter().position(|word| *word == b"--socket").unwrap();
    let socket = PathBuf::from(String::from_utf8(words[at + 1].to_vec()).unwrap());
    socket.parent().unwrap().to_path_buf()
}
