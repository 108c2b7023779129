//! `scheduler:` of a node: a scheduler in the words of the configuration.

use std::path::Path;

use nero_config::{Config, Warden};
use nero_warden::generic::Recipe;

fn read(scheduler: &str) -> Result<Config, String> {
    let text = format!("nodes:\n  box:\n    address: b\n    warden: generic\n{scheduler}");
    Config::parse(Path::new("config.yaml"), &text).map_err(|error| error.to_string())
}

#[test]
fn a_recipe_is_named_changed_word_by_word_or_made_from_nothing() {
    let recipe = |text: &str| {
        let config = read(text).unwrap();
        let node = config.node("box").unwrap().clone();
        assert_eq!(node.warden, Warden::Generic);
        node.recipe.unwrap()
    };
    let pbs = Recipe::named("pbs").unwrap();
    assert_eq!(recipe("    scheduler: pbs\n"), pbs);
    let changed = recipe(
        "    scheduler:\n      like: pbs\n      array:\n      states: {held: [H, B]}\n      \
         header: |\n        #PBS -N {name}\n        #PBS -q {queue}\n",
    );
    let text = changed.text();
    assert!(
        text.contains(r##""header":"#PBS -N {name}\n#PBS -q {queue}\n""##),
        "{text}"
    );
    assert!(text.contains(r#""states.held":["H","B"]"#), "{text}");
    assert!(!text.contains("array."), "{text}");
    let own = recipe(
        "    scheduler:\n      submit: [sub]\n      id: '(\\d+)'\n      list: [ls]\n      \
         row: '(?<id>\\d+) (?<name>\\S+) (?<state>\\w)'\n      cancel: [rm, '{id}']\n",
    );
    assert!(own.text().contains(r#""cancel":["rm","{id}"]"#));
}

#[test]
fn words_of_the_scheduler_stand_behind_those_of_neronet() {
    let text = "nodes:\n  box:\n    address: b\n    warden: generic\n    scheduler:\n      \
                like: pbs\n      states: {PD: waiting}\n";
    let told = Config::parse(Path::new("config.yaml"), text).unwrap_err();
    let told = format!("{told:?}");
    assert!(told.contains("waiting, held, starting, running"), "{told}");
}

#[test]
fn mistakes_in_the_description_of_a_scheduler_have_their_places() {
    for (text, expected) in [
        (
            "",
            "`nodes.box.warden: generic` needs `scheduler:` (config.yaml:4:5)",
        ),
        (
            "    scheduler: pbss\n",
            "`nodes.box.scheduler`: there is no recipe `pbss` (config.yaml:5:16)",
        ),
        (
            "    scheduler:\n      like: pbs\n      colour: red\n",
            "`colour` is no word of a scheduler (config.yaml:7:7)",
        ),
        (
            "    scheduler:\n      like: pbs\n      colour:\n",
            "`colour` is no word of a scheduler (config.yaml:7:7)",
        ),
        (
            "    scheduler:\n      like: pbs\n      row: '(?<id>'\n",
            "`nodes.box.scheduler`: `row` is no regular expression: unclosed group (config.yaml:7:12)",
        ),
        (
            "    scheduler:\n      like: pbs\n      array: {range: '{from}'}\n",
            "`array.range`: {from} stands for nothing there; known are first, last (config.yaml:7:22)",
        ),
        (
            "    scheduler:\n      like: pbs\n      id:\n",
            "`id` is missing: it finds the job's number in what `submit` prints (config.yaml:6:7)",
        ),
        (
            "    scheduler:\n      like: pbs\n      cancel: {x: y}\n",
            "takes a text or a list of texts (config.yaml:7:15)",
        ),
    ] {
        let said = read(text).unwrap_err();
        assert!(said.contains(expected), "{said}");
    }
    let said = read("    scheduler: pbs\n    qsub_args: [-m]\n").unwrap_err();
    let expected = "`nodes.box.qsub_args` is no word of `warden: generic` (config.yaml:6:5)";
    assert!(said.contains(expected), "{said}");
    let slurm = "nodes: {box: {address: b, warden: slurm, scheduler: pbs}}\n";
    let said = Config::parse(Path::new("config.yaml"), slurm).unwrap_err();
    let expected = "`nodes.box.scheduler` is for `warden: generic` (config.yaml:1:42)";
    assert!(said.to_string().contains(expected), "{said}");
}
