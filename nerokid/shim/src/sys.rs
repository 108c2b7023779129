//! System calls that rustix does not have in the form we need. All `unsafe`
//! of this program is here.
//!
//! Owns nothing but thin wrappers; called by everything else; decides nothing.
//! Code that runs between `fork` and `execve` allocates nothing.

use std::ffi::{CStr, CString};
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd as _, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::AtomicI32;
use std::time::Duration;

use crate::slot::{PER_PAGE, Slot};

/// The side of a fork that this process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForkSide {
    /// The caller; its new child's number.
    Parent(i32),
    /// The new process.
    Child,
}

/// Forks.
///
/// # Errors
/// When the kernel refuses (memory, number of processes).
pub fn fork() -> io::Result<ForkSide> {
    // SAFETY: this program has one thread in all its processes, so the child's
    // memory is as consistent as the parent's.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(ForkSide::Child),
        pid => Ok(ForkSide::Parent(pid)),
    }
}

/// Memory for the stack of a [`fork_borrowing`] child. Made once, by the
/// launcher; each shim has a copy of its own and touches the top of it only.
#[derive(Clone, Copy, Debug)]
pub struct ChildStack {
    top: *mut libc::c_void,
}

impl ChildStack {
    const BYTES: usize = 256 * 1024;

    /// Takes the address space.
    ///
    /// # Errors
    /// When there is no address space.
    pub fn new() -> io::Result<Self> {
        let bottom = map(Self::BYTES, libc::MAP_PRIVATE)?;
        Ok(Self {
            // SAFETY: one past the end of the mapping just made.
            top: unsafe { bottom.byte_add(Self::BYTES) },
        })
    }
}

/// New memory, zeroed, aligned to a page, and never given back.
fn map(bytes: usize, sharing: libc::c_int) -> io::Result<*mut libc::c_void> {
    // SAFETY: asks for memory at an address of the kernel's choice, replacing
    // nothing.
    let memory = unsafe {
        libc::mmap(
            ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            sharing | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    match memory {
        libc::MAP_FAILED => Err(io::Error::last_os_error()),
        memory => Ok(memory),
    }
}

/// Starts a process that uses this one's memory, and waits until it executes
/// another program or leaves; unlike [`fork`] it copies nothing. Its number is
/// in `pid` before it runs its first instruction, and stays there should we be
/// killed while waiting.
///
/// `child` sees and changes our variables. It must execute or leave, drop
/// nothing of ours, and neither allocate nor panic.
///
/// # Errors
/// When the kernel refuses (memory, number of processes).
pub fn fork_borrowing(
    stack: ChildStack,
    pid: &AtomicI32,
    mut child: &mut dyn FnMut(),
) -> io::Result<i32> {
    extern "C" fn enter(child: *mut libc::c_void) -> libc::c_int {
        // SAFETY: the pointer passed below, to a local of the waiting parent.
        let child = unsafe { &mut *child.cast::<&mut dyn FnMut()>() };
        child();
        leave(127)
    }
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PARENT_SETTID | libc::SIGCHLD;
    // SAFETY: the child runs on a stack of its own that is never given back;
    // closure and number outlive it, since the kernel lets us go on only when
    // the child has left this memory. With one thread, and the parent standing
    // still, no other code touches it meanwhile.
    let cloned = unsafe {
        libc::clone(
            enter,
            stack.top,
            flags,
            ptr::from_mut(&mut child).cast(),
            pid.as_ptr(),
        )
    };
    match cloned {
        -1 => Err(io::Error::last_os_error()),
        pid => Ok(pid),
    }
}

/// Leaves at once, running no destructor and no exit handler: those belong to
/// the process that was forked.
pub fn leave(code: i32) -> ! {
    // SAFETY: takes a number and does not return.
    unsafe { libc::_exit(code) }
}

/// Strings for `execve`, laid out before the fork.
#[derive(Debug)]
pub struct Strings {
    // Behind `pointers`; never changed after they were taken.
    _bytes: Vec<u8>,
    pointers: Vec<*const libc::c_char>,
}

impl Strings {
    /// Lays the strings out; none when one holds a zero byte.
    pub fn new<'a>(strings: impl Iterator<Item = &'a [u8]> + Clone) -> Option<Self> {
        let mut bytes = Vec::with_capacity(strings.clone().map(|one| one.len() + 1).sum());
        let mut starts = Vec::with_capacity(strings.clone().count());
        for one in strings {
            if one.contains(&0) {
                return None;
            }
            starts.push(bytes.len());
            bytes.extend_from_slice(one);
            bytes.push(0);
        }
        let pointers = starts
            .iter()
            .map(|start| bytes[*start..].as_ptr().cast())
            .chain([ptr::null()])
            .collect();
        Some(Self {
            _bytes: bytes,
            pointers,
        })
    }
}

/// Becomes another program. Returns the error number if that fails.
pub fn exec(path: &CStr, argv: &Strings, env: &Strings) -> i32 {
    // SAFETY: the path ends with zero; both arrays end with a null pointer and
    // point into bytes that `Strings` owns, each string ending with zero.
    unsafe { libc::execve(path.as_ptr(), argv.pointers.as_ptr(), env.pointers.as_ptr()) };
    errno()
}

/// The last system call's error number.
fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// End of a child.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChildEnd {
    /// Pid of the child, its own until it is reaped.
    pub pid: i32,
    /// Exit code; meaningless when `signal` is set.
    pub code: i32,
    /// Signal that killed it, or 0.
    pub signal: i32,
    /// Whether the child left a core file.
    pub core_dumped: bool,
    /// CPU time in user mode, of it and the children it waited for.
    pub user_us: u64,
    /// CPU time in the kernel.
    pub system_us: u64,
    /// Largest resident set of any one of them.
    pub peak_rss_bytes: u64,
}

/// Result of looking for ended children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildrenState {
    /// One ended. It stays a zombie until [`reap`].
    Ended(ChildEnd),
    /// There are children; none has ended.
    Alive,
    /// There is no child at all.
    Childless,
}

/// Looks for any ended child without reaping it, so that its end can be
/// recorded before the kernel forgets it.
pub fn children_state() -> ChildrenState {
    look_at(libc::P_ALL, 0)
}

/// Looks whether this child has ended, without reaping it.
pub fn look_for(pid: i32) -> ChildrenState {
    look_at(libc::P_PID, pid as libc::id_t)
}

fn look_at(kind: libc::idtype_t, id: libc::id_t) -> ChildrenState {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // The C library's waitid has no place for the usage, the system call has.
    // SAFETY: both pointers are valid for writes of their types.
    let done = unsafe {
        libc::syscall(
            libc::SYS_waitid,
            kind,
            id,
            info.as_mut_ptr(),
            flags,
            usage.as_mut_ptr(),
        )
    };
    if done != 0 {
        return match errno() {
            libc::ECHILD => ChildrenState::Childless,
            _ => ChildrenState::Alive,
        };
    }
    // SAFETY: zeroed bytes are valid for both, and the kernel wrote over them.
    let (info, usage) = unsafe { (info.assume_init(), usage.assume_init()) };
    // SAFETY: waitid fills the fields of a SIGCHLD, or leaves them zero.
    let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
    if pid == 0 {
        return ChildrenState::Alive;
    }
    let exited = info.si_code == libc::CLD_EXITED;
    let micros = |time: libc::timeval| {
        time.tv_sec as u64 * 1_000_000 + u64::try_from(time.tv_usec).unwrap_or(0)
    };
    ChildrenState::Ended(ChildEnd {
        pid,
        code: if exited { status } else { 0 },
        signal: if exited { 0 } else { status },
        core_dumped: info.si_code == libc::CLD_DUMPED,
        user_us: micros(usage.ru_utime),
        system_us: micros(usage.ru_stime),
        peak_rss_bytes: usage.ru_maxrss as u64 * 1024,
    })
}

/// Returns a stopped child whose stop was not reported yet.
pub fn next_stopped() -> Option<i32> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    // SAFETY: the pointer is valid for writes of its type.
    let done = unsafe {
        libc::waitid(
            libc::P_ALL,
            0,
            info.as_mut_ptr(),
            libc::WSTOPPED | libc::WNOHANG,
        )
    };
    // SAFETY: zeroed bytes are valid, and the kernel wrote over them; waitid
    // fills the fields of a SIGCHLD, or leaves them zero.
    let pid = unsafe { info.assume_init().si_pid() };
    (done == 0 && pid != 0).then_some(pid)
}

/// Reaps one ended child.
pub fn reap(pid: i32) {
    // SAFETY: a null status pointer is allowed.
    while unsafe { libc::waitpid(pid, ptr::null_mut(), 0) } == -1 && errno() == libc::EINTR {}
}

fn signals(some: &[i32]) -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the set; sigaddset only refuses numbers
    // that are no signal.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in some {
            libc::sigaddset(set.as_mut_ptr(), *signal);
        }
        set.assume_init()
    }
}

/// Blocks every signal. Signals sent meanwhile are fetched with
/// [`wait_for_signal`] or a signalfd, or never act.
pub fn block_signals() {
    set_mask(u64::MAX);
}

/// Blocks the signal of a child's end, for [`wait_for_signal`] in a process that other signals
/// shall reach.
pub fn block_child_signal() {
    let set = signals(&[libc::SIGCHLD]);
    // SAFETY: the set is initialised; the old one is not asked for.
    unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut()) };
}

/// Lets every signal through.
pub fn unblock_signals() {
    set_mask(0);
}

/// The kernel's own call: the C library keeps two signals to itself.
fn set_mask(mask: u64) {
    // SAFETY: the mask has the given length and lives until the call returns;
    // the old one is not asked for.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const mask,
            ptr::null_mut::<u64>(),
            size_of::<u64>(),
        )
    };
}

/// Gives every signal its default action, whatever was inherited or set by
/// the language's start-up. The kernel's own call, as above.
pub fn default_signals() {
    // Handler, flags, restorer, mask: zeros mean the default in any order.
    let default = [0u64; 4];
    for signal in 1..=64 {
        // SAFETY: the structure is as long as any of the kernel's and lives
        // until the call returns. SIGKILL and SIGSTOP refuse.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                default.as_ptr(),
                ptr::null_mut::<u64>(),
                size_of::<u64>(),
            )
        };
    }
}

/// Reason why a shim woke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeCause {
    /// A child ended (or stopped).
    Child,
    /// Something lies in the control folder.
    Doorbell,
    /// The scheduler wants this start to end.
    EndStart,
    /// The time is over, or there was a spurious wake-up.
    Time,
}

/// Waits for a child's end or one of the launcher's signals. The caller must have
/// blocked them.
pub fn wait_for_signal(timeout: Option<Duration>) -> WakeCause {
    let set = signals(&[libc::SIGCHLD, libc::SIGUSR1, libc::SIGUSR2]);
    let time = timeout.map(|time| libc::timespec {
        tv_sec: time.as_secs() as _,
        tv_nsec: libc::c_long::from(time.subsec_nanos() as i32),
    });
    let time = time.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: the set is initialised, no information is asked for, and the
    // time is null or lives until the call returns.
    match unsafe { libc::sigtimedwait(&raw const set, ptr::null_mut(), time) } {
        libc::SIGCHLD => WakeCause::Child,
        libc::SIGUSR1 => WakeCause::Doorbell,
        libc::SIGUSR2 => WakeCause::EndStart,
        _ => WakeCause::Time,
    }
}

/// A descriptor that reads the launcher's signals.
///
/// # Errors
/// When there are no descriptors left.
pub fn signal_fd() -> io::Result<OwnedFd> {
    let set = signals(&[
        libc::SIGCHLD,
        libc::SIGUSR1,
        libc::SIGUSR2,
        libc::SIGTERM,
        libc::SIGINT,
        libc::SIGHUP,
    ]);
    // SAFETY: the set is initialised; -1 asks for a new descriptor.
    let fd = unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor just made, without another owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The signal numbers that wait in a signalfd; empties it.
pub fn drain_signals(fd: &OwnedFd, mut each: impl FnMut(i32)) {
    const ONE: usize = size_of::<libc::signalfd_siginfo>();
    let mut buffer = [0u8; ONE * 4];
    while let Ok(read @ 1..) = rustix::io::read(fd, &mut buffer) {
        for one in buffer[..read].as_chunks::<ONE>().0 {
            // The signal's number is the first field.
            each(u32::from_ne_bytes([one[0], one[1], one[2], one[3]]) as i32);
        }
        if read < buffer.len() {
            break;
        }
    }
}

/// Makes this process the parent of its descendants' orphans.
pub fn become_subreaper() -> bool {
    // SAFETY: takes numbers only.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0 }
}

/// Closes every descriptor from `first` on. False on kernels that cannot.
pub fn close_from(first: RawFd) -> bool {
    // SAFETY: the caller owns the process, which has just been started or
    // forked, and uses no descriptor from `first` on any more.
    unsafe { libc::syscall(libc::SYS_close_range, first, RawFd::MAX, 0) == 0 }
}

/// Closes one descriptor by number, whether or not it is open.
pub fn close(fd: RawFd) {
    // SAFETY: as for `close_from`.
    unsafe { libc::close(fd) };
}

/// Opens a handle on a process.
///
/// # Errors
/// `ESRCH` when there is no such process, `ENOSYS` before Linux 5.3.
pub fn pidfd_open(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers only.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor just made, without another owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// Sends a signal through a handle: it reaches that process or none.
///
/// # Errors
/// `ESRCH` when it is gone, `EPERM` when it is out of reach.
pub fn pidfd_signal(fd: &OwnedFd, signal: i32) -> io::Result<()> {
    use std::os::fd::AsRawFd as _;
    // SAFETY: the descriptor is open; a null siginfo asks for a plain signal.
    let sent = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            fd.as_raw_fd(),
            signal,
            ptr::null::<libc::siginfo_t>(),
            0,
        )
    };
    (sent == 0)
        .then_some(())
        .ok_or_else(io::Error::last_os_error)
}

/// Sends a signal by number: for children not yet reaped, and for processes
/// just identified on kernels without handles.
///
/// # Errors
/// `ESRCH` when there is none, `EPERM` when it is out of reach.
pub fn kill(pid: i32, signal: i32) -> io::Result<()> {
    debug_assert!(pid > 0, "no groups, never everybody");
    // SAFETY: takes numbers only.
    (unsafe { libc::kill(pid, signal) } == 0)
        .then_some(())
        .ok_or_else(io::Error::last_os_error)
}

/// A page of empty slots that this process and all it forks see alike. It is
/// never given back.
///
/// # Errors
/// When there is no memory.
pub fn shared_slots() -> io::Result<&'static [Slot; PER_PAGE]> {
    let page = map(size_of::<[Slot; PER_PAGE]>(), libc::MAP_SHARED)?;
    // SAFETY: the memory is zeroed (a valid `Slot` is made of atomic numbers
    // only), aligned to a page, large enough, and stays for ever.
    Ok(unsafe { &*page.cast::<[Slot; PER_PAGE]>() })
}

/// Moves open descriptors, in ascending order from 3 on, to the numbers from 3 on; they
/// close themselves at `execve`. Returns the number after the last.
pub fn move_down(descriptors: &[RawFd]) -> RawFd {
    let mut next = 3;
    for descriptor in descriptors {
        if *descriptor > next {
            // SAFETY: plain numbers; what is closed at `next` is not used any more, since
            // every descriptor still to be moved has a higher number.
            let _ = unsafe { libc::dup3(*descriptor, next, libc::O_CLOEXEC) };
        }
        next += 1;
    }
    next
}

/// Locks a range of bytes for all processes that have this open file description. `EBUSY`
/// when another open file has a lock there.
///
/// # Errors
/// When it is locked, or cannot be.
pub fn lock_range(file: &OwnedFd, start: u32, length: u32) -> io::Result<()> {
    let lock = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: libc::off_t::from(start),
        l_len: libc::off_t::from(length),
        l_pid: 0,
    };
    // SAFETY: the descriptor is open, and the kernel only reads `lock`. rustix has no call
    // for locks of open files.
    let locked = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) };
    if locked == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EACCES) => Err(io::Error::from_raw_os_error(libc::EBUSY)),
        _ => Err(error),
    }
}

/// Clock ticks in a second, as `/proc` counts them.
pub fn ticks_per_second() -> i64 {
    // SAFETY: takes a number.
    unsafe { libc::sysconf(libc::_SC_CLK_TCK) }
}

/// A path for the kernel; none when it holds a zero byte.
pub fn path(bytes: impl Into<Vec<u8>>) -> Option<CString> {
    CString::new(bytes).ok()
}
