//! Answers of HTTP: documents, errors, and the headers that every answer has.

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use nero_views::json;
use serde_json::{Value, json};

use crate::call::Refusal;

/// What a page may load, and where it may stand.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";
/// The same for files of jobs: nothing at all.
pub(crate) const SANDBOX: &str = "sandbox; default-src 'none'";

/// An answer to a request.
pub(crate) type Reply = Response<Body>;

/// A body of some type.
pub(crate) fn body(kind: &'static str, bytes: impl Into<Body>) -> Reply {
    let mut reply = Response::new(bytes.into());
    let headers = reply.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    reply
}

/// A document.
pub(crate) fn document(value: &Value) -> Reply {
    body("application/json", json::print(value))
}

/// An error.
pub(crate) fn refusal(refusal: &Refusal) -> Reply {
    let status = match refusal.exit_code {
        2 => StatusCode::BAD_REQUEST,
        3 => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::CONFLICT,
    };
    with_status(status, document(&refusal.document))
}

/// An error of this server.
pub(crate) fn error(status: StatusCode, what: &str, hint: &str) -> Reply {
    with_status(status, document(&fault(what, hint).document))
}

/// Wrong usage as an error document.
pub(crate) fn fault(what: &str, hint: &str) -> Refusal {
    let hint = (!hint.is_empty()).then_some(hint);
    Refusal {
        document: json!({"schema": json::SCHEMA, "error": {
            "what": what, "causes": [], "hint": hint, "exit_code": 2, "report": null,
        }}),
        exit_code: 2,
    }
}

/// The same answer with another status.
pub(crate) fn with_status(status: StatusCode, mut reply: Reply) -> Reply {
    *reply.status_mut() = status;
    reply
}

/// Adds the headers that keep a browser from doing more than the page does.
pub(crate) fn harden(mut reply: Reply) -> Reply {
    let headers = reply.headers_mut();
    let mut put = |name, value| {
        headers
            .entry(name)
            .or_insert(HeaderValue::from_static(value));
    };
    put(header::CONTENT_SECURITY_POLICY, POLICY);
    put(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    put(header::REFERRER_POLICY, "no-referrer");
    put(header::CACHE_CONTROL, "no-store");
    put(header::X_FRAME_OPTIONS, "DENY");
    put(
        header::HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    );
    put(
        header::HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    );
    reply
}
