//! A model's files, mapped into memory.

use super::index::NameIndex;
use super::read::{Header, parse_header};
use super::shards::ShardName;
use super::{GgufError, GgufErrorKind, Metadata, TensorInfo};
use memmap2::Mmap;
use std::fs::File;
use std::path::{Path, PathBuf};

/// An open model: what its header says, and its data in memory as far as it has been touched.
///
/// The files must not be shortened while they are open: the operating system then ends the program at the next touch
/// of the lost part. Replacing a file by renaming another over it is safe.
pub struct Gguf {
    version: u32,
    alignment: u64,
    metadata: Metadata,
    tensors: Vec<TensorInfo>,
    by_name: NameIndex,
    paths: Vec<PathBuf>,
    maps: Vec<Mmap>,
    file_bytes: u64,
}

impl Gguf {
    /// Opens a model by the path of its file, or of any one of its shards, which must lie in one folder.
    ///
    /// # Errors
    /// A file that cannot be read, or whatever is wrong with one; the message names the file.
    pub fn open(path: &Path) -> Result<Gguf, GgufError> {
        let first = Shard::open(path)?;
        let shards = match first.split(path)? {
            None => vec![first],
            Some(split) => open_all(first, &split)?,
        };
        Gguf::join(shards)
    }

    /// A model of which there is only the header, as if `data_bytes` of data followed it. `path` names it in messages.
    ///
    /// # Errors
    /// As [`Gguf::open`].
    pub fn without_data(path: PathBuf, header: &[u8], data_bytes: u64) -> Result<Gguf, GgufError> {
        let file_bytes = header.len() as u64 + data_bytes;
        let Header { version, alignment, mut metadata, tensors, .. } = parse_header(header, file_bytes)?;
        metadata.set_path(path.clone());
        let by_name = NameIndex::new(tensors.len(), |i| &tensors[i].name)
            .map_err(|i| GgufError::at(&path, GgufErrorKind::DuplicateTensor(tensors[i].name.as_str().into())))?;
        Ok(Gguf { version, alignment, metadata, tensors, by_name, paths: vec![path], maps: vec![], file_bytes })
    }

    fn join(shards: Vec<Shard>) -> Result<Gguf, GgufError> {
        let mut headers = Vec::with_capacity(shards.len());
        let (mut paths, mut maps) = (Vec::new(), Vec::new());
        for shard in shards {
            headers.push(shard.header);
            paths.push(shard.path);
            maps.push(shard.map);
        }
        let mut tensors = Vec::with_capacity(headers.iter().map(|header| header.tensors.len()).sum());
        for (i, header) in headers.iter_mut().enumerate() {
            tensors.extend(header.tensors.drain(..).map(|tensor| TensorInfo { shard: i, ..tensor }));
        }
        let by_name = NameIndex::new(tensors.len(), |i| &tensors[i].name).map_err(|i| {
            let tensor = &tensors[i];
            GgufError::at(&paths[tensor.shard], GgufErrorKind::DuplicateTensor(tensor.name.as_str().into()))
        })?;
        let Header { version, alignment, mut metadata, .. } = headers.swap_remove(0);
        if let Some(claimed) = metadata.opt_u64("split.tensors.count").map_err(|error| error.of_file(&paths[0]))?
            && claimed != tensors.len() as u64
        {
            let (n_shards, found) = (paths.len(), tensors.len() as u64);
            return Err(GgufError::at(&paths[0], GgufErrorKind::TensorCount { n_shards, claimed, found }));
        }
        metadata.set_path(paths[0].clone());
        let file_bytes = maps.iter().map(|map| map.len() as u64).sum();
        Ok(Gguf { version, alignment, metadata, tensors, by_name, paths, maps, file_bytes })
    }

    /// Of the first shard, which has all that is said of the model.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// All tensors, in the order of the files.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.by_name.find(name, |i| &self.tensors[i].name).map(|i| &self.tensors[i])
    }

    /// The data of one of this model's tensors, `n_bytes` long and aligned to at least 8 bytes.
    ///
    /// # Panics
    /// For a tensor of another model, or of one without data.
    pub fn data(&self, tensor: &TensorInfo) -> &[u8] {
        &self.maps[tensor.shard][tensor.offset as usize..][..tensor.n_bytes as usize]
    }

    /// The model's files, first shard first.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// The size of all files, in bytes.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// The version of the format, 2 or 3.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Of the tensor data, in bytes.
    pub fn alignment(&self) -> u64 {
        self.alignment
    }
}

impl std::fmt::Debug for Gguf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gguf")
            .field("paths", &self.paths)
            .field("n_keys", &self.metadata.len())
            .field("n_tensors", &self.tensors.len())
            .finish_non_exhaustive()
    }
}

/// One file.
struct Shard {
    path: PathBuf,
    map: Mmap,
    header: Header,
}

impl Shard {
    fn open(path: &Path) -> Result<Shard, GgufError> {
        let map = map(path)?;
        let header = parse_header(&map, map.len() as u64).map_err(|error| error.of_file(path))?;
        Ok(Shard { path: path.to_path_buf(), map, header })
    }

    /// How the model is split, where it is.
    fn split(&self, path: &Path) -> Result<Option<ShardName>, GgufError> {
        let metadata = &self.header.metadata;
        match metadata.opt_u32("split.count").map_err(|error| error.of_file(path))? {
            None | Some(0 | 1) => Ok(None),
            Some(count) => match ShardName::parse(path) {
                None => Err(GgufError::at(path, GgufErrorKind::ShardName { count })),
                Some(name) => self.check(&name).map(|()| Some(name)),
            },
        }
    }

    /// That the file says of itself what its name says.
    fn check(&self, name: &ShardName) -> Result<(), GgufError> {
        let number = |key| {
            let found = self.header.metadata.u32(key);
            found.map_err(|error| error.of_file(&self.path))
        };
        let (count, no) = (number("split.count")?, number("split.no")?.saturating_add(1));
        if count != name.count {
            let kind = GgufErrorKind::ShardCount { in_name: name.count, in_file: count };
            return Err(GgufError::at(&self.path, kind));
        }
        if no != name.no {
            return Err(GgufError::at(&self.path, GgufErrorKind::ShardNo { in_name: name.no, in_file: no }));
        }
        Ok(())
    }
}

/// All shards in order, one of which is open already.
fn open_all(first: Shard, split: &ShardName) -> Result<Vec<Shard>, GgufError> {
    let mut opened = Some(first);
    // Not reserved by the count: it is what a file claims.
    let mut shards = Vec::new();
    for no in 1..=split.count {
        let shard = match opened.take_if(|_| no == split.no) {
            Some(shard) => shard,
            None => {
                let path = split.path(no);
                let shard = Shard::open(&path).map_err(|error| missing(error, no, split.count))?;
                shard.check(&ShardName { no, ..split.clone() })?;
                shard
            }
        };
        shards.push(shard);
    }
    Ok(shards)
}

/// The same error, saying that it is a shard that cannot be opened.
fn missing(error: GgufError, no: u32, count: u32) -> GgufError {
    let kind = match *error.kind {
        GgufErrorKind::Open(source) => GgufErrorKind::ShardMissing { no, count, source },
        kind => kind,
    };
    GgufError { path: error.path, kind: Box::new(kind) }
}

fn map(path: &Path) -> Result<Mmap, GgufError> {
    let open = |source| GgufError::at(path, GgufErrorKind::Open(source));
    // Asked before opening: to open a named pipe would wait for its other end.
    if !std::fs::metadata(path).map_err(open)?.is_file() {
        return Err(GgufError::at(path, GgufErrorKind::NotAFile));
    }
    let file = File::open(path).map_err(open)?;
    // SAFETY: the map is read only and private to this process's view of the file. Another program that writes to the
    // file changes the bytes seen, which are plain numbers of any value; one that shortens it ends this program with a
    // signal (see `Gguf`). Neither breaks a promise that safe code relies on beyond that.
    unsafe { Mmap::map(&file) }.map_err(open)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{golden, sample};
    use super::*;
    use std::fs;

    fn open_err(path: &Path) -> String {
        Gguf::open(path).expect_err("opened").to_string()
    }

    #[test]
    fn is_shared_between_threads() {
        fn shared<T: Send + Sync>() {}
        shared::<Gguf>();
    }

    #[test]
    fn every_golden_file_opens() {
        let mut n_files = 0;
        for folder in ["models", "quant", "tokenizers"] {
            for entry in fs::read_dir(golden(folder)).unwrap() {
                let path = entry.unwrap().path();
                if path.extension().is_some_and(|extension| extension == "gguf") {
                    let gguf = Gguf::open(&path).unwrap_or_else(|error| panic!("{error}"));
                    assert!(gguf.metadata().str("general.architecture").is_ok());
                    for tensor in gguf.tensors() {
                        assert_eq!(gguf.data(tensor).len() as u64, tensor.n_bytes);
                        assert_eq!(gguf.tensor(&tensor.name), Some(tensor));
                    }
                    n_files += 1;
                }
            }
        }
        assert!(n_files > 80, "only {n_files} golden files");
    }

    #[test]
    fn golden_llama_reads_as_its_manifest_says() {
        let gguf = Gguf::open(&golden("models/llama.gguf")).unwrap();
        let manifest: serde_json::Value =
            serde_json::from_slice(&fs::read(golden("models/llama.json")).unwrap()).unwrap();
        for (name, dims) in manifest["tensors"].as_object().unwrap() {
            let dims: Vec<u64> = dims.as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
            assert_eq!(gguf.tensor(name).expect(name).shape.dims(), dims, "{name}");
        }
        for (key, value) in manifest["metadata"].as_object().unwrap() {
            let read = gguf.metadata().f32(key).unwrap();
            assert_eq!(read, value.as_f64().unwrap() as f32, "{key}");
        }
        assert_eq!((gguf.version(), gguf.alignment(), gguf.tensors().len()), (3, 32, 21));
        assert_eq!(gguf.metadata().str_array("tokenizer.ggml.tokens").unwrap().get(0), Some("Ā"));
    }

    #[test]
    fn any_shard_opens_the_whole_model() {
        let whole = Gguf::open(&golden("models/llama.gguf")).unwrap();
        for no in 1..=3 {
            let split = Gguf::open(&golden(&format!("shards/llama-shard-0000{no}-of-00003.gguf"))).unwrap();
            assert_eq!((split.paths().len(), split.tensors().len()), (3, whole.tensors().len()));
            assert_eq!(split.metadata().str("general.name").unwrap(), "tiny-llama");
            for (split_tensor, whole_tensor) in split.tensors().iter().zip(whole.tensors()) {
                assert_eq!(split_tensor.name, whole_tensor.name);
                assert!(split.data(split_tensor) == whole.data(whole_tensor), "{}", whole_tensor.name);
            }
        }
    }

    #[test]
    fn wrong_shards_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let shard = |no: u32| fs::read(golden(&format!("shards/llama-shard-0000{no}-of-00003.gguf"))).unwrap();
        let at = |no: u32| folder.path().join(format!("m-0000{no}-of-00003.gguf"));
        for no in 1..=3 {
            fs::write(at(no), shard(no)).unwrap();
        }
        assert!(Gguf::open(&at(2)).is_ok());

        let check = |path: &Path, message: &str| {
            let error = open_err(path);
            assert!(error.ends_with(message), "{error}");
        };
        fs::write(at(3), shard(2)).unwrap();
        let wrong_no =
            "m-00003-of-00003.gguf: says it is shard 2 of its model but is named as shard 3 (both counted from 1)";
        check(&at(1), wrong_no);
        check(&at(3), wrong_no);

        fs::remove_file(at(3)).unwrap();
        check(
            &at(1),
            "m-00003-of-00003.gguf: is missing or unreadable: shard 3 of 3, all of which must lie in one folder: \
             No such file or directory (os error 2)",
        );

        let alone = folder.path().join("alone.gguf");
        fs::write(&alone, shard(1)).unwrap();
        check(
            &alone,
            "is one of 3 shards, but is not named like NAME-00001-of-00003.gguf, so the others cannot be found",
        );
        let renamed = folder.path().join("m-00001-of-00002.gguf");
        fs::write(&renamed, shard(1)).unwrap();
        check(&renamed, "is named as one of 2 shards but says split.count 3");
    }

    #[test]
    fn shards_must_hold_the_tensors_that_the_first_one_promises() {
        use super::super::{GgufBuilder, Value};
        let folder = tempfile::tempdir().unwrap();
        let write = |no: u16, tensor: &str| {
            let mut builder = GgufBuilder::new();
            builder.set("split.no", no).set("split.count", 2u16).set("split.tensors.count", Value::I32(3));
            builder.tensor(tensor, &[8], crate::devices::quant::DType::F32).unwrap();
            let path = folder.path().join(format!("m-0000{}-of-00002.gguf", no + 1));
            let mut writer = builder.start(fs::File::create(&path).unwrap()).unwrap();
            writer.write(&[0; 32]).unwrap();
            writer.finish().unwrap();
            path
        };
        let path = write(0, "a");
        write(1, "b");
        assert!(open_err(&path).ends_with("the 2 shards hold 2 tensors, split.tensors.count says 3"));
        write(1, "a");
        assert!(open_err(&path).ends_with("tensor a is there twice"));
    }

    #[test]
    fn what_is_no_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.gguf");
        assert!(open_err(&path).contains("m.gguf: cannot be opened: No such file"));
        assert!(open_err(folder.path()).ends_with("is not a regular file; give the path of a .gguf file"));
        fs::write(&path, b"").unwrap();
        assert!(open_err(&path).contains("ends inside the header"));
        fs::write(&path, b"PK\x03\x04 a zip").unwrap();
        assert!(open_err(&path).contains("is not a GGUF file: it starts with \"PK\\x03\\x04\""));
        fs::write(&path, sample()).unwrap();
        assert!(Gguf::open(&path).is_ok());
    }
}
