//! A store as the program uses it: requests on threads of their own, spread over endpoints,
//! bounded, repeated and counted.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use object_store::path::Path;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;

use ringfall_config::object_store::{Balance, ObjectOptions, ObjectUrl};
use ringfall_host::Overdue;
use ringfall_host::escape::terminal;
use ringfall_model::facts::{EndpointCounts, ObjectCounts};

use super::backend::{self, Endpoint, Store};
use super::cause::{Cause, ObjectError, told};
use super::counts::Counters;
use super::wire::{Wires, watched};

/// Threads that run requests: signing and checksums take most of their time. Two of them, beside
/// the server on the same two cores, do 2 GiB/s, and 1 GiB/s of PUT with SHA-256.
const THREADS: usize = 2;
/// Wait before the first repetition; it doubles with each, and up to half of it is left out at
/// random, so that clients that failed together do not come back together.
const BACKOFF_MIN: Duration = Duration::from_millis(50);
/// The longest such wait.
const BACKOFF_MAX: Duration = Duration::from_secs(5);
/// Wait for the first answer after which somebody is told of it.
const TOLD_AFTER: Duration = Duration::from_secs(2);
/// Interval at which a caller that waits for the first answer is asked whether to go on.
const LOOK: Duration = Duration::from_millis(50);
/// Repetitions of the very first request: an address that is wrong should be told soon.
const RETRIES_AT_FIRST: u32 = 2;

/// Why a store can't be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OpenError {
    /// The options are invalid.
    #[error("{0}")]
    Options(String),
    /// It does not answer, or not as it should.
    #[error(transparent)]
    Refused(#[from] ObjectError),
    /// The caller gave up waiting for the first answer.
    #[error("{place} had not answered within {seconds} s when its opening was interrupted")]
    Interrupted {
        /// The store, as a URL.
        place: String,
        /// Time waited, s.
        seconds: u64,
    },
    /// This machine lacks something.
    #[error("no threads for requests to an object store can be started: {0}")]
    Threads(String),
}

/// State that requests share.
pub(super) struct Inner {
    pub(super) url: ObjectUrl,
    options: ObjectOptions,
    endpoints: Vec<Endpoint>,
    /// Whose turn it is.
    turn: AtomicUsize,
    gate: Semaphore,
    pub(super) counters: Arc<Counters>,
    /// Below the number that the options say until the first request has succeeded.
    retries: AtomicU32,
}

/// A store. Cheap to clone; its threads end with the last clone. Must not be used on a thread that
/// runs asynchronous code of tokio, which none of the program's own does.
#[derive(Clone)]
pub struct Objects {
    pub(super) inner: Arc<Inner>,
    pub(super) threads: Arc<Threads>,
}

/// The threads that run requests.
pub(super) struct Threads(Option<Runtime>);

impl Threads {
    pub(super) fn runtime(&self) -> &Runtime {
        self.0.as_ref().expect("it is taken in `drop` only")
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            // Allowed also on a thread of its own, where the last user may be a request.
            runtime.shutdown_background();
        }
    }
}

/// Why one attempt failed.
pub(super) enum Trouble {
    Store(object_store::Error),
    Cause(Cause),
}

impl From<object_store::Error> for Trouble {
    fn from(error: object_store::Error) -> Trouble {
        Trouble::Store(error)
    }
}

impl Objects {
    /// Opens the store and sees whether it answers; also returns the name of an object below the
    /// prefix, if there is one. While the store has not answered, `goes_on` says whether to go on.
    ///
    /// # Errors
    /// [`OpenError`]: what was asked for, what the store answers, or what this machine lacks.
    pub fn open(
        url: &ObjectUrl,
        options: &ObjectOptions,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<(Objects, Option<String>), OpenError> {
        options.check().map_err(OpenError::Options)?;
        let counters = Arc::<Counters>::default();
        let wires = Wires::new(options, Arc::clone(&counters));
        let endpoints = backend::open(url, options, &wires).map_err(OpenError::Options)?;
        let objects = Objects::over(url.clone(), options.clone(), endpoints, counters)?;
        let began = Instant::now();
        let what = format!("{} to answer", terminal(&url.to_string()));
        let _overdue = Overdue::after(TOLD_AFTER, what);
        // Whether the bucket is there and may be listed.
        let listed = objects.wait_watched(objects.listed(1), goes_on).ok_or_else(|| {
            OpenError::Interrupted { place: url.to_string(), seconds: began.elapsed().as_secs() }
        })??;
        objects.inner.retries.store(options.retries, Ordering::Relaxed);
        Ok((objects, listed.into_iter().next().map(|(name, _)| name)))
    }

    /// Over clients that are there.
    fn over(
        url: ObjectUrl,
        options: ObjectOptions,
        endpoints: Vec<Endpoint>,
        counters: Arc<Counters>,
    ) -> Result<Objects, OpenError> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("objects")
            .enable_io()
            .enable_time()
            .build()
            .map_err(|error| OpenError::Threads(error.to_string()))?;
        let inner = Inner {
            url,
            endpoints,
            turn: AtomicUsize::new(0),
            gate: Semaphore::new(options.concurrency as usize),
            counters,
            retries: AtomicU32::new(options.retries.min(RETRIES_AT_FIRST)),
            options,
        };
        Ok(Objects { inner: Arc::new(inner), threads: Arc::new(Threads(Some(runtime))) })
    }

    /// Bucket and prefix that the client works in.
    pub fn url(&self) -> &ObjectUrl {
        &self.inner.url
    }

    /// Options of the client.
    pub fn options(&self) -> &ObjectOptions {
        &self.inner.options
    }

    /// Counts of the requests so far.
    pub fn counts(&self) -> ObjectCounts {
        let endpoints = self.inner.endpoints.iter().map(|endpoint| EndpointCounts {
            endpoint: endpoint.name.clone(),
            requests: endpoint.requests.load(Ordering::Relaxed) as u64,
        });
        ObjectCounts { endpoints: endpoints.collect(), ..self.inner.counters.now().clone() }
    }

    /// Runs it on the threads of the store, and waits.
    pub(super) fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.threads.runtime().block_on(work)
    }

    /// As [`Objects::wait`], for as long as `goes_on` says so; none: it gave up.
    fn wait_watched<T>(
        &self,
        work: impl Future<Output = T>,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Option<T> {
        self.threads.runtime().block_on(async {
            let mut work = std::pin::pin!(work);
            loop {
                match tokio::time::timeout(LOOK, work.as_mut()).await {
                    Ok(done) => return Some(done),
                    Err(_) if goes_on() => {}
                    Err(_) => return None,
                }
            }
        })
    }
}

/// Holds a place at an endpoint.
struct Busy<'a>(&'a Endpoint);

impl<'a> Busy<'a> {
    fn at(endpoint: &'a Endpoint) -> Busy<'a> {
        endpoint.in_flight.fetch_add(1, Ordering::Relaxed);
        endpoint.requests.fetch_add(1, Ordering::Relaxed);
        Busy(endpoint)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Inner {
    /// The endpoint of the next request: not the one where it has just failed, if there is another.
    fn pick(&self, failed: Option<usize>) -> usize {
        let count = self.endpoints.len();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        // From that turn on, so that equals take turns.
        let others = (0..count).map(|step| (turn + step) % count);
        let others = others.filter(|&index| count == 1 || Some(index) != failed);
        let picked = match self.options.balance {
            Balance::RoundRobin => others.take(1).next(),
            Balance::LeastInFlight => {
                others.min_by_key(|&index| self.endpoints[index].in_flight.load(Ordering::Relaxed))
            }
        };
        picked.unwrap_or(0)
    }

    /// An object or a prefix, as the user would name it.
    pub(super) fn place(&self, key: &str) -> String {
        ObjectUrl { prefix: key.to_owned(), ..self.url.clone() }.to_string()
    }

    /// Asks the store for something about an object or a prefix until it is done, or has failed for
    /// good.
    ///
    /// At most as many requests as the options say are in flight; one that waits to be repeated
    /// leaves its place to others.
    pub(super) async fn ask<T, Work>(
        &self,
        operation: &'static str,
        key: &str,
        mut work: impl FnMut(Arc<dyn Store>, Path) -> Work,
    ) -> Result<T, ObjectError>
    where
        Work: Future<Output = Result<T, Trouble>>,
    {
        let retries = self.retries.load(Ordering::Relaxed);
        // Prefixes are checked when a URL is read, and names are the program's own.
        let path = Path::from(key);
        let (mut failed, mut attempts) = (None, 0);
        loop {
            let place = self.gate.acquire().await.expect("the gate is never closed");
            let index = self.pick(failed);
            let endpoint = &self.endpoints[index];
            let busy = Busy::at(endpoint);
            self.counters.now().requests += 1;
            let work = work(Arc::clone(&endpoint.store), path.clone());
            let attempt = tokio::time::timeout(self.options.timeout, work);
            let (outcome, failure) = watched(attempt).await;
            drop((busy, place));
            attempts += 1;
            let cause = match outcome {
                Ok(Ok(done)) => return Ok(done),
                Ok(Err(trouble)) => cause_of(trouble, failure),
                Err(_) => Cause::Timeout { seconds: self.options.timeout.as_secs() },
            };
            if attempts > retries || !self.counters.retry(&cause) {
                self.counters.now().failures += 1;
                return Err(ObjectError { operation, place: self.place(key), cause, attempts });
            }
            tracing::debug!(%operation, attempts, "a request is repeated: {cause}");
            tokio::time::sleep(backoff(attempts)).await;
            failed = Some(index);
        }
    }
}

/// Determines the cause: that of the request counts; without one, the crate's own words.
fn cause_of(trouble: Trouble, failure: Option<Cause>) -> Cause {
    match (trouble, failure) {
        (Trouble::Cause(cause), _) | (Trouble::Store(_), Some(cause)) => cause,
        (Trouble::Store(object_store::Error::NotFound { .. }), None) => Cause::NoObject,
        (Trouble::Store(error), None) => {
            let (status, code) = (0, String::new());
            Cause::Other { status, code, message: told(&without_queries(&error.to_string())) }
        }
    }
}

/// Without what follows a question mark: in Azure's addresses, a signature.
fn without_queries(text: &str) -> String {
    let words = text.split_whitespace().map(|word| match word.split_once('?') {
        Some((address, query)) if !query.is_empty() => format!("{address}?…"),
        _ => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Random wait after so many attempts.
fn backoff(attempts: u32) -> Duration {
    let whole = BACKOFF_MIN.saturating_mul(1 << (attempts - 1).min(16)).min(BACKOFF_MAX);
    // Keyed at random each time.
    let random = RandomState::new().hash_one(attempts) % 1_024;
    whole / 2 + whole / 2 * random as u32 / 1_024
}

#[cfg(test)]
pub(crate) mod tests {
    use object_store::memory::InMemory;
    use ringfall_config::object_store::Place;

    use super::*;

    pub(crate) fn in_memory(endpoints: usize, options: ObjectOptions) -> Objects {
        let store = Arc::new(InMemory::new());
        let endpoint = |index: usize| {
            let store: Arc<dyn Store> = Arc::clone(&store) as Arc<dyn Store>;
            Endpoint::new(format!("memory {index}"), store)
        };
        let Ok(Place::Objects(url)) = Place::parse("s3://bucket/prefix") else { unreachable!() };
        let endpoints = (0..endpoints).map(endpoint).collect();
        Objects::over(url, options, endpoints, Arc::default()).unwrap()
    }

    fn flaky(objects: &Objects, failures: u32, cause: &Cause) -> Result<u32, ObjectError> {
        let mut attempts = 0;
        objects.wait(objects.inner.ask("reading", "prefix/x", |_, _| {
            attempts += 1;
            let outcome = match attempts > failures {
                true => Ok(attempts),
                false => Err(Trouble::Cause(cause.clone())),
            };
            async move { outcome }
        }))
    }

    #[test]
    fn what_may_pass_is_repeated_and_counted_up_to_the_limit() {
        let objects = in_memory(1, ObjectOptions { retries: 2, ..ObjectOptions::default() });
        let busy = Cause::Busy { code: "SlowDown".into() };
        assert_eq!(flaky(&objects, 2, &busy), Ok(3));
        let error = flaky(&objects, 9, &busy).unwrap_err();
        assert_eq!(error.attempts, 3);
        let told = error.to_string();
        assert!(told.starts_with("reading s3://bucket/prefix/x failed 3 times"), "{told}");
        let error = flaky(&objects, 9, &Cause::NoBucket).unwrap_err();
        assert_eq!(error.attempts, 1);
        let counts = objects.counts();
        assert_eq!((counts.retries.busy, counts.failures, counts.requests), (4, 2, 7));
    }

    #[test]
    fn a_request_that_failed_is_repeated_at_another_endpoint() {
        for balance in [Balance::RoundRobin, Balance::LeastInFlight] {
            let options = ObjectOptions { balance, retries: 1, ..ObjectOptions::default() };
            let objects = in_memory(2, options);
            let cut = Cause::Cut { what: "x".into() };
            for _ in 0..2 {
                assert_eq!(flaky(&objects, 1, &cut), Ok(2));
            }
            let requests: Vec<u64> =
                objects.counts().endpoints.iter().map(|endpoint| endpoint.requests).collect();
            assert_eq!(requests, [2, 2], "{balance:?}");
        }
    }

    #[test]
    fn the_endpoint_with_the_fewest_in_flight_is_next() {
        let objects = in_memory(3, ObjectOptions::default());
        let inner = &objects.inner;
        let _busy = [Busy::at(&inner.endpoints[0]), Busy::at(&inner.endpoints[2])];
        for _ in 0..5 {
            assert_eq!(inner.pick(None), 1);
        }
        assert_ne!(inner.pick(Some(1)), 1);
    }

    #[test]
    fn endpoints_take_turns() {
        let options = ObjectOptions { balance: Balance::RoundRobin, ..ObjectOptions::default() };
        let objects = in_memory(3, options);
        let picked: Vec<usize> = (0..6).map(|_| objects.inner.pick(None)).collect();
        assert_eq!(picked, [0, 1, 2, 0, 1, 2]);
    }

    #[test]
    fn a_slow_attempt_ends_at_the_timeout() {
        let timeout = Duration::from_millis(20);
        let objects =
            in_memory(1, ObjectOptions { timeout, retries: 1, ..ObjectOptions::default() });
        let asked =
            objects.inner.ask("reading", "", |_, _| std::future::pending::<Result<(), Trouble>>());
        let error = objects.wait(asked).unwrap_err();
        assert_eq!((error.attempts, error.cause), (2, Cause::Timeout { seconds: 0 }));
        assert_eq!(objects.counts().retries.timeout, 1);
    }

    #[test]
    fn waits_grow_and_stay_within_their_bounds() {
        for attempts in 1..100 {
            let wait = backoff(attempts);
            assert!(wait >= BACKOFF_MIN / 2 && wait <= BACKOFF_MAX, "{attempts}: {wait:?}");
        }
        assert!(backoff(20) >= BACKOFF_MAX / 2);
    }

    #[test]
    fn a_signature_in_an_address_is_not_told() {
        let told = without_queries("GET https://a.blob/c/k?sv=1&sig=SECRET failed: why?");
        assert_eq!(told, "GET https://a.blob/c/k?… failed: why?");
    }
}
