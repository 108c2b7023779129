//! `path SEL`: where results lie, one path a line.

use nero_wire::v1::PathsRequest;
use serde_json::json;

use crate::args::Paths;
use crate::connect::READ_DEADLINE;
use crate::fault::{Stop, code};
use crate::say::json;
use crate::session::{Session, selection};

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
                // As `scp` and `rsync` take it.
                let node = match one.node.as_str() {
                    "" => String::new(),
                    node => format!("{node}:"),
                };
                session
                    .out
                    .raw(format!("{node}{}\n", one.path).as_bytes())?;
            }
        }
    }
    let found = reply.paths.iter().any(|one| !one.path.is_empty());
    Ok(if found { code::OK } else { code::FAILED })
}
