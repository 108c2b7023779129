//! The requests that are answered, each in the file of what it is about.

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::Uri;
use axum::middleware;
use axum::routing::{get, post};
use nero_wire::v1::Selection;
use tokio::sync::{mpsc, oneshot};

use crate::call::{CallAnswer, Refusal, ViewCall};
use crate::guard::{self, Guard};
use crate::reply::fault;
use crate::{curves, files, lines, pages, window};

/// Bytes of the body of a request.
const BODY_MAX: usize = 1 << 20;

/// What a person chose.
#[derive(Clone, Copy, Debug)]
pub struct ViewSettings {
    /// Whether nothing can be changed from the page.
    pub is_read_only: bool,
    /// Makes a selection of typed text, in the time zone of the person.
    pub select: fn(&str) -> Selection,
}

/// The way to the program around the server.
#[derive(Clone, Debug)]
pub struct Caller {
    pub(crate) settings: ViewSettings,
    calls: mpsc::Sender<ViewCall>,
}

/// What every request of a browser is answered from.
#[derive(Clone, Debug)]
pub struct Site {
    pub(crate) guard: Arc<Guard>,
    pub(crate) caller: Caller,
}

impl Site {
    /// A site for a port, or none for a socket, with secrets that nobody had before.
    ///
    /// # Errors
    /// When the kernel gives no random numbers.
    pub fn new(port: Option<u16>, caller: Caller) -> std::io::Result<Self> {
        Ok(Self {
            guard: Arc::new(Guard::new(port)?),
            caller,
        })
    }

    /// The secret that stands behind `#token=` in the address.
    pub fn token(&self) -> &str {
        self.guard.token()
    }

    pub(crate) fn router(&self) -> Router {
        let guarded = middleware::from_fn_with_state(self.clone(), guard::layer);
        self.unguarded().layer(guarded)
    }

    /// The answers alone. A test shows with it that an attack works without the guard.
    pub(crate) fn unguarded(&self) -> Router {
        Router::new()
            .route(guard::LOGIN, post(guard::login))
            .route("/api/window", get(window::window))
            .route("/live", get(window::live))
            .route("/api/columns", get(window::columns))
            .route("/api/complete", get(window::complete))
            .route("/api/{verb}", get(lines::read))
            .route("/do", post(lines::change))
            .route("/plot.svg", get(curves::picture))
            .route("/plot.json", get(curves::points))
            .route("/log", get(files::log))
            .route("/files", get(files::files))
            .route("/file", get(files::file))
            .fallback(get(|uri: Uri| async move { pages::page(uri.path()) }))
            .layer(DefaultBodyLimit::max(BODY_MAX))
            .with_state(self.clone())
    }
}

impl Caller {
    /// A way over which the other end gets these calls.
    pub fn new(settings: ViewSettings, calls: mpsc::Sender<ViewCall>) -> Self {
        Self { settings, calls }
    }

    /// Asks the program around the server.
    pub(crate) async fn ask<T>(
        &self,
        question: impl FnOnce(CallAnswer<T>) -> ViewCall,
    ) -> Result<T, Refusal> {
        let (answer, answered) = oneshot::channel();
        let ends = || fault("`neroman web` is ending", "");
        self.send(question(answer)).await?;
        answered.await.map_err(|_| ends())?
    }

    /// Hands a question on.
    pub(crate) async fn send(&self, call: ViewCall) -> Result<(), Refusal> {
        let sent = self.calls.send(call).await;
        sent.map_err(|_| fault("`neroman web` is ending", ""))
    }
}
