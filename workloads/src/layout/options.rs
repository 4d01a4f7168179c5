//! Options of layouts: the engine's own values, and those that the user gives in their place.

use super::choices::choices;
use super::engine::EngineLayout;
use crate::error::Error;

choices! {
/// Option of a layout that the user may set.
pub enum LayoutOption {
    /// Number of tokens that an object holds.
    ChunkTokens = "chunk_tokens": "Tokens in a chunk, page or block",
    /// Number of threads that load.
    LoadThreads = "load_threads": "Loading threads (of a rank: llmd, hicache; nixl: queue depth)",
    /// Number of threads that store.
    StoreThreads = "store_threads": "The same for stores",
    /// Number of prefixes that are moved at a time.
    Requests = "requests": "Prefixes that are stored or fetched at a time",
    /// Whether files are opened with `O_DIRECT`.
    Direct = "direct": "Whether files are opened with O_DIRECT",
    /// Whether each file is made durable.
    Fsync = "fsync": "Whether each file is made durable before it is closed",
    /// Rule by which the oldest leave a full store, or nothing does.
    Evict = "evict": "Removal of the oldest in a run: never, lru, 85-70 percent",
    /// Whether what fills no chunk at the end of a prefix is stored, too.
    Tail = "tail": "Whether a last chunk that is not full is stored",
    /// Whether an entry is stored from its second write on.
    Selective = "selective": "Whether a run stores what is written again alone",
}
/// Meaning of the option, a sentence.
fn meaning;
}

/// Factor of the fill from which on entries leave, in values of [`LayoutOption::Evict`]; the fill
/// at which that ends is added. Both are percents.
const FROM: u64 = 1000;
/// Nothing leaves.
pub(super) const NEVER: u64 = 0;
/// The oldest leave when there is no room at all, and no more than that takes.
pub(super) const LRU: u64 = fills(100, 100);

pub(super) const fn fills(from: u64, to: u64) -> u64 {
    from * FROM + to
}

impl LayoutOption {
    /// Whether its values are yes and no.
    pub const fn is_switch(self) -> bool {
        matches!(
            self,
            LayoutOption::Direct
                | LayoutOption::Fsync
                | LayoutOption::Tail
                | LayoutOption::Selective
        )
    }

    /// Text of a value, as it is typed.
    pub fn told(self, value: u64) -> String {
        if self == LayoutOption::Evict {
            return match (value / FROM, value % FROM) {
                (0, _) => "never".to_owned(),
                (100, 100) => "lru".to_owned(),
                (from, to) => format!("{from}-{to}"),
            };
        }
        match (self.is_switch(), value) {
            (false, number) => number.to_string(),
            (true, 0) => "no".to_owned(),
            (true, _) => "yes".to_owned(),
        }
    }

    pub(super) const fn place(self) -> usize {
        self as usize
    }

    /// Largest value.
    const fn most(self) -> u64 {
        match self {
            LayoutOption::ChunkTokens => 1 << 20,
            LayoutOption::LoadThreads | LayoutOption::StoreThreads | LayoutOption::Requests => 1024,
            LayoutOption::Evict => LRU,
            _ => 1,
        }
    }

    fn parse(self, text: &str) -> Result<u64, Error> {
        let wrong = |wanted: String| Error::new(format!("{}={text}: give {wanted}", self.name()));
        if self == LayoutOption::Evict {
            let fills = match text {
                "never" => return Ok(NEVER),
                "lru" => return Ok(LRU),
                _ => text.split_once('-'),
            };
            let fills = fills.and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
            let fills =
                fills.filter(|(from, to): &(u64, u64)| (1..=100).contains(from) && to <= from);
            let wanted = "never, lru, or two fills in percent, such as 85-70".to_owned();
            return fills.map(|(from, to)| self::fills(from, to)).ok_or_else(|| wrong(wanted));
        }
        if self.is_switch() {
            return match text {
                "yes" | "true" | "on" | "1" => Ok(1),
                "no" | "false" | "off" | "0" => Ok(0),
                _ => Err(wrong("yes or no".to_owned())),
            };
        }
        let number = text.parse().ok().filter(|number| (1..=self.most()).contains(number));
        number.ok_or_else(|| wrong(format!("a whole number from 1 to {}", self.most())))
    }
}

/// A layout with its options.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LayoutOptions {
    layout: EngineLayout,
    values: [Option<u64>; LayoutOption::ALL.len()],
}

impl LayoutOptions {
    /// The layout as its engine has it.
    pub fn of(layout: EngineLayout) -> LayoutOptions {
        let values = LayoutOption::ALL.map(|option| layout.default_of(option));
        LayoutOptions { layout, values }
    }

    /// The layout that these are options of.
    pub fn layout(&self) -> EngineLayout {
        self.layout
    }

    /// Value of an option; none where the engine has no such option. Switches are 0 or 1.
    pub fn value(&self, option: LayoutOption) -> Option<u64> {
        self.values[option.place()]
    }

    /// Fill of the store from which on its oldest entries leave, and the fill at which that ends,
    /// percent; none where nothing ever leaves. A layout without that option evicts for room alone.
    pub fn eviction(&self) -> Option<(u64, u64)> {
        let value = self.value(LayoutOption::Evict).unwrap_or(LRU);
        (value != NEVER).then_some((value / FROM, value % FROM))
    }

    /// Whether the option is a switch that is on.
    pub fn is_on(&self, option: LayoutOption) -> bool {
        self.value(option) == Some(1)
    }

    pub(super) fn number(&self, option: LayoutOption) -> u64 {
        self.value(option).unwrap_or(1)
    }

    /// Turns `O_DIRECT` off, where the engine has that option.
    pub(super) fn forgo_direct(&mut self) {
        let direct = &mut self.values[LayoutOption::Direct.place()];
        *direct = direct.map(|_| 0);
    }

    /// The options that differ from the engine's own, as they are typed.
    pub fn changed(&self) -> Vec<String> {
        let is_changed =
            |option: &LayoutOption| self.value(*option) != self.layout.default_of(*option);
        let changed = LayoutOption::ALL.into_iter().filter(is_changed).filter_map(|option| {
            Some(format!("{}={}", option.name(), option.told(self.value(option)?)))
        });
        changed.collect()
    }

    /// Applies options, each `KEY=VALUE` or `LAYOUT.KEY=VALUE`, to those of these layouts that they
    /// are for.
    ///
    /// # Errors
    /// One has not that form, there is no such layout among these, no such option of it, or no such
    /// value; or the layout was given that option before.
    pub fn apply<'t>(
        all: &mut [LayoutOptions],
        typed: impl IntoIterator<Item = &'t str>,
    ) -> Result<(), Error> {
        let mut given = Vec::new();
        typed.into_iter().try_for_each(|typed| LayoutOptions::apply_one(all, typed, &mut given))
    }

    fn apply_one(
        all: &mut [LayoutOptions],
        typed: &str,
        given: &mut Vec<(EngineLayout, LayoutOption)>,
    ) -> Result<(), Error> {
        let wrong = |what: String| Error::new(format!("{typed:?}: {what}"));
        let Some((left, value)) = typed.split_once('=') else {
            return Err(wrong("give LAYOUT.KEY=VALUE, such as vllm.chunk_tokens=64".to_owned()));
        };
        let (layout, key) = match left.split_once('.') {
            Some((layout, key)) => {
                (Some(EngineLayout::parse(layout).map_err(|e| wrong(e.to_string()))?), key)
            }
            None => (None, left),
        };
        let Some(option) = LayoutOption::ALL.into_iter().find(|option| option.name() == key) else {
            let names = LayoutOption::ALL.map(LayoutOption::name).join(", ");
            return Err(wrong(format!("{key} is not an option: give one of {names}")));
        };
        let value = option.parse(value).map_err(|error| wrong(error.to_string()))?;
        let mut applied = 0_u32;
        let named = all.iter_mut().filter(|one| layout.is_none_or(|layout| one.layout == layout));
        for one in named.filter(|one| one.value(option).is_some()) {
            if given.contains(&(one.layout, option)) {
                return Err(wrong(format!("{key} of {} is given twice", one.layout.name())));
            }
            given.push((one.layout, option));
            one.values[option.place()] = Some(value);
            applied += 1;
        }
        match (applied, layout) {
            (1.., _) => Ok(()),
            (0, Some(layout)) if all.iter().any(|one| one.layout == layout) => {
                Err(wrong(format!("the layout {} has no option {key}", layout.name())))
            }
            (0, Some(layout)) => {
                Err(wrong(format!("the layout {} is not among those chosen", layout.name())))
            }
            (0, None) => Err(wrong(format!("no layout that is chosen has an option {key}"))),
        }
    }
}
