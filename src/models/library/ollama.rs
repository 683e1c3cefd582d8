//! Ollama's store: a manifest for each name, `manifests/HOST/NAMESPACE/MODEL/TAG`, that names blobs by their digest.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use super::walk::{FoundFile, FoundModel, files, read_small};

/// Host, namespace, model, tag.
const MANIFEST_DEPTH: usize = 4;

const MAX_MANIFEST_BYTES: u64 = 1 << 20;

/// The host and the namespace that a user leaves out.
const DEFAULT_HOST: &str = "registry.ollama.ai";
const DEFAULT_NAMESPACE: &str = "library";

const MODEL_MEDIA_TYPE: &str = "application/vnd.ollama.image.model";

/// What every GGUF file begins with; older stores also hold other formats.
const MAGIC: [u8; 4] = *b"GGUF";

pub(super) fn models(store: &Path) -> Vec<(String, FoundModel)> {
    let manifests = files(&store.join("manifests"), MANIFEST_DEPTH);
    manifests.iter().filter_map(|manifest| named_model(store, manifest)).collect()
}

fn named_model(store: &Path, manifest: &FoundFile) -> Option<(String, FoundModel)> {
    let [host, namespace, model, tag] = &manifest.below[..] else { return None };
    let name = match (host.as_str(), namespace.as_str()) {
        (DEFAULT_HOST, DEFAULT_NAMESPACE) => format!("{model}:{tag}"),
        (DEFAULT_HOST, _) => format!("{namespace}/{model}:{tag}"),
        _ => format!("{host}/{namespace}/{model}:{tag}"),
    };
    let path = blob(store, &model_digest(&read_small(&manifest.path, MAX_MANIFEST_BYTES)?)?)?;
    let file_bytes = fs::metadata(&path).ok()?.len();
    Some((name.clone(), FoundModel { path, name_below: vec![name], file_bytes, n_shards: 1 }))
}

/// The digest of the layer that is the model, as 64 hex digits.
fn model_digest(manifest: &[u8]) -> Option<String> {
    let manifest: serde_json::Value = serde_json::from_slice(manifest).ok()?;
    let layers = manifest.get("layers")?.as_array()?;
    let text = |layer: &serde_json::Value, key: &str| layer.get(key)?.as_str().map(str::to_owned);
    let model = layers.iter().find(|layer| text(layer, "mediaType").is_some_and(|t| t == MODEL_MEDIA_TYPE))?;
    let digest = text(model, "digest")?;
    // It becomes a part of a path: nothing but digits may be in it.
    let hex = digest.strip_prefix("sha256:")?;
    (hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_hexdigit())).then(|| hex.to_owned())
}

fn blob(store: &Path, hex: &str) -> Option<PathBuf> {
    let blobs = store.join("blobs");
    // The second is what old versions wrote.
    [format!("sha256-{hex}"), format!("sha256:{hex}")].iter().map(|name| blobs.join(name)).find(|path| is_gguf(path))
}

fn is_gguf(path: &Path) -> bool {
    let mut start = [0; MAGIC.len()];
    fs::metadata(path).is_ok_and(|m| m.is_file())
        && File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok()
        && start == MAGIC
}
