//! Folders as other programs lay them out.

use super::*;

/// A temporary folder that files are put into.
struct Tree(tempfile::TempDir);

impl Tree {
    fn new() -> Tree {
        Tree(tempfile::tempdir().expect("temp folder"))
    }

    fn at(&self, below: &str) -> PathBuf {
        self.0.path().join(below)
    }

    fn file(&self, below: &str, bytes: &[u8]) -> PathBuf {
        let path = self.at(below);
        fs::create_dir_all(path.parent().expect("parent")).expect("folders");
        fs::write(&path, bytes).expect("file");
        path
    }

    #[cfg(unix)]
    fn link(&self, below: &str, target: impl AsRef<Path>) {
        let path = self.at(below);
        fs::create_dir_all(path.parent().expect("parent")).expect("folders");
        std::os::unix::fs::symlink(target, path).expect("link");
    }

    fn roots(&self, origin: Origin) -> LibraryRoots {
        LibraryRoots::default().with(origin, [self.0.path().to_owned()])
    }

    fn scan(&self, origin: Origin) -> Vec<LibraryEntry> {
        scan(&self.roots(origin))
    }

    fn names(&self, origin: Origin) -> Vec<String> {
        self.scan(origin).into_iter().map(|e| e.name).collect()
    }

    fn manifest(&self, below: &str, digest: &str) {
        let layers = serde_json::json!({ "schemaVersion": 2, "layers": [
            { "mediaType": "application/vnd.ollama.image.template", "digest": "sha256:00", "size": 1 },
            { "mediaType": "application/vnd.ollama.image.model", "digest": digest, "size": 8 },
        ]});
        self.file(below, layers.to_string().as_bytes());
    }
}

fn hex(digit: char) -> String {
    String::from(digit).repeat(64)
}

#[test]
fn folders_of_files_are_named_by_path() {
    let tree = Tree::new();
    for file in ["b.gguf", "owner/A.GGUF", "c.txt", ".hidden.gguf", "mmproj-b.gguf", "b-mmproj-f16.gguf"] {
        tree.file(file, b"GGUF");
    }
    tree.file("a/b/c/too-deep.gguf", b"GGUF");
    assert_eq!(tree.names(Origin::ModelFolder), ["b", "owner/A"]);
    assert_eq!(tree.names(Origin::Configured), ["b", "owner/A"]);
    assert_eq!(tree.names(Origin::CurrentFolder), ["b"]);
    assert_eq!(tree.names(Origin::LlamaCpp), ["b"]);
    let missing = LibraryRoots::default().with(Origin::ModelFolder, [tree.at("nowhere")]);
    assert_eq!(scan(&missing), []);
}

#[test]
fn shards_are_one_model_with_all_their_bytes() {
    let tree = Tree::new();
    for (no, n_bytes) in [(1, 10), (2, 20), (3, 5)] {
        tree.file(&format!("big-0000{no}-of-00003.gguf"), &vec![0; n_bytes]);
    }
    // Another split of the same name, unfinished.
    tree.file("big-00002-of-00002.gguf", &[0; 7]);
    let entries = tree.scan(Origin::ModelFolder);
    let figures: Vec<_> = entries.iter().map(|e| (e.name.as_str(), e.file_bytes, e.n_shards)).collect();
    assert_eq!(figures, [("big", 35, 3), ("big", 7, 1)]);
    assert_eq!(entries[0].path, tree.at("big-00001-of-00003.gguf"));
    assert_eq!(entries[1].path, tree.at("big-00002-of-00002.gguf"));
}

#[test]
fn lm_studio_has_owners_and_repositories() {
    let tree = Tree::new();
    tree.file("ada/Tiny-GGUF/tiny-Q8_0.gguf", b"GGUF");
    tree.file("ada/Tiny-GGUF/mmproj-tiny.gguf", b"GGUF");
    tree.file("loose/file.gguf", b"GGUF");
    assert_eq!(tree.names(Origin::LmStudio), ["ada/Tiny-GGUF: tiny-Q8_0", "loose/file"]);
}

#[cfg(unix)]
#[test]
fn hugging_face_snapshots_are_links_to_blobs() {
    let tree = Tree::new();
    let repository = "models--ada--tiny--GGUF";
    for (blob, n_bytes) in [("same", 11), ("old", 22), ("new", 33), ("part1", 1), ("part2", 2)] {
        tree.file(&format!("{repository}/blobs/{blob}"), &vec![0; n_bytes]);
    }
    let link = |revision: &str, file: &str, blob: &str| {
        let up = "../".repeat(2 + file.matches('/').count());
        tree.link(&format!("{repository}/snapshots/{revision}/{file}"), format!("{up}blobs/{blob}"));
    };
    link("1111111111aa", "same.gguf", "same");
    link("1111111111aa", "changed.gguf", "old");
    link("2222222222bb", "same.gguf", "same");
    link("2222222222bb", "changed.gguf", "new");
    link("2222222222bb", "Q4/split-00001-of-00002.gguf", "part1");
    link("2222222222bb", "Q4/split-00002-of-00002.gguf", "part2");
    link("2222222222bb", "gone.gguf", "missing");
    tree.file(&format!("{repository}/refs/main"), b"2222222222bb\n");
    tree.file("models--lonely/snapshots/3/model.gguf", b"GGUF");
    tree.file("datasets--ada--text/snapshots/3/model.gguf", b"GGUF");

    let entries = tree.scan(Origin::HuggingFace);
    let figures: Vec<_> = entries.iter().map(|e| (e.name.as_str(), e.file_bytes, e.n_shards)).collect();
    assert_eq!(
        figures,
        [
            ("ada/tiny--GGUF: Q4/split", 3, 2),
            ("ada/tiny--GGUF: changed", 33, 1),
            ("ada/tiny--GGUF: changed@11111111", 22, 1),
            ("ada/tiny--GGUF: same", 11, 1),
            ("lonely: model", 4, 1),
        ]
    );
    // The other shards lie beside the link, not beside the blob.
    let snapshot = tree.at(&format!("{repository}/snapshots/2222222222bb"));
    assert_eq!(entries[0].path, snapshot.join("Q4/split-00001-of-00002.gguf"));
    assert_eq!(entries[3].path, snapshot.join("same.gguf"), "the newest revision names a blob");

    tree.file(&format!("{repository}/refs/main"), b"1111111111aa");
    assert!(tree.names(Origin::HuggingFace).contains(&"ada/tiny--GGUF: changed@22222222".to_owned()));
}

#[test]
fn ollama_manifests_name_blobs() {
    let tree = Tree::new();
    let registry = "manifests/registry.ollama.ai";
    for (digit, content) in [('a', "GGUF...."), ('b', "GGUF........"), ('c', "{\"not\": 1}")] {
        tree.file(&format!("blobs/sha256-{}", hex(digit)), content.as_bytes());
    }
    tree.manifest(&format!("{registry}/library/llama3/latest"), &format!("sha256:{}", hex('a')));
    tree.manifest(&format!("{registry}/ada/tiny/q8"), &format!("sha256:{}", hex('b')));
    tree.manifest(&format!("{registry}/library/other-format/latest"), &format!("sha256:{}", hex('c')));
    tree.manifest(&format!("{registry}/library/no-blob/latest"), &format!("sha256:{}", hex('d')));
    let entries = tree.scan(Origin::Ollama);
    let figures: Vec<_> = entries.iter().map(|e| (e.name.as_str(), e.file_bytes)).collect();
    assert_eq!(figures, [("ada/tiny:q8", 12), ("llama3:latest", 8)]);
    assert_eq!(entries[1].path, tree.at(&format!("blobs/sha256-{}", hex('a'))));

    // A second name of the same blob is no second model.
    tree.manifest("manifests/hf.co/ada/llama-GGUF/Q4_0", &format!("sha256:{}", hex('a')));
    assert_eq!(tree.names(Origin::Ollama), ["ada/tiny:q8", "hf.co/ada/llama-GGUF:Q4_0"]);
}

#[test]
fn damaged_and_hostile_manifests_are_passed_over() {
    let tree = Tree::new();
    let registry = "manifests/registry.ollama.ai/library";
    tree.file("secret", b"GGUF secret");
    tree.file("blobs/x", b"GGUF");
    let good = format!("sha256:{}", hex('a'));
    tree.file(&format!("blobs/sha256-{}", hex('a')), b"GGUF");
    for (name, digest) in [
        ("up", "sha256:../../secret".to_owned()),
        ("up-from-blobs", "sha256:/../../secret".to_owned()),
        ("absolute", format!("sha256:{}", tree.at("secret").display())),
        ("short", "sha256:x".to_owned()),
        ("other-hash", format!("md5:{}", hex('a'))),
        ("padded", format!("sha256:{}/../sha256-{}", &hex('a')[..32], hex('a'))),
    ] {
        tree.manifest(&format!("{registry}/{name}/latest"), &digest);
    }
    tree.file(&format!("{registry}/cut/latest"), b"{\"layers\": [{\"mediaType\": \"applic");
    tree.file(&format!("{registry}/empty/latest"), b"");
    tree.file(&format!("{registry}/wrong-types/latest"), b"{\"layers\": {\"mediaType\": 1}}");
    tree.file(&format!("{registry}/binary/latest"), &[0xff; 64]);
    // Good, but for its size or its place.
    let padding = " ".repeat(1 << 20);
    let layer = format!("{{\"mediaType\": \"application/vnd.ollama.image.model\", \"digest\": \"{good}\"}}");
    tree.file(&format!("{registry}/huge/latest"), format!("{{\"layers\": [{layer}]}}{padding}").as_bytes());
    tree.manifest("manifests/registry.ollama.ai/shallow", &good);
    assert_eq!(tree.names(Origin::Ollama), Vec::<String>::new());
    tree.manifest(&format!("{registry}/good/latest"), &good);
    assert_eq!(tree.names(Origin::Ollama), ["good:latest"]);
}

#[test]
fn names_cannot_command_the_terminal() {
    let tree = Tree::new();
    tree.file("\u{1b}]0;owned\u{7}\u{202e}m.gguf", b"GGUF");
    assert_eq!(tree.names(Origin::CurrentFolder), ["\u{fffd}]0;owned\u{fffd}\u{fffd}m"]);
}

#[cfg(unix)]
#[test]
fn loops_dead_links_and_pipes_do_no_harm() {
    let tree = Tree::new();
    tree.file("a/m.gguf", b"GGUF");
    tree.link("a/up", tree.at(""));
    tree.link("a/self", "self");
    tree.link("dead.gguf", "/nowhere/at/all.gguf");
    tree.link("folder.gguf", tree.at("a"));
    tree.link("again.gguf", tree.at("a/m.gguf"));
    let made = std::process::Command::new("mkfifo").arg(tree.at("pipe.gguf")).status().expect("mkfifo");
    assert!(made.success());
    for origin in Origin::ALL {
        let expect: &[&str] = match origin {
            Origin::ModelFolder | Origin::Configured | Origin::LmStudio => &["a/m"],
            Origin::CurrentFolder | Origin::LlamaCpp => &["again"],
            Origin::HuggingFace | Origin::Ollama => &[],
        };
        assert_eq!(tree.names(origin), expect, "{origin:?}");
    }
}

#[cfg(unix)]
#[test]
fn a_folder_that_cannot_be_read_hides_nothing_else() {
    use std::os::unix::fs::PermissionsExt;
    let tree = Tree::new();
    tree.file("closed/m.gguf", b"GGUF");
    tree.file("open/n.gguf", b"GGUF");
    let closed = |mode| fs::set_permissions(tree.at("closed"), fs::Permissions::from_mode(mode)).expect("mode");
    closed(0o000);
    // The administrator reads everything.
    let is_closed = fs::read_dir(tree.at("closed")).is_err();
    let names = tree.names(Origin::ModelFolder);
    closed(0o755);
    assert_eq!(names, if is_closed { &["open/n"][..] } else { &["closed/m", "open/n"] });
}

#[test]
fn the_first_folder_names_what_lies_in_several() {
    let tree = Tree::new();
    tree.file("m.gguf", b"GGUF");
    let here = tree.0.path().to_owned();
    let roots = LibraryRoots::default().with(Origin::ModelFolder, [here.clone()]).with(Origin::CurrentFolder, [here]);
    let entries = scan(&roots);
    assert_eq!(entries.iter().map(|e| e.origin).collect::<Vec<_>>(), [Origin::ModelFolder]);
}

#[test]
fn a_model_is_found_by_what_other_programs_call_it() {
    let tree = Tree::new();
    let ollama = "store/manifests/registry.ollama.ai/library";
    let blob = |digit| tree.file(&format!("store/blobs/sha256-{}", hex(digit)), b"GGUF");
    let (latest, small) = (blob('a'), blob('b'));
    tree.manifest(&format!("{ollama}/llama3/latest"), &format!("sha256:{}", hex('a')));
    tree.manifest(&format!("{ollama}/llama3/8b"), &format!("sha256:{}", hex('a')));
    tree.manifest(&format!("{ollama}/llama3/1b"), &format!("sha256:{}", hex('b')));
    let hub = tree.file("hub/models--ada--tiny/snapshots/1/tiny-Q8_0.gguf", b"GGUF");
    let roots =
        LibraryRoots::default().with(Origin::HuggingFace, [tree.at("hub")]).with(Origin::Ollama, [tree.at("store")]);
    let find = |model: &str| find(model, &roots).map(|(path, _)| path).map_err(|e| e.to_string());
    for (model, path) in [
        ("llama3:latest", &latest),
        ("llama3", &latest),
        ("llama3:8b", &latest),
        ("LLAMA3:1b", &small),
        ("ada/tiny", &hub),
        ("ada/tiny: tiny-q8_0.gguf", &hub),
        ("tiny-q8", &hub),
    ] {
        assert_eq!(find(model), Ok(Some(path.clone())), "{model}");
    }
    assert_eq!(find("qwen"), Ok(None));
    let error = find("llama3:").expect_err("two models");
    assert!(error.contains("fits more than one model: llama3:1b, llama3:8b;"), "{error}");
    assert_eq!(super::find("qwen", &roots).expect("none").1, 3, "names of one file are one model");
}
