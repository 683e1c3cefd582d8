//! The disk cache of images. Two processes may use it at once: files appear whole, under names that say what they hold.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use super::Key;
use super::seal::{seal, unseal};

/// Some thousand images.
pub const DEFAULT_MAX_BYTES: u64 = 512 << 20;

/// What a writer that died leaves behind is removed after this.
const TEMPORARY_LIFE: Duration = Duration::from_secs(3600);

const IMAGE: &str = "bin";
const LOG: &str = "log";
const TEMPORARY: &str = "tmp";

/// `layercake/kernels` in the user's cache folder (`$XDG_CACHE_HOME` or `~/.cache`).
pub fn default_dir() -> Option<PathBuf> {
    use etcetera::BaseStrategy;
    Some(etcetera::choose_base_strategy().ok()?.cache_dir().join("layercake").join("kernels"))
}

/// What a cache holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CacheUse {
    pub n_images: usize,
    /// Of images and logs.
    pub n_bytes: u64,
}

/// A folder of images. It need not exist.
#[derive(Clone, Debug)]
pub struct Cache {
    dir: PathBuf,
    max_bytes: u64,
}

struct Entry {
    path: PathBuf,
    n_bytes: u64,
    used: SystemTime,
}

impl Entry {
    fn is(&self, extension: &str) -> bool {
        self.path.extension().is_some_and(|e| e == extension)
    }
}

impl Cache {
    pub fn new(dir: PathBuf, max_bytes: u64) -> Cache {
        Cache { dir, max_bytes }
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    fn path(&self, key: &Key, extension: &str) -> PathBuf {
        self.dir.join(format!("{}.{extension}", key.as_str()))
    }

    /// An image, marked as used now. A damaged file is removed.
    pub fn get(&self, key: &Key) -> Option<Vec<u8>> {
        let path = self.path(key, IMAGE);
        let image = unseal(std::fs::read(&path).ok()?);
        match image {
            // Who may only read the folder cannot mark it, which costs nothing but order.
            Some(_) => drop(touch(&path)),
            None => {
                tracing::warn!(file = %path.display(), "a damaged image in the kernel cache is removed");
                drop(std::fs::remove_file(&path));
            }
        }
        image
    }

    /// # Errors
    /// Of writing: a folder that may only be read, a full disk.
    pub fn put(&self, key: &Key, image: &[u8]) -> io::Result<()> {
        self.write(&self.path(key, IMAGE), &seal(image))
    }

    /// Keeps what a compiler said.
    pub fn put_log(&self, key: &Key, log: &str) -> io::Result<PathBuf> {
        let path = self.path(key, LOG);
        self.write(&path, log.as_bytes())?;
        Ok(path)
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        std::fs::create_dir_all(&self.dir)?;
        replace(path, bytes)
    }

    /// Removes what was used longest ago until the rest fits.
    pub fn trim(&self) -> io::Result<()> {
        let mut entries = self.entries()?;
        let is_stale = |e: &Entry| e.is(TEMPORARY) && e.used.elapsed().is_ok_and(|age| age > TEMPORARY_LIFE);
        entries.iter().filter(|e| is_stale(e)).for_each(|e| drop(std::fs::remove_file(&e.path)));
        entries.retain(|e| !e.is(TEMPORARY));
        entries.sort_by_key(|e| e.used);
        let mut n_bytes: u64 = entries.iter().map(|e| e.n_bytes).sum();
        for entry in entries {
            if n_bytes <= self.max_bytes {
                break;
            }
            // Another process may have removed it: that is as good.
            drop(std::fs::remove_file(&entry.path));
            n_bytes -= entry.n_bytes;
        }
        Ok(())
    }

    pub fn usage(&self) -> io::Result<CacheUse> {
        let entries = self.entries()?;
        let n_images = entries.iter().filter(|e| e.is(IMAGE)).count();
        Ok(CacheUse { n_images, n_bytes: entries.iter().map(|e| e.n_bytes).sum() })
    }

    /// Removes all images and logs; says what there was.
    pub fn clear(&self) -> io::Result<CacheUse> {
        let was = self.usage()?;
        for entry in self.entries()? {
            match std::fs::remove_file(&entry.path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        Ok(was)
    }

    /// Files of ours; none where there is no folder.
    fn entries(&self) -> io::Result<Vec<Entry>> {
        let folder = match std::fs::read_dir(&self.dir) {
            Ok(folder) => folder,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
            Err(error) => return Err(error),
        };
        let mut entries = Vec::new();
        for file in folder.flatten() {
            let Ok(facts) = file.metadata() else { continue };
            let used = facts.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            let entry = Entry { path: file.path(), n_bytes: facts.len(), used };
            if facts.is_file() && [IMAGE, LOG, TEMPORARY].into_iter().any(|extension| entry.is(extension)) {
                entries.push(entry);
            }
        }
        Ok(entries)
    }
}

/// Writes a file beside its place and puts it there whole.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    let stem = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = path.with_file_name(format!("{stem}.{}.{number}.{TEMPORARY}", std::process::id()));
    let written = std::fs::write(&temporary, bytes).and_then(|()| std::fs::rename(&temporary, path));
    if written.is_err() {
        drop(std::fs::remove_file(&temporary));
    }
    written
}

fn touch(path: &Path) -> io::Result<()> {
    std::fs::File::options().append(true).open(path)?.set_modified(SystemTime::now())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::gpu::compile::Job;

    fn key(n: usize) -> Key {
        let (unit, file_name, text, arch) = (n.to_string(), "x.cu".into(), n.to_string(), "sm_80".into());
        Job { unit, file_name, text, options: vec![], arch }.key()
    }

    fn cache(max_bytes: u64) -> (tempfile::TempDir, Cache) {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path().join("a/b"), max_bytes);
        (folder, cache)
    }

    fn set_age(cache: &Cache, key: &Key, seconds: u64) {
        let file = std::fs::File::options().append(true).open(cache.path(key, IMAGE)).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).unwrap();
    }

    #[test]
    fn images_come_back_and_damaged_ones_are_removed() {
        let (_folder, cache) = cache(1 << 20);
        assert_eq!(cache.get(&key(1)), None);
        cache.put(&key(1), b"image").unwrap();
        assert_eq!(cache.get(&key(1)).as_deref(), Some(&b"image"[..]));
        let path = cache.path(&key(1), IMAGE);
        let mut bytes = std::fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 0x40;
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(cache.get(&key(1)), None);
        assert!(!path.exists());
        cache.put(&key(1), b"image").unwrap();
        assert_eq!(cache.get(&key(1)).as_deref(), Some(&b"image"[..]));
    }

    #[test]
    fn what_was_used_longest_ago_goes_first() {
        let (_folder, cache) = cache(3 * 1100);
        for n in 0..4 {
            cache.put(&key(n), &[7; 1000]).unwrap();
            set_age(&cache, &key(n), 1000 - n as u64);
        }
        // Using the oldest one makes it the youngest.
        cache.get(&key(0)).unwrap();
        cache.trim().unwrap();
        let kept: Vec<_> = (0..4).filter(|n| cache.path(&key(*n), IMAGE).exists()).collect();
        assert_eq!(kept, [0, 2, 3]);
        assert!(cache.usage().unwrap().n_bytes <= 3 * 1100);
    }

    #[test]
    fn what_a_dead_writer_left_goes_and_other_files_stay() {
        let (_folder, cache) = cache(0);
        cache.put(&key(1), b"image").unwrap();
        let (old, new) = (cache.dir().join("x.bin.1.2.tmp"), cache.dir().join("y.bin.1.2.tmp"));
        let foreign = cache.dir().join("README");
        [&old, &new, &foreign].into_iter().for_each(|path| std::fs::write(path, "x").unwrap());
        let file = std::fs::File::options().append(true).open(&old).unwrap();
        file.set_modified(SystemTime::now() - 2 * TEMPORARY_LIFE).unwrap();
        cache.trim().unwrap();
        assert_eq!([old.exists(), new.exists(), foreign.exists()], [false, true, true]);
        assert_eq!(cache.usage().unwrap().n_images, 0);
    }

    #[test]
    fn two_writers_of_one_image_never_show_half_of_it() {
        let (_folder, cache) = cache(1 << 30);
        let image = |n: u8| vec![n; 300_000];
        std::thread::scope(|scope| {
            for n in [1, 2] {
                let cache = cache.clone();
                scope.spawn(move || (0..50).for_each(|_| cache.put(&key(0), &image(n)).unwrap()));
            }
            for _ in 0..200 {
                // A damaged file would be removed and be missing.
                let got = std::fs::read(cache.path(&key(0), IMAGE)).ok().map(|file| unseal(file).unwrap());
                assert!(got.is_none_or(|got| got == image(1) || got == image(2)));
            }
        });
        assert!(cache.get(&key(0)).is_some());
        assert_eq!(cache.usage().unwrap(), CacheUse { n_images: 1, n_bytes: 300_048 });
    }

    #[test]
    fn clearing_says_what_there_was() {
        let (_folder, cache) = cache(1 << 20);
        assert_eq!(cache.clear().unwrap(), CacheUse::default());
        cache.put(&key(1), b"12").unwrap();
        cache.put_log(&key(1), "345").unwrap();
        assert_eq!(cache.clear().unwrap(), CacheUse { n_images: 1, n_bytes: 48 + 2 + 3 });
        assert_eq!(cache.usage().unwrap(), CacheUse::default());
    }
}
