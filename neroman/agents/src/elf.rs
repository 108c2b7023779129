//! Requirements of a program on the machine that runs it, read from its ELF
//! headers.

use std::fmt;
use std::fs::File;
use std::io;
use std::path::Path;

use object::elf::{DT_NEEDED, EM_AARCH64, EM_X86_64, FileHeader64};
use object::read::elf::{Dyn as _, FileHeader as _, ProgramHeader as _};
use object::{Endianness, ReadCache};

/// A version of the GNU C library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Glibc(pub u32, pub u32);

impl fmt::Display for Glibc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

impl Glibc {
    /// Reads "2.17", or "2.3.4" without its last part, which we do not need.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.trim().split('.').map(|part| part.parse().ok());
        Some(Self(parts.next()??, parts.next()??))
    }
}

/// Requirements that a machine must meet to run a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Machine, as `uname -m` prints it; `None` for a machine that we do not
    /// build for.
    pub arch: Option<&'static str>,
    /// The program's dynamic loader; `None`: the program is static and runs
    /// with any C library.
    pub interpreter: Option<String>,
    /// Shared libraries by name.
    pub libraries: Vec<String>,
    /// The highest version of glibc that one of its symbols needs.
    pub glibc: Option<Glibc>,
}

/// Reads the requirements of the program at `path`.
///
/// # Errors
/// When the file cannot be read, or is no 64-bit ELF program.
pub fn needs(path: &Path) -> io::Result<Needs> {
    let cache = ReadCache::new(File::open(path)?);
    read(&cache).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))
}

fn read(data: &ReadCache<File>) -> object::read::Result<Needs> {
    let header = FileHeader64::<Endianness>::parse(data)?;
    let endian = header.endian()?;
    let mut interpreter = None;
    for segment in header.program_headers(endian, data)? {
        if let Some(name) = segment.interpreter(endian, data)? {
            interpreter = Some(text(name));
        }
    }
    let sections = header.sections(endian, data)?;
    let mut glibc = None;
    if let Some((needed, strings)) = sections.gnu_verneed(endian, data)? {
        let strings = sections.strings(endian, data, strings)?;
        for library in needed {
            let (_, versions) = library?;
            for version in versions {
                let name = text(version?.name(endian, strings)?);
                let found = name.strip_prefix("GLIBC_").and_then(Glibc::parse);
                glibc = glibc.max(found);
            }
        }
    }
    let mut libraries = Vec::new();
    if let Some((entries, strings)) = sections.dynamic(endian, data)? {
        let strings = sections.strings(endian, data, strings)?;
        for entry in entries {
            if entry.tag(endian) == DT_NEEDED {
                libraries.push(text(entry.string(endian, strings)?));
            }
        }
    }
    let arch = match header.e_machine(endian) {
        EM_X86_64 => Some("x86_64"),
        EM_AARCH64 => Some("aarch64"),
        _ => None,
    };
    Ok(Needs {
        arch,
        interpreter,
        libraries,
        glibc,
    })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
