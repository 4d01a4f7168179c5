//! An S3 server in the test's own process: enough of the protocol for ringfall, in memory, on the
//! loopback, on plain threads. It does wrong what a test asks it to do wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// The only bucket.
pub const BUCKET: &str = "bucket";
/// The only access key that it knows.
pub const ACCESS_KEY: &str = "AKIARINGFALLTEST";
/// The secret of that key, which must appear nowhere.
pub const SECRET: &str = "wJalrXUtnFEMIsecretEXAMPLEKEY";
/// The session token that an error of it repeats.
pub const TOKEN: &str = "FwoGZXIvYXdzEBYaDSESSIONTOKEN";

/// Fault of the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wrong {
    /// Answers 503, as it does when it wants fewer requests.
    Busy,
    /// Answers 500.
    Fails,
    /// Closes the connection when it has read the request.
    HangsUp,
    /// Closes the connection in the middle of its answer.
    CutsAnswer,
    /// Closes the connection in the middle of the request's body.
    CutsRequest,
    /// Answers after so many milliseconds.
    IsSlow(u64),
    /// Says that the bytes which arrived have another checksum.
    Checksum,
    /// Changes a byte of what it answers.
    Corrupts,
    /// Says that the credentials have expired.
    Expired,
    /// Says that the clocks differ.
    Skewed,
    /// Forgets a part when the upload is completed, and says so.
    LosesPart,
    /// Forgets a part when the upload is completed, and doesn't say so.
    LosesPartInSilence,
    /// Completes the upload, and hangs up instead of saying so.
    CompletesInSilence,
    /// Says that the bucket is elsewhere.
    Elsewhere,
    /// Answers 404 and nothing else, as a web server does that is no object store.
    IsNoStore,
}

/// Something that goes wrong with requests of one kind.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The method.
    pub method: &'static str,
    /// A piece of path and query.
    pub path: &'static str,
    /// So many such requests are left alone first.
    pub after: u32,
    /// Then it happens so often.
    pub times: u32,
    /// Fault that occurs.
    pub wrong: Wrong,
}

#[derive(Default)]
struct Uploaded {
    key: String,
    parts: BTreeMap<u32, Arc<Vec<u8>>>,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Arc<Vec<u8>>>,
    uploads: BTreeMap<String, Uploaded>,
    faults: Vec<Fault>,
    requests: Vec<String>,
    in_flight_max: u32,
    marks: BTreeSet<&'static str>,
    is_open_to_all: bool,
}

struct Shared {
    state: Mutex<State>,
    next: AtomicU32,
    in_flight: AtomicU32,
    is_over: AtomicBool,
    page: usize,
}

/// A plain or a secure connection.
trait Line: Read + Write + Send {}
impl<T: Read + Write + Send> Line for T {}

/// The certificate that `tests/data/tls/ca.pem` vouches for. The key is no secret: nothing else
/// trusts that authority, whose own key was thrown away.
fn tls() -> Arc<ServerConfig> {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/tls");
    let certificate = CertificateDer::from_pem_file(format!("{directory}/server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(format!("{directory}/server.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key);
    Arc::new(config.unwrap())
}

/// A server. Several of them may share their objects.
pub struct S3Server {
    address: SocketAddr,
    scheme: &'static str,
    shared: Arc<Shared>,
    is_over: Arc<AtomicBool>,
}

impl S3Server {
    pub fn start() -> S3Server {
        S3Server::with_page(1_000)
    }

    /// One whose lists have so many names a page.
    pub fn with_page(page: usize) -> S3Server {
        let shared = Shared {
            state: Mutex::default(),
            next: AtomicU32::new(1),
            in_flight: AtomicU32::new(0),
            is_over: AtomicBool::new(false),
            page,
        };
        S3Server::over(Arc::new(shared), None)
    }

    /// Another address of the same store.
    pub fn beside(&self) -> S3Server {
        S3Server::over(Arc::clone(&self.shared), None)
    }

    /// The same store by secure connections.
    pub fn secure(&self) -> S3Server {
        S3Server::over(Arc::clone(&self.shared), Some(tls()))
    }

    fn over(shared: Arc<Shared>, tls: Option<Arc<ServerConfig>>) -> S3Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let (own, over) = (Arc::clone(&shared), Arc::clone(&is_over));
        let scheme = if tls.is_some() { "https" } else { "http" };
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if over.load(Ordering::SeqCst) {
                    return;
                }
                let (Ok(stream), shared) = (stream, Arc::clone(&own)) else { continue };
                stream.set_nodelay(true).unwrap();
                let line: Box<dyn Line> = match &tls {
                    None => Box::new(stream),
                    Some(tls) => {
                        let session = ServerConnection::new(Arc::clone(tls)).unwrap();
                        Box::new(StreamOwned::new(session, stream))
                    }
                };
                std::thread::spawn(move || serve(&shared, line));
            }
        });
        S3Server { address, scheme, shared, is_over }
    }

    pub fn endpoint(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    pub fn fault(&self, method: &'static str, path: &'static str, times: u32, wrong: Wrong) {
        self.faults(Fault { method, path, after: 0, times, wrong });
    }

    pub fn faults(&self, fault: Fault) {
        self.shared.state.lock().unwrap().faults.push(fault);
    }

    /// Nothing goes wrong any more.
    pub fn heal(&self) {
        self.shared.state.lock().unwrap().faults.clear();
    }

    /// Names and sizes.
    pub fn objects(&self) -> Vec<(String, usize)> {
        let state = self.shared.state.lock().unwrap();
        state.objects.iter().map(|(key, bytes)| (key.clone(), bytes.len())).collect()
    }

    pub fn put(&self, key: &str, bytes: &[u8]) {
        let bytes = Arc::new(bytes.to_vec());
        self.shared.state.lock().unwrap().objects.insert(key.to_owned(), bytes);
    }

    pub fn object(&self, key: &str) -> Option<Vec<u8>> {
        self.shared.state.lock().unwrap().objects.get(key).map(|bytes| bytes.to_vec())
    }

    /// Uploads that were begun and neither completed nor ended.
    pub fn open_uploads(&self) -> usize {
        self.shared.state.lock().unwrap().uploads.len()
    }

    /// Removes them, as a life-cycle rule does.
    pub fn forget_uploads(&self) {
        self.shared.state.lock().unwrap().uploads.clear();
    }

    /// Method and path of each request so far.
    pub fn requests(&self) -> Vec<String> {
        self.shared.state.lock().unwrap().requests.clone()
    }

    /// Takes requests without credentials too.
    pub fn open_to_all(&self) {
        self.shared.state.lock().unwrap().is_open_to_all = true;
    }

    /// Digest headers that protected the bodies of the objects put.
    pub fn marks(&self) -> BTreeSet<&'static str> {
        self.shared.state.lock().unwrap().marks.clone()
    }

    /// Most requests that it answered at the same time.
    pub fn in_flight_max(&self) -> u32 {
        self.shared.state.lock().unwrap().in_flight_max
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        // Wakes the listener; connections end with their clients.
        let _woken = TcpStream::connect(self.address);
    }
}

struct Request {
    method: String,
    path: String,
    query: BTreeMap<String, String>,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

struct Response {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

impl Response {
    fn new(status: u16) -> Response {
        Response { status, headers: Vec::new(), body: Vec::new() }
    }

    fn xml(status: u16, text: String) -> Response {
        let head = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
        Response { body: format!("{head}{text}").into_bytes(), ..Response::new(status) }
    }

    fn error(status: u16, code: &str) -> Response {
        Response::xml(
            status,
            format!(
                "<Error><Code>{code}</Code><Message>About {code}.</Message>\
                 <AWSAccessKeyId>{ACCESS_KEY}</AWSAccessKeyId><Token-0>{TOKEN}</Token-0></Error>"
            ),
        )
    }
}

/// Answers requests until the connection ends; it is closed by being dropped.
fn serve(shared: &Shared, line: Box<dyn Line>) {
    let mut reader = BufReader::with_capacity(256 << 10, line);
    while !shared.is_over.load(Ordering::SeqCst) {
        let Some((mut request, length)) = read_head(&mut reader) else { return };
        let line = format!("{} {}", request.method, with_query(&request));
        let wrong = shared.state.lock().unwrap().strike(&line);
        if wrong == Some(Wrong::CutsRequest) {
            let mut half = vec![0; length / 2];
            let _read = reader.read_exact(&mut half);
            return;
        }
        request.body = vec![0; length];
        if reader.read_exact(&mut request.body).is_err() {
            return;
        }
        let in_flight = shared.in_flight.fetch_add(1, Ordering::SeqCst) + 1;
        {
            let mut state = shared.state.lock().unwrap();
            state.in_flight_max = state.in_flight_max.max(in_flight);
        }
        let is_open = answer(shared, reader.get_mut(), &request, wrong);
        shared.in_flight.fetch_sub(1, Ordering::SeqCst);
        if !is_open {
            return;
        }
    }
}

/// Answers one request; whether the connection stays open.
fn answer(shared: &Shared, line: &mut dyn Line, request: &Request, wrong: Option<Wrong>) -> bool {
    let response = match wrong {
        Some(Wrong::HangsUp) => return false,
        Some(Wrong::Busy) => Response::error(503, "SlowDown"),
        Some(Wrong::Fails) => Response::error(500, "InternalError"),
        Some(Wrong::Checksum) => Response::error(400, "BadDigest"),
        Some(Wrong::Expired) => Response::error(400, "ExpiredToken"),
        Some(Wrong::Skewed) => {
            let date = ("Date", "Thu, 01 Jan 2015 00:00:00 GMT".to_owned());
            Response { headers: vec![date], ..Response::error(403, "RequestTimeTooSkewed") }
        }
        Some(Wrong::IsNoStore) => Response::new(404),
        Some(Wrong::Elsewhere) => {
            let region = ("x-amz-bucket-region", "eu-central-9".to_owned());
            Response { headers: vec![region], ..Response::error(301, "PermanentRedirect") }
        }
        Some(Wrong::IsSlow(ms)) => {
            std::thread::sleep(Duration::from_millis(ms));
            respond(shared, request, None)
        }
        other => respond(shared, request, other),
    };
    if wrong == Some(Wrong::CompletesInSilence) {
        return false;
    }
    let mut response = response;
    if let (Some(Wrong::Corrupts), Some(byte)) = (wrong, response.body.first_mut()) {
        *byte ^= 1;
    }
    let cut = (wrong == Some(Wrong::CutsAnswer)).then_some(response.body.len() / 2);
    write_response(line, request, &response, cut).is_ok() && cut.is_none()
}

fn write_response(
    line: &mut dyn Line,
    request: &Request,
    response: &Response,
    cut: Option<usize>,
) -> std::io::Result<()> {
    let mut head = format!("HTTP/1.1 {} x\r\n", response.status);
    let length = response.headers.iter().find(|(name, _)| *name == "Content-Length");
    if length.is_none() {
        head.push_str(&format!("Content-Length: {}\r\n", response.body.len()));
    }
    for (name, value) in &response.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n\r\n");
    line.write_all(head.as_bytes())?;
    if request.method != "HEAD" {
        line.write_all(&response.body[..cut.unwrap_or(response.body.len())])?;
    }
    line.flush()
}

/// Request line and headers, and the length of the body.
fn read_head(reader: &mut impl BufRead) -> Option<(Request, usize)> {
    let mut line = String::new();
    if reader.read_line(&mut line).ok()? == 0 {
        return None;
    }
    let mut words = line.split_ascii_whitespace();
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let query = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decoded(name), decoded(value))
    });
    let length = headers.get("content-length").map_or(0, |text| text.parse().unwrap());
    let (path, query) = (decoded(path), query.collect());
    Some((Request { method, path, query, headers, body: Vec::new() }, length))
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        match (first, tail) {
            (b'%', [high, low, after @ ..]) => {
                let hex = [*high, *low];
                let hex = std::str::from_utf8(&hex).unwrap();
                bytes.push(u8::from_str_radix(hex, 16).unwrap());
                rest = after;
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8(bytes).unwrap()
}

fn with_query(request: &Request) -> String {
    let query: Vec<String> = request.query.iter().map(|(k, v)| format!("{k}={v}")).collect();
    match query.is_empty() {
        true => request.path.clone(),
        false => format!("{}?{}", request.path, query.join("&")),
    }
}

impl State {
    /// Fault for this request, if any.
    fn strike(&mut self, line: &str) -> Option<Wrong> {
        self.requests.push(line.to_owned());
        let (method, path) = line.split_once(' ').unwrap();
        for fault in &mut self.faults {
            if fault.method != method || !path.contains(fault.path) || fault.times == 0 {
                continue;
            }
            if fault.after > 0 {
                fault.after -= 1;
                continue;
            }
            fault.times -= 1;
            return Some(fault.wrong);
        }
        None
    }
}

fn respond(shared: &Shared, request: &Request, wrong: Option<Wrong>) -> Response {
    let signed = request.headers.get("authorization");
    if signed.is_some_and(|signed| !signed.contains(ACCESS_KEY)) {
        return Response::error(403, "InvalidAccessKeyId");
    }
    if signed.is_none() && !shared.state.lock().unwrap().is_open_to_all {
        return Response::error(403, "AccessDenied");
    }
    let path = request.path.trim_start_matches('/');
    let host = request.headers.get("host").map_or("", String::as_str);
    let (bucket, key) = match host.starts_with("bucket.") {
        true => (BUCKET, path),
        false => path.split_once('/').unwrap_or((path, "")),
    };
    if bucket != BUCKET {
        return Response::error(404, "NoSuchBucket");
    }
    let upload = request.query.get("uploadId").cloned();
    match (request.method.as_str(), key, upload) {
        ("GET", "", _) => list(shared, request),
        ("POST", key, None) if request.query.contains_key("uploads") => begin_upload(shared, key),
        ("PUT", _, Some(id)) => put_part(shared, request, &id),
        ("POST", _, Some(id)) => complete(shared, request, &id, wrong),
        ("DELETE", _, Some(id)) => match shared.state.lock().unwrap().uploads.remove(&id) {
            Some(_) => Response::new(204),
            None => Response::error(404, "NoSuchUpload"),
        },
        ("PUT", key, None) => {
            let digest = |name: &str| {
                request.headers.get(name).is_some_and(|digest| digest != "UNSIGNED-PAYLOAD")
            };
            let known = ["x-amz-content-sha256", "x-amz-checksum-crc64nvme"];
            let marks = known.into_iter().filter(|name| digest(name));
            shared.state.lock().unwrap().marks.extend(marks);
            let bytes = Arc::new(request.body.clone());
            shared.state.lock().unwrap().objects.insert(key.to_owned(), bytes);
            with_etag(Response::new(200))
        }
        ("DELETE", key, None) => {
            shared.state.lock().unwrap().objects.remove(key);
            Response::new(204)
        }
        ("GET" | "HEAD", key, None) => get(shared, request, key),
        _ => Response::error(405, "MethodNotAllowed"),
    }
}

fn with_etag(mut response: Response) -> Response {
    response.headers.push(("ETag", "\"e\"".to_owned()));
    response
}

fn get(shared: &Shared, request: &Request, key: &str) -> Response {
    let found = shared.state.lock().unwrap().objects.get(key).cloned();
    let Some(bytes) = found else { return Response::error(404, "NoSuchKey") };
    if request.method == "HEAD" {
        let mut response = with_etag(Response::new(200));
        response.headers.push(("Content-Length", bytes.len().to_string()));
        return response;
    }
    let range = request.headers.get("range").and_then(|range| range.strip_prefix("bytes="));
    let Some((begin, end)) = range.and_then(|range| range.split_once('-')) else {
        return with_etag(Response { body: bytes.to_vec(), ..Response::new(200) });
    };
    let begin: usize = begin.parse().unwrap();
    let end = end.parse().unwrap_or(usize::MAX).min(bytes.len() - 1);
    if begin >= bytes.len() {
        return Response::error(416, "InvalidRange");
    }
    let mut response = with_etag(Response::new(206));
    let told = format!("bytes {begin}-{end}/{}", bytes.len());
    response.headers.push(("Content-Range", told));
    response.body = bytes[begin..=end].to_vec();
    response
}

fn list(shared: &Shared, request: &Request) -> Response {
    let prefix = request.query.get("prefix").cloned().unwrap_or_default();
    let after = request.query.get("continuation-token").cloned().unwrap_or_default();
    let state = shared.state.lock().unwrap();
    let mut found =
        state.objects.iter().filter(|(key, _)| key.starts_with(&prefix) && **key > after);
    let mut text = String::from("<ListBucketResult>");
    let mut last = String::new();
    for (key, bytes) in found.by_ref().take(shared.page) {
        text.push_str(&format!(
            "<Contents><Key>{key}</Key><Size>{}</Size>\
             <LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>",
            bytes.len()
        ));
        last.clone_from(key);
    }
    let is_truncated = found.next().is_some();
    text.push_str(&format!("<IsTruncated>{is_truncated}</IsTruncated>"));
    if is_truncated {
        text.push_str(&format!("<NextContinuationToken>{last}</NextContinuationToken>"));
    }
    text.push_str("</ListBucketResult>");
    Response::xml(200, text)
}

fn begin_upload(shared: &Shared, key: &str) -> Response {
    let id = format!("upload-{}", shared.next.fetch_add(1, Ordering::SeqCst));
    let upload = Uploaded { key: key.to_owned(), parts: BTreeMap::new() };
    shared.state.lock().unwrap().uploads.insert(id.clone(), upload);
    Response::xml(
        200,
        format!(
            "<InitiateMultipartUploadResult><UploadId>{id}</UploadId>\
             </InitiateMultipartUploadResult>"
        ),
    )
}

fn put_part(shared: &Shared, request: &Request, id: &str) -> Response {
    let number: u32 = request.query["partNumber"].parse().unwrap();
    let mut state = shared.state.lock().unwrap();
    let Some(upload) = state.uploads.get_mut(id) else {
        return Response::error(404, "NoSuchUpload");
    };
    upload.parts.insert(number, Arc::new(request.body.clone()));
    let mut response = Response::new(200);
    response.headers.push(("ETag", format!("\"part-{number}\"")));
    response
}

fn complete(shared: &Shared, request: &Request, id: &str, wrong: Option<Wrong>) -> Response {
    let mut state = shared.state.lock().unwrap();
    let Some(upload) = state.uploads.get_mut(id) else {
        return Response::error(404, "NoSuchUpload");
    };
    if matches!(wrong, Some(Wrong::LosesPart | Wrong::LosesPartInSilence)) {
        upload.parts.pop_last();
    }
    let text = String::from_utf8(request.body.clone()).unwrap();
    let named: Vec<u32> = text
        .split("<PartNumber>")
        .skip(1)
        .map(|rest| rest.split('<').next().unwrap().parse().unwrap())
        .collect();
    let is_there = |number: &u32| upload.parts.contains_key(number);
    if wrong != Some(Wrong::LosesPartInSilence) && !named.iter().all(is_there) {
        return Response::error(400, "InvalidPart");
    }
    let parts = named.iter().filter_map(|number| upload.parts.get(number));
    let parts: Vec<&[u8]> = parts.map(|part| part.as_slice()).collect();
    let whole = parts.concat();
    let key = upload.key.clone();
    state.uploads.remove(id);
    state.objects.insert(key, Arc::new(whole));
    Response::xml(
        200,
        "<CompleteMultipartUploadResult><ETag>\"e\"</ETag></CompleteMultipartUploadResult>"
            .to_owned(),
    )
}
