//! What holds below the fields of a file: `parent`, and `defaults` of the configuration.

use nero_format::{Defaults, Source};

use crate::{Folder, named};

fn changed(folder: &Folder, source: &Source) -> bool {
    source.is_changed_beneath(&folder.defaults())
}

#[test]
fn fields_of_the_files_above_hold_until_a_file_gives_its_own() {
    let folder = Folder::new();
    folder.write(
        "../base.yaml",
        b"collection: all\ncommand: prog {x}\nparameters: {x: 1, y: 2}\n\
          env: {A: base}\nresources: {cpus: 2}\n+other: {command: other}\n",
    );
    folder.write("../mid.yaml", b"parent: base.yaml\nenv: {B: mid}\n");
    folder.write(
        "config.yaml",
        b"parent: ../mid.yaml\n+a: {}\n+b: {parameters: {x: 5}, resources: {cpus: 4}}\n",
    );
    let loaded = folder.read().unwrap();
    let (a, b) = (named(&loaded, "a"), named(&loaded, "b"));
    assert_eq!(loaded.definitions.len(), 2, "blocks above are not ours");
    assert_eq!((a.argv.join(" "), a.collection()), ("prog 1".into(), "all"));
    let env = |name: &str, value: &str| (name.to_owned(), Some(value.to_owned()));
    assert_eq!(*a.env, [env("A", "base"), env("B", "mid")]);
    assert_eq!((a.resources.cpus, b.resources.cpus), (2.0, 4.0));
    assert_eq!(b.argv.join(" "), "prog 5");
    assert_eq!(loaded.source.parents.len(), 2);
    assert!(!changed(&folder, &loaded.source));
    folder.write("../base.yaml", b"command: prog\n");
    assert!(
        changed(&folder, &loaded.source),
        "a file above is a source, too"
    );
}

#[test]
fn a_parent_is_found_by_the_collection_of_a_folder_above() {
    let folder = Folder::new();
    folder.write("../config.yaml", b"collection: base\ncommand: prog\n");
    folder.write("config.yaml", b"parent: base\ncollection: own\n");
    let loaded = folder.read().unwrap();
    assert_eq!(loaded.definitions[0].argv, ["prog"]);
    assert_eq!(loaded.definitions[0].collection(), "own");
}

#[test]
fn mistakes_of_a_file_above_are_told_with_its_name() {
    let folder = Folder::new();
    folder.write(
        "../base.yaml",
        b"parent: lab/config.yaml\nresources: {cpus: none}\n",
    );
    folder.write(
        "config.yaml",
        b"parent: ../base.yaml\n+a: {command: prog}\n",
    );
    let said = folder.read().unwrap_err();
    assert!(said.contains("base.yaml:2:19"), "{said}");
    assert!(said.contains("resources: {cpus: none}"), "{said}");
    assert!(said.contains("`parent` leads back to"), "{said}");
    for (text, wanted) in [
        (
            "parent: nobody\n+a: {command: prog}\n",
            "no folder above has the collection `nobody`",
        ),
        (
            "parent: ../no.yaml\n+a: {command: prog}\n",
            "`../no.yaml` of `parent` does not exist",
        ),
        (
            "+a: {command: prog, parent: ../base.yaml}\n",
            "a block has no `parent`",
        ),
        (
            "parent: [a]\n+a: {command: prog}\n",
            "`parent` takes a single text",
        ),
    ] {
        folder.write("config.yaml", text.as_bytes());
        let said = folder.read().unwrap_err();
        assert!(said.contains(wanted), "{text}: {said}");
    }
}

#[test]
fn defaults_of_the_configuration_hold_below_everything() {
    let folder = Folder::new();
    let home = b"default_node: x\ndefaults:\n  resources: {cpus: 3, time: 4h}\n  env: {A: home}\n";
    folder.write("../home.yaml", home);
    folder.write(
        "config.yaml",
        b"command: prog\n+a: {}\n+b: {resources: {cpus: 1}, env: {A: own}}\n",
    );
    let loaded = folder.read().unwrap();
    let (a, b) = (named(&loaded, "a"), named(&loaded, "b"));
    assert_eq!(
        (a.resources.cpus, a.resources.time_ms),
        (3.0, Some(14_400_000))
    );
    assert_eq!((b.resources.cpus, b.resources.time_ms), (1.0, None));
    assert_eq!(a.env[0].1.as_deref(), Some("home"));
    assert_eq!(b.env[0].1.as_deref(), Some("own"));
    assert!(!changed(&folder, &loaded.source));
    // Another word of the configuration changes no experiment.
    folder.write(
        "../home.yaml",
        &home.map(|byte| if byte == b'x' { b'y' } else { byte }),
    );
    assert!(!changed(&folder, &loaded.source));
    folder.write("../home.yaml", b"default_node: x\n");
    assert!(changed(&folder, &loaded.source));
    assert!(
        !loaded.source.is_changed_beneath(&Defaults::default())
            || !loaded.source.defaults.is_empty()
    );
    folder.write(
        "../home.yaml",
        b"defaults: {command: prog, +a: {}, resources: {cpus: x}}\n",
    );
    let said = folder.read().unwrap_err();
    for wanted in [
        "`command` cannot hold for every experiment",
        "`+a` cannot hold for every experiment",
        "home.yaml:1:",
        "`cpus` takes a number above zero",
    ] {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
}
