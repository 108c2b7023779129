//! `path SEL`: where results lie, one path a line.

use nero_config::Config;
use nero_wire::v1::PathsRequest;
use nero_wire::v1::paths_reply::One;
use serde_json::json;

use crate::args::Paths;
use crate::connect::READ_DEADLINE;
use crate::fault::{Fault, Stop, code};
use crate::say::json;
use crate::session::{Session, home, selection};

/// Does it.
pub async fn run(session: &mut Session, args: &Paths) -> Result<u8, Stop> {
    let asked = PathsRequest {
        selection: Some(selection(&args.picked)),
        work: args.work,
    };
    let client = session.client().await?;
    let reply = client
        .call(READ_DEADLINE, asked, async |man, request| {
            man.paths(request).await
        })
        .await?;
    if args.json.json {
        let paths = reply.paths.iter().map(|one| {
            json!({
                "id": one.experiment,
                "run": json::run_id(one.experiment, one.run),
                "path": json::some(&one.path),
                "node": json::some(&one.node),
                "note": json::some(&one.note),
            })
        });
        let paths: Vec<_> = paths.collect();
        session.out.json(&json::document(json!({"paths": paths})))?;
    } else {
        for one in &reply.paths {
            if !one.note.is_empty() {
                session
                    .out
                    .note(&format!("note: {}: {}", one.experiment, one.note));
            }
            if !one.path.is_empty() {
                session.out.raw(format!("{}\n", shown(one)?).as_bytes())?;
            }
        }
    }
    let found = reply.paths.iter().any(|one| !one.path.is_empty());
    Ok(if found { code::OK } else { code::FAILED })
}

/// The path; of a folder on another machine as `scp` and `rsync` take it.
fn shown(one: &One) -> Result<String, Fault> {
    if one.node.is_empty() {
        return Ok(one.path.clone());
    }
    // A configuration that cannot be read has no better name for the machine.
    let config = Config::read(&home()?.config).unwrap_or_default();
    let address = config
        .node(&one.node)
        .and_then(|node| node.address.clone())
        .unwrap_or_else(|| one.node.clone());
    if address.starts_with("ssh://") {
        let address = address.trim_start_matches("ssh://").trim_end_matches('/');
        return Ok(format!("scp://{address}/{}", one.path));
    }
    Ok(format!("{address}:{}", one.path))
}
