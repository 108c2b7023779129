//! The command line of a `local` step.

use std::io;
use std::path::Path;

use nero_config::LOCAL;
use nero_format::STEP_PLACES;
use nero_life::run::Run;
use nero_model::names::variable;
use nero_model::paths::NodePaths;
use nero_ssh::quoted;

use crate::service::Man;
use nero_home::spec::work_folder;

/// Variables of a step, and the line that executes it, from the spec of its run: its experiment
/// may have other steps by now.
pub(super) async fn line(
    man: &Man,
    run: &Run,
    step: u32,
) -> io::Result<(Vec<(String, String)>, String)> {
    let spec = man.ledger.spec(run.made.id).await.and_then(|spec| spec);
    let spec = spec.map_err(|failure| io::Error::other(failure.to_string()))?;
    let script = nero_format::local_step(&spec.argv, step);
    let script = script.ok_or_else(|| io::Error::other(format!("step {step} is not `local`")))?;
    let mut script = script.to_owned();
    let [address, folder] = STEP_PLACES;
    if script.contains(address) {
        script = script.replace(address, &quoted(&address_of(man, run)?));
    }
    if script.contains(folder) {
        script = script.replace(folder, &quoted(&folder_of(man, run).await?));
    }
    let params = spec.params.into_iter();
    let env = params.map(|one| (variable("NERO_PARAM_", &one.name), one.text));
    let line = format!("exec bash -e -o pipefail -c {} script", quoted(&script));
    Ok((env.collect(), line))
}

/// What this machine's `ssh` reaches the node of a run by.
fn address_of(man: &Man, run: &Run) -> io::Result<String> {
    let node = run.node_word();
    if node == LOCAL {
        return Ok("localhost".to_owned());
    }
    let config = man.nodes.usable_config();
    let address = config.node(node).and_then(|node| node.address.clone());
    address.ok_or_else(|| io::Error::other(format!("node {node} has no address for `ssh`")))
}

/// The folder on its node in which the job of a run works. Waits until the node told its root.
async fn folder_of(man: &Man, run: &Run) -> io::Result<String> {
    let name = run.node_word();
    loop {
        if let Some(root) = man.root_of(name) {
            let paths = NodePaths::new(Path::new(&root), &man.deployment, name);
            return Ok(work_folder(&paths, run));
        }
        match man.nodes.node(name).filter(|node| !node.has_ended()) {
            Some(node) => node.news().await,
            None => {
                return Err(io::Error::other(format!(
                    "node {name} is not configured any more"
                )));
            }
        }
    }
}
