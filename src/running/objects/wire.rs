//! Connections: made, kept for the next request, and what servers answer on them.
//!
//! HTTP/1.1, one request a connection at a time: stores answer with whole objects, and several
//! connections are what spreads them over their machines.

use std::cell::RefCell;
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{AUTHORIZATION, DATE, HOST, HeaderMap, HeaderValue, USER_AGENT};
use hyper::http::uri::{Authority, PathAndQuery, Scheme};
use hyper::{Method, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody,
    HttpResponse, HttpResponseBody, HttpService,
};
use ringfall_config::object_store::ObjectOptions;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use super::cause::{Cause, element, told};
use super::counts::Counters;
use super::tls::Trust;
use crate::threads::locked;

tokio::task_local! {
    /// Why the last request of this attempt failed. The crate `object_store` makes text of a
    /// refusal, with everything that the server said, credentials among it.
    static FAILURE: RefCell<Option<Cause>>;
}

/// Runs one attempt; its outcome with why its last request failed, where one did.
pub(super) async fn watched<T>(attempt: impl Future<Output = T>) -> (T, Option<Cause>) {
    let both = async {
        let outcome = attempt.await;
        (outcome, FAILURE.with(RefCell::take))
    };
    FAILURE.scope(RefCell::new(None), both).await
}

fn note(cause: Cause) {
    // Outside of an attempt nobody asks.
    let _nobody_asks = FAILURE.try_with(|last| *last.borrow_mut() = Some(cause));
}

/// Where the instance metadata of the clouds is, which is asked when nothing else has credentials:
/// no good answer there means that there are none.
const METADATA_HOSTS: [&str; 2] = ["169.254.169.254", "metadata.google.internal"];
/// Paths requested there, also where `AWS_METADATA_ENDPOINT` names another host.
const METADATA_PATHS: [&str; 2] = ["/latest/api/token", "/latest/meta-data/iam/"];
/// Longest wait for it: it is on the same machine, or nowhere.
const METADATA_PATIENCE: Duration = Duration::from_secs(1);
/// Bytes of an answer that is not an object which are looked at.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Bytes that a connection reads at once.
const READ_BYTES: usize = 512 << 10;

/// A secure or a plain connection.
trait Line: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Line for T {}

type Sender = SendRequest<HttpRequestBody>;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Origin {
    is_secure: bool,
    authority: Authority,
    /// Whether it is asked for credentials, not for objects.
    is_metadata: bool,
}

/// The connections to the servers of one store.
#[derive(Clone, Debug)]
pub(super) struct Wires {
    trust: Arc<Trust>,
    connect_timeout: Duration,
    idle_max: usize,
    counters: Arc<Counters>,
    idle: Arc<Mutex<HashMap<Origin, Vec<Sender>>>>,
}

impl Wires {
    /// None yet; as many are kept for each server as there may be requests.
    pub(super) fn new(options: &ObjectOptions, counters: Arc<Counters>) -> Wires {
        Wires {
            trust: Arc::new(Trust::new(options.ca_file.clone())),
            connect_timeout: options.connect_timeout,
            idle_max: options.concurrency as usize,
            counters,
            idle: Arc::default(),
        }
    }
}

impl HttpConnector for Wires {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[async_trait]
impl HttpService for Wires {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (request, origin) = prepared(request)?;
        let method = request.method().clone();
        let is_metadata = origin.is_metadata;
        let (response, sender) = self.send(request, &origin).await?;
        let (parts, body) = response.into_parts();
        let body = Receiving { body, home: Some((sender, origin, self.clone())) };
        // The end of an upload is answered with success before it has succeeded.
        let is_whole = parts.status.is_success() && method != Method::POST;
        if is_whole || method == Method::HEAD {
            if !parts.status.is_success() {
                note(refused(parts.status, &parts.headers, b""));
            }
            return Ok(HttpResponse::from_parts(parts, HttpResponseBody::new(body)));
        }
        let text = collected(body).await?;
        if !parts.status.is_success() || element(&String::from_utf8_lossy(&text), "Error").is_some()
        {
            note(match is_metadata {
                true => Cause::NoCredentials,
                false => refused(parts.status, &parts.headers, &text),
            });
        }
        Ok(HttpResponse::from_parts(parts, HttpResponseBody::from(text)))
    }
}

/// The request as it goes over a connection, and where to.
fn prepared(mut request: HttpRequest) -> Result<(HttpRequest, Origin), HttpError> {
    let wrong =
        |what: &str| HttpError::new(HttpErrorKind::Unknown, std::io::Error::other(what.to_owned()));
    let uri = request.uri().clone();
    let authority = uri.authority().ok_or_else(|| wrong("the address has no host"))?.clone();
    let is_secure = match uri.scheme() {
        Some(scheme) if *scheme == Scheme::HTTPS => true,
        Some(scheme) if *scheme == Scheme::HTTP => false,
        _ => return Err(wrong("the address is neither http:// nor https://")),
    };
    let is_metadata = METADATA_HOSTS.contains(&authority.host())
        || METADATA_PATHS.iter().any(|path| uri.path().starts_with(path));
    let path = uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    *request.uri_mut() = Uri::from(path);
    let headers = request.headers_mut();
    if !headers.contains_key(HOST) {
        let host = HeaderValue::from_str(authority.as_str()).map_err(|_| wrong("no such host"))?;
        headers.insert(HOST, host);
    }
    if !headers.contains_key(USER_AGENT) {
        let agent = HeaderValue::from_static(concat!("ringfall/", env!("CARGO_PKG_VERSION")));
        headers.insert(USER_AGENT, agent);
    }
    // A token without a letter would be refused where no token is welcome.
    if headers.get(AUTHORIZATION).is_some_and(|said| said.as_bytes().trim_ascii_end() == b"Bearer")
    {
        headers.remove(AUTHORIZATION);
    }
    Ok((request, Origin { is_secure, authority, is_metadata }))
}

/// The whole of an answer that is not an object.
async fn collected(mut body: Receiving) -> Result<Bytes, HttpError> {
    let mut text = Vec::new();
    while let Some(frame) = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        if let Ok(data) = frame?.into_data() {
            text.extend_from_slice(&data);
        }
        if text.len() > ANSWER_BYTES_MAX {
            let what = std::io::Error::other("the server's answer is too long");
            return Err(HttpError::new(HttpErrorKind::Decode, what));
        }
    }
    Ok(Bytes::from(text))
}

/// Cause of a refusal with that status and that body.
pub fn meaning(status: u16, body: &[u8]) -> Cause {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    refused(status, &HeaderMap::new(), body)
}

/// Parses a refusal, without the parts that repeat the request.
fn refused(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Cause {
    let text = String::from_utf8_lossy(body);
    let header = |name: &str| headers.get(name)?.to_str().ok().map(str::to_owned);
    let code = element(&text, "Code").map(str::to_owned);
    let code = code.or_else(|| header("x-ms-error-code")).unwrap_or_default();
    let message = element(&text, "Message").unwrap_or_default();
    let region = element(&text, "Region").map(str::to_owned);
    let region = region.or_else(|| header("x-amz-bucket-region")).map(|region| told(&region));
    let ahead_s = headers.get(DATE).and_then(ahead_s);
    Cause::of_refusal(status.as_u16(), told(&code), told(message), region, ahead_s)
}

/// By how many seconds our clock is ahead of a server's that says it is that time.
fn ahead_s(date: &HeaderValue) -> Option<i64> {
    let theirs = jiff::fmt::rfc2822::parse(date.to_str().ok()?).ok()?.timestamp().as_second();
    Timestamp::now().as_second().checked_sub(theirs)
}

/// Error of a broken connection; also noted for the attempt's caller.
fn broken(kind: HttpErrorKind, cause: Cause) -> HttpError {
    let error = std::io::Error::other(cause.to_string());
    note(cause);
    HttpError::new(kind, error)
}

/// A connection that ended in the middle of a request.
fn cut(error: &hyper::Error) -> HttpError {
    let inner = std::error::Error::source(error).map(|inner| format!(": {inner}"));
    let what = told(&format!("{error}{}", inner.unwrap_or_default()));
    broken(HttpErrorKind::Interrupted, Cause::Cut { what })
}

impl Wires {
    /// Sends it over a connection that is idle, else over a new one.
    async fn send(
        &self,
        request: HttpRequest,
        origin: &Origin,
    ) -> Result<(hyper::Response<Incoming>, Sender), HttpError> {
        while let Some(mut sender) = self.take_idle(origin) {
            if sender.ready().await.is_err() {
                continue;
            }
            // The server may close an idle connection just now, before it has read anything.
            match sender.try_send_request(request.clone()).await {
                Ok(response) => return Ok((response, sender)),
                Err(mut error) => match error.take_message() {
                    Some(_) => {}
                    None => return Err(cut(error.error())),
                },
            }
        }
        let mut sender = self.dial(origin).await?;
        let response = sender.send_request(request).await.map_err(|error| cut(&error))?;
        Ok((response, sender))
    }

    async fn dial(&self, origin: &Origin) -> Result<Sender, HttpError> {
        let Origin { is_secure, authority, is_metadata } = origin;
        let host = authority.host();
        let port = authority.port_u16().unwrap_or(if *is_secure { 443 } else { 80 });
        let patience = match is_metadata {
            true => METADATA_PATIENCE,
            false => self.connect_timeout,
        };
        let failed = |what: String| {
            let cause = match is_metadata {
                true => Cause::NoCredentials,
                false => Cause::Connect { what: format!("{authority}: {}", told(&what)) },
            };
            broken(HttpErrorKind::Connect, cause)
        };
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let late = || failed(format!("no answer within {} s", patience.as_secs()));
        let connecting = tokio::time::timeout(patience, TcpStream::connect((bare, port)));
        let stream = match connecting.await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(failed(error.to_string())),
            Err(_) => return Err(late()),
        };
        stream.set_nodelay(true).map_err(|error| failed(error.to_string()))?;
        let line: Box<dyn Line> = match is_secure {
            false => Box::new(stream),
            true => match tokio::time::timeout(patience, self.secured(stream, bare)).await {
                Ok(secured) => secured?,
                Err(_) => return Err(late()),
            },
        };
        let handshake =
            http1::Builder::new().max_buf_size(READ_BYTES).handshake(TokioIo::new(line)).await;
        let (sender, connection) = handshake.map_err(|error| cut(&error))?;
        // Ends with the connection; what it fails of is told to the request on it.
        tokio::spawn(async move { connection.await.unwrap_or_default() });
        self.counters.now().connections += 1;
        Ok(sender)
    }

    async fn secured(&self, stream: TcpStream, host: &str) -> Result<Box<dyn Line>, HttpError> {
        let failed = |what: String| {
            let what = format!("{host}: {}", told(&what));
            broken(HttpErrorKind::Unknown, Cause::Tls { what })
        };
        let config = self.trust.config().map_err(failed)?;
        let name =
            ServerName::try_from(host.to_owned()).map_err(|error| failed(error.to_string()))?;
        let secured = TlsConnector::from(config).connect(name, stream).await;
        Ok(Box::new(secured.map_err(|error| failed(error.to_string()))?))
    }

    fn take_idle(&self, origin: &Origin) -> Option<Sender> {
        let mut idle = locked(&self.idle);
        idle.get_mut(origin)?.pop()
    }

    fn keep(&self, origin: Origin, sender: Sender) {
        if sender.is_closed() {
            return;
        }
        let mut idle = locked(&self.idle);
        let kept = idle.entry(origin).or_default();
        if kept.len() < self.idle_max {
            kept.push(sender);
        }
    }
}

/// The body of an answer; its connection is kept for the next request when all of it has come.
struct Receiving {
    body: Incoming,
    home: Option<(Sender, Origin, Wires)>,
}

impl Receiving {
    fn go_home(&mut self) {
        if let Some((sender, origin, wires)) = self.home.take() {
            wires.keep(origin, sender);
        }
    }
}

impl Body for Receiving {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let polled = std::task::ready!(Pin::new(&mut self.body).poll_frame(cx));
        if polled.is_none() || matches!(polled, Some(Ok(_))) && self.body.is_end_stream() {
            self.go_home();
        }
        Poll::Ready(polled.map(|frame| frame.map_err(|error| cut(&error))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        // An answer without a body is not polled at all.
        if self.body.is_end_stream() {
            self.go_home();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_its_code_and_message_and_nothing_that_it_repeats() {
        let body = |code: &str| {
            format!(
                "<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>The provided token \
                 has expired.</Message><Token-0>FwoGZXIvYXdzEBYaD</Token-0></Error>"
            )
        };
        let mut headers = HeaderMap::new();
        headers.insert(DATE, HeaderValue::from_static("Thu, 01 Jan 1970 00:00:10 GMT"));
        let cause = |code: &str| refused(StatusCode::BAD_REQUEST, &headers, body(code).as_bytes());
        assert_eq!(cause("ExpiredToken"), Cause::Expired { code: "ExpiredToken".to_owned() });
        let (code, message) = ("Odd".to_owned(), "The provided token has expired.".to_owned());
        assert_eq!(cause("Odd"), Cause::Other { status: 400, code, message });
        let Cause::ClockSkew { ahead_s } = cause("RequestTimeTooSkewed") else { unreachable!() };
        assert!(ahead_s.unwrap() > 1_700_000_000, "{ahead_s:?}");
    }

    #[test]
    fn a_request_goes_to_its_host_with_a_path_alone() {
        let request = hyper::Request::get("https://h.example:8443/b/k?x=1");
        let request = request.body(HttpRequestBody::empty()).unwrap();
        let (request, origin) = prepared(request).unwrap();
        assert!(origin.is_secure && origin.authority.as_str() == "h.example:8443");
        assert!(!origin.is_metadata);
        assert_eq!(request.uri().to_string(), "/b/k?x=1");
        assert_eq!(request.headers()[HOST], "h.example:8443");
        let nowhere = hyper::Request::get("/k").body(HttpRequestBody::empty()).unwrap();
        assert!(prepared(nowhere).is_err());
    }
}
