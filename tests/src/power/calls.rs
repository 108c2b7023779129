//! Reads the output of `strace -f -y`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// A change of files that a system call made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A file was opened for writing, and made where it did not exist.
    Opened {
        /// Path of the file.
        path: PathBuf,
        /// Permission bits of a new file.
        mode: u32,
        /// Whether the file was emptied.
        truncated: bool,
    },
    /// Bytes were written, at the end when `at` is `None`.
    Wrote {
        /// Path of the file.
        path: PathBuf,
        /// Offset.
        at: Option<u64>,
        /// The bytes.
        data: Vec<u8>,
    },
    /// The kernel copied bytes to the end of the target.
    Copied {
        /// Source.
        from: PathBuf,
        /// Target.
        to: PathBuf,
        /// Number of bytes.
        bytes: u64,
    },
    /// The length was changed.
    Length {
        /// Path of the file.
        path: PathBuf,
        /// New length.
        bytes: u64,
        /// Whether a longer file keeps its length.
        grows: bool,
    },
    /// The mode was changed.
    Mode {
        /// Path of the file.
        path: PathBuf,
        /// Permission bits.
        mode: u32,
    },
    /// A new folder.
    Folder {
        /// Path of the folder.
        path: PathBuf,
        /// Permission bits.
        mode: u32,
    },
    /// A new symbolic link.
    Link {
        /// Path of the link.
        path: PathBuf,
        /// Target of the link.
        target: PathBuf,
    },
    /// A file got a further name.
    Linked {
        /// The present name.
        from: PathBuf,
        /// The new one.
        to: PathBuf,
    },
    /// A file was renamed.
    Renamed {
        /// Old name.
        from: PathBuf,
        /// New name.
        to: PathBuf,
    },
    /// A name was removed.
    Removed {
        /// The name.
        path: PathBuf,
    },
    /// A file or folder was synced.
    Synced {
        /// The file or folder.
        path: PathBuf,
    },
}

/// Name of an open file whose name was removed, as `strace` prints it. The file
/// may have other names.
pub fn lost_name(path: &Path) -> PathBuf {
    PathBuf::from(format!("{} (deleted)", path.display()))
}

/// The changes of a trace, in their order.
pub fn changes(trace: &[u8]) -> Vec<Change> {
    let mut begun: HashMap<&[u8], &[u8]> = HashMap::new();
    let mut found = Vec::new();
    for line in trace.split(|byte| *byte == b'\n') {
        let Some(blank) = line.iter().position(|byte| *byte == b' ') else {
            continue;
        };
        let (process, line) = (&line[..blank], line[blank..].trim_ascii_start());
        if let Some(first) = line.strip_suffix(b" <unfinished ...>") {
            begun.insert(process, first);
        } else if let Some(rest) = line.strip_prefix(b"<... ") {
            let Some(first) = begun.remove(process) else {
                continue;
            };
            let rest = find(rest, b" resumed>").map_or(&b""[..], |at| &rest[at + 9..]);
            found.extend(change(&[first, rest].concat()));
        } else {
            found.extend(change(line));
        }
    }
    found
}

/// The change that one line records; `None` where the call failed or changed
/// nothing.
fn change(line: &[u8]) -> Option<Change> {
    let call = Call::read(line)?;
    let args = &call.args;
    let at = |folder: usize, path: usize| Some(args.get(folder)?.below(&args.get(path)?.text()?));
    let plain = |path: usize| Some(args.get(path)?.text_path());
    Some(match call.name {
        "openat" => opened(at(0, 1)?, args.get(2)?, args.get(3))?,
        "open" => opened(plain(0)?, args.get(1)?, args.get(2))?,
        "write" => Change::Wrote {
            path: args.first()?.file()?,
            at: None,
            data: args.get(1)?.bytes(call.result)?,
        },
        "writev" => Change::Wrote {
            path: args.first()?.file()?,
            at: None,
            data: args.get(1)?.parts(call.result)?,
        },
        "pwrite64" => Change::Wrote {
            path: args.first()?.file()?,
            at: Some(args.get(3)?.number()?),
            data: args.get(1)?.bytes(call.result)?,
        },
        "pwritev" | "pwritev2" => Change::Wrote {
            path: args.first()?.file()?,
            at: Some(args.get(3)?.number()?),
            data: args.get(1)?.parts(call.result)?,
        },
        "copy_file_range" => Change::Copied {
            from: args.first()?.file()?,
            to: args.get(2)?.file()?,
            bytes: call.result,
        },
        // FICLONE copies the whole file: blocks are shared.
        "ioctl" if args.get(1)?.0.ends_with(b"FICLONE") => Change::Copied {
            from: args.get(2)?.file()?,
            to: args.first()?.file()?,
            bytes: u64::MAX,
        },
        "sendfile" => Change::Copied {
            from: args.get(1)?.file()?,
            to: args.first()?.file()?,
            bytes: call.result,
        },
        "ftruncate" => Change::Length {
            path: args.first()?.file()?,
            bytes: args.get(1)?.number()?,
            grows: false,
        },
        "fallocate" if args.get(1)?.0 == b"0" => Change::Length {
            path: args.first()?.file()?,
            bytes: args.get(2)?.number()? + args.get(3)?.number()?,
            grows: true,
        },
        "fchmod" => Change::Mode {
            path: args.first()?.file()?,
            mode: args.get(1)?.mode()?,
        },
        "chmod" => Change::Mode {
            path: plain(0)?,
            mode: args.get(1)?.mode()?,
        },
        "fchmodat" => Change::Mode {
            path: at(0, 1)?,
            mode: args.get(2)?.mode()?,
        },
        "mkdir" => Change::Folder {
            path: plain(0)?,
            mode: args.get(1)?.mode()?,
        },
        "mkdirat" => Change::Folder {
            path: at(0, 1)?,
            mode: args.get(2)?.mode()?,
        },
        "symlink" => Change::Link {
            target: plain(0)?,
            path: plain(1)?,
        },
        "symlinkat" => Change::Link {
            target: plain(0)?,
            path: at(1, 2)?,
        },
        "link" => Change::Linked {
            from: plain(0)?,
            to: plain(1)?,
        },
        "linkat" => Change::Linked {
            from: at(0, 1)?,
            to: at(2, 3)?,
        },
        "rename" => Change::Renamed {
            from: plain(0)?,
            to: plain(1)?,
        },
        "renameat" | "renameat2" => Change::Renamed {
            from: at(0, 1)?,
            to: at(2, 3)?,
        },
        "unlink" | "rmdir" => Change::Removed { path: plain(0)? },
        "unlinkat" => Change::Removed { path: at(0, 1)? },
        "fsync" | "fdatasync" | "syncfs" => Change::Synced {
            path: args.first()?.file()?,
        },
        _ => return None,
    })
}

fn opened(path: PathBuf, flags: &Arg<'_>, mode: Option<&Arg<'_>>) -> Option<Change> {
    let has = |flag: &[u8]| flags.0.split(|byte| *byte == b'|').any(|one| one == flag);
    let (made, truncated) = (has(b"O_CREAT"), has(b"O_TRUNC"));
    (made || truncated).then(|| Change::Opened {
        path,
        mode: mode.and_then(Arg::mode).unwrap_or(0o600),
        truncated,
    })
}

/// `name(argument, …) = result`.
struct Call<'a> {
    name: &'a str,
    args: Vec<Arg<'a>>,
    result: u64,
}

impl<'a> Call<'a> {
    /// `None` when the call failed.
    fn read(line: &'a [u8]) -> Option<Self> {
        let open = line.iter().position(|byte| *byte == b'(')?;
        let name = std::str::from_utf8(&line[..open]).ok()?;
        let (args, end) = arguments(&line[open + 1..])?;
        let rest = line[open + 1 + end..].trim_ascii_start();
        let result = rest.strip_prefix(b"= ")?;
        let digits = result.iter().take_while(|byte| byte.is_ascii_digit());
        let result = std::str::from_utf8(&result[..digits.count()]).ok()?;
        Some(Self {
            name,
            args,
            result: result.parse().ok()?,
        })
    }
}

/// The arguments, and the position behind their bracket.
fn arguments(text: &[u8]) -> Option<(Vec<Arg<'_>>, usize)> {
    let (mut args, mut begin, mut depth) = (Vec::new(), 0, 0_u32);
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b'"' => at = quote_end(text, at)?,
            b'<' => at += text[at..].iter().position(|byte| *byte == b'>')?,
            b'[' | b'{' | b'(' => depth += 1,
            b']' | b'}' => depth -= 1,
            b')' if depth == 0 => {
                args.push(Arg(text[begin..at].trim_ascii()));
                return Some((args, at + 1));
            }
            b')' => depth -= 1,
            b',' if depth == 0 => {
                args.push(Arg(text[begin..at].trim_ascii()));
                begin = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// Position of the closing quote of the text that begins at `at`.
fn quote_end(text: &[u8], at: usize) -> Option<usize> {
    let mut end = at + 1;
    while *text.get(end)? != b'"' {
        end += if text[end] == b'\\' { 2 } else { 1 };
    }
    Some(end)
}

/// One argument as `strace` printed it.
struct Arg<'a>(&'a [u8]);

impl Arg<'_> {
    /// The path of an open file; for one without a name, its removed name, see
    /// [`lost_name`].
    fn file(&self) -> Option<PathBuf> {
        let open = self.0.iter().position(|byte| *byte == b'<')?;
        let close = self.0.iter().rposition(|byte| *byte == b'>')?;
        let path = std::str::from_utf8(&self.0[open + 1..close]).ok()?;
        let path = path.starts_with('/').then(|| PathBuf::from(path))?;
        Some(if self.0.ends_with(b"(deleted)") {
            lost_name(&path)
        } else {
            path
        })
    }

    /// A path that is relative to this open folder.
    fn below(&self, path: &Path) -> PathBuf {
        self.file().unwrap_or_default().join(path)
    }

    fn text(&self) -> Option<PathBuf> {
        let bytes = unquoted(self.0)?;
        Some(PathBuf::from(String::from_utf8(bytes).ok()?))
    }

    fn text_path(&self) -> PathBuf {
        self.text().unwrap_or_default()
    }

    fn bytes(&self, count: u64) -> Option<Vec<u8>> {
        let mut bytes = unquoted(self.0)?;
        bytes.truncate(usize::try_from(count).ok()?);
        Some(bytes)
    }

    /// The bytes of a list of buffers.
    fn parts(&self, count: u64) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut rest = self.0;
        while let Some(quote) = rest.iter().position(|byte| *byte == b'"') {
            let end = quote_end(rest, quote)?;
            bytes.extend(unquoted(&rest[quote..=end])?);
            rest = &rest[end + 1..];
        }
        bytes.truncate(usize::try_from(count).ok()?);
        Some(bytes)
    }

    fn number(&self) -> Option<u64> {
        std::str::from_utf8(self.0).ok()?.parse().ok()
    }

    fn mode(&self) -> Option<u32> {
        u32::from_str_radix(std::str::from_utf8(self.0).ok()?, 8).ok()
    }
}

/// The bytes of a text in quotes.
fn unquoted(text: &[u8]) -> Option<Vec<u8>> {
    let inner = text.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    let mut bytes = Vec::with_capacity(inner.len());
    let mut at = 0;
    while at < inner.len() {
        if inner[at] != b'\\' {
            bytes.push(inner[at]);
            at += 1;
            continue;
        }
        let escaped = *inner.get(at + 1)?;
        at += 2;
        bytes.push(match escaped {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'v' => 11,
            b'f' => 12,
            b'0'..=b'7' => {
                let digits = inner[at - 1..].iter().take(3);
                let count = digits
                    .take_while(|byte| (b'0'..=b'7').contains(byte))
                    .count();
                let digits = std::str::from_utf8(&inner[at - 1..at - 1 + count]).ok()?;
                at += count - 1;
                u8::try_from(u32::from_str_radix(digits, 8).ok()?).ok()?
            }
            other => other,
        });
    }
    Some(bytes)
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|part| part == what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_strace_are_changes() {
        let trace =
            br#"7 openat(AT_FDCWD</w>, "h/a", O_WRONLY|O_CREAT|O_TRUNC|O_CLOEXEC, 0640) = 3</w/h/a>
7 write(3</w/h/a>, "h\303\251 \"x\"\n\0012", 9) = 9
8 pwrite64(4</w/h/b>, "ab", 2, 4096 <unfinished ...>
7 renameat2(AT_FDCWD</w>, "h/a", AT_FDCWD</w>, "/c, d", RENAME_NOREPLACE) = 0
8 <... pwrite64 resumed>) = 1
7 mkdir("/w/no", 0777) = -1 EEXIST (File exists)
7 fsync(3</w/h/a>(deleted)) = -1 EIO (Input/output error)
7 fdatasync(3</w/h>) = 0
"#;
        let path = PathBuf::from;
        let expected = [
            Change::Opened {
                path: path("/w/h/a"),
                mode: 0o640,
                truncated: true,
            },
            Change::Wrote {
                path: path("/w/h/a"),
                at: None,
                data: b"h\xc3\xa9 \"x\"\n\x012"[..9].to_vec(),
            },
            Change::Renamed {
                from: path("/w/h/a"),
                to: path("/c, d"),
            },
            Change::Wrote {
                path: path("/w/h/b"),
                at: Some(4096),
                data: b"a".to_vec(),
            },
            Change::Synced { path: path("/w/h") },
        ];
        assert_eq!(changes(trace), expected);
    }
}
