//! What a run asks of a scheduler: `partition`, `account`, `setup`, options of
//! `sbatch` and `qsub`, GPUs. Each value holds for all nodes, or is given per node:
//! `partition: {triton: gpu, default: batch}`.

pub(crate) mod container;
pub(crate) mod values;

use self::values::{QSUB, SBATCH, SubmitOptions, constraint, count, name, options, setup};
use crate::definition::{Container, NodeResources, OnNode, OnNodes, SchedulerOptions};
use crate::read::block::{Scope, Setting};
use crate::read::fields::Field;
use crate::read::reader::Reader;
use nero_model::safe::quoted;
use nero_yaml::{Kind, Node};

/// The key of a value that holds for every other node.
const DEFAULT: &str = "default";

/// Reads the fields of a block; those in `resources` are read with it.
pub(crate) fn read(reader: &mut Reader<'_>, scope: &Scope) -> SchedulerOptions {
    SchedulerOptions {
        partition: read_name(reader, scope, Field::Partition),
        account: read_name(reader, scope, Field::Account),
        qos: read_name(reader, scope, Field::Qos),
        constraint: field(reader, scope, Field::Constraint, |reader, key, value| {
            constraint(reader, key, value)
        }),
        queue: read_name(reader, scope, Field::Queue),
        parallel_env: read_name(reader, scope, Field::ParallelEnv),
        launcher: launcher(reader, scope),
        reruns_lost: field(reader, scope, Field::OnLost, |reader, key, value| {
            reader.choice(key, value, &[("wait", false), ("rerun", true)])
        }),
        setup: field(reader, scope, Field::Setup, |reader, key, value| {
            setup(reader, key, value)
        }),
        python: python(reader, scope),
        container: container(reader, scope),
        sbatch_args: field(reader, scope, Field::SbatchArgs, |reader, key, value| {
            own_options(reader, key, value, SBATCH)
        }),
        qsub_args: field(reader, scope, Field::QsubArgs, |reader, key, value| {
            own_options(reader, key, value, QSUB)
        }),
        pack: field(reader, scope, Field::Pack, |reader, key, value| {
            count(reader, key, value)
        }),
        at_once: field(reader, scope, Field::AtOnce, |reader, key, value| {
            count(reader, key, value)
        }),
        ..SchedulerOptions::default()
    }
}

/// `launcher: srun`, which also nodes without a scheduler honour or refuse.
fn launcher(reader: &mut Reader<'_>, scope: &Scope) -> OnNodes<String> {
    let Some(given) = scope.get(Field::Launcher) else {
        return OnNodes::default();
    };
    on_nodes(reader, &given.key, &given.value, |reader, key, value| {
        values::launcher(reader, key, value)
    })
}

/// `python: conda:myenv`, `venv:PATH`, `uv`, `system`; for all nodes or for each.
fn python(reader: &mut Reader<'_>, scope: &Scope) -> OnNodes<String> {
    let Some(given) = scope.get(Field::Python) else {
        return OnNodes::default();
    };
    on_nodes(reader, &given.key, &given.value, |reader, key, value| {
        let text = reader.single(key, value)?;
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let fits = |c: char| c.is_alphanumeric() || "_./-+@ ~$".contains(c);
        let is_named = !rest.is_empty() && rest.chars().all(fits);
        let is_whole = match kind {
            "uv" | "system" => kind == text,
            "conda" => is_named,
            // Below the experiment's folder: there on this machine, and nowhere else.
            "venv" if is_named && !rest.starts_with(['/', '~', '$']) => {
                if key.ends_with(".local") {
                    return Some(format!("venv:{}/{rest}", reader.folder.display()));
                }
                let message = format!("{} is no place on a node", quoted(rest));
                let hint = "a path begins with `/`, `~/` or `$NAME/`; one below the folder is for this machine: `python: {local: venv:.venv}`";
                reader.wrong(value.mark, message, hint);
                return None;
            }
            "venv" => is_named,
            _ => false,
        };
        if !is_whole {
            let message = format!("`{key}` takes no {}", quoted(text));
            reader.wrong(
                value.mark,
                message,
                "write conda:NAME, venv:PATH, uv or system",
            );
        }
        is_whole.then(|| text.to_owned())
    })
}

/// A container for all nodes, or one for each. An image below the experiment's folder travels.
fn container(reader: &mut Reader<'_>, scope: &Scope) -> OnNodes<Container> {
    let Some(given) = scope.get(Field::Container) else {
        return OnNodes::default();
    };
    if container::is_one(&given.value) {
        let value = container::read(reader, &given.key, &given.value);
        return OnNodes(
            value
                .map(|value| OnNode { node: None, value })
                .into_iter()
                .collect(),
        );
    }
    on_nodes(reader, &given.key, &given.value, |reader, key, value| {
        container::read(reader, key, value)
    })
}

/// Files below the experiment's folder that are images of its containers.
pub(crate) fn images(scheduling: &SchedulerOptions) -> Vec<String> {
    let images = scheduling.container.0.iter().map(|one| &one.value.image);
    let files = images.filter_map(|image| image.strip_prefix("./"));
    let mut files: Vec<String> = files.map(str::to_owned).collect();
    files.dedup();
    files
}

fn read_name(reader: &mut Reader<'_>, scope: &Scope, of: Field) -> OnNodes<String> {
    field(reader, scope, of, |reader, key, value| {
        name(reader, key, value)
    })
}

/// A field that does nothing on a node without a scheduler, which a note says.
fn field<T>(
    reader: &mut Reader<'_>,
    scope: &Scope,
    of: Field,
    read: impl Fn(&mut Reader<'_>, &str, &Node) -> Option<T>,
) -> OnNodes<T> {
    let Some(given) = scope.get(of) else {
        return OnNodes::default();
    };
    let Setting {
        key,
        key_mark,
        value,
        ..
    } = given;
    if of != Field::Setup {
        let text = format!("`{key}` is for nodes with a scheduler; elsewhere it does nothing");
        reader.note(Some(*key_mark), text);
    }
    on_nodes(reader, key, value, read)
}

/// One value for all nodes, or one for each.
pub(crate) fn on_nodes<T>(
    reader: &mut Reader<'_>,
    key: &str,
    value: &Node,
    mut read: impl FnMut(&mut Reader<'_>, &str, &Node) -> Option<T>,
) -> OnNodes<T> {
    let mut each = Vec::new();
    match &value.kind {
        Kind::Map(entries) => {
            for entry in entries {
                let node = (entry.key != DEFAULT).then(|| entry.key.clone());
                if entry.value.is_null() {
                    continue;
                }
                if let Some(value) = read(reader, &format!("{key}.{}", entry.key), &entry.value) {
                    each.push(OnNode { node, value });
                }
            }
        }
        Kind::Scalar { .. } | Kind::List(_) if value.is_null() => {}
        Kind::Scalar { .. } | Kind::List(_) => {
            let value = read(reader, key, value);
            each.extend(value.map(|value| OnNode { node: None, value }));
        }
    }
    OnNodes(each)
}

/// The person's own options. In a list each is checked here; the original's single
/// text is read as well when it has options that are ours, which a node with a
/// scheduler then refuses.
fn own_options(
    reader: &mut Reader<'_>,
    key: &str,
    value: &Node,
    of: SubmitOptions,
) -> Option<Vec<String>> {
    let is_text = matches!(value.kind, Kind::Scalar { .. });
    let read = options(reader, key, value, of)?;
    for (mark, why) in read.ours {
        if is_text {
            let text = format!("{why}; a node with a scheduler refuses the run");
            reader.note(Some(mark), text);
        } else {
            reader.wrong(mark, why, "")
        }
    }
    Some(read.words)
}

fn of<'a, T>(field: &'static str, values: &'a OnNodes<T>) -> Vec<(&'static str, &'a str)> {
    let names = values.0.iter().filter_map(|one| one.node.as_deref());
    names.map(|name| (field, name)).collect()
}

impl NodeResources {
    /// The nodes that have values, with the fields.
    pub fn named_nodes(&self) -> Vec<(&'static str, &str)> {
        [
            of("cpus", &self.cpus),
            of("memory", &self.memory_bytes),
            of("time", &self.time_ms),
            of("disk", &self.disk_bytes),
        ]
        .concat()
    }
}

impl SchedulerOptions {
    /// The nodes that have values of their own, with the fields.
    pub fn named_nodes(&self) -> Vec<(&'static str, &str)> {
        [
            of("gpus", &self.gpus),
            of("gpumem", &self.gpumem),
            of("gpu_type", &self.gpu_type),
            of("nodes", &self.nodes),
            of("processes", &self.processes),
            of("launcher", &self.launcher),
            of("exclusive", &self.exclusive),
            of("partition", &self.partition),
            of("account", &self.account),
            of("qos", &self.qos),
            of("constraint", &self.constraint),
            of("queue", &self.queue),
            of("parallel_env", &self.parallel_env),
            of("setup", &self.setup),
            of("python", &self.python),
            of("container", &self.container),
            of("sbatch_args", &self.sbatch_args),
            of("qsub_args", &self.qsub_args),
            of("pack", &self.pack),
            of("at_once", &self.at_once),
            of("on_lost", &self.reruns_lost),
        ]
        .concat()
    }
}
