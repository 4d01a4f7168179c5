//! Server of the metrics: a thread that serves some connections at once, each for a second at most.
//! One that sends garbage, nothing, or too much delays no other.

use std::io::{Error, ErrorKind, PipeReader, PipeWriter, Read as _, Result, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::look::LastLook;
use super::request::{HEAD_BYTES_MAX, ScrapeRequest};
use super::table::{RunIdentity, Seen};
use super::text::text;

/// Connections that are served at once: Prometheus has one, and so have its replicas and people.
const CONNECTIONS_MAX: usize = 16;
/// Longest that a connection is served; a scraper on another continent takes a third of it.
const SERVED_MAX: Duration = Duration::from_secs(1);
/// Pause after a connection that could not be accepted, as where no descriptors are left.
const PAUSE: Duration = Duration::from_secs(1);
/// Bytes of a refused request that are read after the response, so that it arrives: a connection
/// that is closed with bytes unread is reset.
const REST_BYTES_MAX: usize = 1 << 20;
/// Bytes that are read at once.
const CHUNK_BYTES: usize = 4 << 10;

/// A server, which ends when it is dropped.
pub struct MetricsServer {
    address: SocketAddr,
    /// Closed to end the thread.
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

impl MetricsServer {
    /// Begins to serve at that address; port 0 takes a free one.
    pub fn start(
        address: SocketAddr,
        identity: RunIdentity,
        last: Arc<LastLook>,
    ) -> Result<MetricsServer> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (stopped, stop) = std::io::pipe()?;
        let serve = move || {
            let served = Server { listener, stopped, identity, last }.run();
            if let Err(error) = served {
                tracing::warn!("metrics are no longer served at {address}: {error}");
            }
        };
        let thread = std::thread::Builder::new().name("ringfall-metrics".to_owned());
        let thread = Some(thread.spawn(serve)?);
        Ok(MetricsServer { address, stop: Some(stop), thread })
    }

    /// Address at which the metrics are served, with the port that was taken.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::warn!("the thread that served metrics at {} panicked", self.address);
        }
    }
}

struct Connection {
    stream: TcpStream,
    from: SocketAddr,
    /// When its time is over.
    until: Instant,
    step: Step,
}

/// Step of serving a connection, with what is there of it.
enum Step {
    /// The head of the request comes in.
    Head(Vec<u8>),
    /// The response goes out, of which so many bytes are written.
    Response { bytes: Vec<u8>, written: usize },
    /// The client's last words are read, up to so many bytes, until it closes its side.
    Rest { left_bytes: usize },
}

impl Connection {
    /// Event in which its step goes on.
    fn awaited(&self) -> PollFlags {
        match self.step {
            Step::Response { .. } => PollFlags::OUT,
            Step::Head(_) | Step::Rest { .. } => PollFlags::IN,
        }
    }

    /// Goes on as far as it can without waiting; returns whether there is more to do.
    fn go_on(&mut self, respond: &dyn Fn(ScrapeRequest) -> Vec<u8>) -> Result<bool> {
        loop {
            match self.move_bytes(respond) {
                Ok(true) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                ended => return ended,
            }
        }
    }

    /// Reads or writes once; returns whether there is more to do.
    fn move_bytes(&mut self, respond: &dyn Fn(ScrapeRequest) -> Vec<u8>) -> Result<bool> {
        let (mut stream, mut chunk) = (&self.stream, [0; CHUNK_BYTES]);
        match &mut self.step {
            Step::Head(head) => {
                let count = stream.read(&mut chunk)?;
                head.extend_from_slice(&chunk[..count]);
                let request = match head.windows(4).position(|four| four == b"\r\n\r\n") {
                    Some(end) => ScrapeRequest::parse(&head[..end]),
                    None if head.len() > HEAD_BYTES_MAX => ScrapeRequest::TooLong,
                    None => return Ok(count > 0),
                };
                self.step = Step::Response { bytes: respond(request), written: 0 };
            }
            Step::Response { bytes, written } => {
                *written += stream.write(&bytes[*written..])?;
                if *written == bytes.len() {
                    stream.shutdown(Shutdown::Write)?;
                    self.step = Step::Rest { left_bytes: REST_BYTES_MAX };
                }
            }
            Step::Rest { left_bytes } => {
                let count = stream.read(&mut chunk)?;
                *left_bytes = left_bytes.saturating_sub(count);
                return Ok(count > 0 && *left_bytes > 0);
            }
        }
        Ok(true)
    }
}

/// State of the server's thread.
struct Server {
    listener: TcpListener,
    /// Closed by the other side when the server is to end.
    stopped: PipeReader,
    identity: RunIdentity,
    last: Arc<LastLook>,
}

impl Server {
    fn run(&self) -> Result<()> {
        let mut connections: Vec<Connection> = Vec::new();
        // End of a pause in which no connection is accepted.
        let mut paused_until: Option<Instant> = None;
        loop {
            let ends = connections.iter().map(|connection| connection.until).chain(paused_until);
            let left = ends.min().map(|end| end.saturating_duration_since(Instant::now()));
            // Nobody writes to the pipe: it is ready when the other side has closed it.
            let mut sockets = vec![PollFd::new(&self.stopped, PollFlags::IN)];
            let waiting = connections.iter().map(|one| PollFd::new(&one.stream, one.awaited()));
            sockets.extend(waiting);
            if paused_until.is_none() {
                sockets.push(PollFd::new(&self.listener, PollFlags::IN));
            }
            match poll(&mut sockets, left.map(timespec).as_ref()) {
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno.into()),
                Ok(_) => {}
            }
            let ready: Vec<bool> = sockets.iter().map(|one| !one.revents().is_empty()).collect();
            let (of_connections, of_listener) = ready[1..].split_at(connections.len());
            if ready[0] {
                return Ok(());
            }
            let (now, mut are_ready) = (Instant::now(), of_connections.iter());
            connections.retain_mut(|connection| {
                let is_ready = are_ready.next() == Some(&true);
                connection.until > now && (!is_ready || self.goes_on(connection))
            });
            paused_until = match of_listener {
                [true] => self.accept(&mut connections).err().map(|error| {
                    tracing::warn!("a scraper's connection can't be accepted: {error}");
                    now + PAUSE
                }),
                _ => paused_until.filter(|end| *end > now),
            };
        }
    }

    /// Begins to serve the connection that waits to be accepted. Where it is one too many, the
    /// oldest gives way that has asked for nothing yet.
    fn accept(&self, connections: &mut Vec<Connection>) -> Result<()> {
        let (stream, from) = match self.listener.accept() {
            Err(error) if is_passing(&error) => return Ok(()),
            accepted => accepted?,
        };
        stream.set_nonblocking(true)?;
        if connections.len() >= CONNECTIONS_MAX {
            let is_silent = |one: &Connection| matches!(one.step, Step::Head(_));
            let gives_way = connections.iter().position(is_silent).unwrap_or(0);
            connections.remove(gives_way);
        }
        let until = Instant::now() + SERVED_MAX;
        let mut connection = Connection { stream, from, until, step: Step::Head(Vec::new()) };
        if self.goes_on(&mut connection) {
            connections.push(connection);
        }
        Ok(())
    }

    /// Whether the connection goes on after all that can be done at once.
    fn goes_on(&self, connection: &mut Connection) -> bool {
        let respond = |request: ScrapeRequest| {
            let response = request.response(|format| {
                let look = self.last.get();
                text(&Seen { identity: &self.identity, look: &look }, format)
            });
            response.bytes()
        };
        connection.go_on(&respond).unwrap_or_else(|error| {
            tracing::debug!("a scrape by {} failed: {error}", connection.from);
            false
        })
    }
}

/// A wait as the kernel takes it, at most [`SERVED_MAX`] or [`PAUSE`].
fn timespec(wait: Duration) -> Timespec {
    Timespec { tv_sec: wait.as_secs().cast_signed(), tv_nsec: wait.subsec_nanos().into() }
}

/// Whether trying again helps: nothing is wrong with the listener.
fn is_passing(error: &Error) -> bool {
    let passing = [ErrorKind::WouldBlock, ErrorKind::Interrupted, ErrorKind::ConnectionAborted];
    passing.contains(&error.kind())
}

#[cfg(test)]
mod tests {
    use super::super::look::RunLook;
    use super::*;

    fn started() -> MetricsServer {
        let identity = RunIdentity { seed: 5, model: "a".to_owned(), rank: None };
        let last = Arc::new(LastLook::new(&RunLook::unbegun()));
        MetricsServer::start("127.0.0.1:0".parse().unwrap(), identity, last).unwrap()
    }

    /// All that the server answers to those bytes.
    fn answer(server: &MetricsServer, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.write_all(bytes).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn each_request_is_answered_and_its_connection_ends() {
        let server = started();
        for _ in 0..3 {
            let metrics = answer(&server, b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
            assert!(metrics.starts_with("HTTP/1.1 200 OK\r\n"), "{metrics}");
            assert!(metrics.contains("\nringfall_phase{ringfall_phase=\"open\"} 1\n"), "{metrics}");
        }
        assert!(answer(&server, b"GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
        assert!(answer(&server, b"what\r\n\r\n").starts_with("HTTP/1.1 400 "));
        let long = vec![b'a'; 64 << 10];
        assert!(answer(&server, &long).starts_with("HTTP/1.1 431 "));
    }

    /// Each of them had its second, one after the other, before the metrics were sent.
    #[test]
    fn those_who_say_nothing_give_way_and_do_not_hold_up_the_end() {
        let server = started();
        let connect = || TcpStream::connect(server.address()).unwrap();
        let mut silent: Vec<TcpStream> = (0..200).map(|_| connect()).collect();
        let metrics = answer(&server, b"GET /metrics HTTP/1.1\r\n\r\n");
        assert!(metrics.starts_with("HTTP/1.1 200 OK\r\n"), "{metrics}");
        assert_eq!(silent[0].read(&mut [0]).unwrap(), 0, "it is closed");
        silent.truncate(1);
        let _silent = connect();
        let address = server.address();
        drop(server);
        TcpStream::connect(address).unwrap_err();
    }
}
