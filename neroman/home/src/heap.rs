//! Memory that was freed and is still the process's.

/// Gives freed memory back to the system. The C library by itself gives back only what lies behind
/// the last part in use. With another C library than glibc this does nothing.
pub(crate) fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it gets no pointer, and takes the locks of the allocator.
    unsafe {
        libc::malloc_trim(0);
    }
}
