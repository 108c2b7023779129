//! What the process that turns a picture into PNG and its caller agree on.

/// The word of our program's command line that begins such a process; no verb for people.
/// The factor of its size follows; SVG is its input, PNG its output.
pub const VERB: &str = "raster-picture";
/// The address space of the process.
pub const ADDRESS_SPACE_MAX: u64 = 768 << 20;
/// Its time on a processor.
pub const CPU_SECONDS_MAX: u64 = 20;
/// The longest input and the longest output.
pub const PICTURE_BYTES_MAX: u64 = 64 << 20;
