//! `export SEL -o FILE.zip`: manifest, table, points, parameters, logs, outputs and code of runs,
//! for readers who have none of this machine.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Component, Path, PathBuf};

use nero_model::VERSION;
use nero_views::export::{self, CleanFile, Scrubber, is_secret_file};
use nero_views::{json, object, results, text};
use nero_wire::v1::man_client::ManClient;
use nero_wire::v1::metrics_reply::Series;
use nero_wire::v1::{
    CodePart, CodeRequest, ExperimentView, ListRequest, MetricsReply, MetricsRequest, ShowReply,
};
use serde_json::Value;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::diff::fetch_facts;
use super::results::{check_ours, wrote};
use crate::args::Export;
use crate::connect::CHANGE_DEADLINE;
use crate::fault::{Fault, Stop, code};
use crate::session::{Session, selection};

/// Files of settings, in which values of secrets are looked for.
const SETTINGS_BYTES_MAX: u64 = 1 << 20;

/// Runs whose points are asked for at once.
const RUNS_AT_ONCE: usize = 50;

/// Bytes that are read at once.
const PART_BYTES: usize = 256 * 1024;

/// Begin of the code of the node's folder of a home.
const ROOT: &str = "/.neronet/";

pub async fn run(session: &mut Session, args: &Export) -> Result<u8, Stop> {
    let path = Path::new(&args.output);
    if path.extension().is_none_or(|ending| ending != "zip") {
        let fault = Fault::usage(format!("`{}` is no name of a zip", args.output));
        return Err(fault.hint("end its name in .zip").into());
    }
    check_ours(path)?;
    let views = views(session, &args.picked).await?;
    if views.is_empty() {
        session.out.note("nothing of it has run yet");
        return Ok(code::FAILED);
    }
    let mut runs = Vec::new();
    for view in views {
        let run = json::run_id(view.id, view.run).unwrap_or_default();
        runs.push((view, fetch_facts(session, &run).await?));
    }
    let mut scrubber =
        Scrubber::new(std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        }));
    let trees = trees(&runs);
    for run in trees.values() {
        learn(session, &mut scrubber, run).await?;
    }
    for home in homes(&runs) {
        scrubber.add_home(&home);
    }
    let beside = PathBuf::from(format!("{}.new{}", args.output, std::process::id()));
    let made = write(session, args, &beside, &runs, &trees, &scrubber).await;
    let made = made.and_then(|made| {
        fs::rename(&beside, path).map_err(|error| Stop::from(cannot(path, &error)))?;
        Ok(made)
    });
    if made.is_err() {
        // It may not have been made.
        let _ = fs::remove_file(&beside);
    }
    let made = made?;
    wrote(session, path);
    report(session, args, &made, runs.len())?;
    Ok(code::OK)
}

/// The runs that were picked, as they are.
async fn views(session: &mut Session, picked: &[String]) -> Result<Vec<ExperimentView>, Fault> {
    let asked = ListRequest {
        selection: Some(selection(picked)),
        settle: true,
        ..ListRequest::default()
    };
    let reply = session
        .call(CHANGE_DEADLINE, asked, ManClient::list)
        .await?;
    session.out.notes(&reply.notes);
    let ran = reply.experiments.into_iter();
    Ok(ran.filter(|view| view.run != 0).collect())
}

/// A run with each tree.
fn trees(runs: &[(ExperimentView, ShowReply)]) -> BTreeMap<String, String> {
    let with_code = runs.iter().filter(|(_, reply)| !reply.tree.is_empty());
    with_code
        .map(|(view, reply)| {
            let run = json::run_id(view.id, view.run).unwrap_or_default();
            (reply.tree.clone(), run)
        })
        .collect()
}

/// Home folders: of this machine, and of the nodes whose root lies in one.
fn homes(runs: &[(ExperimentView, ShowReply)]) -> BTreeSet<String> {
    let here = std::env::var("HOME").ok();
    let there = runs
        .iter()
        .filter_map(|(_, reply)| Some(reply.work.split_once(ROOT)?.0.to_owned()));
    here.into_iter().chain(there).collect()
}

/// The folder of a tree in the archive.
fn code_folder(tree: &str) -> String {
    match tree.get(..12) {
        Some(short) => format!("code/{short}"),
        None => String::new(),
    }
}

/// Looks for values of secrets in the settings among the code of a run.
async fn learn(session: &mut Session, scrubber: &mut Scrubber, run: &str) -> Result<(), Fault> {
    let mut file = (String::new(), Vec::new());
    each_part(session, run, SETTINGS_BYTES_MAX, |part| {
        if let Some(entry) = part.file {
            scrubber.learn(&file.0, &file.1);
            file = (entry.path, Vec::new());
        }
        file.1.extend_from_slice(&part.data);
        Ok(())
    })
    .await?;
    scrubber.learn(&file.0, &file.1);
    Ok(())
}

/// Takes the code of a run, part by part.
async fn each_part(
    session: &mut Session,
    run: &str,
    file_bytes_max: u64,
    mut take: impl FnMut(CodePart) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let asked = CodeRequest {
        runs: vec![run.to_owned()],
        differing: false,
        file_bytes_max,
    };
    let take = async |part: Option<CodePart>| match part {
        Some(part) => take(part).map(|()| true),
        None => Err(Fault::no_daemon("the daemon ended while it sent the code")
            .hint("type the command again")),
    };
    session
        .each(CHANGE_DEADLINE, asked, ManClient::code, take)
        .await
}

/// What came into the archive.
#[derive(Debug, Default)]
struct ArchiveContent {
    files: u64,
    bytes: u64,
    /// What is not in it, and why.
    left_out: Vec<String>,
    notes: Vec<String>,
}

async fn write(
    session: &mut Session,
    args: &Export,
    beside: &Path,
    runs: &[(ExperimentView, ShowReply)],
    trees: &BTreeMap<String, String>,
    scrubber: &Scrubber,
) -> Result<ArchiveContent, Stop> {
    let file = File::create(beside).map_err(|error| cannot(beside, &error))?;
    let mut archive = Archive {
        zip: ZipWriter::new(file),
        scrubber,
        path: beside,
        made: ArchiveContent::default(),
    };
    let views: Vec<ExperimentView> = runs.iter().map(|(view, _)| view.clone()).collect();
    let table = results::rows(&views, &[], None).map_err(Fault::from)?;
    archive.add("table.csv", &table.csv())?;
    let reply = points(session, &views).await?;
    archive.add("metrics.csv", &super::metrics::as_csv(&reply))?;
    for (view, _) in runs {
        let run = json::run_id(view.id, view.run).unwrap_or_default();
        let params = format!("{:#}\n", export::parameters(&view.params));
        archive.add(&format!("runs/{run}/parameters.json"), params.as_bytes())?;
        if view.results.is_empty() {
            let note = format!("{run}: no results are here yet");
            archive.made.notes.push(note);
            continue;
        }
        archive.add_folder(Path::new(&view.results), &format!("runs/{run}/files"))?;
        if !view.settled {
            let note = format!("{run} has not ended, or more of its results is to come");
            archive.made.notes.push(note);
        }
    }
    for (tree, run) in trees {
        let mut code = CodeFile::new(code_folder(tree));
        each_part(session, run, 0, |part| code.take(&mut archive, part)).await?;
        code.end(&mut archive)?;
    }
    let manifest = manifest(args, runs, &archive.made);
    archive.add("manifest.json", format!("{manifest:#}\n").as_bytes())?;
    archive.end().map_err(Stop::from)
}

async fn points(session: &mut Session, views: &[ExperimentView]) -> Result<MetricsReply, Fault> {
    let mut series: Vec<Series> = Vec::new();
    for part in views.chunks(RUNS_AT_ONCE) {
        let runs = part
            .iter()
            .filter_map(|view| json::run_id(view.id, view.run));
        let asked = MetricsRequest {
            selection: Some(selection(&runs.collect::<Vec<_>>())),
            names: Vec::new(),
            ..MetricsRequest::default()
        };
        let reply = session.read(asked, ManClient::metrics).await?;
        series.extend(reply.series);
    }
    Ok(MetricsReply {
        series,
        notes: Vec::new(),
    })
}

fn manifest(args: &Export, runs: &[(ExperimentView, ShowReply)], made: &ArchiveContent) -> Value {
    let run = |(view, reply): &(ExperimentView, ShowReply)| {
        export::run(view, reply, &code_folder(&reply.tree))
    };
    json::document(object!(made =>
        made_at: jiff::Timestamp::now().to_string(),
        made_by: format!("neroman {VERSION}"),
        selector: args.picked.join(","),
        runs: runs.iter().map(run).collect::<Vec<_>>(),
        left_out, notes,
    ))
}

fn report(
    session: &Session,
    args: &Export,
    made: &ArchiveContent,
    runs: usize,
) -> Result<(), Stop> {
    let out = &session.out;
    let fields = || object!(made => file: args.output, runs: runs, files, bytes, left_out, notes);
    let text = || {
        for one in &made.left_out {
            out.note(&format!("left out: {one}"));
        }
        let (runs, files) = (text::plural(runs, "run"), text::plural(made.files, "file"));
        format!("{runs} · {files} · {}\n", text::bytes(made.bytes))
    };
    out.reply(&made.notes, fields, text)
}

/// The archive while it is written.
struct Archive<'a> {
    zip: ZipWriter<File>,
    scrubber: &'a Scrubber,
    path: &'a Path,
    made: ArchiveContent,
}

impl Archive<'_> {
    fn begin(&mut self, name: &str, executable: bool) -> Result<(), Fault> {
        let mode = if executable { 0o755 } else { 0o644 };
        let options = SimpleFileOptions::default()
            .compression_method(zip::CompressionMethod::Deflated)
            .large_file(true)
            .unix_permissions(mode);
        let begun = self.zip.start_file(self.scrubber.text(name), options);
        begun.map_err(|error| cannot(self.path, &error))?;
        self.made.files += 1;
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        self.made.bytes += bytes.len() as u64;
        let written = self.zip.write_all(bytes);
        written.map_err(|error| cannot(self.path, &error))
    }

    /// Adds a file of ours.
    fn add(&mut self, name: &str, bytes: &[u8]) -> Result<(), Fault> {
        self.begin(name, false)?;
        let mut file = CleanFile::new(self.scrubber);
        let begin = file.next(bytes);
        self.put(&begin)?;
        self.put(&file.end())
    }

    /// Ends a file of others; one with a secret that cannot be replaced is taken out again.
    fn close(&mut self, name: &str, file: CleanFile<'_>) -> Result<(), Fault> {
        if file.has_secret {
            let taken_out = self.zip.abort_file();
            taken_out.map_err(|error| cannot(self.path, &error))?;
            self.made.files -= 1;
            return self.leave_out(name, "the value of a secret is in it");
        }
        if file.has_home {
            let note = format!("{name} is binary and holds the path of a home folder");
            self.made.notes.push(note);
        }
        self.put(&file.end())
    }

    #[expect(clippy::unnecessary_wraps, reason = "as the other steps")]
    fn leave_out(&mut self, name: &str, why: &str) -> Result<(), Fault> {
        let line = self.scrubber.text(&format!("{name}: {why}"));
        self.made.left_out.push(line);
        Ok(())
    }

    /// Adds the files of a folder, in the order of their names; no links.
    fn add_folder(&mut self, folder: &Path, name: &str) -> Result<(), Fault> {
        let failed = |error: &io::Error| Fault::cannot("read", folder).because(error);
        let entries = fs::read_dir(folder).map_err(|error| failed(&error))?;
        let entries = entries.collect::<io::Result<Vec<_>>>();
        let mut entries = entries.map_err(|error| failed(&error))?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let path = entry.path();
            let name = format!("{name}/{}", entry.file_name().to_string_lossy());
            let kind = entry.file_type().map_err(|error| failed(&error))?;
            if kind.is_dir() {
                self.add_folder(&path, &name)?;
            } else if !kind.is_file() {
                self.leave_out(&name, "it is no regular file")?;
            } else if is_secret_file(&name) {
                self.leave_out(&name, "it looks like a file of secrets")?;
            } else {
                self.add_file(&path, &name)?;
            }
        }
        Ok(())
    }

    fn add_file(&mut self, path: &Path, name: &str) -> Result<(), Fault> {
        let failed = |error: &io::Error| Fault::cannot("read", path).because(error);
        let mut source = File::open(path).map_err(|error| failed(&error))?;
        self.begin(name, false)?;
        let mut file = CleanFile::new(self.scrubber);
        let mut buffer = vec![0; PART_BYTES];
        loop {
            let count = source.read(&mut buffer).map_err(|error| failed(&error))?;
            if count == 0 {
                return self.close(name, file);
            }
            let clean = file.next(&buffer[..count]);
            self.put(&clean)?;
        }
    }

    fn end(self) -> Result<ArchiveContent, Fault> {
        let file = self.zip.finish();
        let file = file.map_err(|error| cannot(self.path, &error))?;
        let synced = file.sync_all();
        synced.map_err(|error| cannot(self.path, &error))?;
        Ok(self.made)
    }
}

/// A file of the code while it comes.
struct CodeFile<'a> {
    folder: String,
    open: Option<(String, CleanFile<'a>)>,
}

impl<'a> CodeFile<'a> {
    fn new(folder: String) -> Self {
        Self { folder, open: None }
    }

    fn take(&mut self, archive: &mut Archive<'a>, part: CodePart) -> Result<(), Fault> {
        if let Some(entry) = &part.file {
            self.end(archive)?;
            let name = format!("{}/{}", self.folder, entry.path);
            let mut parts = Path::new(&entry.path).components();
            let is_below = parts.all(|part| matches!(part, Component::Normal(_)));
            if !is_below {
                archive.leave_out(&name, "its path leads out of the folder")?;
            } else if !entry.link.is_empty() {
                archive.leave_out(&name, &format!("it is a link to {}", entry.link))?;
            } else if is_secret_file(&entry.path) {
                archive.leave_out(&name, "it looks like a file of secrets")?;
            } else if !part.problem.is_empty() {
                archive.leave_out(&name, &part.problem)?;
            } else {
                archive.begin(&name, entry.executable)?;
                self.open = Some((name, CleanFile::new(archive.scrubber)));
            }
        } else if !part.problem.is_empty() {
            let fault = Fault::failed("the frozen code cannot be read");
            return Err(fault.cause(part.problem));
        }
        if let Some((_, file)) = &mut self.open {
            let clean = file.next(&part.data);
            archive.put(&clean)?;
        }
        Ok(())
    }

    fn end(&mut self, archive: &mut Archive<'a>) -> Result<(), Fault> {
        match self.open.take() {
            Some((name, file)) => archive.close(&name, file),
            None => Ok(()),
        }
    }
}

fn cannot(path: &Path, error: &dyn std::error::Error) -> Fault {
    Fault::cannot("write", path).because(error)
}
