//! Who is answered. A page on loopback is reached by every program and every user of this machine,
//! and through a browser by every page of the world:
//!
//! * `Host` must be a name of loopback, else a name that was bound to 127.0.0.1 reads everything.
//! * `Origin` and `Sec-Fetch-Site` must be ours where a browser sends them.
//! * A POST needs a header of its own, which no form can send.
//! * What is no page needs a cookie, which a token of 256 bits is exchanged for.
//!
//! The user at the other end of a connection is looked up before ([`crate::peer`]).

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;

use crate::pages;
use crate::reply::{Reply, body, error, harden};
use crate::server::Site;

/// The header of every POST.
const OWN_HEADER: &str = "x-neroman";
/// The way to a cookie.
pub(crate) const LOGIN: &str = "/login";
const RANDOM_BYTES: usize = 32;

/// The secrets of one server, and where it listens.
#[derive(Debug)]
pub(crate) struct Guard {
    /// The port in addresses of our pages; `None` behind a Unix socket, where a forwarder chooses it.
    port: Option<u16>,
    token: String,
    cookie: String,
}

/// Why a request is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Denial {
    #[error("the request names another host")]
    Host,
    #[error("the request comes from another page")]
    Origin,
    #[error("the request has no header `X-Neroman`")]
    Header,
    #[error("the request has no cookie of this program")]
    Cookie,
}

impl Denial {
    fn hint(self) -> &'static str {
        match self {
            Self::Host => {
                "open the address that `neroman web` printed; a port that is forwarded has the same \
                 number on both sides"
            }
            Self::Origin | Self::Header => "only its own page may speak to `neroman web`",
            Self::Cookie => "open the address that `neroman web` printed, with all behind the `#`",
        }
    }

    fn reply(self) -> Reply {
        let status = match self {
            Self::Host => StatusCode::MISDIRECTED_REQUEST,
            Self::Origin | Self::Header => StatusCode::FORBIDDEN,
            Self::Cookie => StatusCode::UNAUTHORIZED,
        };
        error(status, &self.to_string(), self.hint())
    }
}

impl Guard {
    /// Secrets that nobody had before.
    pub fn new(port: Option<u16>) -> std::io::Result<Self> {
        Ok(Self {
            port,
            token: secret()?,
            cookie: secret()?,
        })
    }

    /// What stands in the address.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Decides about a request.
    pub fn check(&self, method: &Method, path: &str, headers: &HeaderMap) -> Result<(), Denial> {
        let host = self.host(headers).ok_or(Denial::Host)?;
        let is_read = matches!(*method, Method::GET | Method::HEAD);
        let origins: Vec<_> = headers.get_all(header::ORIGIN).iter().collect();
        let is_ours = match origins.as_slice() {
            [] => is_read,
            [origin] => origin.as_bytes() == format!("http://{host}").as_bytes(),
            [..] => false,
        };
        let is_page = pages::is_page(path);
        // A link on another page may lead to the first page, and to nothing else.
        let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
        let is_foreign = site.is_some_and(|site| site != b"same-origin" && site != b"none");
        if !is_ours || (is_foreign && !(is_page && is_read)) {
            return Err(Denial::Origin);
        }
        if !is_read && headers.get(OWN_HEADER).is_none_or(|value| value != "1") {
            return Err(Denial::Header);
        }
        if is_page || path == LOGIN || self.has_cookie(host, headers) {
            return Ok(());
        }
        Err(Denial::Cookie)
    }

    /// The value of `Host`, if it is a name of ours.
    fn host<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        let mut hosts = headers.get_all(header::HOST).iter();
        let host = hosts.next()?.to_str().ok()?;
        let (name, port) = name_and_port(host)?;
        let is_ours = ["127.0.0.1", "localhost", "[::1]"].contains(&name)
            && self.port.is_none_or(|ours| ours == port);
        (is_ours && hosts.next().is_none()).then_some(host)
    }

    fn has_cookie(&self, host: &str, headers: &HeaderMap) -> bool {
        let name = cookie_name(host);
        let texts = headers.get_all(header::COOKIE).iter();
        let mut pairs = texts
            .filter_map(|text| text.to_str().ok())
            .flat_map(|text| text.split(';'));
        pairs.any(|pair| {
            let (key, value) = pair.trim().split_once('=').unwrap_or_default();
            key == name && equal(value, &self.cookie)
        })
    }

    /// Exchanges the token for the cookie of this host and port.
    fn login(&self, headers: &HeaderMap, token: &str) -> Reply {
        if !equal(token.trim(), &self.token) {
            let reply = error(
                StatusCode::FORBIDDEN,
                "the token is not the one of this program",
                Denial::Cookie.hint(),
            );
            return reply;
        }
        let host = self.host(headers).unwrap_or_default();
        let cookie = format!(
            "{}={}; HttpOnly; SameSite=Strict; Path=/",
            cookie_name(host),
            self.cookie
        );
        let mut reply = body("text/plain", "");
        *reply.status_mut() = StatusCode::NO_CONTENT;
        if let Ok(cookie) = HeaderValue::from_str(&cookie) {
            reply.headers_mut().insert(header::SET_COOKIE, cookie);
        }
        reply
    }
}

/// Asks the guard before a request, and hardens what is answered.
pub(crate) async fn layer(State(site): State<Site>, request: Request, next: Next) -> Reply {
    let checked = site
        .guard
        .check(request.method(), request.uri().path(), request.headers());
    harden(match checked {
        Ok(()) => next.run(request).await,
        Err(denial) => denial.reply(),
    })
}

/// `POST /login`: the token for a cookie.
pub(crate) async fn login(State(site): State<Site>, headers: HeaderMap, token: String) -> Reply {
    site.guard.login(&headers, &token)
}

/// Cookies do not tell ports apart: its name does.
fn cookie_name(host: &str) -> String {
    let port = name_and_port(host).map_or(0, |(_, port)| port);
    format!("neroman-{port}")
}

fn name_and_port(host: &str) -> Option<(&str, u16)> {
    let end_of_name = host.rfind(']').map_or(0, |at| at + 1);
    match host[end_of_name..].rfind(':') {
        Some(at) => {
            let (name, port) = host.split_at(end_of_name + at);
            Some((name, port[1..].parse().ok()?))
        }
        None => Some((host, 80)),
    }
}

/// Compares in a time that does not depend on where two secrets differ.
fn equal(one: &str, other: &str) -> bool {
    blake3::hash(one.as_bytes()) == blake3::hash(other.as_bytes())
}

/// A text of 256 random bits.
pub(crate) fn secret() -> std::io::Result<String> {
    let mut bytes = [0; RANDOM_BYTES];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    if filled != RANDOM_BYTES {
        return Err(std::io::Error::other(
            "the kernel gave too few random bytes",
        ));
    }
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
