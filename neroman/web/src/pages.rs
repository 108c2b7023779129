//! The pages: files of this repository, embedded. They hold no data of a person.

use axum::http::StatusCode;

use crate::reply::{Reply, body, error};

/// Address, type and text of each file.
const PAGES: &[(&str, &str, &[u8])] = &[
    ("/", HTML, include_bytes!("../pages/index.html")),
    ("/style.css", CSS, include_bytes!("../pages/style.css")),
    ("/icon.svg", SVG, include_bytes!("../pages/icon.svg")),
    ("/api.js", SCRIPT, include_bytes!("../pages/api.js")),
    ("/app.js", SCRIPT, include_bytes!("../pages/app.js")),
    ("/chooser.js", SCRIPT, include_bytes!("../pages/chooser.js")),
    ("/compare.js", SCRIPT, include_bytes!("../pages/compare.js")),
    ("/curves.js", SCRIPT, include_bytes!("../pages/curves.js")),
    ("/line.js", SCRIPT, include_bytes!("../pages/line.js")),
    ("/log.js", SCRIPT, include_bytes!("../pages/log.js")),
    ("/nodes.js", SCRIPT, include_bytes!("../pages/nodes.js")),
    ("/run.js", SCRIPT, include_bytes!("../pages/run.js")),
    ("/runs.js", SCRIPT, include_bytes!("../pages/runs.js")),
    ("/scatter.js", SCRIPT, include_bytes!("../pages/scatter.js")),
    ("/table.js", SCRIPT, include_bytes!("../pages/table.js")),
];

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SVG: &str = "image/svg+xml";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Whether a path is one of a page, which anybody of this machine's user may read.
pub(crate) fn is_page(path: &str) -> bool {
    PAGES.iter().any(|(name, ..)| *name == path)
}

/// The file of a path.
pub(crate) fn page(path: &str) -> Reply {
    match PAGES.iter().find(|(name, ..)| *name == path) {
        Some((_, kind, bytes)) => body(kind, *bytes),
        None => error(
            StatusCode::NOT_FOUND,
            "there is no such page",
            "/ is the first one",
        ),
    }
}
