//! Builds: the three programs of a node in one folder, named by what they hold.
//!
//! Builds lie side by side in a node's `bin/`. One appears whole, by a rename,
//! or not at all; a sound one is never touched again, since something may run
//! from it.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::ids::{base32, hex, random};

/// The programs of a node.
pub const PROGRAMS: [&str; 3] = ["neromum", "nerokid", "nerokid-shim"];
/// Characters of a build's name.
const NAME_CHARS: usize = 16;
/// Last bytes of a pack, behind the sizes of the three programs.
const MAGIC: &[u8; 8] = b"NEROPACK";
/// Bytes of a pack's end.
const END_BYTES: u64 = 3 * 8 + 8;

/// The paths of the programs in one folder.
pub fn inside(folder: &Path) -> [PathBuf; 3] {
    PROGRAMS.map(|name| folder.join(name))
}

/// The name of the build that these programs are, in the order of
/// [`PROGRAMS`]: the beginning of the hash over names, sizes and contents.
///
/// # Errors
/// Those of reading, with the program's path.
pub fn name_of(programs: &[PathBuf; 3]) -> Result<String, (PathBuf, io::Error)> {
    let mut hasher = blake3::Hasher::new();
    for (name, path) in PROGRAMS.iter().zip(programs) {
        hash(&mut hasher, name, path).map_err(|error| (path.clone(), error))?;
    }
    let mut name = base32(&hasher.finalize().as_bytes()[..10]);
    name.truncate(NAME_CHARS);
    Ok(name)
}

fn hash(hasher: &mut blake3::Hasher, name: &str, path: &Path) -> io::Result<()> {
    let mut file = File::open(path)?;
    hasher.update(name.as_bytes());
    hasher.update(&file.metadata()?.len().to_le_bytes());
    feed(hasher, &mut file)
}

fn feed(hasher: &mut blake3::Hasher, file: &mut File) -> io::Result<()> {
    let mut part = vec![0; 256 * 1024];
    loop {
        match file.read(&mut part)? {
            0 => return Ok(()),
            count => hasher.update(&part[..count]),
        };
    }
}

/// Whether a text has the form of a build's name.
pub fn is_name(text: &str) -> bool {
    text.len() == NAME_CHARS
        && text
            .bytes()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
}

/// Whether the contents of `folder` give the hash that is its name.
pub fn is_sound(folder: &Path) -> bool {
    let named = folder.file_name().and_then(|name| name.to_str());
    folder.is_dir() && name_of(&inside(folder)).is_ok_and(|found| Some(&*found) == named)
}

/// Name of one program in greetings, `0.1.0+abcdefgh`: the version and the first
/// characters of its hash.
///
/// # Errors
/// Those of reading.
pub fn program(path: &Path) -> io::Result<String> {
    Ok(format!("{}+{}", crate::VERSION, content(path)?))
}

/// The first characters of a program's hash.
///
/// # Errors
/// Those of reading.
pub fn content(path: &Path) -> io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    feed(&mut hasher, &mut File::open(path)?)?;
    Ok(base32(&hasher.finalize().as_bytes()[..5]))
}

/// The end of a pack: the three programs one after another, then this. A pack
/// begins with neromum, so it runs as neromum, and takes itself apart.
pub fn pack_end(sizes: [u64; 3]) -> Vec<u8> {
    let mut end: Vec<u8> = sizes.iter().flat_map(|size| size.to_le_bytes()).collect();
    end.extend_from_slice(MAGIC);
    end
}

/// Takes a pack apart into `folder`, which is made: modes 0700 and 0500,
/// everything synced.
///
/// # Errors
/// When the pack is cut off or is none (`InvalidData`), or a file cannot be read
/// or written.
pub fn unpack(pack: &Path, folder: &Path) -> io::Result<()> {
    use std::io::{Seek as _, SeekFrom};
    let torn = |what| io::Error::new(io::ErrorKind::InvalidData, what);
    let mut file = File::open(pack)?;
    let length = file.metadata()?.len();
    let programs_end = length.checked_sub(END_BYTES).ok_or(torn("it is cut off"))?;
    file.seek(SeekFrom::Start(programs_end))?;
    let mut end = [0; END_BYTES as usize];
    file.read_exact(&mut end)?;
    let (sizes, magic) = end.split_at(24);
    if magic != MAGIC {
        return Err(torn("it is cut off or changed"));
    }
    let sizes: Vec<u64> = sizes
        .chunks_exact(8)
        .map(|size| {
            size.iter()
                .rev()
                .fold(0, |all, byte| (all << 8) | u64::from(*byte))
        })
        .collect();
    if sizes
        .iter()
        .try_fold(0u64, |all, size| all.checked_add(*size))
        != Some(programs_end)
    {
        return Err(torn("its sizes do not fit"));
    }
    crate::paths::make_private(folder)?;
    file.seek(SeekFrom::Start(0))?;
    for (path, size) in inside(folder).iter().zip(sizes) {
        let mut program = create(path)?;
        if io::copy(&mut (&mut file).take(size), &mut program)? != size {
            return Err(torn("it became shorter"));
        }
        program.sync_all()?;
    }
    File::open(folder)?.sync_all()
}

/// Makes a new file of a program, open for writing, with mode 0500.
///
/// # Errors
/// When the file exists or cannot be made.
pub fn create(path: &Path) -> io::Result<File> {
    fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o500)
        .open(path)
}

/// Renames `private`, a synced folder on the same file system, to `name` in
/// `bin`. A sound build of that name stays, and `private` stays then, too;
/// anything else of that name is set aside.
///
/// # Errors
/// Errors of the file system; `InvalidData` when `private` is not the build
/// `name`.
pub fn place(private: &Path, bin: &Path, name: &str) -> io::Result<()> {
    let found = name_of(&inside(private)).map_err(|(_, error)| error)?;
    if found != name {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("what came is the build {found} and not {name}"),
        ));
    }
    let folder = bin.join(name);
    // Another process may place the same build between the check and the rename:
    // check again.
    for _ in 0..8 {
        if is_sound(&folder) {
            return Ok(());
        }
        if folder.symlink_metadata().is_ok() {
            set_aside(bin, &folder)?;
        }
        match fs::rename(private, &folder) {
            Ok(()) => return File::open(bin)?.sync_all(),
            Err(error) if taken(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::new(
        io::ErrorKind::AlreadyExists,
        format!(
            "something puts other programs at {} again and again",
            folder.display()
        ),
    ))
}

fn taken(error: &io::Error) -> bool {
    use io::ErrorKind;
    matches!(
        error.kind(),
        ErrorKind::AlreadyExists | ErrorKind::DirectoryNotEmpty | ErrorKind::NotADirectory
    )
}

/// Moves an unsound folder away from a build's name. Programs that run from it
/// go on.
///
/// # Errors
/// Errors of the file system. A folder that another process moved first is no
/// error.
pub fn set_aside(bin: &Path, folder: &Path) -> io::Result<()> {
    let aside = bin.join(format!(".unsound-{}", hex(&random::<8>())));
    match fs::rename(folder, aside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn programs(folder: &Path, contents: [&[u8]; 3]) {
        fs::create_dir_all(folder).unwrap();
        for (path, content) in inside(folder).iter().zip(contents) {
            fs::write(path, content).unwrap();
        }
    }

    fn pack(contents: [&[u8]; 3]) -> Vec<u8> {
        let mut all = contents.concat();
        all.extend(pack_end(contents.map(|content| content.len() as u64)));
        all
    }

    #[test]
    fn a_pack_comes_apart_whole_or_not_at_all() {
        let temp = tempfile::tempdir().unwrap();
        let contents: [&[u8]; 3] = [b"mum mum", b"", b"shim"];
        let whole = pack(contents);
        let (path, to) = (temp.path().join("pack"), temp.path().join("to"));
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            let error = unpack(&path, &to).unwrap_err();
            assert_eq!(
                error.kind(),
                io::ErrorKind::InvalidData,
                "{length}: {error}"
            );
            assert!(!to.exists());
        }
        fs::write(&path, &whole).unwrap();
        unpack(&path, &to).unwrap();
        for (path, content) in inside(&to).iter().zip(contents) {
            assert_eq!(fs::read(path).unwrap(), content);
        }
    }

    #[test]
    fn a_build_gets_its_name_once_and_what_is_unsound_is_set_aside() {
        let temp = tempfile::tempdir().unwrap();
        let bin = temp.path().join("bin");
        let private = |number: u32| {
            let folder = temp.path().join(format!("private{number}"));
            programs(&folder, [b"a", b"b", b"c"]);
            folder
        };
        fs::create_dir(&bin).unwrap();
        let name = name_of(&inside(&private(1))).unwrap();
        assert!(is_name(&name));
        place(&private(1), &bin, &name).unwrap();
        assert!(is_sound(&bin.join(&name)));
        // The second call finds the build and leaves its own folder alone.
        place(&private(2), &bin, &name).unwrap();
        assert!(temp.path().join("private2").exists());
        fs::write(bin.join(&name).join("nerokid"), "x").unwrap();
        place(&private(2), &bin, &name).unwrap();
        assert!(is_sound(&bin.join(&name)));
        fs::remove_dir_all(bin.join(&name)).unwrap();
        fs::write(bin.join(&name), "a file").unwrap();
        place(&private(3), &bin, &name).unwrap();
        let aside = fs::read_dir(&bin)
            .unwrap()
            .filter(|entry| {
                let name = entry.as_ref().unwrap().file_name();
                name.to_string_lossy().starts_with(".unsound-")
            })
            .count();
        assert_eq!(aside, 2);
        programs(&private(4), [b"a", b"b", b"other"]);
        let error = place(&private(4), &bin, "aaaaaaaaaaaaaaaa").unwrap_err();
        assert!(error.to_string().contains("and not aaaa"), "{error}");
    }
}
