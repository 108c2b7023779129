//! The files of the node that does as it is told: its store, what its runs
//! made, and the lies that it can tell about both.

use std::collections::BTreeMap;

use nero_wire::v1;
use tonic::Status;

/// Bytes of one part of a file.
const PART: usize = 4;

/// A file of a run.
#[derive(Clone, Debug)]
pub(super) struct File {
    content: Vec<u8>,
    modified_ms: i64,
    inode: u64,
}

/// What a node may answer that it must not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lie {
    OtherName,
    OtherOffset,
    OtherHash,
    Endless,
    Nothing,
    More,
    /// It changes whenever it is read.
    Changing,
    /// It cannot be read.
    Unreadable,
}

/// Everything that the node holds beside its runs.
#[derive(Debug, Default)]
pub(super) struct Files {
    pub(super) files: BTreeMap<String, File>,
    /// Whole blobs by hash.
    pub(super) blobs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// What came of blobs before a cut.
    pub(super) partial: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(super) lie: Option<Lie>,
    /// The next transfers break off after so many bytes, one after the other.
    pub(super) cuts: Vec<usize>,
    /// Bytes of files that were sent.
    pub(super) sent: usize,
    /// Bytes of blobs that came.
    pub(super) came: usize,
    /// Blobs are not taken before this is over.
    pub(super) stalled: bool,
    /// So many bytes of each transfer are, all the same.
    pub(super) stalls_after: usize,
    /// The logs of its runs are gone.
    pub(super) logs_gone: bool,
    /// Logs come without end; so many parts of them went out.
    pub(super) endless_logs: bool,
    pub(super) log_parts: u64,
    /// Blobs are answered so.
    pub(super) refused: Option<tonic::Status>,
    /// Number of times that a client began to send files.
    pub(super) tries: usize,
    made: u64,
    /// Tokens of runs whose folders were taken away.
    pub(super) cleaned: Vec<Vec<u8>>,
    /// What it lists apart.
    pub(super) left_out: Vec<(String, v1::LeftOut)>,
}

impl Files {
    pub(super) fn put(&mut self, path: &str, content: &[u8]) {
        self.made += 1;
        let file = File {
            content: content.to_vec(),
            modified_ms: 1_700_000_000_000 + self.made as i64,
            inode: self.made,
        };
        self.files.insert(path.to_owned(), file);
    }

    pub(super) fn list(&self, globs: &[String]) -> v1::ListFilesReply {
        let fits = |path: &str| -> Vec<u32> {
            (0..globs.len() as u32)
                .filter(|index| {
                    let glob = globs[*index as usize].as_str();
                    glob == "*" || glob == path
                })
                .collect()
        };
        v1::ListFilesReply {
            files: self
                .files
                .iter()
                .map(|(path, file)| v1::FileEntry {
                    path: path.clone(),
                    size: file.content.len() as u64,
                    modified_ms: file.modified_ms,
                    inode: file.inode,
                    globs: fits(path),
                    executable: false,
                    made: true,
                })
                .filter(|entry| !entry.globs.is_empty())
                .collect(),
            left_out: self.left_out.iter().map(|(line, _)| line.clone()).collect(),
            left_out_as: self
                .left_out
                .iter()
                .map(|(_, why)| i32::from(*why))
                .collect(),
            work: "/node/work".to_owned(),
            made_told: true,
            ..v1::ListFilesReply::default()
        }
    }

    /// The answer to a question for files, as far as it gets.
    pub(super) fn read(&mut self, wants: &[v1::read_files_request::Want], log: &[u8]) -> Answer {
        let mut parts = Vec::new();
        let stdout = File {
            content: log.to_vec(),
            modified_ms: 0,
            inode: 0,
        };
        for want in wants {
            let file = match (want.log, want.path.as_str()) {
                (true, "stdout.log") => Some(&stdout),
                (true, _) => None,
                (false, path) => self.files.get(path),
            };
            match file {
                Some(file) if self.lie != Some(Lie::Unreadable) => {
                    parts.extend(file.parts(want));
                }
                Some(_) | None => parts.push(v1::FilePart {
                    path: want.path.clone(),
                    last: true,
                    problem: "\u{1b}[31mno such file".to_owned(),
                    ..v1::FilePart::default()
                }),
            }
        }
        if let Some(lie) = self.lie {
            bend(&mut parts, lie);
        }
        let cut = (!self.cuts.is_empty()).then(|| self.cuts.remove(0));
        let mut answer: Answer = parts.into_iter().map(Ok).collect();
        if let Some(cut) = cut {
            cut_off(&mut answer, cut);
        }
        let bytes = answer.iter().flatten().map(|part| part.data.len());
        self.sent += bytes.sum::<usize>();
        answer
    }

    /// Takes run folders away, but none of the runs that it is told to keep.
    pub(super) fn clean(&mut self, request: v1::CleanRequest, keep: &[Vec<u8>]) -> v1::CleanReply {
        let mut reply = v1::CleanReply::default();
        for run in request.runs {
            if keep.contains(&run.token) {
                reply.refused.push(v1::clean_reply::Refusal {
                    token: run.token,
                    why: "it \u{1b}lives".to_owned(),
                });
            } else {
                reply.freed_bytes += 1000;
                reply.cleaned.push(run.token);
            }
        }
        if !request.dry_run {
            self.cleaned.extend(reply.cleaned.clone());
        }
        reply
    }

    pub(super) fn missing(&self, asked: Vec<Vec<u8>>) -> v1::BlobList {
        let mut list = v1::BlobList::default();
        for hash in asked {
            if !self.blobs.contains_key(&hash) {
                let there = self.partial.get(&hash).map_or(0, Vec::len);
                list.partial.push(there as u64);
                list.hashes.push(hash);
            }
        }
        list
    }
}

type Answer = Vec<Result<v1::FilePart, Status>>;

impl File {
    fn parts(&self, want: &v1::read_files_request::Want) -> Vec<v1::FilePart> {
        let from = (want.offset as usize).min(self.content.len());
        let rest = &self.content[from..];
        let mut parts: Vec<v1::FilePart> = rest
            .chunks(PART)
            .enumerate()
            .map(|(index, data)| v1::FilePart {
                offset: (from + index * PART) as u64,
                data: data.to_vec(),
                ..v1::FilePart::default()
            })
            .collect();
        if parts.is_empty() {
            parts.push(v1::FilePart {
                offset: from as u64,
                ..v1::FilePart::default()
            });
        }
        if let Some(first) = parts.first_mut() {
            first.path.clone_from(&want.path);
        }
        if let Some(last) = parts.last_mut() {
            last.last = true;
            last.hash = blake3::hash(rest).as_bytes().to_vec();
        }
        parts
    }
}

fn bend(parts: &mut Vec<v1::FilePart>, lie: Lie) {
    let Some(first) = parts.first_mut() else {
        return;
    };
    match lie {
        Lie::OtherName => first.path = "../evil".to_owned(),
        Lie::OtherOffset => first.offset += 1,
        Lie::OtherHash => {
            for part in parts.iter_mut().filter(|part| part.last) {
                part.hash = vec![1; 32];
            }
        }
        Lie::Endless => {
            let mut endless = first.clone();
            endless.last = false;
            endless.data = vec![7; 1024 * 1024];
            let mut offset = 0;
            parts.clear();
            for _ in 0..100 {
                endless.offset = offset;
                offset += endless.data.len() as u64;
                parts.push(endless.clone());
                endless.path.clear();
            }
        }
        Lie::Nothing => parts.clear(),
        Lie::More => {
            let more = parts.clone();
            parts.extend(more);
        }
        Lie::Changing => {
            for part in parts.iter_mut() {
                part.changed = part.last;
            }
        }
        Lie::Unreadable => {}
    }
}

/// Breaks an answer off after so many bytes of content.
fn cut_off(answer: &mut Answer, mut left: usize) {
    let mut kept = Vec::new();
    for mut part in answer.drain(..).flatten() {
        if part.data.len() > left {
            part.data.truncate(left);
            part.last = false;
            part.hash.clear();
            if !part.data.is_empty() {
                kept.push(Ok(part));
            }
            break;
        }
        left -= part.data.len();
        kept.push(Ok(part));
    }
    kept.push(Err(Status::unavailable("cut")));
    *answer = kept;
}
