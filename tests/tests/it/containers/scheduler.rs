//! Containers of runs that a scheduler starts: images are files that its hosts share.

use nero_tests::Containers;
use nero_tests::cluster::Scheduler;
use nero_tests::login::Login;

#[test]
fn slurm_starts_a_run_in_an_image_of_the_shared_home_and_refuses_stores_of_one_host() {
    let login = Login::new(Scheduler::Slurm);
    let cases = [
        ("{image: ./tiny.tar, runtime: charliecloud}", ""),
        ("./tiny.tar", ""),
        (
            "{image: ./tiny.tar, runtime: podman}",
            "the hosts of its scheduler share no store of podman",
        ),
        (
            "python:3.12",
            "nothing here can execute the image python:3.12",
        ),
    ];
    for (id, (container, why)) in (1..).zip(cases) {
        let yaml = format!(
            "command: [sh, -c, 'echo loss 0.25; echo made > out.txt; exit 7']\n\
             container: {container}\n"
        );
        let folder = login.home.experiment(&format!("r{id}"), &yaml);
        Containers::image(&folder.join("tiny.tar"));
        login.home.ok(&["start", folder.to_str().unwrap()]);
        let seen = login.home.until_settled(id);
        let reason = seen["reason"].as_str().unwrap_or_default();
        if why.is_empty() {
            assert_eq!(seen["exit_code"], 7, "{container}: {seen:#}");
            assert_eq!(
                seen["metrics"]["loss"]["last"], 0.25,
                "{container}: {seen:#}"
            );
        } else {
            assert!(reason.contains(why), "{container}: {reason}");
        }
    }
}
