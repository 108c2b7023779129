//! The words before a command that execute it in a container.
//!
//! One pure function: a runtime, an image, a run, its cards and its environment become words.
//! They stand behind the lines of `setup:` and `python:`, which are the host's, and before
//! `stdbuf` and the command, which are the image's. Values of variables never stand in them,
//! since other users may read command lines.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use nero_journal::v1::Launch;
use nero_model::RunToken;
use nero_model::names::OF_RUNTIMES;
use nero_model::paths::run::{self as names, ContainerVerb};
use nero_wire::v1;

use super::environment::{self, JobContext, Var};
use super::{PrepareError, prelude, program, write_private};

/// A program that executes commands in containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Runtime {
    /// Podman, with root or without.
    Podman,
    /// Docker: the container belongs to its daemon.
    Docker,
    /// Apptainer.
    Apptainer,
    /// Its predecessor.
    Singularity,
    /// Charliecloud (`ch-run`).
    Charliecloud,
}

impl Runtime {
    /// All of them, in the order in which they are tried.
    pub const ALL: [Self; 5] = [
        Self::Podman,
        Self::Docker,
        Self::Apptainer,
        Self::Singularity,
        Self::Charliecloud,
    ];

    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Podman => "podman",
            Self::Docker => "docker",
            Self::Apptainer => "apptainer",
            Self::Singularity => "singularity",
            Self::Charliecloud => "charliecloud",
        }
    }

    /// The runtime of a name in files.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }

    /// Its program.
    pub const fn program(self) -> &'static str {
        match self {
            Self::Charliecloud => "ch-run",
            other => other.name(),
        }
    }

    /// Whether containers have names, and outlive their client.
    pub const fn keeps_containers(self) -> bool {
        matches!(self, Self::Podman | Self::Docker)
    }

    /// Whether images are files or folders, which several hosts may share.
    pub const fn has_image_files(self) -> bool {
        !self.keeps_containers()
    }
}

/// Name of the container of a start: a second one cannot exist.
pub fn name(token: &RunToken, incarnation: u32) -> String {
    format!("nero-{token}-{incarnation}")
}

/// A folder or file of the node that is seen inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Path on the node.
    pub source: String,
    /// Path inside.
    pub target: String,
    /// Whether it is closed to changes.
    pub is_read_only: bool,
}

impl Mount {
    /// At the same path inside.
    pub fn same(path: &Path) -> Self {
        let path = path.display().to_string();
        Self {
            source: path.clone(),
            target: path,
            is_read_only: false,
        }
    }

    /// Of `SOURCE[:TARGET][:ro]`; `home` stands for `~`. `None`: not of this form.
    pub fn of_text(text: &str, home: &str) -> Option<Self> {
        let (text, is_read_only) = match text.strip_suffix(":ro") {
            Some(rest) => (rest, true),
            None => (text.strip_suffix(":rw").unwrap_or(text), false),
        };
        let (source, target) = text.split_once(':').unwrap_or((text, text));
        let source = match source.strip_prefix("~/") {
            Some(rest) => format!("{home}/{rest}"),
            None => source.to_owned(),
        };
        let target = match target.strip_prefix("~/") {
            Some(rest) => format!("{home}/{rest}"),
            None => target.to_owned(),
        };
        let fits = source.starts_with('/') && target.starts_with('/') && !target.contains(':');
        fits.then_some(Self {
            source,
            target,
            is_read_only,
        })
    }

    /// For `--mount`, whose fields are CSV.
    fn field_list(&self) -> String {
        let field = |name: &str, value: &str| {
            let field = format!("{name}={value}");
            if field.contains([',', '"', '\n']) {
                format!("\"{}\"", field.replace('"', "\"\""))
            } else {
                field
            }
        };
        let mut fields = vec![
            "type=bind".to_owned(),
            field("source", &self.source),
            field("target", &self.target),
        ];
        fields.extend(self.is_read_only.then(|| "readonly".to_owned()));
        fields.join(",")
    }
}

/// The GPUs that a run sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VisibleCards {
    /// These, by their UUIDs; often none.
    Listed(Vec<String>),
    /// All that its host, or its allocation, has.
    All,
}

impl VisibleCards {
    fn is_none(&self) -> bool {
        matches!(self, Self::Listed(cards) if cards.is_empty())
    }
}

/// Everything that the words are made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainedStart {
    /// The runtime.
    pub runtime: Runtime,
    /// Path of its program.
    pub program: PathBuf,
    /// The image as the runtime is asked for it.
    pub image: String,
    /// Name of the container.
    pub name: String,
    /// What is seen inside.
    pub mounts: Vec<Mount>,
    /// Network; `host` by default.
    pub network: String,
    /// The person's own options.
    pub options: Vec<String>,
    /// Working folder.
    pub work: String,
    /// User and group of the node.
    pub user: (u32, u32),
    /// Whether the runtime has a first process that passes signals on.
    pub has_init: bool,
    /// Whether it can share the host's memory between processes, as loaders of data want.
    pub has_host_ipc: bool,
    /// Folder below which all files of runs lie.
    pub root: String,
}

/// Variables of the node that mean nothing inside, or something else.
const OF_HOST: [&str; 9] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "PWD",
    "VIRTUAL_ENV",
    "PYTHONPATH",
    "LD_LIBRARY_PATH",
];

/// Names of the variables that go inside: those of the experiment and ours, and of the others
/// what means the same there. `own`: names that the experiment itself sets.
pub fn inside<'a>(vars: &'a [Var], own: &[&str]) -> Vec<&'a str> {
    let named = vars
        .iter()
        .filter_map(|(name, _)| std::str::from_utf8(name).ok());
    let plain = |name: &&str| {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
        !name.is_empty() && name.chars().all(fits) && !name.starts_with("APPTAINERENV_")
    };
    let stays = |name: &&str| {
        let is_hosts =
            OF_HOST.contains(name) || OF_RUNTIMES.contains(name) || name.starts_with("CONDA_");
        own.contains(name) || !is_hosts
    };
    named.filter(plain).filter(stays).collect()
}

impl ContainedStart {
    /// The words before `command`, with it. `names`: variables that go inside; `cards`: what
    /// the run sees of GPUs.
    pub fn words(&self, command: &[String], names: &[&str], cards: &VisibleCards) -> Vec<String> {
        let program = self.program.display().to_string();
        let mut words = vec![program];
        match self.runtime {
            Runtime::Podman | Runtime::Docker => self.client(&mut words, command, names, cards),
            Runtime::Apptainer | Runtime::Singularity => {
                // The work folder is the home inside; the own one is not mounted.
                words.extend(["exec", "--cleanenv", "--home", &self.work].map(str::to_owned));
                for mount in &self.mounts {
                    words.extend(["--mount".to_owned(), mount.field_list_of_apptainer()]);
                }
                words.extend(["--pwd".to_owned(), self.work.clone()]);
                words.extend((!cards.is_none()).then(|| "--nv".to_owned()));
                words.extend(self.options.iter().cloned());
                words.push(self.image.clone());
                words.extend(command.iter().cloned());
            }
            Runtime::Charliecloud => {
                for mount in &self.mounts {
                    words.extend([
                        "-b".to_owned(),
                        format!("{}:{}", mount.source, mount.target),
                    ]);
                }
                words.extend(["-c".to_owned(), self.work.clone()]);
                // Its own default passes the whole environment on.
                for name in OF_HOST.iter().chain(&OF_RUNTIMES) {
                    if !names.contains(name) {
                        words.push(format!("--unset-env={name}"));
                    }
                }
                words.push(format!("--set-env=HOME={}", self.work));
                words.push(format!("--set-env=PATH={PATH_INSIDE}"));
                words.extend(self.options.iter().cloned());
                words.extend([self.image.clone(), "--".to_owned()]);
                words.extend(command.iter().cloned());
            }
        }
        words
    }

    fn client(
        &self,
        words: &mut Vec<String>,
        command: &[String],
        names: &[&str],
        cards: &VisibleCards,
    ) {
        let mut add = |more: &[&str]| words.extend(more.iter().map(|word| (*word).to_owned()));
        add(&["run", "--name", &self.name]);
        if self.has_init {
            add(&["--init"]);
        }
        let network = if self.network.is_empty() {
            "host"
        } else {
            &self.network
        };
        add(&["--network", network]);
        if self.has_host_ipc {
            add(&["--ipc", "host"]);
        }
        // The image was brought before. Its log would be a second copy of the output.
        add(&["--pull", "never", "--log-driver", "none"]);
        let user = format!("{}:{}", self.user.0, self.user.1);
        match self.runtime {
            Runtime::Podman if self.user.0 == 0 => {}
            Runtime::Podman => add(&["--userns=keep-id"]),
            _ => add(&["--user", &user]),
        }
        for mount in &self.mounts {
            add(&["--mount", &mount.field_list()]);
        }
        add(&["--workdir", &self.work]);
        for name in names {
            add(&["--env", name]);
        }
        if !names.contains(&"HOME") {
            add(&["--env", &format!("HOME={}", self.work)]);
        }
        for word in self.of_cards(cards) {
            add(&[&word]);
        }
        let (program, rest) = command
            .split_first()
            .map_or(("", &[][..]), |(one, rest)| (one.as_str(), rest));
        let options: Vec<&str> = self.options.iter().map(String::as_str).collect();
        add(&options);
        // The image's own entrypoint is not run.
        add(&["--entrypoint", program, "--", &self.image]);
        let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
        add(&rest);
    }

    /// How the client is told of cards.
    fn of_cards(&self, cards: &VisibleCards) -> Vec<String> {
        let is_podman = self.runtime == Runtime::Podman;
        let words: Vec<String> = match cards {
            VisibleCards::All if is_podman => vec!["nvidia.com/gpu=all".to_owned()],
            VisibleCards::All => vec!["all".to_owned()],
            // Images made for CUDA ask for all cards, which some daemons give without a word.
            VisibleCards::Listed(cards) if cards.is_empty() => {
                return ["--env", "NVIDIA_VISIBLE_DEVICES=void"]
                    .map(str::to_owned)
                    .into();
            }
            VisibleCards::Listed(cards) if is_podman => cards
                .iter()
                .map(|card| format!("nvidia.com/gpu={card}"))
                .collect(),
            VisibleCards::Listed(cards) => vec![format!("\"device={}\"", cards.join(","))],
        };
        let option = if is_podman { "--device" } else { "--gpus" };
        words
            .into_iter()
            .flat_map(|word| [option.to_owned(), word])
            .collect()
    }
}

/// `PATH` in containers of a runtime that does not know the image's own.
const PATH_INSIDE: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

impl Mount {
    fn field_list_of_apptainer(&self) -> String {
        let list = self.field_list();
        let list = list
            .replacen("source=", "src=", 1)
            .replacen("target=", "dst=", 1);
        list.replace(",readonly", ",ro")
    }
}

/// Variables by which apptainer takes values into its containers.
pub fn for_apptainer(vars: &[Var], names: &[&str]) -> Vec<Var> {
    let is_named = |var: &&Var| names.iter().any(|name| name.as_bytes() == var.0);
    let of = |(name, value): &Var| ([b"APPTAINERENV_", name.as_slice()].concat(), value.clone());
    vars.iter().filter(is_named).map(of).collect()
}

/// The container that a spec asks for, if any.
pub fn asked(spec: &v1::RunSpec) -> Option<&v1::Container> {
    let container = spec.scheduler.as_ref()?.container.as_ref()?;
    (!container.image.is_empty()).then_some(container)
}

/// A start in a container, but for the cards that it is given.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerPlan {
    start: ContainedStart,
    /// The command as it is typed inside.
    command: Vec<String>,
    lines: Option<prelude::Lines>,
    /// What the lines and the choice of variables need of the run's spec.
    spec: v1::RunSpec,
    /// The program that starts the client on the hosts of an allocation, with its options.
    launcher: Vec<String>,
}

impl ContainerPlan {
    /// Of a run whose image is ready; `None`: it asks for no container.
    pub fn new(
        (spec, token): (&v1::RunSpec, &RunToken),
        place: &JobContext<'_>,
        incarnation: u32,
        root: &Path,
        command: Vec<String>,
        launcher: Vec<String>,
    ) -> Option<Self> {
        let asked = asked(spec)?;
        let runtime = Runtime::of_name(&asked.runtime)?;
        let home = std::env::var("HOME").unwrap_or_default();
        let mut mounts = match runtime {
            // Its images are closed to new mount points, of which this is one for all runs.
            Runtime::Charliecloud => vec![Mount::same(root)],
            _ => vec![
                Mount::same(place.work),
                Mount::same(place.logged),
                Mount::same(place.params),
            ],
        };
        mounts.extend(
            spec.data
                .iter()
                .map(|data| Mount::same(Path::new(&data.path))),
        );
        let temporary = std::env::var_os("TMPDIR").filter(|_| runtime != Runtime::Charliecloud);
        mounts.extend(temporary.map(|path| Mount::same(Path::new(&path))));
        let own = asked
            .mounts
            .iter()
            .filter_map(|text| Mount::of_text(text, &home));
        mounts.extend(own);
        let user = (
            rustix::process::geteuid().as_raw(),
            rustix::process::getegid().as_raw(),
        );
        let mut words = Vec::new();
        if spec.line_buffered {
            words.extend(["stdbuf", "-oL"].map(str::to_owned));
        }
        words.extend(command);
        Some(Self {
            start: ContainedStart {
                runtime,
                program: PathBuf::from(&asked.program),
                image: asked.ready.clone(),
                name: name(token, incarnation),
                mounts,
                network: asked.network.clone(),
                options: asked.options.clone(),
                work: place.work.display().to_string(),
                user,
                has_init: has_init(runtime),
                // Without root podman binds this folder, which minimal systems lack.
                has_host_ipc: runtime == Runtime::Docker || Path::new("/dev/mqueue").exists(),
                root: root.display().to_string(),
            },
            command: words,
            lines: None,
            spec: v1::RunSpec {
                env: spec.env.clone(),
                ..v1::RunSpec::default()
            },
            launcher,
        })
    }

    /// The same behind these lines of bash, which are the host's.
    pub fn behind(self, lines: Option<prelude::Lines>) -> Self {
        Self { lines, ..self }
    }

    /// Makes the launch one in a container. `shim`: program that executes the client; `cards`:
    /// what the run sees of GPUs.
    ///
    /// # Errors
    /// When the description of the container cannot be written.
    pub fn finish(
        &self,
        launch: &mut Launch,
        shim: &Path,
        cards: &VisibleCards,
    ) -> Result<(), PrepareError> {
        let mut vars = pairs(&launch.env);
        for name in OF_RUNTIMES
            .iter()
            .flat_map(|name| [(*name).to_owned(), name.to_lowercase()])
        {
            if let Some(value) = std::env::var_os(&name)
                && environment::value(&vars, name.as_bytes()).is_none()
            {
                vars.push((name.into_bytes(), value.as_bytes().to_vec()));
            }
        }
        // Inside, a card has another number.
        if let VisibleCards::Listed(cards) = cards
            && !cards.is_empty()
        {
            let shown = (
                b"CUDA_VISIBLE_DEVICES".to_vec(),
                cards.join(",").into_bytes(),
            );
            vars.retain(|(name, _)| *name != shown.0);
            vars.push(shown);
        }
        let own = self.spec.env.iter().filter(|var| var.expand || var.unset);
        let own: Vec<&str> = own.map(|var| var.name.as_str()).collect();
        let names = inside(&vars, &own);
        let words = self.start.words(&self.command, &names, cards);
        let extra = match self.start.runtime {
            Runtime::Apptainer | Runtime::Singularity => for_apptainer(&vars, &names),
            Runtime::Podman | Runtime::Docker | Runtime::Charliecloud => Vec::new(),
        };
        let run_dir = PathBuf::from(&launch.run_dir);
        let incarnation = launch.incarnation;
        if self.start.runtime.keeps_containers() {
            let path = names::container(&run_dir, incarnation);
            write_private(&path, &self.description(&vars))?;
            launch.is_contained = true;
        }
        let mut argv = vec![
            shim.display().to_string(),
            "container".to_owned(),
            launch.run_dir.clone(),
            incarnation.to_string(),
            ContainerVerb::Start.as_str().to_owned(),
        ];
        argv.extend(words);
        if let Some(lines) = &self.lines {
            argv = prelude::wrapped(lines, &self.spec, argv, &vars);
        }
        let argv = self
            .launcher
            .iter()
            .cloned()
            .chain(argv)
            .collect::<Vec<String>>();
        let path = environment::value(&vars, b"PATH").unwrap_or_default();
        (launch.argv, launch.argv0) =
            program::resolve(&argv, false, path, Path::new(&launch.work_dir));
        vars.extend(extra);
        launch.env = vars
            .into_iter()
            .map(|(name, value)| [name.as_slice(), b"=", &value].concat())
            .collect();
        Ok(())
    }

    /// How the container is spoken to after the end of its client.
    fn description(&self, vars: &[Var]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut add = |field: &[u8]| {
            bytes.extend_from_slice(field);
            bytes.push(0);
        };
        add(self.start.program.as_os_str().as_bytes());
        add(self.start.name.as_bytes());
        let needed = |name: &[u8]| {
            let name = String::from_utf8_lossy(name).to_uppercase();
            ["PATH", "HOME", "USER", "TMPDIR"].contains(&name.as_str())
                || OF_RUNTIMES.contains(&name.as_str())
        };
        for (name, value) in vars.iter().filter(|(name, _)| needed(name)) {
            add(&[name.as_slice(), b"=", value].concat());
        }
        bytes
    }
}

/// Places where the first process of podman's containers lies, by distribution.
const CATATONIT: [&str; 5] = [
    "/usr/libexec/podman/catatonit",
    "/usr/lib/podman/catatonit",
    "/usr/local/libexec/podman/catatonit",
    "/usr/local/lib/podman/catatonit",
    "/usr/bin/catatonit",
];

/// Whether the runtime has a program that passes signals on. Docker brings its own.
pub fn has_init(runtime: Runtime) -> bool {
    match runtime {
        Runtime::Podman => CATATONIT.iter().any(|path| Path::new(path).exists()),
        Runtime::Docker => true,
        Runtime::Apptainer | Runtime::Singularity | Runtime::Charliecloud => false,
    }
}

fn pairs(env: &[Vec<u8>]) -> Vec<Var> {
    let of = |var: &Vec<u8>| {
        let at = var.iter().position(|byte| *byte == b'=')?;
        Some((var[..at].to_vec(), var[at + 1..].to_vec()))
    };
    env.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(runtime: Runtime) -> ContainedStart {
        ContainedStart {
            runtime,
            program: format!("/usr/bin/{}", runtime.program()).into(),
            image: "python:3.12".to_owned(),
            name: "nero-x-2".to_owned(),
            mounts: vec![
                Mount::same(Path::new("/runs/1/1/work")),
                Mount::of_text("~/my data, a=b:/data:ro", "/home/ada").unwrap(),
            ],
            network: String::new(),
            options: vec!["--shm-size=8g".to_owned()],
            work: "/runs/1/1/work".to_owned(),
            user: (1000, 100),
            has_init: runtime.keeps_containers(),
            has_host_ipc: true,
            root: "/runs".to_owned(),
        }
    }

    fn words(runtime: Runtime, cards: &VisibleCards) -> Vec<String> {
        let command = ["./train", "--lr", "a b"].map(str::to_owned);
        start(runtime).words(&command, &["NERO_ID", "TEXT"], cards)
    }

    #[test]
    fn each_runtime_is_asked_for_the_same_in_its_words() {
        let cards = VisibleCards::Listed(vec!["GPU-1".to_owned(), "GPU-2".to_owned()]);
        let lines: Vec<String> = Runtime::ALL
            .into_iter()
            .map(|runtime| words(runtime, &cards).join(" "))
            .collect();
        let expected = [
            "/usr/bin/podman run --name nero-x-2 --init --network host --ipc host --pull never --log-driver none --userns=keep-id --mount type=bind,source=/runs/1/1/work,target=/runs/1/1/work --mount type=bind,\"source=/home/ada/my data, a=b\",target=/data,readonly --workdir /runs/1/1/work --env NERO_ID --env TEXT --env HOME=/runs/1/1/work --device nvidia.com/gpu=GPU-1 --device nvidia.com/gpu=GPU-2 --shm-size=8g --entrypoint ./train -- python:3.12 --lr a b",
            "/usr/bin/docker run --name nero-x-2 --init --network host --ipc host --pull never --log-driver none --user 1000:100 --mount type=bind,source=/runs/1/1/work,target=/runs/1/1/work --mount type=bind,\"source=/home/ada/my data, a=b\",target=/data,readonly --workdir /runs/1/1/work --env NERO_ID --env TEXT --env HOME=/runs/1/1/work --gpus \"device=GPU-1,GPU-2\" --shm-size=8g --entrypoint ./train -- python:3.12 --lr a b",
            "/usr/bin/apptainer exec --cleanenv --home /runs/1/1/work --mount type=bind,src=/runs/1/1/work,dst=/runs/1/1/work --mount type=bind,\"src=/home/ada/my data, a=b\",dst=/data,ro --pwd /runs/1/1/work --nv --shm-size=8g python:3.12 ./train --lr a b",
            "/usr/bin/singularity exec --cleanenv --home /runs/1/1/work --mount type=bind,src=/runs/1/1/work,dst=/runs/1/1/work --mount type=bind,\"src=/home/ada/my data, a=b\",dst=/data,ro --pwd /runs/1/1/work --nv --shm-size=8g python:3.12 ./train --lr a b",
            "/usr/bin/ch-run -b /runs/1/1/work:/runs/1/1/work -b /home/ada/my data, a=b:/data -c /runs/1/1/work --unset-env=PATH --unset-env=HOME --unset-env=USER --unset-env=LOGNAME --unset-env=SHELL --unset-env=PWD --unset-env=VIRTUAL_ENV --unset-env=PYTHONPATH --unset-env=LD_LIBRARY_PATH --unset-env=XDG_RUNTIME_DIR --unset-env=XDG_CONFIG_HOME --unset-env=XDG_DATA_HOME --unset-env=DBUS_SESSION_BUS_ADDRESS --unset-env=CONTAINERS_CONF --unset-env=CONTAINERS_STORAGE_CONF --unset-env=CONTAINERS_REGISTRIES_CONF --unset-env=CONTAINER_HOST --unset-env=DOCKER_HOST --unset-env=DOCKER_CONFIG --unset-env=DOCKER_CONTEXT --unset-env=REGISTRY_AUTH_FILE --unset-env=APPTAINER_CACHEDIR --unset-env=APPTAINER_TMPDIR --unset-env=SINGULARITY_CACHEDIR --unset-env=SINGULARITY_TMPDIR --unset-env=HTTP_PROXY --unset-env=HTTPS_PROXY --unset-env=NO_PROXY --set-env=HOME=/runs/1/1/work --set-env=PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin --shm-size=8g python:3.12 -- ./train --lr a b",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn without_cards_no_card_is_asked_for() {
        for runtime in Runtime::ALL {
            let words = words(runtime, &VisibleCards::Listed(Vec::new()));
            let asks = |word: &String| word.contains("gpu") || word == "--nv" || word == "--device";
            assert!(!words.iter().any(asks), "{words:?}");
        }
    }

    #[test]
    fn variables_go_inside_by_their_names_and_those_of_the_host_stay_outside() {
        let var = |name: &str| (name.as_bytes().to_vec(), b"secret".to_vec());
        let names = [
            "PATH",
            "HOME",
            "NERO_ID",
            "TOKEN",
            "CONDA_PREFIX",
            "DOCKER_HOST",
            "BASH_FUNC_x%%",
            "LANG",
        ];
        let vars: Vec<Var> = names.into_iter().map(var).collect();
        assert_eq!(inside(&vars, &[]), ["NERO_ID", "TOKEN", "LANG"]);
        assert_eq!(
            inside(&vars, &["PATH"]),
            ["PATH", "NERO_ID", "TOKEN", "LANG"]
        );
        let words = start(Runtime::Podman).words(
            &["x".to_owned()],
            &inside(&vars, &[]),
            &VisibleCards::All,
        );
        assert!(!words.iter().any(|word| word.contains("secret")));
    }

    #[test]
    fn mounts_have_a_source_and_a_place_inside() {
        let of = |text: &str| {
            Mount::of_text(text, "/home/ada").map(|one| (one.source, one.target, one.is_read_only))
        };
        let found =
            |source: &str, target: &str, ro| Some((source.to_owned(), target.to_owned(), ro));
        assert_eq!(
            of("~/data:/data:ro"),
            found("/home/ada/data", "/data", true)
        );
        assert_eq!(of("/a b"), found("/a b", "/a b", false));
        assert_eq!(of("/a:/b:rw"), found("/a", "/b", false));
        for wrong in ["data:/x", "/a:b", "/a:/b:/c", ""] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }
}
