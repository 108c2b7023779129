//! A window of experiments as a document, once or for as long as it is watched.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::io::Write as _;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, HeaderValue, header};
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::{StreamExt as _, stream};
use nero_model::VERSION;
use nero_model::safe::Safe;
use nero_views::{Column, Fact, columns, json, object};
use nero_wire::v1::{
    BatchView, CompleteRequest, ExperimentView, IdGroup, ListRequest, Totals, WatchEvent,
    WatchRequest, Window, complete_request::Kind,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::call::{Refusal, RowsMessage, ViewCall};
use crate::query::Query;
use crate::reply::{Reply, body, document, fault, refusal};
use crate::server::{Caller, Site, ViewSettings};

/// Rows of a window that names no number of them.
const ROWS: u64 = 100;
/// Rows of the longest window.
const ROWS_MAX: u64 = 1000;
/// Columns of the widest window.
const COLUMNS_MAX: usize = 200;
/// How often a stream on which nothing changes shows that it is alive.
const SIGN_OF_LIFE: Duration = Duration::from_secs(15);
/// Names of each kind that a chooser of columns gets.
const NAMES_MAX: usize = 2000;

/// The part of the experiments that a page shows.
pub(crate) struct PageWindow {
    selection: String,
    window: Window,
    /// Names of columns, and expressions; empty: those that tell most.
    columns: Vec<String>,
}

impl PageWindow {
    /// A window of `count` rows from `offset` on.
    pub fn new(selection: &str, sort: &str, offset: u64, count: u64, columns: Vec<String>) -> Self {
        Self {
            selection: selection.to_owned(),
            window: Window {
                sort: sort.to_owned(),
                offset,
                count,
            },
            columns,
        }
    }

    fn read(raw: Option<&str>) -> Result<Self, Refusal> {
        let query = Query::read(raw, &["sel", "sort", "offset", "count"], &["columns"])?;
        let columns = query.all("columns");
        if columns.len() > COLUMNS_MAX {
            let text = format!("{} columns are more than {COLUMNS_MAX}", columns.len());
            return Err(fault(&text, "choose some of them"));
        }
        Ok(Self::new(
            query.text_or_empty("sel"),
            query.text_or_empty("sort"),
            query.number("offset", 0..=u64::MAX)?.unwrap_or(0),
            query.number("count", 1..=ROWS_MAX)?.unwrap_or(ROWS),
            columns,
        ))
    }

    /// The facts that views hold only on request.
    fn asked_facts(&self) -> Vec<String> {
        columns::asked_facts(self.columns.iter().map(String::as_str))
    }

    /// Asks for it once.
    ///
    /// # Errors
    /// The daemon's.
    pub async fn list(&self, caller: &Caller) -> Result<WindowRows, Refusal> {
        let asked = ListRequest {
            selection: Some((caller.settings.select)(&self.selection)),
            facts: self.asked_facts(),
            window: Some(self.window.clone()),
            totals: true,
            ..ListRequest::default()
        };
        let listed = caller.ask(|answer| ViewCall::List(asked, answer)).await?;
        Ok(WindowRows {
            rows: listed.experiments,
            totals: listed.totals.unwrap_or_default(),
            batches: listed.batches,
            notes: listed.notes,
            offset: self.window.offset,
        })
    }
}

/// `GET /api/window`.
pub(crate) async fn window(State(site): State<Site>, RawQuery(raw): RawQuery) -> Reply {
    let listed = async {
        let page = PageWindow::read(raw.as_deref())?;
        let rows = page.list(&site.caller).await?;
        Ok(rows.document(&page.columns, site.caller.settings))
    };
    answer(listed.await)
}

fn answer(result: Result<Value, Refusal>) -> Reply {
    match result {
        Ok(value) => document(&value),
        Err(refused) => refusal(&refused),
    }
}

/// `GET /live`: the same for each change, as a stream of events.
pub(crate) async fn live(
    State(site): State<Site>,
    headers: HeaderMap,
    RawQuery(raw): RawQuery,
) -> Reply {
    let page = match PageWindow::read(raw.as_deref()) {
        Ok(page) => page,
        Err(refused) => return refusal(&refused),
    };
    let asked = WatchRequest {
        selection: Some((site.caller.settings.select)(&page.selection)),
        interval_ms: 0,
        facts: page.asked_facts(),
        window: Some(page.window.clone()),
    };
    // Two messages that nobody has read keep the daemon from sending more.
    let (sender, messages) = mpsc::channel(1);
    if let Err(refused) = site.caller.send(ViewCall::Watch(asked, sender)).await {
        return refusal(&refused);
    }
    let watched = WatchedWindow {
        messages,
        views: HashMap::new(),
        columns: page.columns,
        settings: site.caller.settings,
    };
    let events = stream::unfold(watched, async |mut watched| {
        Some((watched.next().await?, watched))
    });
    if !takes_gzip(&headers) {
        let events = events.map(Ok::<_, Infallible>);
        return body("text/event-stream", Body::from_stream(events));
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let packed = events.map(move |event| pack(&mut encoder, &event));
    let mut reply = body("text/event-stream", Body::from_stream(packed));
    let gzip = HeaderValue::from_static("gzip");
    reply.headers_mut().insert(header::CONTENT_ENCODING, gzip);
    reply
}

fn takes_gzip(headers: &HeaderMap) -> bool {
    let named = headers.get(header::ACCEPT_ENCODING);
    let mut names = named.and_then(|value| value.to_str().ok()).into_iter();
    names.any(|names| names.split(',').any(|one| one.trim() == "gzip"))
}

/// The bytes of a stream that hold this event and what is not sent yet. One event is much like the
/// last one, so that few bytes of it cross the line.
fn pack(encoder: &mut GzEncoder<Vec<u8>>, event: &str) -> std::io::Result<Vec<u8>> {
    encoder.write_all(event.as_bytes())?;
    encoder.flush()?;
    Ok(std::mem::take(encoder.get_mut()))
}

/// A stream of one tab: the rows that it shows.
struct WatchedWindow {
    messages: mpsc::Receiver<RowsMessage>,
    views: HashMap<u64, ExperimentView>,
    columns: Vec<String>,
    settings: ViewSettings,
}

impl WatchedWindow {
    /// The text of the next event; `None` when nothing follows.
    async fn next(&mut self) -> Option<String> {
        match tokio::time::timeout(SIGN_OF_LIFE, self.messages.recv()).await {
            Ok(Some(RowsMessage::Rows(event))) => {
                let document = self.take(*event);
                Some(event_text("window", &document))
            }
            Ok(Some(RowsMessage::Fault(refused))) => Some(event_text("fault", &refused.document)),
            Ok(None) => None,
            Err(_) => Some(":\n\n".to_owned()),
        }
    }

    fn take(&mut self, event: WatchEvent) -> Value {
        let changed = event.experiments.into_iter();
        self.views.extend(changed.map(|view| (view.id, view)));
        let window = event.window.unwrap_or_default();
        let shown: HashSet<u64> = window.ids.iter().copied().collect();
        self.views.retain(|id, _| shown.contains(id));
        let rows = window.ids.iter().filter_map(|id| self.views.get(id));
        let rows = WindowRows {
            rows: rows.cloned().collect(),
            totals: event.totals.unwrap_or_default(),
            batches: event.batches,
            notes: event.notes,
            offset: window.offset,
        };
        rows.document(&self.columns, self.settings)
    }
}

/// An event whose data is one line, as documents are.
fn event_text(name: &str, document: &Value) -> String {
    format!("event: {name}\ndata: {}\n\n", json::print(document))
}

/// What a window shows at one moment.
pub(crate) struct WindowRows {
    pub rows: Vec<ExperimentView>,
    totals: Totals,
    batches: Vec<BatchView>,
    notes: Vec<String>,
    offset: u64,
}

impl WindowRows {
    fn document(mut self, names: &[String], settings: ViewSettings) -> Value {
        let columns = self.columns(names);
        let rows = self.rows.iter().map(|view| {
            let mut row = json::experiment(view);
            let cell = |column: &Column| Safe::line(&column.text(view)).to_string();
            row["cells"] = columns.iter().map(cell).collect();
            row
        });
        let rows: Vec<Value> = rows.collect();
        let headings = columns.iter().map(|one| self.heading(one, &columns));
        self.about(json!({
            "columns": headings.collect::<Vec<_>>(),
            "experiments": rows,
            "read_only": settings.is_read_only,
            "version": VERSION,
        }))
    }

    /// A document of these fields and of what is known of all that are picked.
    pub fn about(&self, fields: Value) -> Value {
        let mut batches = json::batches(&self.batches);
        for (batch, view) in batches
            .as_array_mut()
            .into_iter()
            .flatten()
            .zip(&self.batches)
        {
            batch["text"] = json!(view.text);
        }
        let mut document = json::document(fields);
        document["offset"] = json!(self.offset);
        document["totals"] = totals(&self.totals);
        document["batches"] = batches;
        document["notes"] = json!(self.notes);
        document
    }

    /// The columns of these names; a name that nothing has becomes a note.
    fn columns(&mut self, names: &[String]) -> Vec<Column> {
        if names.is_empty() {
            let mut telling = columns::telling(&self.rows);
            telling.truncate(COLUMNS_MAX);
            return telling;
        }
        let mut found = Vec::new();
        for name in names {
            match columns::named(name, &self.rows) {
                Ok(column) => found.push(column),
                Err(error) => self.notes.push(error.to_string()),
            }
        }
        found
    }

    fn heading(&self, column: &Column, all: &[Column]) -> Value {
        let name = column.name();
        let more_is_better = match column {
            Column::Metric(name) => nero_expr::more_is_better(name),
            Column::Fact(_) | Column::Param(_) | Column::Asked(_) | Column::Expression(_) => None,
        };
        json!({
            "name": name,
            "heading": column.heading(all),
            "expression": column.expression(),
            "number": self.rows.iter().any(|view| column.value(view).is_number()),
            "better": more_is_better.map(|more| if more { "max" } else { "min" }),
        })
    }
}

/// What all picked experiments have in common.
fn totals(totals: &Totals) -> Value {
    let states = |states: &[nero_wire::v1::totals::State]| -> Value {
        let state = |one: &nero_wire::v1::totals::State| object!(one => state, count);
        states.iter().map(state).collect()
    };
    let groups = |groups: &[IdGroup]| -> Value {
        let group = |one: &IdGroup| object!(one => state?, text, count, ids);
        groups.iter().map(group).collect()
    };
    let nodes = totals.nodes.iter();
    let nodes = nodes.map(|node| json!({"node": node.node, "states": states(&node.states)}));
    object!(totals =>
        experiments,
        states: states(&totals.states),
        nodes: nodes.collect::<Vec<_>>(),
        needs: groups(&totals.needs),
        more_needs, held,
        warnings: groups(&totals.warnings),
        hints: groups(&totals.hints),
        waits: groups(&totals.waits),
        more_waits,
    )
}

/// `GET /api/columns`: the names that a chooser of columns has, of the first rows.
pub(crate) async fn columns(State(site): State<Site>, RawQuery(raw): RawQuery) -> Reply {
    let found = async {
        let query = Query::read(raw.as_deref(), &["sel"], &[])?;
        let page = PageWindow::new(query.text_or_empty("sel"), "", 0, ROWS_MAX, Vec::new());
        let rows = page.list(&site.caller).await?.rows;
        let names = |mut names: Vec<String>| {
            names.truncate(NAMES_MAX);
            names
        };
        let facts = Fact::ALL.iter().map(|fact| fact.name());
        let facts = facts.filter(|name| Fact::named(name).is_some());
        Ok(json::document(json!({
            "fields": facts.collect::<Vec<_>>(),
            "parameters": names(columns::params(&rows)),
            "metrics": names(columns::metrics(&rows)),
        })))
    };
    answer(found.await)
}

/// `GET /api/complete`: how the last word of a line may go on.
pub(crate) async fn complete(State(site): State<Site>, RawQuery(raw): RawQuery) -> Reply {
    let found = async {
        let query = Query::read(raw.as_deref(), &["line"], &[])?;
        let line = query.text_or_empty("line");
        let parts = [' ', ',', '<', '>', '=', '&', '|', '('];
        let begun = line.rsplit(parts).next().unwrap_or_default();
        let kinds = [Kind::Experiments, Kind::Params, Kind::Metrics];
        let asked = CompleteRequest {
            begun: begun.to_owned(),
            kinds: kinds.map(|kind| kind as i32).to_vec(),
        };
        let reply = site
            .caller
            .ask(|answer| ViewCall::Complete(asked, answer))
            .await?;
        let words = reply.words.iter();
        let words = words.map(|word| json!({"text": word.word, "note": word.about}));
        Ok(json::document(
            json!({"candidates": words.collect::<Vec<_>>()}),
        ))
    };
    answer(found.await)
}

#[cfg(test)]
mod tests {
    use flate2::write::GzDecoder;

    use super::*;

    #[test]
    fn a_packed_event_is_whole_when_it_is_sent_and_costs_what_differs() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        let mut decoder = GzDecoder::new(Vec::new());
        for (loss, most) in [("0.51", usize::MAX), ("0.49", 150)] {
            let names = (0..200).map(|id| format!("{id}: train_lr-{}", id * 7919 % 104_729));
            let names = names.collect::<Vec<_>>().join(",");
            let event = format!("event: window\ndata: {names}; loss {loss}\n\n");
            let packed = pack(&mut encoder, &event).unwrap();
            assert!(packed.len() <= most, "{} bytes", packed.len());
            decoder.write_all(&packed).unwrap();
            decoder.flush().unwrap();
            assert_eq!(std::mem::take(decoder.get_mut()), event.as_bytes());
        }
    }

    #[test]
    fn a_stream_is_packed_where_the_reader_takes_it() {
        let takes = |names: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(names));
            takes_gzip(&headers)
        };
        assert!(takes("gzip, deflate, br, zstd") && takes("br,gzip") && takes("gzip"));
        assert!(!takes("br") && !takes("identity") && !takes_gzip(&HeaderMap::new()));
        // A weight of zero is a refusal.
        assert!(!takes("gzip;q=0"));
    }
}
