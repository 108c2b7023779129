//! The steps of a chaos, and how a seed picks them. Everything random is drawn
//! here, without knowledge of the running processes, so that a seed gives the
//! same steps each time; a pick is resolved later, among the processes that
//! exist then.

use super::random::Random;
use crate::processes::Part;

/// One step.
#[derive(Clone, Debug)]
pub enum Step {
    /// Experiments of several kinds are added and started together.
    Start { seed: u64, count: u64 },
    /// A client aborts an experiment.
    Abort { pick: u64 },
    /// A client restarts an experiment, live or not.
    Restart { pick: u64 },
    /// A client adds a rule that fires on every loss.
    Rule { pick: u64 },
    /// A client reads something.
    Read { pick: u64, which: Reading },
    /// The oldest running command is killed.
    KillClient,
    /// `kill -9` of one process.
    Kill { place: u64, part: Part, pick: u64 },
    /// One process is stopped for a while.
    Freeze {
        place: u64,
        part: Part,
        pick: u64,
        ms: u64,
    },
    /// `daemon stop`; the next command starts it again.
    StopDaemon,
    /// From now on the programs are those of another build.
    Upgrade,
    /// The disk of the home is full for a while.
    FillHome { ms: u64 },
    /// `kill -9` of a launcher and all its shims at once.
    KillSupervisors { place: u64 },
    /// One process's calls of this kind are delayed for a while; then
    /// supervisors are killed, or not.
    HoldCall {
        place: u64,
        part: Part,
        pick: u64,
        call: &'static str,
        ms: u64,
        kill: bool,
    },
    /// A shim is stopped, and only Neronet itself continues it.
    StopShim { place: u64, pick: u64 },
    /// The file system of the home has no inode left for a while.
    FillInodes { ms: u64 },
    /// The clocks of all machines are set.
    SetClock { offset_s: i64 },
    /// A fault of a host.
    Host { host: u64, fault: HostFault },
    /// A fault of the cluster whose scheduler starts the runs.
    Cluster { pick: u64, fault: ClusterFault },
    /// A fault of what belongs to a container.
    Container { pick: u64, fault: ContainerFault },
}

/// A reading command.
#[derive(Clone, Copy, Debug)]
pub enum Reading {
    /// `status all`
    Status,
    /// `logs -f` of an experiment
    Follow,
    /// `metrics` of an experiment
    Metrics,
    /// `wait` for an experiment
    Wait,
    /// `fetch` of an experiment
    Fetch,
    /// `node list`
    Nodes,
}

/// A fault of a host.
#[derive(Clone, Copy, Debug)]
pub enum HostFault {
    /// No packet passes for a while.
    Cut { ms: u64 },
    /// Some packets are lost for a while.
    Lossy { percent: u32, ms: u64 },
    /// It stands still for a while.
    Freeze { ms: u64 },
    /// It crashes and is started after a while.
    Crash { ms: u64 },
    /// The servers of all its connections die.
    HangUp,
    /// Its user's disk is full for a while.
    Fill { ms: u64 },
    /// This machine has another address.
    Move,
}

/// A fault of a cluster.
#[derive(Clone, Copy, Debug)]
pub enum ClusterFault {
    /// The controller is killed, and started after a while.
    ControllerDies { ms: u64 },
    /// The controller answers nothing for a while.
    ControllerStops { ms: u64 },
    /// A host crashes with all that runs there, and is started after a while.
    HostDies { ms: u64 },
    /// The daemon of a host stands still; its jobs run on.
    HostStops { ms: u64 },
    /// A person puts a running job back into the queue.
    Requeue,
    /// `kill -9` of our agent in an allocation: its scheduler ends the rest.
    TaskDies,
}

/// A fault of what belongs to a container.
#[derive(Clone, Copy, Debug)]
pub enum ContainerFault {
    /// `kill -9` of one process.
    Kill(ContainerPart),
    /// One process is stopped for a while.
    Freeze { part: ContainerPart, ms: u64 },
    /// The runtime's daemon is killed, and started after a while.
    DaemonDies { ms: u64 },
    /// The runtime's daemon answers nothing for a while.
    DaemonStops { ms: u64 },
}

/// A process that belongs to a container.
#[derive(Clone, Copy, Debug)]
pub enum ContainerPart {
    /// The runtime's client, which is the main process of the job.
    Client,
    /// The process beside the container: conmon, or containerd's shim.
    Beside,
    /// The first process inside.
    Init,
}

/// The parts that a chaos can break.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    /// How many hosts there are beside this machine.
    pub hosts: usize,
    /// Whether the home has a small file system of its own.
    pub small_home: bool,
    /// Whether hosts have name spaces of their own.
    pub isolated: bool,
    /// Whether the harsher faults happen, too.
    pub harsh: bool,
    /// Whether a scheduler starts the runs.
    pub scheduler: bool,
    /// Whether the runs are in containers.
    pub containers: bool,
}

#[derive(Clone, Copy)]
enum Class {
    Start,
    Abort,
    Restart,
    Rule,
    Read,
    KillClient,
    Kill,
    Freeze,
    StopDaemon,
    Upgrade,
    FillHome,
    Host,
    KillSupervisors,
    HoldCall,
    StopShim,
    FillInodes,
    SetClock,
    Cluster,
    Container,
}

/// The pause before the next step, in milliseconds, and the step.
pub fn next(random: &mut Random, scope: Scope) -> (u64, Step) {
    let pause_ms = random.between(20, 700);
    // A fault of weight 0 does not change the steps of an older seed.
    let harsh = |weight| if scope.harsh { weight } else { 0 };
    let classes = [
        (30, Class::Start),
        (6, Class::Abort),
        (6, Class::Restart),
        (4, Class::Rule),
        (12, Class::Read),
        (2, Class::KillClient),
        (20, Class::Kill),
        (8, Class::Freeze),
        (3, Class::StopDaemon),
        (2, Class::Upgrade),
        (if scope.small_home { 2 } else { 0 }, Class::FillHome),
        (if scope.hosts > 0 { 16 } else { 0 }, Class::Host),
        (harsh(4), Class::KillSupervisors),
        (harsh(8), Class::HoldCall),
        (harsh(3), Class::StopShim),
        (
            if scope.small_home { harsh(2) } else { 0 },
            Class::FillInodes,
        ),
        (harsh(3), Class::SetClock),
        (if scope.scheduler { 12 } else { 0 }, Class::Cluster),
        (if scope.containers { 30 } else { 0 }, Class::Container),
    ];
    let class = random.weighted(&classes);
    (pause_ms, step(class, random, scope))
}

fn step(class: Class, random: &mut Random, scope: Scope) -> Step {
    let pick = random.bits();
    match class {
        Class::Start => Step::Start {
            seed: random.bits(),
            count: random.between(1, 7),
        },
        Class::Abort => Step::Abort { pick },
        Class::Restart => Step::Restart { pick },
        Class::Rule => Step::Rule { pick },
        Class::Read => Step::Read {
            pick,
            which: random.weighted(&[
                (3, Reading::Status),
                (3, Reading::Follow),
                (2, Reading::Metrics),
                (2, Reading::Wait),
                (1, Reading::Fetch),
                (1, Reading::Nodes),
            ]),
        },
        Class::KillClient => Step::KillClient,
        Class::Kill => Step::Kill {
            place: random.bits(),
            part: part(random),
            pick,
        },
        Class::Freeze => Step::Freeze {
            place: random.bits(),
            part: part(random),
            pick,
            ms: random.between(50, 4000),
        },
        Class::StopDaemon => Step::StopDaemon,
        Class::Upgrade => Step::Upgrade,
        Class::FillHome => Step::FillHome {
            ms: random.between(500, 5000),
        },
        Class::KillSupervisors => Step::KillSupervisors { place: pick },
        Class::HoldCall => Step::HoldCall {
            place: random.bits(),
            part: random.weighted(&[
                (6, Part::Launcher),
                (3, Part::Mum),
                (2, Part::Daemon),
                (2, Part::Watcher),
            ]),
            pick,
            call: random.weighted(&CALLS),
            ms: random.between(300, 4000),
            kill: random.percent(60),
        },
        Class::StopShim => Step::StopShim {
            place: random.bits(),
            pick,
        },
        Class::FillInodes => Step::FillInodes {
            ms: random.between(500, 5000),
        },
        Class::SetClock => Step::SetClock {
            offset_s: random.weighted(&[
                (1, -86_400),
                (1, -3700),
                (2, 0),
                (1, 3700),
                (1, 86_400),
                (1, 31_536_000),
            ]),
        },
        Class::Cluster => Step::Cluster {
            pick,
            fault: cluster_fault(random),
        },
        Class::Container => Step::Container {
            pick,
            fault: container_fault(random),
        },
        Class::Host => Step::Host {
            host: pick,
            fault: host_fault(random, scope),
        },
    }
}

/// Calls during a start, an end and a record; `?` marks calls that some
/// processors lack.
const CALLS: [(u64, &str); 10] = [
    (4, "setsid"),
    (4, "execve"),
    (2, "?link,linkat"),
    (2, "?rename,renameat,renameat2"),
    (2, "?unlink,unlinkat"),
    (2, "pwrite64"),
    (2, "write"),
    (1, "fsync,fdatasync"),
    (1, "?open,openat"),
    (1, "?wait4,waitid"),
];

fn part(random: &mut Random) -> Part {
    random.weighted(&[
        (5, Part::Daemon),
        (5, Part::Mum),
        (3, Part::Launcher),
        (4, Part::Shim),
        (4, Part::Watcher),
        (4, Part::Ssh),
        (2, Part::Dial),
    ])
}

fn cluster_fault(random: &mut Random) -> ClusterFault {
    let ms = random.between(500, 9000);
    // Long enough for the controller to call the host failed, and to start its jobs
    // elsewhere while they run on.
    let long_ms = if random.percent(30) { 25_000 } else { ms };
    random.weighted(&[
        (3, ClusterFault::ControllerDies { ms }),
        (3, ClusterFault::ControllerStops { ms }),
        (2, ClusterFault::HostDies { ms }),
        (2, ClusterFault::HostStops { ms: long_ms }),
        (3, ClusterFault::Requeue),
        (2, ClusterFault::TaskDies),
    ])
}

fn container_fault(random: &mut Random) -> ContainerFault {
    let part = random.weighted(&[
        (3, ContainerPart::Client),
        (3, ContainerPart::Beside),
        (2, ContainerPart::Init),
    ]);
    let ms = random.between(50, 4000);
    random.weighted(&[
        (6, ContainerFault::Kill(part)),
        (4, ContainerFault::Freeze { part, ms }),
        (1, ContainerFault::DaemonDies { ms }),
        (2, ContainerFault::DaemonStops { ms }),
    ])
}

fn host_fault(random: &mut Random, scope: Scope) -> HostFault {
    let ms = random.between(500, 9000);
    // Long enough for both ends to notice: keep-alives give up after 35 to 45
    // s.
    let cut_ms = if random.percent(15) { 50_000 } else { ms };
    let percent = random.between(5, 25) as u32;
    let always = [
        (4, HostFault::Cut { ms: cut_ms }),
        (4, HostFault::Freeze { ms }),
        (2, HostFault::Crash { ms }),
        (4, HostFault::HangUp),
    ];
    let isolated = [
        (4, HostFault::Lossy { percent, ms }),
        (2, HostFault::Fill { ms }),
        (1, HostFault::Move),
    ];
    let mut all = always.to_vec();
    if scope.isolated {
        all.extend(isolated);
    } else {
        // Without a boot id of its own, a crashed host looks like one whose
        // processes were killed.
        all.retain(|(_, fault)| !matches!(fault, HostFault::Crash { .. }));
    }
    random.weighted(&all)
}
