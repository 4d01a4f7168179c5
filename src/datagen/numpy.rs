//! numpy's generator beside ours, where there is a Python that has numpy: the reference benchmark
//! makes its content with it.

use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::bench::{BenchSettings, Rate};

/// Bytes of the generator, and float16 values as the reference's `KVCacheGenerator` makes them.
/// Prints the version of numpy, then a line a trial: what, bytes per second.
const SCRIPT: &str = "
import sys, time
import numpy
chunk, seconds, trials = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
generator = numpy.random.default_rng(1)
def raw():
    generator.bytes(chunk)
def float16():
    generator.uniform(-1.0, 1.0, size=chunk // 2).astype(numpy.float16)
print('numpy', numpy.__version__, flush=True)
for name, make in (('bytes', raw), ('float16', float16)):
    make()
    for _ in range(trials):
        count, begin = 0, time.perf_counter()
        while time.perf_counter() - begin < seconds:
            make()
            count += chunk
        print(name, count / (time.perf_counter() - begin), flush=True)
";

/// Name of the rate of numpy's raw bytes.
pub const NUMPY_BYTES: &str = "numpy: Generator.bytes";
/// Name of the rate of the reference's float16 values.
pub const NUMPY_FLOAT16: &str = "numpy: uniform as float16";
/// Longer than all trials by this: Python starts, and its last rounds end.
const PATIENCE: Duration = Duration::from_secs(60);

/// Rates at which numpy generates content, measured in a Python of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct NumpyRates {
    /// Version of numpy, as it names itself.
    pub version: String,
    /// Rates on one thread, one for each way to generate.
    pub rates: Vec<Rate>,
}

/// Measures numpy with that Python.
///
/// # Errors
/// A sentence: there is no such Python, or it has no numpy, or it was told to end.
pub fn measure_numpy(
    python: &Path,
    settings: &BenchSettings,
    goes_on: &dyn Fn(&'static str) -> bool,
) -> Result<NumpyRates, String> {
    let mut command = Command::new(python);
    command.arg("-c").arg(SCRIPT).arg(settings.chunk_bytes.to_string());
    command.arg(settings.duration.as_secs_f64().to_string()).arg(settings.trials.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn();
    let child = child.map_err(|error| format!("{} can't be started: {error}", python.display()))?;
    let longest = settings.duration * 2 * settings.trials + PATIENCE;
    let (status, output, said) = waited(child, longest, goes_on)?;
    if !status {
        let why = said.lines().last().unwrap_or("it ended without a word").to_owned();
        return Err(format!("{} measured nothing: {why}", python.display()));
    }
    parsed(&output).ok_or_else(|| format!("{} printed something else", python.display()))
}

/// Waits for the end, but not for ever: whether it succeeded, and what it wrote.
fn waited(
    mut child: Child,
    longest: Duration,
    goes_on: &dyn Fn(&'static str) -> bool,
) -> Result<(bool, String, String), String> {
    let began = Instant::now();
    // It writes some hundred bytes, which its pipes hold.
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status.success(),
            Ok(None) if goes_on("numpy") && began.elapsed() < longest => {
                std::thread::sleep(Duration::from_millis(20));
            }
            other => {
                let _ended = child.kill().and_then(|()| child.wait());
                return Err(match other {
                    Err(error) => format!("numpy's process can't be waited for: {error}"),
                    Ok(_) => "numpy was not measured to its end".to_owned(),
                });
            }
        }
    };
    let mut texts = [String::new(), String::new()];
    if let Some(mut out) = child.stdout.take() {
        out.read_to_string(&mut texts[0]).map_err(|error| error.to_string())?;
    }
    if let Some(mut out) = child.stderr.take() {
        out.read_to_string(&mut texts[1]).map_err(|error| error.to_string())?;
    }
    let [out, said] = texts;
    Ok((status, out, said))
}

fn parsed(output: &str) -> Option<NumpyRates> {
    let version = output.lines().find_map(|line| line.strip_prefix("numpy "))?.to_owned();
    let trials = |name: &str| -> Vec<f64> {
        let values = output.lines().filter_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        values.filter(|value: &f64| value.is_finite() && *value > 0.0).collect()
    };
    let (bytes, float16) = (trials("bytes "), trials("float16 "));
    if bytes.is_empty() || float16.is_empty() {
        return None;
    }
    let rates = vec![Rate::of(NUMPY_BYTES, 1, bytes), Rate::of(NUMPY_FLOAT16, 1, float16)];
    Some(NumpyRates { version, rates })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_script_prints_is_read_and_anything_else_refused() {
        let text = "numpy 2.3.1\nbytes 3e9\nbytes 1e9\nbytes 2e9\nfloat16 5e8\n";
        let rates = parsed(text).unwrap();
        assert_eq!(rates.version, "2.3.1");
        assert!((rates.rates[0].bytes_per_s - 2e9).abs() < 1.0, "{rates:?}");
        for wrong in ["", "numpy 2\n", "numpy 2\nbytes x\nfloat16 1\n", "bytes 1\nfloat16 1\n"] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_python_without_numpy_says_why() {
        let settings = BenchSettings {
            chunk_bytes: 4096,
            threads: vec![1],
            duration: Duration::from_millis(1),
            trials: 1,
        };
        let why = measure_numpy(Path::new("/no/python"), &settings, &|_| true).unwrap_err();
        assert!(why.contains("/no/python can't be started"), "{why}");
        let why = measure_numpy(Path::new("/bin/false"), &settings, &|_| true).unwrap_err();
        assert!(why.contains("measured nothing"), "{why}");
    }
}
