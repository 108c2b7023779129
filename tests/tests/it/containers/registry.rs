//! Images of a registry: pulled before a run begins, once, and refused with their reason.

use nero_tests::{Home, Registry, until};

use super::Rig;

fn start(home: &Home, name: &str, image: &str, runtime: &str) {
    let yaml = format!(
        "command: [sh, -c, 'exit 0']\ncontainer: {{image: '{image}', runtime: {runtime}}}\n"
    );
    let folder = home.experiment(name, &yaml);
    home.ok(&["start", folder.to_str().unwrap()]);
}

#[test]
fn an_image_is_pulled_once_and_told_with_its_digest() {
    let mut rig = Rig::new();
    let registry = Registry::start(&mut rig.home);
    let image = registry.image("ok");
    for (id, (runtime, transfers)) in (1..).zip([("podman", 2), ("podman", 2), ("docker", 4)]) {
        start(&rig.home, &format!("{runtime}{id}"), &image, runtime);
        let seen = rig.home.until_settled(id);
        assert_eq!(seen["state"], "finished", "{runtime}: {seen:#}");
        let told = seen["image"].as_str().unwrap_or_default();
        assert!(
            told.starts_with(&format!("{image} sha256:")),
            "{runtime}: {told}"
        );
        assert_eq!(registry.transfers("ok"), transfers, "{runtime}");
        assert!(rig.home.ok(&["show", &id.to_string()]).contains(told));
    }
    let results = rig.home.json(&["results", "all"]);
    let images = results["runs"].as_array().unwrap().iter();
    assert!(images.clone().all(|run| run["image"].is_string()));
}

#[test]
fn two_runs_and_two_neromans_pull_an_image_once() {
    let mut rig = Rig::new();
    let registry = Registry::start(&mut rig.home);
    let mut other = Home::new();
    rig.runtimes.lend_to(&mut other);
    registry.lend_to(&mut other);
    let image = registry.image("held");
    let runs = [(&rig.home, 1), (&rig.home, 2), (&other, 1)];
    for (home, id) in runs {
        start(home, &format!("pulls{id}"), &image, "podman");
    }
    for (home, id) in runs {
        until(&format!("{id} to wait for its image"), || {
            let seen = home.experiment_json(id);
            let why = seen["waiting_for"].as_str().unwrap_or_default();
            if why.contains("is being brought") {
                Ok(())
            } else {
                Err((seen, home.logs()))
            }
        });
    }
    until("the pull", || match registry.transfers("held") {
        0 => Err(rig.home.logs()),
        _ => Ok(()),
    });
    registry.let_go();
    for (home, id) in runs {
        assert_eq!(home.until_settled(id)["state"], "finished");
    }
    assert_eq!(registry.transfers("held"), 2);
}

#[test]
fn a_pull_that_fails_refuses_the_run_and_tells_why() {
    let mut rig = Rig::new();
    let registry = Registry::start(&mut rig.home);
    let cases = [
        ("absent", "podman", "unknown"),
        ("absent", "docker", "unknown"),
        ("corrupt", "podman", "Digest did not match"),
        ("corrupt", "docker", "verification failed"),
        ("foreign", "podman", "architecture"),
        ("foreign", "docker", "no matching manifest"),
        // Docker tries for more than a minute.
        ("cut", "podman", "unexpected EOF"),
    ];
    for (id, (name, runtime, _)) in (1..).zip(cases) {
        let named = format!("{name}-{runtime}-{id}");
        start(&rig.home, &named, &registry.image(name), runtime);
    }
    for (id, (name, runtime, why)) in (1..).zip(cases) {
        let seen = rig.home.until_settled(id);
        assert_eq!(seen["state"], "crashed", "{name} {runtime}: {seen:#}");
        let reason = seen["reason"].as_str().unwrap_or_default();
        assert!(
            reason.contains("cannot be pulled"),
            "{name} {runtime}: {reason}"
        );
        assert!(reason.contains(why), "{name} {runtime}: {reason}");
    }
}
