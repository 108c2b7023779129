//! A project of mlframework: its files. Commands begin in the framework's folder, in which the
//! project's folder lies, and there the file of ours has its place.

#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use nero_config::MlframeworkHosts;
use nero_format::ImportedText;
use nero_mlframework::{imported, tasks, yaml_text};
use nero_model::safe::Safe;

use crate::fault::{Fault, Stop};
use crate::verb::noodles::{contents, refused};

const TASKS: &str = "tasks.py";
const PARAMETERS: &str = "parameters.yml";
/// Files of the framework's folder that name hosts: the second is made of the first.
const HOSTS: [&str; 2] = ["config.sh", "infra.csv"];

/// A project's folder.
pub(super) struct Project {
    /// The folder in which commands begin.
    pub(super) framework: PathBuf,
    /// The name of the project's Python package, which is its folder's name in mlframework.
    name: String,
    hosts: Option<MlframeworkHosts>,
    /// The file that names these.
    hosts_file: &'static str,
}

impl Project {
    /// The project of a folder that has a `tasks.py`, or whose `config.sh` or `infra.csv` names the
    /// folder that does.
    ///
    /// # Errors
    /// When it is none, or with every mistake in the files that name the hosts.
    pub(super) fn find(folder: &Path) -> Result<Self, Fault> {
        let no_project =
            || Fault::usage(format!("{} is no project of mlframework", folder.display()));
        let whole = fs::canonicalize(folder).map_err(|error| no_project().because(&error))?;
        let is_project = whole.join(TASKS).is_file();
        let framework = match whole.parent() {
            Some(parent) if is_project => parent,
            _ => &whole,
        };
        let is_there = |file: &&str| framework.join(file).is_file();
        let hosts_file = HOSTS.into_iter().find(is_there).unwrap_or(HOSTS[0]);
        let hosts = if is_there(&hosts_file) {
            let read = MlframeworkHosts::read(&framework.join(hosts_file));
            let what = "cannot read the hosts of the project";
            Some(read.map_err(|error| Fault::failed(what).because(&error))?)
        } else {
            None
        };
        let own = whole.file_name().filter(|_| is_project).map(Path::new);
        let named = hosts.as_ref().and_then(|hosts| hosts.folder.as_deref());
        let named = named.map(Path::new);
        let name = own.or(named).and_then(Path::to_str);
        match name.filter(|name| framework.join(name).join(TASKS).is_file()) {
            Some(name) => Ok(Self {
                framework: framework.to_owned(),
                name: name.trim_matches('/').to_owned(),
                hosts,
                hosts_file,
            }),
            None => {
                let fault = no_project().cause(format!("it has no {TASKS}"));
                Err(fault.hint("name the project's folder, or the file of a spec"))
            }
        }
    }

    /// The project in our words.
    ///
    /// # Errors
    /// All mistakes of a file, each with its place.
    pub(super) fn imported(&self) -> Result<ImportedText, Stop> {
        let read = |name: &str| {
            let path = self.framework.join(&self.name).join(name);
            let path = path.display().to_string();
            contents(&path).map(|text| (path, text))
        };
        let (path, text) = read(TASKS)?;
        let tasks = tasks(&text).map_err(|mistakes| refused(&path, &mistakes))?;
        let mut parameters = Vec::new();
        if self.framework.join(&self.name).join(PARAMETERS).exists() {
            let (path, text) = read(PARAMETERS)?;
            parameters = nero_mlframework::parameters(&text)
                .map_err(|mistakes| refused(&path, &mistakes))?;
        }
        Ok(imported(
            &self.name,
            self.hosts(),
            (PARAMETERS, &parameters),
            (TASKS, &tasks),
        ))
    }

    /// Where the runs go: the workers are a group.
    fn hosts(&self) -> ImportedText {
        let mut file = ImportedText::default();
        let Some(hosts) = &self.hosts else {
            return file;
        };
        let (name, from) = (&self.name, self.hosts_file);
        let node = match hosts.workers.as_slice() {
            [] => return file,
            [0] => "local".to_owned(),
            _ => {
                let _ = writeln!(
                    file.text,
                    "# Its workers: neroman infra up {} -f {from}",
                    Safe::line(name)
                );
                yaml_text(name)
            }
        };
        let _ = writeln!(file.text, "node: {node}");
        if hosts.names_master {
            file.lost(format!(
                "the master and the broker of {from}: none is needed"
            ));
        }
        file
    }
}
