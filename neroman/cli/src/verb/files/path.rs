//! `path SEL`: where results lie, one path a line.

use nero_config::Config;
use nero_views::{json, object};
use nero_wire::v1::PathsRequest;
use nero_wire::v1::man_client::ManClient;
use nero_wire::v1::paths_reply::One;

use crate::args::Paths;
use crate::fault::{Fault, Stop, code};
use crate::session::{Session, home, selection};

pub async fn run(session: &mut Session, args: &Paths) -> Result<u8, Stop> {
    let asked = PathsRequest {
        selection: Some(selection(&args.picked)),
        work: args.work,
    };
    let reply = session.read(asked, ManClient::paths).await?;
    if session.out.as_json {
        session
            .out
            .json(&json::document(object!(reply => paths: [one =>
                id: one.experiment, run: json::run_id(one.experiment, one.run), path?, node?, note?
            ])))?;
    } else {
        for one in &reply.paths {
            if !one.note.is_empty() {
                let note = format!("note: {}: {}", one.experiment, one.note);
                session.out.note(&note);
            }
            if !one.path.is_empty() {
                session
                    .out
                    .raw(format!("{}\n", path_text(one)?).as_bytes())?;
            }
        }
    }
    let found = reply.paths.iter().any(|one| !one.path.is_empty());
    Ok(code::ok_if(found))
}

/// The path; for a folder on another machine, as `scp` and `rsync` take it.
fn path_text(one: &One) -> Result<String, Fault> {
    if one.node.is_empty() {
        return Ok(one.path.clone());
    }
    // Without a readable configuration the node's name stands for its address.
    let config = Config::read(&home()?.config).unwrap_or_default();
    let address = config.node(&one.node).and_then(|node| node.address.clone());
    let address = address.unwrap_or_else(|| one.node.clone());
    Ok(remote(&address, &one.path))
}

/// A path at an address that `ssh` takes.
fn remote(address: &str, path: &str) -> String {
    if let Some(address) = address.strip_prefix("ssh://") {
        return format!("scp://{}/{path}", address.trim_end_matches('/'));
    }
    let (user, host) = match address.rsplit_once('@') {
        Some((user, host)) => (format!("{user}@"), host),
        None => (String::new(), address),
    };
    // `scp` ends a host at the first colon outside of brackets.
    if host.contains(':') && !host.starts_with('[') {
        format!("{user}[{host}]:{path}")
    } else {
        format!("{address}:{path}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_as_scp_takes_it() {
        let table = [
            ("h3", "h3:/w"),
            ("ada@h3", "ada@h3:/w"),
            ("ssh://ada@h3:22/", "scp://ada@h3:22//w"),
            ("::1", "[::1]:/w"),
            ("ada@fe80::1%eth0", "ada@[fe80::1%eth0]:/w"),
            ("ada@[::1]", "ada@[::1]:/w"),
        ];
        for (address, want) in table {
            assert_eq!(remote(address, "/w"), want);
        }
    }
}
