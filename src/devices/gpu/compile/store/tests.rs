use std::path::Path;
use std::sync::atomic::AtomicUsize;
use std::time::Instant;

use super::*;
use crate::devices::gpu::unit::Source;

fn chip(arch: &str) -> Chip {
    let arch: Arch = arch.parse().unwrap();
    Chip { arch, wave_size: arch.wave_size(), n_multiprocessors: 8 }
}

fn units(numbers: impl IntoIterator<Item = i64>) -> Vec<Unit> {
    numbers.into_iter().map(|n| Unit::new(Source::Rows, &[("LC_TEST", n)])).collect()
}

fn options(runner: Runner, cache_dir: Option<&Path>) -> KernelOptions {
    let time_limit = Duration::from_secs(60);
    KernelOptions { runner, cache_dir: cache_dir.map(Path::to_owned), prebuilt_dirs: vec![], time_limit }
}

fn images(store: &KernelStore, arch: &str, units: &[Unit]) -> Result<Vec<Arc<[u8]>>, CompileError> {
    store.images(&chip(arch), units, &AtomicBool::new(false), &|_| ())
}

/// The ordinary search finds a compiler for the chip; says so where it does not.
fn has_compiler(arch: &str) -> bool {
    let found = KernelStore::new(options(Runner::Here, None)).compiler(arch.parse().unwrap());
    if let Err(error) = &found {
        println!("SKIPPED: {error}");
    }
    found.is_ok()
}

#[cfg(unix)]
mod with_a_script {
    use super::*;

    /// A worker whose compiler makes the same image of everything, and a file that has a line for each.
    struct Script {
        _folder: tempfile::TempDir,
        program: PathBuf,
        made: tempfile::NamedTempFile,
    }

    impl Script {
        fn new() -> Script {
            let made = tempfile::NamedTempFile::new().unwrap();
            let mark = crate::devices::gpu::compile::worker::MARK;
            let text = format!(
                r#"while read -r line; do
    case "$line" in
    *Identify*) echo '{mark}{{"Compiler":{{"name":"test 1","identity":"test 1","file":"/x"}}}}';;
    *) echo compiled >> {}; sleep 0.05; echo '{mark}{{"Image":{{"base64":"aW1hZ2U="}}}}';;
    esac
done"#,
                made.path().display()
            );
            let (_folder, program) = pool::script(&text);
            Script { _folder, program, made }
        }

        fn store(&self, cache_dir: Option<&Path>) -> KernelStore {
            KernelStore::new(options(Runner::Child(self.program.clone()), cache_dir))
        }

        fn n_made(&self) -> usize {
            std::fs::read_to_string(self.made.path()).unwrap().lines().count()
        }
    }

    #[test]
    fn two_threads_that_want_the_same_compile_it_once() {
        let script = Script::new();
        let store = script.store(None);
        let (first, second) = (units(0..8), units(4..12));
        std::thread::scope(|scope| {
            let both = [&first, &second].map(|units| scope.spawn(|| images(&store, "sm_80", units).unwrap().len()));
            both.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap(), 8));
        });
        assert_eq!(script.n_made(), 12);
        // Another chip is another image.
        images(&store, "sm_90", &first[..2]).unwrap();
        assert_eq!(script.n_made(), 14);
    }

    #[test]
    fn a_second_start_compiles_nothing() {
        let script = Script::new();
        let cache = tempfile::tempdir().unwrap();
        let wanted = units([3, 1, 3]);
        let first = images(&script.store(Some(cache.path())), "sm_80", &wanted).unwrap();
        assert_eq!((first.len(), script.n_made()), (3, 2));
        let second = images(&script.store(Some(cache.path())), "sm_80", &wanted).unwrap();
        assert_eq!((second, script.n_made()), (first, 2));
        // A damaged image is compiled again.
        let file = std::fs::read_dir(cache.path()).unwrap().next().unwrap().unwrap().path();
        std::fs::write(file, "damaged").unwrap();
        images(&script.store(Some(cache.path())), "sm_80", &wanted).unwrap();
        assert_eq!(script.n_made(), 3);
    }

    #[test]
    fn images_built_ahead_need_no_compiler() {
        let script = Script::new();
        let folder = tempfile::tempdir().unwrap();
        let wanted = units(0..2);
        let jobs: Vec<_> = wanted.iter().map(|unit| Job::new(unit, &chip("gfx1100"))).collect();
        prebuilt::write(folder.path(), "test 1", jobs.iter().map(|job| (job, &b"ahead"[..]))).unwrap();
        let no_runner = options(Runner::Child("/no/such/program".into()), None);
        let store = KernelStore::new(KernelOptions { prebuilt_dirs: vec![folder.path().to_owned()], ..no_runner });
        let found = images(&store, "gfx1100", &wanted).unwrap();
        assert!(found.iter().all(|image| **image == *b"ahead"));
        // What is not in the folder does need one.
        let error = images(&store, "gfx1030", &wanted).unwrap_err();
        assert!(matches!(&error, CompileError::Io { what, .. } if what.contains("/no/such/program")), "{error}");
        assert_eq!((script.n_made(), store.notices()), (0, vec![]));
    }

    #[test]
    fn a_damaged_image_built_ahead_is_passed_over_and_told() {
        let script = Script::new();
        let folder = tempfile::tempdir().unwrap();
        let wanted = units([1]);
        let job = Job::new(&wanted[0], &chip("sm_80"));
        prebuilt::write(folder.path(), "test 1", [(&job, &b"ahead"[..])]).unwrap();
        let file = folder.path().join(format!("sm_80/{}.bin", job.key().as_str()));
        std::fs::write(file, "x").unwrap();
        let options = script.store(None).0.options.clone();
        let store = KernelStore::new(KernelOptions { prebuilt_dirs: vec![folder.path().to_owned()], ..options });
        assert_eq!(*images(&store, "sm_80", &wanted).unwrap()[0], *b"image");
        assert!(store.notices()[0].ends_with("is damaged; it is passed over"), "{:?}", store.notices());
    }

    #[test]
    fn a_cache_that_cannot_be_written_is_told_once_and_stops_nothing() {
        let script = Script::new();
        let file = tempfile::NamedTempFile::new().unwrap();
        let store = script.store(Some(&file.path().join("below-a-file")));
        images(&store, "sm_80", &units(0..3)).unwrap();
        let notices = store.notices();
        assert!(notices.iter().any(|text| text.starts_with("kernels are not kept: the cache ")), "{notices:?}");
        assert!(notices.len() <= 2, "{notices:?}");
    }

    #[test]
    fn progress_goes_from_none_to_all_and_cancelling_stops() {
        let script = Script::new();
        let store = script.store(None);
        let (seen, most) = (Mutex::new(vec![]), AtomicUsize::new(0));
        let cancel = AtomicBool::new(false);
        let note = |p: Prepared| {
            lock(&seen).push(p);
            most.fetch_max(p.n_done, Ordering::Relaxed);
        };
        store.images(&chip("sm_80"), &units(0..5), &cancel, &note).unwrap();
        assert_eq!(lock(&seen).first(), Some(&Prepared { n_done: 0, n_total: 5 }));
        assert_eq!(most.load(Ordering::Relaxed), 5);
        let stop = |p: Prepared| cancel.store(p.n_done >= 2, Ordering::Relaxed);
        let started = Instant::now();
        let error = store.images(&chip("sm_90"), &units(0..200), &cancel, &stop).unwrap_err();
        assert_eq!(error, CompileError::Cancelled);
        assert!(started.elapsed() < Duration::from_secs(3) && script.n_made() < 20);
        // Nothing is left claimed.
        cancel.store(false, Ordering::Relaxed);
        store.images(&chip("sm_90"), &units(0..3), &cancel, &|_| ()).unwrap();
    }
}

/// The first bytes of the images of both vendors.
const ELF: &[u8] = b"\x7fELF";

#[test]
fn real_compilers_make_images() {
    for arch in ["sm_75", "sm_90", "gfx906", "gfx90a", "gfx1030"] {
        if has_compiler(arch) {
            let store = KernelStore::new(options(Runner::Here, None));
            let made = images(&store, arch, &units(0..2)).unwrap();
            assert!(made.iter().all(|image| image.starts_with(ELF) || image.starts_with(b"__CLANG_OFFLOAD")), "{arch}");
        }
    }
}

#[test]
fn a_unit_that_does_not_compile_shows_the_compilers_words() {
    for arch in ["sm_90", "gfx906"] {
        if has_compiler(arch) {
            let cache = tempfile::tempdir().unwrap();
            let store = KernelStore::new(options(Runner::Here, Some(cache.path())));
            let bad = Unit::new(Source::Norm, &[("u32", 5)]);
            let error = images(&store, arch, &[bad]).unwrap_err();
            let CompileError::Failed { unit, log, log_file: Some(file), .. } = &error else { panic!("{error:?}") };
            assert_eq!(unit, "norm.cu u32=5");
            assert!(log.contains("error") && log.contains("prelude.cuh"), "{log}");
            assert!(std::fs::read_to_string(file).unwrap().contains(log.lines().next().unwrap()));
            assert!(!error.to_string().contains('\n') && error.to_string().contains("cannot compile norm.cu u32=5"));
        }
    }
}
