//! Server of the metrics: a thread that serves one connection after the other, each for a second
//! at most. Whoever sends garbage, nothing, or too much delays other scrapers and nobody else.

use std::io::{Error, ErrorKind, PipeReader, PipeWriter, Read as _, Result, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::look::LastLook;
use super::request::{HEAD_BYTES_MAX, ScrapeRequest};
use super::table::{RunIdentity, Seen};
use super::text::text;

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
    ///
    /// # Errors
    /// The address can't be bound, or no thread be started.
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

/// Outcome of a wait for a socket.
enum Wait {
    /// It can be read, written or accepted from, or has failed.
    Ready,
    /// The time was over.
    Late,
    /// The server is to end.
    Stopped,
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
    /// Serves until it is stopped.
    fn run(&self) -> Result<()> {
        loop {
            if let Wait::Stopped = self.wait(&self.listener, PollFlags::IN, None)? {
                return Ok(());
            }
            match self.listener.accept() {
                Ok((stream, from)) => {
                    if let Err(error) = self.serve(&stream) {
                        tracing::debug!("a scrape by {from} failed: {error}");
                    }
                }
                Err(error) if is_passing(&error) => {}
                Err(error) => {
                    tracing::warn!("a scraper's connection can't be accepted: {error}");
                    // What waits to be accepted is not looked at meanwhile.
                    let (nothing, until) = (PollFlags::empty(), Instant::now() + PAUSE);
                    if let Wait::Stopped = self.wait(&self.listener, nothing, Some(until))? {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Serves one connection, until it is answered or its time is over.
    fn serve(&self, stream: &TcpStream) -> Result<()> {
        stream.set_nonblocking(true)?;
        let until = Instant::now() + SERVED_MAX;
        let Some(request) = self.read(stream, until)? else { return Ok(()) };
        let response = request.response(|format| {
            let look = self.last.get();
            text(&Seen { identity: &self.identity, look: &look }, format)
        });
        self.write(stream, &response.bytes(), until)?;
        stream.shutdown(Shutdown::Write)?;
        self.read_rest(stream, until)
    }

    /// Reads the head of a request; none where the client has left before its end, or is too slow.
    fn read(&self, mut stream: &TcpStream, until: Instant) -> Result<Option<ScrapeRequest>> {
        let (mut head, mut chunk) = (Vec::new(), [0; CHUNK_BYTES]);
        loop {
            if !self.is_ready(stream, PollFlags::IN, until)? {
                return Ok(None);
            }
            match stream.read(&mut chunk) {
                Ok(0) => return Ok(None),
                Ok(count) => head.extend_from_slice(&chunk[..count]),
                Err(error) if is_passing(&error) => continue,
                Err(error) => return Err(error),
            }
            if let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") {
                return Ok(Some(ScrapeRequest::parse(&head[..end])));
            }
            if head.len() > HEAD_BYTES_MAX {
                return Ok(Some(ScrapeRequest::TooLong));
            }
        }
    }

    fn write(&self, mut stream: &TcpStream, mut bytes: &[u8], until: Instant) -> Result<()> {
        while !bytes.is_empty() {
            if !self.is_ready(stream, PollFlags::OUT, until)? {
                return Err(ErrorKind::TimedOut.into());
            }
            match stream.write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads what the client still sends, until it closes its side.
    fn read_rest(&self, mut stream: &TcpStream, until: Instant) -> Result<()> {
        let (mut left, mut chunk) = (REST_BYTES_MAX, [0; CHUNK_BYTES]);
        while left > 0 && self.is_ready(stream, PollFlags::IN, until)? {
            match stream.read(&mut chunk) {
                Ok(0) => return Ok(()),
                Ok(count) => left = left.saturating_sub(count),
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Whether the stream becomes ready in time, and the server goes on.
    fn is_ready(&self, stream: &TcpStream, flags: PollFlags, until: Instant) -> Result<bool> {
        Ok(matches!(self.wait(stream, flags, Some(until))?, Wait::Ready))
    }

    /// Waits for the socket, without `until` for any time.
    fn wait(&self, socket: &impl AsFd, flags: PollFlags, until: Option<Instant>) -> Result<Wait> {
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let timeout = left.map(timespec);
            let mut sockets = [
                PollFd::new(socket, flags),
                // Nobody writes to it: it is ready when the other side has closed it.
                PollFd::new(&self.stopped, PollFlags::IN),
            ];
            match poll(&mut sockets, timeout.as_ref()) {
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno.into()),
                Ok(_) => {}
            }
            let [socket, stopped] = sockets.map(|socket| !socket.revents().is_empty());
            return Ok(match (stopped, socket) {
                (true, _) => Wait::Stopped,
                (false, true) => Wait::Ready,
                (false, false) => Wait::Late,
            });
        }
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
    fn metrics_are_served_one_connection_after_the_other() {
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

    #[test]
    fn one_who_says_nothing_is_given_up_and_does_not_hold_up_the_end() {
        let server = started();
        let silent = TcpStream::connect(server.address()).unwrap();
        // Served once the silent one has had its time.
        let metrics = answer(&server, b"GET /metrics HTTP/1.1\r\n\r\n");
        assert!(metrics.starts_with("HTTP/1.1 200 OK\r\n"), "{metrics}");
        drop(silent);
        let _silent = TcpStream::connect(server.address()).unwrap();
        let address = server.address();
        drop(server);
        TcpStream::connect(address).unwrap_err();
    }
}
