//! Libraries that the recorded command puts before all others, and what they change.

/// Effect of a preloaded library on a result, as far as its name tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// fsync returns without having done anything.
    NoFsync,
    /// Advice to drop pages is not passed on: reads may be served from memory.
    NoFadvise,
    /// Another allocator: no I/O is changed.
    Allocator,
    /// Not known here.
    Unknown,
}

impl Effect {
    /// The effect of a library, by its file's name.
    pub(super) fn of(library: &str) -> Effect {
        let name = library.rsplit('/').next().unwrap_or(library).to_ascii_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
        if has(&["eatmydata", "nosync", "nofsync"]) {
            Effect::NoFsync
        } else if has(&["fadvise"]) {
            Effect::NoFadvise
        } else if has(&["tcmalloc", "jemalloc", "mimalloc"]) {
            Effect::Allocator
        } else {
            Effect::Unknown
        }
    }

    /// A clause about it.
    pub(super) const fn told(self) -> &'static str {
        match self {
            Effect::NoFsync => {
                "by its name it makes fsync return at once, so that writes are timed into memory \
                 and the write figures are not those of storage"
            }
            Effect::NoFadvise => {
                "by its name it keeps posix_fadvise from the kernel; the benchmark drops pages \
                 that way before each read, and without it reads may come from memory"
            }
            Effect::Allocator => "a memory allocator, which changes no I/O",
            Effect::Unknown => "what it changes is not known here",
        }
    }
}

/// The value that stands for an export of the launcher's own environment.
const FROM_ENVIRONMENT: &str = "(the launcher's own LD_PRELOAD, whose value is not recorded)";

/// The preloaded libraries of a command, in its order, each once.
pub(super) fn preloads<'a>(words: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut words = words.into_iter().map(|word| word.trim_matches(['"', '\''])).peekable();
    while let Some(word) = words.next() {
        let Some(at) = word.find("LD_PRELOAD") else { continue };
        let rest = &word[at + "LD_PRELOAD".len()..];
        let mut values = match rest.strip_prefix('=') {
            Some(value) => vec![value],
            // `-genv LD_PRELOAD /lib/a.so`
            None if rest.is_empty() => Vec::new(),
            None => continue,
        };
        // A quoted list may have blanks between its libraries.
        while let Some(more) = words.next_if(|next| is_library(next)) {
            values.push(more);
        }
        let mut any = false;
        for library in values.iter().flat_map(|value| value.split([':', ' ', ','])) {
            let library = library.trim_matches(['"', '\'']);
            any |= !library.is_empty();
            if !library.is_empty() && !found.iter().any(|known| known == library) {
                found.push(library.to_owned());
            }
        }
        if !any && rest.is_empty() && !found.iter().any(|known| known == FROM_ENVIRONMENT) {
            found.push(FROM_ENVIRONMENT.to_owned());
        }
    }
    found
}

fn is_library(word: &str) -> bool {
    !word.starts_with('-')
        && !word.contains('=')
        && (word.ends_with(".so") || word.contains(".so."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(command: &str) -> Vec<String> {
        preloads(command.split_whitespace())
    }

    #[test]
    fn libraries_are_found_however_they_are_given() {
        let two = ["/usr/lib/libtcmalloc_minimal.so.4", "/opt/libeatmydata.so"];
        for command in [
            "mpirun -x LD_PRELOAD=/usr/lib/libtcmalloc_minimal.so.4:/opt/libeatmydata.so -n 2",
            "mpirun -x \"LD_PRELOAD=/usr/lib/libtcmalloc_minimal.so.4 /opt/libeatmydata.so\" x",
            "env LD_PRELOAD=/usr/lib/libtcmalloc_minimal.so.4:/opt/libeatmydata.so python3",
        ] {
            assert_eq!(of(command), two, "{command}");
        }
        assert_eq!(of("mpiexec -genv LD_PRELOAD /opt/a.so python"), ["/opt/a.so"]);
        assert!(of("mpirun -x LD_PRELOAD -n 2")[0].contains("not recorded"));
        assert!(of("mpirun -x LD_LIBRARY_PATH=/lib -x LD_PRELOAD_X=1").is_empty());
    }

    #[test]
    fn what_a_library_does_is_told_by_its_name() {
        assert_eq!(Effect::of("/usr/lib/libeatmydata.so"), Effect::NoFsync);
        assert_eq!(Effect::of("/opt/libnofadvise.so"), Effect::NoFadvise);
        assert_eq!(Effect::of("libtcmalloc_minimal.so.4"), Effect::Allocator);
        assert_eq!(Effect::of("/eatmydata/libfoo.so"), Effect::Unknown);
    }
}
