use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use nero_model::DeploymentId;
use nero_model::paths::NodePaths;

use super::install::install;
use super::*;
use nero_model::builds::PROGRAMS;
use nero_wire::hello::HelloError;

struct ProgramsFolder {
    temp: tempfile::TempDir,
}

impl ProgramsFolder {
    /// Programs in a folder; `neromum` is the given script.
    fn new(neromum: &str) -> Self {
        let place = Self {
            temp: tempfile::tempdir().unwrap(),
        };
        fs::create_dir(place.from()).unwrap();
        place.program("neromum", &format!("#!/bin/sh\n{neromum}\n"));
        place.program("nerokid", "#!/bin/sh\n");
        place.program("nerokid-shim", "#!/bin/sh\n");
        place
    }

    fn program(&self, name: &str, content: &str) {
        let path = self.from().join(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn from(&self) -> PathBuf {
        self.temp.path().join("programs")
    }

    fn root(&self) -> PathBuf {
        self.temp.path().join("node")
    }

    fn install(&self) -> PathBuf {
        install(&self.from(), &self.root().join("bin")).unwrap()
    }
}

fn inode(path: &Path) -> u64 {
    path.metadata().unwrap().ino()
}

#[test]
fn a_build_is_installed_once_and_a_new_one_beside_it() {
    let place = ProgramsFolder::new("exit 0");
    let first = place.install();
    let name = first.file_name().unwrap().to_str().unwrap();
    assert_eq!(name.len(), 16);
    for program in PROGRAMS {
        let (copy, source) = (first.join(program), place.from().join(program));
        assert_eq!(fs::read(&copy).unwrap(), fs::read(source).unwrap());
        assert_eq!(copy.metadata().unwrap().mode() & 0o777, 0o500);
    }
    let before = inode(&first);
    assert_eq!(place.install(), first);
    assert_eq!(inode(&first), before);
    place.program("nerokid", "#!/bin/sh\n# another\n");
    let second = place.install();
    assert_ne!(second, first);
    assert!(first.join("nerokid").exists());
    let left: Vec<_> = fs::read_dir(place.root().join("bin"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with('.') && name != ".known.json")
        .collect();
    assert_eq!(left, [] as [&str; 0]);
}

#[test]
fn an_installed_program_that_changed_is_replaced() {
    let place = ProgramsFolder::new("exit 0");
    let folder = place.install();
    let copy = folder.join("nerokid");
    let sound = fs::read(&copy).unwrap();
    for content in [b"#!/bin/xx\n".as_slice(), b"", b"longer than it was before"] {
        fs::remove_file(&copy).unwrap();
        fs::write(&copy, content).unwrap();
        assert_eq!(place.install(), folder);
        assert_eq!(fs::read(&copy).unwrap(), sound);
    }
    fs::write(place.root().join("bin/.known.json"), "{broken").unwrap();
    assert_eq!(place.install(), folder);
    fs::remove_file(&copy).unwrap();
    assert_eq!(place.install(), folder);
    assert_eq!(fs::read(&copy).unwrap(), sound);
}

#[test]
fn missing_programs_are_named_with_what_to_do() {
    let place = ProgramsFolder::new("exit 0");
    fs::remove_file(place.from().join("nerokid")).unwrap();
    fs::remove_file(place.from().join("nerokid-shim")).unwrap();
    let error = install(&place.from(), &place.root()).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("nerokid, nerokid-shim not found in")
    );
    assert!(error.hint().unwrap().contains("cargo build"));
}

#[tokio::test]
async fn an_agent_that_ends_says_why() {
    let place = ProgramsFolder::new("echo 'ledger is damaged' >&2; echo \"$@\" >&2; exit 3");
    let options = AgentOptions {
        cpus: Some(1.5),
        memory_bytes: Some(4096),
        gpus: Some("[0,2]".to_owned()),
        ..AgentOptions::default()
    };
    let deployment = DeploymentId::random();
    let error = start::connect(&place.root(), deployment, "local", &options, &place.from())
        .await
        .unwrap_err();
    let AgentError::Ended { status, log } = &error else {
        panic!("{error}");
    };
    assert_eq!(status, "exit status: 3");
    assert_eq!(log[0], "ledger is damaged");
    let root = place.root();
    let expected = format!(
        "serve --own-session --root {} --deployment {deployment} --node local --cpus 1.5 --memory 4096 --gpus [0,2]",
        root.display()
    );
    assert_eq!(log[1], expected);
    assert!(error.to_string().contains("its log ends with:\n  ledger"));
}

/// Answers a greeting and nothing else.
mod greeter {
    use nero_wire::v1::mum_server::Mum;
    use nero_wire::v1::*;
    use tonic::{Request, Response, Status, Streaming};

    pub(super) struct Greeter(pub(super) Hello);

    type Answer<T> = Result<Response<T>, Status>;
    type Parts<T> = tokio_stream::Empty<Result<T, Status>>;

    fn nothing<T>() -> Answer<T> {
        Err(Status::unimplemented("it only greets"))
    }

    #[tonic::async_trait]
    impl Mum for Greeter {
        type FollowStream = Parts<FollowEvent>;
        type ReadLogStream = Parts<LogPart>;
        type ReadFileStream = Parts<FilePart>;

        async fn greet(&self, _: Request<Hello>) -> Answer<Hello> {
            Ok(Response::new(self.0.clone()))
        }

        async fn describe(&self, _: Request<DescribeRequest>) -> Answer<NodeDescription> {
            nothing()
        }

        async fn missing_blobs(&self, _: Request<BlobList>) -> Answer<BlobList> {
            nothing()
        }

        async fn put_blobs(&self, _: Request<Streaming<BlobPart>>) -> Answer<PutBlobsReply> {
            nothing()
        }

        async fn hand_over(&self, _: Request<HandOverRequest>) -> Answer<HandOverReply> {
            nothing()
        }

        async fn cancel(&self, _: Request<CancelRequest>) -> Answer<CancelReply> {
            nothing()
        }

        async fn pause_runs(&self, _: Request<PauseRunsRequest>) -> Answer<PauseRunsReply> {
            nothing()
        }

        async fn relay(&self, _: Request<RelayOrder>) -> Answer<RelayClaims> {
            nothing()
        }

        async fn find_jobs(&self, _: Request<FindJobsRequest>) -> Answer<FindJobsReply> {
            nothing()
        }

        async fn set_rules(&self, _: Request<SetRulesRequest>) -> Answer<SetRulesReply> {
            nothing()
        }

        async fn respond(
            &self,
            _: Request<nero_wire::v1::RespondRequest>,
        ) -> Answer<nero_wire::v1::RespondReply> {
            nothing()
        }

        async fn answer_step(
            &self,
            _: Request<nero_wire::v1::AnswerStepRequest>,
        ) -> Answer<nero_wire::v1::AnswerStepReply> {
            nothing()
        }

        async fn follow(&self, _: Request<Streaming<FollowRequest>>) -> Answer<Self::FollowStream> {
            nothing()
        }

        async fn read_log(&self, _: Request<ReadLogRequest>) -> Answer<Self::ReadLogStream> {
            nothing()
        }

        async fn list_files(&self, _: Request<ListFilesRequest>) -> Answer<ListFilesReply> {
            nothing()
        }

        async fn read_file(&self, _: Request<ReadFileRequest>) -> Answer<Self::ReadFileStream> {
            nothing()
        }

        async fn script(&self, _: Request<ScriptRequest>) -> Answer<ScriptReply> {
            nothing()
        }

        async fn probe(&self, _: Request<ProbeRequest>) -> Answer<ProbeReply> {
            nothing()
        }

        async fn bring_image(
            &self,
            _: Request<nero_wire::v1::BringImageRequest>,
        ) -> Answer<nero_wire::v1::BringImageReply> {
            nothing()
        }

        async fn stop(&self, _: Request<StopRequest>) -> Answer<StopReply> {
            nothing()
        }

        async fn examine(
            &self,
            _: tonic::Request<nero_wire::v1::ExamineRequest>,
        ) -> Result<tonic::Response<nero_wire::v1::ExamineReply>, tonic::Status> {
            nothing()
        }

        type ReadFilesStream = Parts<nero_wire::v1::FilePart>;

        async fn read_files(
            &self,
            _: tonic::Request<nero_wire::v1::ReadFilesRequest>,
        ) -> Result<tonic::Response<Self::ReadFilesStream>, tonic::Status> {
            nothing()
        }

        async fn disk_usage(
            &self,
            _: tonic::Request<nero_wire::v1::DiskUsageRequest>,
        ) -> Result<tonic::Response<nero_wire::v1::DiskUsageReply>, tonic::Status> {
            nothing()
        }

        async fn clean(
            &self,
            _: tonic::Request<nero_wire::v1::CleanRequest>,
        ) -> Result<tonic::Response<nero_wire::v1::CleanReply>, tonic::Status> {
            nothing()
        }

        type RunsStream = Parts<nero_wire::v1::RunFolder>;

        async fn runs(
            &self,
            _: tonic::Request<nero_wire::v1::RunsRequest>,
        ) -> Result<tonic::Response<Self::RunsStream>, tonic::Status> {
            nothing()
        }
    }
}

/// Serves a greeting at the node's socket, then connects.
async fn connect_to(
    hello: nero_wire::v1::Hello,
    deployment: DeploymentId,
) -> Result<(Channel, Hello), AgentError> {
    let place = ProgramsFolder::new("exit 3");
    let sockets = NodePaths::new(&place.root(), &deployment, "local").sockets();
    nero_model::paths::make_private(&sockets).unwrap();
    let listener = nero_wire::listen::OwnerOnly::bind(&sockets.join("mum.sock")).unwrap();
    let serving = tokio::spawn(
        tonic::transport::Server::builder()
            .add_service(nero_wire::v1::mum_server::MumServer::new(greeter::Greeter(
                hello,
            )))
            .serve_with_incoming(listener),
    );
    let options = AgentOptions::default();
    let done = start::connect(&place.root(), deployment, "local", &options, &place.from()).await;
    serving.abort();
    done
}

#[tokio::test]
async fn an_agent_that_answers_is_greeted_and_not_started() {
    use nero_wire::hello::own;
    use nero_wire::v1::Role;
    let deployment = DeploymentId::random();
    let hello = own(Role::Neromum, "0.1.0+abc", Some(deployment));
    let (_, theirs) = connect_to(hello.clone(), deployment).await.unwrap();
    assert_eq!(theirs, hello);
}

#[tokio::test]
async fn another_program_at_the_agents_socket_is_refused_with_what_to_do() {
    use nero_wire::hello::own;
    use nero_wire::v1::Role;
    let deployment = DeploymentId::random();
    for (theirs, expected) in [
        (
            own(Role::Neromum, "", Some(DeploymentId::random())),
            HelloError::Deployment,
        ),
        (own(Role::Neroman, "", Some(deployment)), HelloError::Role),
    ] {
        let error = connect_to(theirs, deployment).await.unwrap_err();
        assert!(
            matches!(&error, AgentError::Hello(found) if *found == expected),
            "{error}"
        );
        let hint = error.hint().unwrap();
        assert!(hint.contains("another `root:`"), "{hint}");
    }
}
