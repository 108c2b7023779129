//! Which tests belong to which ring, and the words that pick them for nextest and for libtest.
//!
//! The first ring is for daily work and for newcomers: all that needs nothing but this machine,
//! and one story over a real ssh server. The second has every test.

use std::fs;
use std::path::Path;

/// The package with the scenarios of all programs together.
pub const SCENARIOS: &str = "nero-tests";

/// The package whose tests run with both umasks.
const SHIM: &str = "nerokid-shim";

/// Where the modules of scenarios lie.
const FOLDER: &str = "tests/tests/it";

/// The story over a real ssh server that the first ring has.
const SSH_STORY: &str = "ssh::a_folder_runs_on_a_node_from_start_to_results";

/// Words by which a file of scenarios mentions a mode or an umask.
const MODE_WORDS: &[&str] = &["umask", "0o", ".mode()", "Permissions"];

/// What the first ring leaves out: why, and the modules of scenarios.
pub const LEFT_OUT: &[(&str, &[&str])] = &[
    (
        "need a scheduler",
        &[
            "adopted",
            "ambiguous",
            "arrays",
            "batches",
            "clock",
            "control",
            "described",
            "environments",
            "multihost",
            "preemption",
            "retries",
            "scheduler_ends",
            "scheduler_requests",
            "schedulers",
            "shared_disk",
            "ssh_clusters",
            "submitted",
            "submitted_kills",
            "wardens",
        ],
    ),
    (
        "need hosts behind ssh",
        &[
            "files",
            "hosts",
            "infra",
            "joined",
            "local_steps",
            "manual_hosts",
            "neighbours",
            "noodles_ssh",
            "roots",
            "settling",
            "shared_home",
            "skew",
            "ssh",
            "ssh_balance",
            "ssh_faults",
            "ssh_flows",
            "ssh_groups",
            "ssh_placed",
            "ssh_recalled",
            "ssh_top",
            "take_over",
        ],
    ),
    (
        "need runtimes of containers",
        &["containers", "ssh_containers"],
    ),
    ("need an office suite", &["cells"]),
    ("need a browser", &["web"]),
    (
        "need packages of Python",
        &[
            "agent",
            "dist",
            "noodles_beside",
            "notebook",
            "optuna",
            "python",
            "wheel",
        ],
    ),
];

/// Tests of lower rings that the first ring leaves out, with the test beside each that explores less.
const LONG: &[(&str, &str)] = &[
    (
        "reach::the_steps_of_a_run_that_a_group_is_asked_for_are_those_of_the_table",
        "reach::the_steps_of_a_run_that_one_node_is_asked_for_are_those_of_the_table",
    ),
    (
        "twins::without_any_one_of_its_guards_a_late_copy_overlaps_or_loses_a_run",
        "twins::of_a_thousand_submissions_with_late_copies_each_run_ends_once",
    ),
];

/// Tests that one run of the runner has.
#[derive(Clone, Debug)]
pub enum Selection {
    /// The first ring.
    First,
    /// Every test.
    Every,
    /// The shim's tests and these modules of scenarios.
    Modules(Vec<String>),
}

impl Selection {
    /// Filter expression of nextest.
    pub fn filterset(&self) -> String {
        let scenarios = format!("binary_id({SCENARIOS}::it)");
        match self {
            Self::Every => "all()".to_owned(),
            Self::First => {
                let modules = left_out().collect::<Vec<_>>().join("|");
                let long: String = long().map(|name| format!(" - test({name})")).collect();
                format!(
                    "(all() - ({scenarios} & test(/^({modules})::/)){long}) + test(={SSH_STORY})"
                )
            }
            Self::Modules(modules) => {
                let modules = modules.join("|");
                format!("package({SHIM}) + ({scenarios} & test(/^({modules})::/))")
            }
        }
    }

    /// Words for each start of a test binary by its package and target; empty: it does not start.
    pub fn libtest(&self, package: &str, target: &str) -> Vec<Vec<String>> {
        let is_scenarios = package == SCENARIOS && target == "it";
        match self {
            Self::First if is_scenarios => {
                let skipped = left_out().flat_map(|module| ["--skip".to_owned(), of(module)]);
                let story = [SSH_STORY, "--exact"].map(str::to_owned);
                vec![skipped.collect(), story.to_vec()]
            }
            Self::First => vec![
                long()
                    .flat_map(|name| ["--skip", name])
                    .map(str::to_owned)
                    .collect(),
            ],
            Self::Every => vec![Vec::new()],
            Self::Modules(modules) if is_scenarios => {
                vec![modules.iter().map(|module| of(module)).collect()]
            }
            Self::Modules(_) if package == SHIM => vec![Vec::new()],
            Self::Modules(_) => Vec::new(),
        }
    }
}

fn long() -> impl Iterator<Item = &'static str> {
    LONG.iter().map(|(long, _)| *long)
}

/// How the names of a module's tests begin.
fn of(module: &str) -> String {
    format!("{module}::")
}

fn left_out() -> impl Iterator<Item = &'static str> {
    LEFT_OUT
        .iter()
        .flat_map(|(_, modules)| modules.iter().copied())
}

/// Modules of scenarios whose files mention a mode or an umask.
///
/// # Errors
/// When their folder cannot be read.
pub fn of_modes(root: &Path) -> Result<Vec<String>, String> {
    let folder = root.join(FOLDER);
    let mut modules: Vec<String> = Vec::new();
    for (module, text) in files(&folder, None)? {
        if MODE_WORDS.iter().any(|word| text.contains(word)) && !modules.contains(&module) {
            modules.push(module);
        }
    }
    modules.sort();
    Ok(modules)
}

/// Modules of scenarios with the text of each of their files.
fn files(folder: &Path, module: Option<&str>) -> Result<Vec<(String, String)>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let module = module.unwrap_or(&name);
        if path.is_dir() {
            found.extend(files(&path, Some(module))?);
        } else if name != "main" {
            found.push((
                module.to_owned(),
                fs::read_to_string(&path).map_err(failed)?,
            ));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{FOLDER, LONG, SSH_STORY, Selection, files, left_out, of_modes};

    fn root() -> &'static Path {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
    }

    #[test]
    fn each_module_and_story_of_the_table_exists() {
        let there = files(&root().join(FOLDER), None).unwrap();
        for module in left_out() {
            assert!(there.iter().any(|(name, _)| name == module), "{module}");
        }
        let (module, story) = SSH_STORY.split_once("::").unwrap();
        let heading = format!("fn {story}()");
        assert!(
            there
                .iter()
                .any(|(name, text)| name == module && text.contains(&heading))
        );
    }

    #[test]
    fn each_long_test_and_the_shorter_one_beside_it_exist() {
        for (module, path) in [
            ("reach", "neroman/life/src/tests/reach.rs"),
            ("twins", "neromum/src/cluster/twins/mod.rs"),
        ] {
            let text = std::fs::read_to_string(root().join(path)).unwrap();
            let pairs = LONG.iter().flat_map(|(long, short)| [long, short]);
            let of_module = pairs.filter_map(|name| name.strip_prefix(&format!("{module}::")));
            for name in of_module {
                assert!(text.contains(&format!("fn {name}()")), "{name}");
            }
        }
    }

    #[test]
    fn a_module_that_starts_real_servers_is_not_in_the_first_ring() {
        for (module, text) in files(&root().join(FOLDER), None).unwrap() {
            let starts = [
                "Cluster",
                "LoginNodes",
                "Hosts",
                "Lab",
                "Chromium",
                "soffice",
            ]
            .into_iter()
            .find(|word| {
                text.split(|c: char| !c.is_alphanumeric())
                    .any(|found| found == *word)
            });
            let Some(starts) = starts else { continue };
            assert!(
                left_out().any(|left| left == module),
                "{module} uses {starts}"
            );
        }
    }

    #[test]
    fn a_file_with_a_mode_is_run_with_both_umasks() {
        let modules = of_modes(root()).unwrap();
        assert!(
            modules.iter().any(|module| module == "files"),
            "{modules:?}"
        );
        assert!(
            !modules.iter().any(|module| module == "words"),
            "{modules:?}"
        );
    }

    #[test]
    fn without_nextest_a_module_is_left_out_by_the_same_table() {
        let starts = Selection::First.libtest("nero-tests", "it");
        assert!(
            starts[0]
                .windows(2)
                .any(|pair| pair == ["--skip", "schedulers::"])
        );
        assert_eq!(starts[1], [SSH_STORY, "--exact"]);
        assert_eq!(
            Selection::First.libtest("nero-life", "nero_life")[0][..2],
            ["--skip", LONG[0].0]
        );
        let some = Selection::Modules(vec!["files".to_owned()]);
        assert_eq!(some.libtest("nero-tests", "it"), [["files::"]]);
        assert!(some.libtest("nero-life", "nero_life").is_empty());
    }
}
