//! A run's folder: its files for a launch, and the files found after it.

use std::fs;
use std::path::{Path, PathBuf};

use nero_journal::frame::{self, FrameKind};
use nero_journal::v1::{
    Claimed, JobExited, JobNotStarted, JobStarted, Launch, Notice, RecordKind, SignalSent,
    StopAsked, TakenOver, TreeGone,
};

use crate::rig::until;

/// `nero.v1.Cancel`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Cancel {
    #[prost(bytes = "vec", tag = "1")]
    pub token: Vec<u8>,
    #[prost(uint32, tag = "2")]
    pub cause: u32,
    #[prost(uint32, tag = "3")]
    pub grace_ms: u32,
    #[prost(int32, tag = "4")]
    pub signal: i32,
    #[prost(uint64, tag = "5")]
    pub rule: u64,
    #[prost(string, tag = "6")]
    pub author: String,
    #[prost(int64, tag = "7")]
    pub asked_ms: i64,
}

impl Cancel {
    /// A cancel request of a person, with this grace.
    pub fn within(grace_ms: u32) -> Self {
        Self {
            token: vec![1; 16],
            cause: 1,
            grace_ms,
            author: "a person".to_owned(),
            asked_ms: 1_700_000_000_000,
            ..Self::default()
        }
    }
}

/// A run and its folder.
#[derive(Clone, Debug)]
pub struct Run {
    pub launch: Launch,
    pub dir: PathBuf,
}

impl Run {
    pub fn new(root: &Path, argv: &[&str]) -> Self {
        let token: [u8; 16] = nero_model::ids::random();
        let dir = root.join(nero_model::ids::hex(&token[..4]));
        fs::create_dir_all(dir.join("work")).unwrap();
        fs::create_dir_all(dir.join("control")).unwrap();
        let work = dir.join("work").to_str().unwrap().to_owned();
        let name = nero_model::ids::hex(&token);
        Self {
            launch: Launch {
                token: token.to_vec(),
                run_dir: dir.to_str().unwrap().to_owned(),
                incarnation: 1,
                argv: argv.iter().map(|one| one.as_bytes().to_vec()).collect(),
                env: vec![
                    b"PATH=/usr/bin:/bin".to_vec(),
                    format!("NERO_RUN={name}").into_bytes(),
                    format!("NERO_DIR={work}").into_bytes(),
                ],
                work_dir: work,
                grace_ms: 500,
                ..Launch::default()
            },
            dir,
        }
    }

    pub fn folder(&self) -> PathBuf {
        self.dir.join(self.launch.incarnation.to_string())
    }

    pub fn work(&self, name: &str) -> PathBuf {
        self.dir.join("work").join(name)
    }

    /// Text that the job wrote into its folder, once it is whole.
    pub fn written(&self, name: &str) -> String {
        until(name, || {
            fs::read_to_string(self.work(name))
                .ok()
                .filter(|text| text.ends_with('\n'))
        })
    }

    /// A number that the job wrote.
    pub fn number(&self, name: &str) -> i32 {
        self.written(name).trim().parse().unwrap()
    }

    pub fn stdout(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.folder().join("stdout.log")).unwrap()).into_owned()
    }

    pub fn cancel(&self, number: u32, cancel: Cancel) {
        let path = self.dir.join(format!("control/cancel.{number}"));
        frame::create(FrameKind::Cancel, &path, &cancel).unwrap();
    }

    pub fn claim(&self) -> Story {
        Story::read(&self.folder().join("claim"))
    }

    /// The segment of the launcher that took over.
    pub fn launchers(&self) -> Story {
        self.launchers_segments().pop().unwrap_or_default()
    }

    pub fn launchers_segments(&self) -> Vec<Story> {
        let names = fs::read_dir(self.folder()).into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> = names.map(|entry| entry.path()).collect();
        paths.retain(|path| {
            let name = path.file_name().unwrap().to_string_lossy();
            name.starts_with("launcher-") && name.ends_with(".seg")
        });
        paths.iter().map(|path| Story::read(path)).collect()
    }

    /// The job's number, once it is written.
    pub fn job(&self) -> i32 {
        until("the job's record", || {
            self.claim().started.and_then(|one| Some(one.job?.pid))
        })
    }

    pub fn shim(&self) -> i32 {
        until("the claim", || {
            self.claim().claimed.and_then(|one| Some(one.shim?.pid))
        })
    }
}

/// Contents of one segment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Story {
    pub kinds: Vec<RecordKind>,
    pub claimed: Option<Claimed>,
    pub taken: Option<TakenOver>,
    pub started: Option<JobStarted>,
    pub not_started: Option<JobNotStarted>,
    pub stops: Vec<StopAsked>,
    pub signals: Vec<SignalSent>,
    pub exited: Option<JobExited>,
    pub gone: Option<TreeGone>,
    pub notices: Vec<Notice>,
}

impl Story {
    pub fn read(path: &Path) -> Self {
        let mut story = Self::default();
        let Ok(bytes) = fs::read(path) else {
            return story;
        };
        let Ok((_, records)) = nero_journal::scan(&bytes) else {
            return story;
        };
        for record in records {
            let kind = RecordKind::try_from(i32::from(record.kind)).unwrap();
            story.kinds.push(kind);
            match kind {
                RecordKind::Claimed => story.claimed = record.decode().ok(),
                RecordKind::TakenOver => story.taken = record.decode().ok(),
                RecordKind::JobStarted => story.started = record.decode().ok(),
                RecordKind::JobNotStarted => story.not_started = record.decode().ok(),
                RecordKind::StopAsked => story.stops.extend(record.decode::<StopAsked>()),
                RecordKind::SignalSent => story.signals.extend(record.decode::<SignalSent>()),
                RecordKind::JobExited => story.exited = record.decode().ok(),
                RecordKind::TreeGone => story.gone = record.decode().ok(),
                RecordKind::Notice => {
                    story.notices.extend(record.decode::<Notice>());
                }
                RecordKind::Paused | RecordKind::Resumed => {}
                other => panic!("unexpected record {other:?}"),
            }
        }
        story
    }
}
