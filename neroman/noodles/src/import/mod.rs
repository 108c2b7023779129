//! A spec of Training Noodles in the words of `neronet.yaml`.

mod handlers;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use nero_expr::NodeFact;
use nero_format::python::Literal;
use nero_format::{ImportedText, PROBE_BYTES_MAX, put_block, scalar};
use nero_model::safe::{Safe, quoted};

use self::handlers::takes;
use crate::{
    Action, CommandGroup, Comparison, Experiment, Handler, NoodlesSpec, Requirement, STAGES,
    Server, script,
};

/// The group of nodes that stands for the servers of a spec.
const GROUP: &str = "servers";
/// Most runs that a handler with `retry` makes: the original has no end.
const RETRIES: u32 = 100;

/// What the spec says in our words. `folder`: where commands of this machine begin. `typist`: the
/// user for whom `$USER` stands.
pub fn imported(
    spec: &NoodlesSpec,
    command_type: &str,
    path: &str,
    folder: &str,
    typist: Option<&str>,
) -> ImportedText {
    let mut importer = Importer {
        spec,
        folder,
        typist,
        file: ImportedText::default(),
        probes: BTreeMap::new(),
        names: BTreeSet::new(),
        renamed: BTreeMap::new(),
        pinned: 0,
    };
    importer.head(command_type, path);
    // Probes stand before the experiments that use them.
    let mut all = String::new();
    let named = importer.named();
    for (stage, experiments) in STAGES.iter().zip(&named) {
        for (name, experiment) in experiments {
            all.push_str(&importer.experiment(stage, name, experiment, experiments));
        }
    }
    // Handlers need the names of all experiments.
    let handlers = importer.handlers();
    importer.file.text.push_str(&handlers);
    if !importer.probes.is_empty() {
        importer.file.text.push_str("probes:\n");
        for (name, command) in &importer.probes {
            let _ = writeln!(importer.file.text, "  {name}: {}", scalar(command));
        }
    }
    importer.file.text.push_str(&all);
    importer.file
}

struct Importer<'s> {
    spec: &'s NoodlesSpec,
    /// Where commands of this machine begin.
    folder: &'s str,
    /// The user for whom `$USER` stands.
    typist: Option<&'s str>,
    file: ImportedText,
    /// Lines of shell by their names here.
    probes: BTreeMap<String, String>,
    /// Names of experiments that are taken.
    names: BTreeSet<String>,
    /// Names of experiments in the spec, by those here, where they differ.
    renamed: BTreeMap<String, String>,
    /// Experiments that go to a server which is chosen here.
    pinned: usize,
}

impl<'s> Importer<'s> {
    /// Tells what has no counterpart; the line for the file.
    fn lost(&mut self, what: impl Into<String>) -> String {
        self.file.comment_of_loss(what.into())
    }

    /// As `lost`, for what concerns many experiments: the first one has the line.
    fn lost_once(&mut self, what: &str) -> String {
        if self.file.warnings.iter().any(|one| one == what) {
            String::new()
        } else {
            self.lost(what)
        }
    }

    fn is_local(&self) -> bool {
        self.spec.servers.iter().all(Server::is_local)
    }

    fn head(&mut self, command_type: &str, path: &str) {
        let spec = self.spec;
        let mut text = format!(
            "# The commands of the type {} of {}, by `neroman import`.\n",
            quoted(command_type),
            Safe::line(path)
        );
        if !self.is_local() {
            self.put_nodes(&mut text);
        }
        for what in self.without_counterpart(command_type) {
            text.push_str(&self.lost(what));
        }
        let _ = writeln!(text, "collection: {}", scalar(&spec.name));
        let _ = writeln!(text, "stages: [{}]", STAGES.join(", "));
        let node = if self.is_local() { "local" } else { GROUP };
        let _ = writeln!(text, "node: {node}");
        text.push_str("place: first\nlock: deployment          # one at a time on each server\n");
        if spec.deployment_interval > 0.0 {
            let ms = (spec.deployment_interval * 1000.0).ceil();
            let _ = writeln!(text, "settle: {ms}ms");
        }
        text.push_str("files: []                 # nothing travels\nmonitor: {strays: leave}\n");
        self.file.text = text;
    }

    /// How the servers become nodes.
    fn put_nodes(&self, text: &mut String) {
        text.push_str("# Its servers, the preferred one first, are nodes here:\n");
        let servers = &self.spec.servers;
        for server in servers.iter().filter(|server| !server.is_local()) {
            let at = match server.username.as_deref() {
                Some("$USER") => server.hostname.clone(),
                Some(_) | None => server.authority(),
            };
            let (node, at) = (node_name(server), Safe::line(&at).to_string());
            let _ = writeln!(text, "#   neroman node add {node} {at}");
            for (word, value, default) in [
                ("Port", &server.port, "22"),
                (
                    "IdentityFile",
                    &server.private_key_path,
                    "$HOME/.ssh/id_rsa",
                ),
            ] {
                if let Some(value) = value.as_ref().filter(|value| *value != default) {
                    let value = Safe::line(value);
                    let _ = writeln!(text, "#     with `{word} {value}` in ~/.ssh/config");
                }
            }
        }
        let mut nodes: Vec<String> = servers.iter().map(node_name).collect();
        let mut seen = BTreeSet::new();
        nodes.retain(|node| seen.insert(node.clone()));
        let nodes = nodes.join(", ");
        let _ = writeln!(
            text,
            "#   and in config.yaml: `groups: {{{GROUP}: [{nodes}]}}`"
        );
    }

    /// What the spec says of all its experiments that has no counterpart.
    fn without_counterpart(&self, command_type: &str) -> Vec<String> {
        let spec = self.spec;
        let mut lost = Vec::new();
        if spec.servers.is_empty() {
            let what = "the spec has no servers: its experiments go to this machine";
            lost.push(what.to_owned());
        }
        let (here, away): (Vec<_>, Vec<_>) = spec.servers.iter().partition(|one| one.is_local());
        if let [first, _, ..] = here[..] {
            lost.push(format!(
                "the servers of this machine but the first: they are one node, and \
                 NOODLES_SERVER_… are those of {}",
                quoted(&first.name)
            ));
        }
        for server in away {
            let values = self.with_user(server).variables("");
            let mut values = values[2..].iter();
            if values.any(|(_, value)| value.contains(['$', '`'])) {
                lost.push(format!(
                    "variables of this machine in the server {}: runs fill them in on their node",
                    quoted(&server.name)
                ));
            }
        }
        let others = spec.remarks.types.iter().filter(|one| *one != command_type);
        lost.extend(others.map(|other| {
            let other = quoted(other);
            format!("commands of the type {other}: `--type` imports them into a file of their own")
        }));
        let unknown = spec.remarks.unknown_keys.iter();
        lost.extend(unknown.map(|one| format!("the key {} means nothing", quoted(&one.key))));
        lost.extend(spec.status_path.iter().map(|path| {
            let path = quoted(path);
            format!("the status file {path}: `neroman status --json` tells the same")
        }));
        let intervals = [
            ("round_interval", spec.round_interval),
            ("commands_interval", spec.commands_interval),
        ];
        let waits = intervals.iter().filter(|(_, seconds)| *seconds > 0.0);
        lost.extend(
            waits
                .map(|(name, seconds)| format!("{name} {seconds}: a run starts as soon as it can")),
        );
        for (name, shell, default) in [
            ("shell_string", &spec.shell_string, "bash -c"),
            ("shell_stdin", &spec.shell_stdin, "bash -s"),
        ] {
            if shell != default {
                let shell = quoted(shell);
                lost.push(format!("{name} {shell}: bash executes the scripts"));
            }
        }
        lost
    }

    /// The experiments of each stage with their names here.
    fn named(&mut self) -> Vec<Vec<(String, &'s Experiment)>> {
        let spec = self.spec;
        let stages = spec.stages.iter().map(|experiments| {
            let mut named = Vec::new();
            for one in experiments.iter().filter(|one| !one.commands.is_empty()) {
                let own = self.name(&one.name);
                self.note_name(&own, one);
                named.push((own, one));
            }
            named
        });
        stages.collect()
    }

    /// Remembers what the spec calls an experiment.
    fn note_name(&mut self, own: &str, experiment: &Experiment) {
        if own != experiment.name {
            let name = experiment.name.clone();
            self.renamed.insert(own.to_owned(), name);
        }
    }

    /// A name that means nothing else in `depends_on`, and that no other experiment has.
    fn name(&mut self, wanted: &str) -> String {
        let plain: String = wanted
            .trim()
            .chars()
            .map(|c| match c {
                '*' | '?' | '{' | '}' | '/' => '_',
                c if c.is_control() => ' ',
                c => c,
            })
            .collect();
        let is_number = plain.bytes().all(|byte| byte.is_ascii_digit());
        let plain = if is_number {
            format!("e{plain}")
        } else {
            plain
        };
        let mut name = plain.clone();
        let mut count = 1;
        while !self.names.insert(name.clone()) {
            count += 1;
            name = format!("{plain}-{count}");
        }
        name
    }

    /// Whether the groups may be steps of one run: none that fails is one after which the original
    /// goes on. It always executes the groups behind, too, even where it ends the flow then.
    fn takes_steps(&self) -> bool {
        let only_zero = |handler: &Handler| (1..256).all(|code| !takes(handler, code));
        let mut handlers = self.spec.error_handlers.iter();
        let is_exact = |one: &Handler| one.action != Action::Continue || only_zero(one);
        self.spec.check_any_errors && handlers.all(is_exact)
    }

    /// The exit code with which a `local` step ends that printed errors and would end with 0. It
    /// is one that no handler takes: errors with code 0 have no handler in the spec either. `None`:
    /// a handler takes code 0, or every other one is taken.
    fn code_of_errors(&self) -> Option<u16> {
        let is_taken = |code| self.spec.error_handlers.iter().any(|one| takes(one, code));
        (1..256).find(|code| !is_taken(*code) && !is_taken(0))
    }

    /// One experiment with a step for each place in turn at which its commands run. Where the
    /// original goes on after a group that fails, it is an experiment for each. Where all places are
    /// this machine, it is one script.
    fn experiment(
        &mut self,
        stage: &str,
        name: &str,
        experiment: &Experiment,
        beside: &[(String, &Experiment)],
    ) -> String {
        let mut text = String::from("\n");
        for (word, path) in [
            ("stdout_to", &experiment.stdout_to),
            ("stderr_to", &experiment.stderr_to),
        ] {
            if let Some(path) = path {
                let (of, path) = (quoted(name), quoted(path));
                text.push_str(&self.lost(format!("{word} {path} of {of}: `neroman logs` has it")));
            }
        }
        let needs = self.needs(name, experiment, beside, &mut text);
        let requires = self.requires(name, experiment, &mut text);
        let groups = &experiment.commands;
        if groups.len() > 1 && self.spec.check_any_errors {
            text.push_str(&self.lost_once(if self.is_local() {
                "errors of each group of commands: of several, the exit code of the first that \
                     fails is the one that `on_error` gets"
            } else {
                "groups of commands behind one that ends the flow, or is tried again: there \
                     they run before that, here they do not"
            }));
        }
        let is_whole = self.is_local() || self.takes_steps();
        if !is_whole {
            self.groups(&mut text, (stage, name), experiment, needs, &requires);
            return text;
        }
        let has_local = !self.is_local() && groups.iter().any(|group| group.local);
        let code = self.code_of_errors();
        if has_local && code.is_none() {
            text.push_str(&self.lost_once(
                "errors that `local:` commands with exit code 0 print, where a handler takes this \
                 code: they count as none",
            ));
        }
        let here = self.spec.servers.first().filter(|_| self.is_local());
        let scripts = groups.iter();
        let scripts = scripts.map(|group| self.script(experiment, group, here));
        let scripts: Vec<String> = scripts.collect();
        let _ = writeln!(text, "{}:\n  stage: {stage}", scalar(&format!("+{name}")));
        put_list(&mut text, "depends_on", &needs);
        put_requires(&mut text, &requires);
        match scripts.as_slice() {
            [only] if !has_local => put_block(&mut text, "  script: ", only),
            all if self.is_local() => put_block(&mut text, "  script: ", &joined(all)),
            all => {
                text.push_str("  steps:\n");
                for (at, (group, script)) in groups.iter().zip(all).enumerate() {
                    // A step that fails is called by its first line.
                    let title = in_quotes(&format!("{name}, group {}", at + 1));
                    let (key, script) = match (group.local, code) {
                        (false, _) => ("    - run: ", script.clone()),
                        (true, None) => ("    - local: ", script.clone()),
                        (true, Some(code)) => ("    - local: ", strict(script, code)),
                    };
                    put_block(&mut text, key, &format!(": {title}\n{script}"));
                }
            }
        }
        text
    }

    /// The groups of an experiment that may go to other machines.
    fn groups(
        &mut self,
        text: &mut String,
        (stage, name): (&str, &str),
        experiment: &Experiment,
        mut needs: Vec<String>,
        requires: &str,
    ) {
        let groups = &experiment.commands;
        let mut local = groups.iter().filter(|group| group.local);
        let asks_server = local.any(|group| mentions(experiment, group, "NOODLES_SERVER"));
        let servers = &self.spec.servers;
        let pinned = servers.get(self.pinned % servers.len().max(1));
        let pinned = pinned.filter(|_| asks_server).cloned();
        self.pinned += usize::from(asks_server);
        if let Some(server) = pinned.as_ref().filter(|_| servers.len() > 1) {
            let what = format!(
                "the choice of a server for {}: its `local:` commands name the server, so it goes \
                 to {}, each such one to the next in turn",
                quoted(name),
                quoted(&server.name)
            );
            text.push_str(&self.lost(what));
        }
        let mut placed: Option<String> = None;
        for (at, group) in groups.iter().enumerate() {
            let is_last = at + 1 == groups.len();
            let own = if is_last {
                name.to_owned()
            } else {
                self.name(&format!("{name}-{}", at + 1))
            };
            self.note_name(&own, experiment);
            let _ = writeln!(text, "{}:\n  stage: {stage}", scalar(&format!("+{own}")));
            if group.local {
                text.push_str("  node: local\n");
            } else if let Some(server) = &pinned {
                let _ = writeln!(text, "  node: {}", node_name(server));
            }
            match (&placed, group.local) {
                (_, true) => {}
                (Some(before), false) => {
                    let _ = writeln!(text, "  place: {{same_as: {}}}", scalar(before));
                }
                (None, false) => {
                    put_requires(text, requires);
                    placed = Some(own.clone());
                }
            }
            put_list(text, "depends_on", &needs);
            let script = self.script(experiment, group, pinned.as_ref());
            put_block(text, "  script: ", &script);
            needs = vec![own];
        }
    }

    /// The experiments that come before.
    fn needs(
        &mut self,
        name: &str,
        experiment: &Experiment,
        beside: &[(String, &Experiment)],
        text: &mut String,
    ) -> Vec<String> {
        let mut needs = Vec::new();
        for wanted in &experiment.depends_on {
            let those = beside.iter().filter(|(_, one)| one.name == wanted.name);
            let before = needs.len();
            needs.extend(those.map(|(own, _)| own.clone()).filter(|own| own != name));
            if needs.len() == before {
                let (of, on) = (quoted(name), quoted(&wanted.name));
                text.push_str(&self.lost(format!("{of} depends on {on}, which nobody defines")));
            }
        }
        needs
    }

    fn requires(&mut self, name: &str, experiment: &Experiment, text: &mut String) -> String {
        let mut parts = Vec::new();
        for one in &experiment.requirements {
            match self.required(experiment, one) {
                Ok(part) => parts.push(part),
                Err(why) => {
                    let (of, id) = (quoted(name), quoted(&one.id));
                    text.push_str(&self.lost(format!("{of} requires {id}: {why}")));
                }
            }
        }
        parts.join(" && ")
    }

    fn required(&mut self, experiment: &Experiment, one: &Requirement) -> Result<String, String> {
        let groups = self.spec.probes.get(&one.id).ok_or("nobody defines it")?;
        if groups.iter().any(|group| group.local) {
            return Err("its commands run on this machine for each server".to_owned());
        }
        let commands: Vec<&str> = (groups.iter())
            .flat_map(|group| group.commands.iter().map(String::as_str))
            .collect();
        let command = self.probe(experiment, &one.id, &commands);
        let Comparison { operator, value } = &one.comparison;
        let value = match value {
            Literal::Int(number) | Literal::Float(number) if number.is_finite() => {
                number.to_string()
            }
            Literal::Bool(truth) => if *truth { "'True'" } else { "'False'" }.to_owned(),
            Literal::Text(text) if !text.contains(['\'', '\\', '\n']) => format!("'{text}'"),
            Literal::Int(_)
            | Literal::Float(_)
            | Literal::Text(_)
            | Literal::Null
            | Literal::Other => return Err("its value is one of Python alone".to_owned()),
        };
        if command.len() > PROBE_BYTES_MAX {
            return Err(format!(
                "with its variables it has more than {PROBE_BYTES_MAX} bytes"
            ));
        }
        let name = self.probe_name(&one.id, command);
        Ok(format!("{name} {operator} {value}"))
    }

    /// The line of shell of a probe. A probe that the spec defines may use what the commands of its
    /// experiment use: variables, names of experiment and server, bash. A probe without variables
    /// and file names is the same line for all experiments, so that a node is asked once for all.
    fn probe(&self, experiment: &Experiment, id: &str, commands: &[&str]) -> String {
        let command = mean(commands);
        let is_own = self.spec.remarks.probes.iter().any(|own| own == id);
        let may_differ = |line: &&str| line.contains(['$', '`', '/', '.', '[']);
        if !is_own || !commands.iter().any(may_differ) {
            return if self.is_local() {
                format!("{}\n{command}", self.own_folder())
            } else {
                command
            };
        }
        let group = CommandGroup {
            local: false,
            commands: vec![command],
        };
        let here = self.spec.servers.first().filter(|_| self.is_local());
        let script = self.script(experiment, &group, here);
        format!("exec bash -c {}", in_quotes(&script))
    }

    /// The name of a probe with this line of shell.
    fn probe_name(&mut self, id: &str, command: String) -> String {
        let plain = plain_name(id);
        let further = (2..).map(|number| format!("{plain}_{number}"));
        let mut names = std::iter::once(plain.clone()).chain(further);
        let fits = |name: &String| self.probes.get(name).is_none_or(|one| *one == command);
        let name = names.find(fits).expect("numbers do not end");
        self.probes.insert(name.clone(), command);
        name
    }

    /// The line that goes to where commands of this machine begin.
    fn own_folder(&self) -> String {
        format!("cd {}", in_quotes(self.folder))
    }

    /// The server with the user who types this, where its spec has `$USER`.
    fn with_user(&self, server: &Server) -> Server {
        let is_typist = server.username.as_deref() == Some("$USER");
        let typist = self.typist.filter(|_| is_typist).map(str::to_owned);
        Server {
            username: typist.or_else(|| server.username.clone()),
            ..server.clone()
        }
    }

    /// The name of a server, which is no program, and the values in which the shell fills in
    /// variables.
    fn of_server(&self, server: &Server) -> ((&'static str, String), Vec<(String, String)>) {
        let [_, name, values @ ..] = self.with_user(server).variables("");
        let values = values.map(|(name, value)| (name.to_owned(), value));
        (name, values.to_vec())
    }

    /// Lines that give the variables of the server whose node a run has.
    fn server_by_node(&self) -> String {
        let mut lines = String::from("case $NERO_NODE in\n");
        for server in &self.spec.servers {
            let (name, values) = self.of_server(server);
            let variables = script(&values, &[name], &[]).replace('\n', "; ");
            let _ = writeln!(lines, "{}) {variables} ;;", node_name(server));
        }
        lines.push_str("esac\n");
        lines
    }

    /// A group as lines of bash that go on after a failure, as there.
    fn script(
        &self,
        experiment: &Experiment,
        group: &CommandGroup,
        server: Option<&Server>,
    ) -> String {
        let is_here = group.local || self.is_local();
        let folder = if is_here {
            self.own_folder()
        } else {
            "cd ~".to_owned()
        };
        let mut servers = String::new();
        let mut env = experiment.env.clone();
        let mut exact = Vec::new();
        if mentions(experiment, group, "NOODLES_EXPERIMENT") {
            exact.push(("NOODLES_EXPERIMENT_NAME", experiment.name.clone()));
        }
        if mentions(experiment, group, "NOODLES_SERVER") {
            match server {
                Some(server) => {
                    let (name, values) = self.of_server(server);
                    env.retain(|(known, _)| !values.iter().any(|(value, _)| value == known));
                    env.extend(values);
                    exact.push(name);
                }
                None => servers = self.server_by_node(),
            }
        }
        let lines = script(&env, &exact, &group.commands);
        format!("set +e\n{folder}\n{servers}{lines}\n")
    }
}

/// Whether the commands of a group have a word, or the variables of its experiment do.
fn mentions(experiment: &Experiment, group: &CommandGroup, word: &str) -> bool {
    let values = experiment.env.iter().map(|(_, value)| value);
    let mut lines = group.commands.iter().chain(values);
    lines.any(|line| line.contains(word))
}

/// Groups that all run, whatever those before did; the first that fails gives the exit code.
fn joined(scripts: &[String]) -> String {
    let mut text = String::from("__code=\n");
    for script in scripts {
        let _ = writeln!(text, "(\n{script}) || __code=${{__code:-$?}}");
    }
    text.push_str("exit ${__code:-0}\n");
    text
}

/// A group of a `local` step that fails if it prints on standard error, which no one else reads.
fn strict(script: &str, code: u16) -> String {
    format!(
        "set +e; __errors=$(mktemp) || exit\n(\n{script}) 2> \"$__errors\"\n__code=$?\n\
         cat \"$__errors\" >&2\n[ $__code -ne 0 ] || [ ! -s \"$__errors\" ] || __code={code}\n\
         rm -f \"$__errors\"; exit $__code\n"
    )
}

/// The name of the node that stands for a server.
fn node_name(server: &Server) -> String {
    if server.is_local() {
        return "local".to_owned();
    }
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let name = server.name.chars().map(|c| if fits(c) { c } else { '_' });
    name.collect()
}

/// An id as `requires` takes a name.
fn plain_name(id: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let plain: String = id.chars().map(|c| if fits(c) { c } else { '_' }).collect();
    let is_word = plain.starts_with(|c: char| c.is_ascii_alphabetic());
    if is_word && NodeFact::from_word(&plain).is_none() {
        plain
    } else {
        format!("probe_{plain}")
    }
}

/// Commands whose output is the mean of the lines that they print, where all are numbers, as
/// there: `nvidia-smi` prints a line for each card.
fn mean(commands: &[&str]) -> String {
    format!(
        "printed=$({{\n{}\n}}) || exit\nprintf '%s\\n' \"$printed\" | \
         awk 'NF {{ if ($0 !~ /^[ \\t]*[-+]?[0-9.]+([eE][-+]?[0-9]+)?[ \\t]*$/) t = 1; \
         s += $0; n++; a = a e $0; e = \"\\n\" }} END {{ if (n && !t) print s / n; else print a }}'",
        commands.join("\n")
    )
}

fn put_list(text: &mut String, key: &str, names: &[String]) {
    if !names.is_empty() {
        let names: Vec<String> = names.iter().map(|name| scalar(name)).collect();
        let _ = writeln!(text, "  {key}: [{}]", names.join(", "));
    }
}

fn put_requires(text: &mut String, requires: &str) {
    if !requires.is_empty() {
        let _ = writeln!(text, "  requires: {}", scalar(requires));
    }
}

/// A text as one word of a shell.
fn in_quotes(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
