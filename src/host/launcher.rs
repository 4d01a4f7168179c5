//! The launcher that started this process as one of several, as its environment tells.

/// This process among those that a launcher started together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launcher {
    /// Its number among all of them, from 0.
    pub rank: u32,
    /// Number of processes; none when the launcher does not say.
    pub size: Option<u32>,
    /// Its number among those on this machine, from 0; none when the launcher does not say.
    pub local_rank: Option<u32>,
    /// Number of processes on this machine; none when the launcher does not say.
    pub local_size: Option<u32>,
    /// Name that tells this launch from others, the same for all of its processes; none when the
    /// launcher does not say.
    pub launch: Option<String>,
}

/// More processes than this no launch has; a larger number is none of a launcher's.
const PROCESSES_MAX: u32 = 1 << 17;

/// Variables that hold a figure, by launcher: Open MPI, MPICH and its kin (Hydra), PMIx, Slurm.
const RANK: [&str; 4] = ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"];
/// Slurm's SLURM_NTASKS is that of the whole job: a batch script has it, too, and is alone.
const SIZE: [&str; 3] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"];
const LOCAL_RANK: [&str; 4] =
    ["OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PMI_LOCAL_RANK", "SLURM_LOCALID"];
const LOCAL_SIZE: [&str; 3] = ["OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "PMI_LOCAL_SIZE"];
/// Names of a launch: PMIx (Open MPI), Cray PALS. Slurm's has two parts.
const LAUNCH: [&str; 2] = ["PMIX_NAMESPACE", "PALS_APID"];

impl Launcher {
    /// The one that started this process; none where nothing says so.
    pub fn look() -> Option<Launcher> {
        Launcher::of(|name| std::env::var(name).ok())
    }

    /// Reads the launcher from an environment. A Slurm step of one process counts as none: an
    /// interactive shell is such a step, and so is a batch script.
    fn of(variable: impl Fn(&str) -> Option<String>) -> Option<Launcher> {
        let number = |name: &&str| {
            let number = variable(name)?.trim().parse::<u32>().ok()?;
            (number <= PROCESSES_MAX).then_some(number)
        };
        let first = |names: &[&str]| names.iter().find_map(number);
        let is_slurm_alone = RANK[..3].iter().all(|name| number(name).is_none());
        let launcher = Launcher {
            rank: first(&RANK)?,
            size: first(&SIZE),
            local_rank: first(&LOCAL_RANK),
            local_size: first(&LOCAL_SIZE).or_else(|| slurm_local_size(&variable)),
            launch: LAUNCH.iter().find_map(|name| variable(name)).or_else(|| {
                Some(format!("{}.{}", variable("SLURM_JOB_ID")?, variable("SLURM_STEP_ID")?))
            }),
        };
        let is_step_of_one = is_slurm_alone && launcher.size.is_none_or(|size| size == 1);
        (!is_step_of_one).then_some(launcher)
    }

    /// Whether others of the same launch may use this machine too.
    pub fn shares_the_machine(&self) -> bool {
        self.local_size.or(self.size) != Some(1)
    }
}

/// Name of this machine, as its kernel has it.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Number of tasks of a Slurm step on this node: `2(x3),1` gives it for each node, in order.
fn slurm_local_size(variable: &impl Fn(&str) -> Option<String>) -> Option<u32> {
    let node: u32 = variable("SLURM_NODEID")?.trim().parse().ok()?;
    let list = variable("SLURM_STEP_TASKS_PER_NODE")?;
    let mut nodes_before = 0_u32;
    for part in list.trim().split(',') {
        let (tasks, times) = part.split_once("(x").unwrap_or((part, "1"));
        let times: u32 = times.trim_end_matches(')').parse().ok()?;
        nodes_before = nodes_before.checked_add(times)?;
        if node < nodes_before {
            return tasks.parse().ok();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Option<Launcher> {
        Launcher::of(|name| {
            let found = variables.iter().find(|(given, _)| *given == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn each_launcher_is_known_by_its_variables() {
        let all = |rank, size, local_rank, local_size| {
            Some(Launcher { rank, size, local_rank, local_size, launch: None })
        };
        let open_mpi = [
            ("OMPI_COMM_WORLD_RANK", "5"),
            ("OMPI_COMM_WORLD_SIZE", "8"),
            ("OMPI_COMM_WORLD_LOCAL_RANK", "1"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "4"),
            // It runs inside a job of Slurm's that says otherwise.
            ("SLURM_PROCID", "0"),
            ("SLURM_STEP_NUM_TASKS", "2"),
            ("SLURM_LOCALID", "0"),
        ];
        assert_eq!(of(&open_mpi), all(5, Some(8), Some(1), Some(4)));
        let mpich = [
            ("PMI_RANK", "3"),
            ("PMI_SIZE", "4"),
            ("MPI_LOCALRANKID", "1"),
            ("MPI_LOCALNRANKS", "2"),
        ];
        assert_eq!(of(&mpich), all(3, Some(4), Some(1), Some(2)));
        assert_eq!(of(&[("PMIX_RANK", "7")]), all(7, None, None, None));
        let slurm = [("SLURM_PROCID", "2"), ("SLURM_STEP_NUM_TASKS", "6"), ("SLURM_LOCALID", "0")];
        assert_eq!(of(&slurm), all(2, Some(6), Some(0), None));
        for (node, local_size) in [("0", Some(2)), ("2", Some(2)), ("3", Some(1)), ("4", None)] {
            let list = [("SLURM_STEP_TASKS_PER_NODE", "2(x3),1"), ("SLURM_NODEID", node)];
            let variables: Vec<_> = slurm.iter().chain(&list).copied().collect();
            assert_eq!(of(&variables).unwrap().local_size, local_size, "node {node}");
        }
    }

    #[test]
    fn a_launch_has_a_name_where_the_launcher_gives_it_one() {
        let launch = |variables: &[(&str, &str)]| of(variables).unwrap().launch;
        let open_mpi = [("OMPI_COMM_WORLD_RANK", "5"), ("PMIX_NAMESPACE", "prterun-a-7@1")];
        assert_eq!(launch(&open_mpi).as_deref(), Some("prterun-a-7@1"));
        let slurm = [("SLURM_PROCID", "1"), ("SLURM_STEP_NUM_TASKS", "2"), ("SLURM_JOB_ID", "77")];
        assert_eq!(launch(&slurm), None);
        let step: Vec<_> = slurm.into_iter().chain([("SLURM_STEP_ID", "3")]).collect();
        assert_eq!(launch(&step).as_deref(), Some("77.3"));
    }

    #[test]
    fn what_no_launcher_says_is_none() {
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[("PMI_RANK", "")]), None);
        let endless = [("PMI_RANK", "1"), ("PMI_SIZE", "4294967295")];
        assert_eq!(of(&endless), Some(Launcher { rank: 1, ..of(&endless[..1]).unwrap() }));
        assert_eq!(of(&endless).unwrap().size, None);
        assert_eq!(of(&[("OMPI_COMM_WORLD_RANK", "-1")]), None);
        // A shell under `salloc`, and a batch script, also of a job of many tasks.
        assert_eq!(of(&[("SLURM_PROCID", "0"), ("SLURM_STEP_NUM_TASKS", "1")]), None);
        assert_eq!(of(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4")]), None);
        assert_eq!(of(&[("SLURM_PROCID", "0")]), None);
        // `srun` with one process inside a job of many.
        let step = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "9"), ("SLURM_STEP_NUM_TASKS", "1")];
        assert_eq!(of(&step), None);
        // `mpirun -n 1` gathers output as with many.
        let one = of(&[("PMI_RANK", "0"), ("PMI_SIZE", "1")]).unwrap();
        assert!(!one.shares_the_machine());
        assert!(of(&[("PMIX_RANK", "0")]).unwrap().shares_the_machine());
    }
}
