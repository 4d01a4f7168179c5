//! A rank's share: what one of several processes that a launcher started takes of its machine, and
//! where it keeps what is its own.

use std::path::{Component, Path, PathBuf};

use ringfall_host::{Launcher, MemoryRoom, allowed_cpus, host_name, unbound_cpu_count};

use super::{Facts, InputError, Listen, MergeRanks, Origin, Part, Ranks, Settings};

/// Which cores a rank uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cores {
    /// All that it may use: no other rank is here, or nothing says how many are, or the launcher
    /// has bound each to its own.
    All,
    /// Part of the cores that all ranks here may use, which no other rank uses.
    Slice(Vec<usize>),
    /// There are fewer cores than ranks: one shard, not pinned.
    Crowded,
}

/// One of several processes that a launcher started, and what it takes for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rank {
    /// The launcher, as it describes this process.
    pub launcher: Launcher,
    /// Name of this machine.
    pub host: String,
    /// Which cores it uses.
    pub cores: Cores,
    /// The directory that holds every rank's own directory of results, where the ranks can meet;
    /// none where results do not go to a directory.
    pub common_output: Option<PathBuf>,
    /// Whether the ranks meet by MPI, not in a directory.
    pub is_by_mpi: bool,
    /// Where rank 0 puts the results of all ranks merged into one; none where it does not.
    pub merged: Option<MergedOutputs>,
}

/// Files for the results of all ranks merged into one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MergedOutputs {
    /// File for the merged results in JSON.
    pub output: PathBuf,
    /// As a workbook or as CSV.
    pub xlsx_output: Option<PathBuf>,
    /// File for the merged results as an HTML page; none when no page was asked for.
    pub html_output: Option<PathBuf>,
}

/// By what ranks of one launch can meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeetsBy<'a> {
    /// A directory that all of them see.
    Directory(&'a Path),
    /// MPI.
    Mpi,
}

impl Rank {
    /// Looks at the launcher and at this machine; none where no launcher started more than one
    /// process.
    pub fn look() -> Option<Rank> {
        let launcher =
            Launcher::look().filter(|launcher| launcher.size != Some(1) || launcher.rank > 0)?;
        Some(Rank::of(launcher, host_name(), &allowed_cpus(), unbound_cpu_count()))
    }

    /// Decides what a rank takes of a machine of that name, of which this process may use the cores
    /// `allowed_cpus`, and so many if nobody had bound it.
    fn of(
        launcher: Launcher,
        host: String,
        allowed_cpus: &[usize],
        unbound_cpus: Option<usize>,
    ) -> Rank {
        let mut rank = Rank {
            launcher,
            host,
            cores: Cores::All,
            common_output: None,
            is_by_mpi: false,
            merged: None,
        };
        rank.cores = rank.cores_of(allowed_cpus, unbound_cpus);
        rank
    }

    fn cores_of(&self, allowed: &[usize], unbound: Option<usize>) -> Cores {
        let here = self.ranks_here() as usize;
        let is_bound = unbound.is_some_and(|unbound| allowed.len() < unbound);
        if here == 1 || is_bound || allowed.is_empty() {
            return Cores::All;
        }
        if allowed.len() < here {
            return Cores::Crowded;
        }
        let place = self.launcher.local_rank.unwrap_or(self.launcher.rank) as usize % here;
        let edge = |place: usize| allowed.len() * place / here;
        Cores::Slice(allowed[edge(place)..edge(place + 1)].to_vec())
    }

    /// Reason why the launcher's numbers can't be right, if any: a rank beyond the number of ranks.
    pub fn contradiction(&self) -> Option<String> {
        let Launcher { rank, size, .. } = &self.launcher;
        let size = size.filter(|size| rank >= size)?;
        Some(format!(
            "the environment says that this is rank {rank} of {size}, and ranks count from 0: \
             unset the variables of the launcher (OMPI_COMM_WORLD_*, PMI_*, PMIX_*, SLURM_*), or \
             give --ranks off"
        ))
    }

    /// Number of ranks that share this machine, ≥ 1. Where the launcher does not say how many are
    /// here, all of them are taken to be.
    pub fn ranks_here(&self) -> u32 {
        self.launcher.local_size.or(self.launcher.size).unwrap_or(1).max(1)
    }

    /// Number of all ranks, where they are known to be several.
    pub fn several(&self) -> Option<u32> {
        self.launcher.size.filter(|&size| size > 1 && size > self.launcher.rank)
    }

    /// The number of all ranks, and by what they can meet; none where one of the two is not known.
    pub fn meeting(&self) -> Option<(u32, MeetsBy<'_>)> {
        let by = match self.is_by_mpi {
            true => MeetsBy::Mpi,
            false => MeetsBy::Directory(self.common_output.as_deref()?),
        };
        Some((self.several()?, by))
    }

    /// The cores that are its own; none where it uses all that it may.
    pub fn own_cpus(&self) -> Option<&[usize]> {
        match &self.cores {
            Cores::Slice(cpus) => Some(cpus),
            Cores::All | Cores::Crowded => None,
        }
    }

    /// The machine as this rank may use it: its cores, and its part of the memory.
    pub(super) fn share_of(&self, facts: &Facts) -> Facts {
        let here = self.ranks_here();
        let cores = match &self.cores {
            Cores::All => facts.cores,
            // A quota of the CPU's time is shared too.
            Cores::Slice(cpus) => {
                u32::try_from(cpus.len()).unwrap_or(u32::MAX).min((facts.cores / here).max(1))
            }
            Cores::Crowded => 1,
        };
        let part = |bytes: u64| bytes / u64::from(here);
        let mut room = facts.room.clone();
        room.cores = cores;
        room.memory = room.memory.map(|memory| MemoryRoom {
            bytes: part(memory.bytes),
            shared_bytes: part(memory.shared_bytes),
            source: match here {
                1 => memory.source,
                _ => format!("{}, shared by {here} ranks", memory.source),
            },
        });
        Facts {
            cores,
            memory_available_bytes: facts.memory_available_bytes.map(part),
            room,
            ..facts.clone()
        }
    }

    /// Gives the rank a directory `rank_N` of its own below --cache-dir and for each output, a seed
    /// of its own, and a port for its metrics, unless a wrapper has done so already: its paths have
    /// that part. The origin is that of the seed.
    pub(super) fn place(&mut self, settings: &mut Settings, origin: Option<Origin>) {
        let own = self.own_name();
        let is_placed = base_of(&settings.output, &own).is_some()
            || settings.cache_dirs.iter().any(|path| base_of(path, &own).is_some());
        let has_own_seed = match origin {
            Some(Origin::Computed) => true,
            // Nobody gave one, whoever gave the paths.
            Some(Origin::Default) => false,
            _ => is_placed,
        };
        if !has_own_seed {
            settings.seed = settings.seed.wrapping_add(u64::from(self.launcher.rank));
        }
        if !is_placed && let Some(Listen(address)) = settings.metrics_listen.as_mut() {
            let here = self.launcher.local_rank.unwrap_or(self.launcher.rank);
            let here = u16::try_from(here).unwrap_or(u16::MAX);
            // Port 0 is a free one for each of them.
            let ports = if address.port() == 0 { 0 } else { here };
            address.set_port(address.port().saturating_add(ports));
        }
        self.is_by_mpi = is_by_mpi(settings.ranks);
        // A wrapper that gives each rank its own paths has a use of its own for what is there.
        self.merged = match settings.merge_ranks {
            MergeRanks::Auto => !is_placed,
            MergeRanks::On => true,
            MergeRanks::Off => false,
        }
        .then(|| merged_outputs(settings, &own))
        .flatten();
        settings.change_written(&mut |path| {
            let parent = path.parent().unwrap_or(Path::new("")).to_owned();
            if let (None, false, Some(name)) =
                (base_of(path, &own), is_device(path), path.file_name())
            {
                *path = parent.join(&own).join(name);
            }
        });
        self.common_output = base_of(&settings.output, &own);
        for path in &mut settings.cache_dirs {
            *path = self.own_directory(path);
        }
    }

    /// Rank of a command that has no settings of its own: `ranks` says how ranks meet, and `output`
    /// where the results of all go. None where it is the only process.
    ///
    /// # Errors
    /// MPI was asked for, and this program was built without it; or the launcher's numbers can't
    /// be right.
    pub fn for_command(ranks: Ranks, output: &Path) -> Result<Option<Rank>, InputError> {
        if ranks == Ranks::Off {
            return Ok(None);
        }
        if ranks == Ranks::Mpi {
            Part::Mpi.require()?;
        }
        let rank = Rank::look();
        if let Some(what) = rank.as_ref().and_then(Rank::contradiction) {
            return Err(InputError::new(what));
        }
        Ok(rank.filter(|rank| rank.several().is_some()).map(|rank| Rank {
            is_by_mpi: is_by_mpi(ranks),
            common_output: (!is_device(output)).then(|| {
                let parent = output.parent().unwrap_or(Path::new(""));
                base_of(output, &rank.own_name()).unwrap_or_else(|| parent.to_owned())
            }),
            ..rank
        }))
    }

    /// Name of the directories that are its own.
    pub fn own_name(&self) -> String {
        format!("rank_{}", self.launcher.rank)
    }

    /// Its own directory below one that several ranks were given; a device stays as it is.
    pub fn own_directory(&self, path: &Path) -> PathBuf {
        match base_of(path, &self.own_name()).is_some() || is_device(path) {
            true => path.to_owned(),
            false => path.join(self.own_name()),
        }
    }

    /// Reason why several ranks of one machine can't keep their data on this device, if any.
    pub fn can_t_share(&self, path: &Path) -> Option<String> {
        let here = self.ranks_here();
        (here > 1 && is_device(path)).then(|| {
            format!(
                "{} is one device for {here} ranks, each of which would write over all of it: give \
                 a directory, or start one rank on each machine",
                path.display()
            )
        })
    }
}

/// As the banner has it: `3 of 8 on node07 (1 of 4 there), on cores 2 to 3`.
impl std::fmt::Display for Rank {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Launcher { rank, size, local_rank, local_size, .. } = &self.launcher;
        write!(f, "{rank}")?;
        if let Some(size) = size {
            write!(f, " of {size}")?;
        }
        write!(f, " on {}", self.host)?;
        if let (Some(rank), Some(size)) = (local_rank, local_size) {
            write!(f, " ({rank} of {size} there)")?;
        }
        match &self.cores {
            Cores::All => Ok(()),
            Cores::Slice(cpus) => match (cpus.first(), cpus.last()) {
                (Some(first), Some(last)) if first < last => {
                    write!(f, ", on cores {first} to {last}")
                }
                (Some(only), _) => write!(f, ", on core {only}"),
                (None, _) => Ok(()),
            },
            Cores::Crowded => f.write_str(", fewer cores than ranks: one shard, not pinned"),
        }
    }
}

/// Whether ranks meet by MPI.
fn is_by_mpi(ranks: Ranks) -> bool {
    match ranks {
        Ranks::Mpi => true,
        Ranks::Auto => Part::Mpi.is_built(),
        Ranks::Directory | Ranks::Off => false,
    }
}

/// The files of the run, without the directories that are a rank's own; none where the results do
/// not go to a file.
fn merged_outputs(settings: &Settings, own: &str) -> Option<MergedOutputs> {
    let common = |path: &Path| -> Option<PathBuf> {
        let name = path.file_name().filter(|_| !is_device(path))?;
        Some(base_of(path, own).map_or_else(|| path.to_owned(), |base| base.join(name)))
    };
    Some(MergedOutputs {
        output: common(&settings.output)?,
        xlsx_output: settings.xlsx_output.as_deref().and_then(common),
        html_output: settings.html_output.as_deref().and_then(common),
    })
}

/// Part of a path before its component `own`; none where it has no such component.
fn base_of(path: &Path, own: &str) -> Option<PathBuf> {
    let parts: Vec<Component<'_>> = path.components().collect();
    let at = parts.iter().rposition(|part| part.as_os_str() == own)?;
    Some(parts[..at].iter().collect())
}

/// Whether a path is one of /dev, where no directory of a rank's own can be made.
fn is_device(path: &Path) -> bool {
    path.starts_with("/dev") && !path.starts_with("/dev/shm")
}

#[cfg(test)]
#[path = "rank_test.rs"]
mod tests;
