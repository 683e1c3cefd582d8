//! Where programs keep models: from environment variables and the user's home to folders.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use super::Origin;
use super::lm_studio::{folder_in_pointer, folder_in_settings};

/// Folders to search, in the order in which they name what lies in several. They need not exist.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LibraryRoots {
    pub folders: Vec<(Origin, PathBuf)>,
}

/// Where Ollama's service keeps models when a package has set it up with a user of its own.
const OLLAMA_OF_SYSTEM: [&str; 3] =
    ["/usr/share/ollama/.ollama/models", "/var/lib/ollama/.ollama/models", "/var/lib/ollama"];

/// What places are derived from.
struct User<'a> {
    variable: &'a dyn Fn(&str) -> Option<OsString>,
    home: Option<PathBuf>,
}

impl LibraryRoots {
    /// The user's own: the model folder, then what `HF_HUB_CACHE`, `HF_HOME`, `OLLAMA_MODELS`, `LLAMA_CACHE`, LM
    /// Studio's settings and the usual places say, then the current folder.
    pub fn of_user() -> LibraryRoots {
        let user = User { variable: &|name| env::var_os(name), home: etcetera::home_dir().ok() };
        let mut roots = LibraryRoots::default();
        roots.add(Origin::ModelFolder, crate::models::folder().ok());
        roots.add(Origin::HuggingFace, user.hugging_face());
        roots.add(Origin::LmStudio, user.lm_studio());
        roots.add(Origin::Ollama, user.ollama());
        roots.add(Origin::LlamaCpp, user.llama_cpp());
        roots.add(Origin::CurrentFolder, env::current_dir().ok());
        roots
    }

    /// These folders too.
    pub fn with(mut self, origin: Origin, folders: impl IntoIterator<Item = PathBuf>) -> LibraryRoots {
        self.add(origin, folders);
        self
    }

    fn add(&mut self, origin: Origin, folders: impl IntoIterator<Item = PathBuf>) {
        for folder in folders {
            if !self.folders.iter().any(|known| known == &(origin, folder.clone())) {
                self.folders.push((origin, folder));
            }
        }
    }
}

impl User<'_> {
    /// A variable that holds a folder; `~` stands for the home, as the programs that own these variables read it.
    fn folder(&self, name: &str) -> Option<PathBuf> {
        let value = PathBuf::from((self.variable)(name).filter(|value| !value.is_empty())?);
        match value.strip_prefix("~") {
            Ok(below) => Some(self.home.as_ref()?.join(below)),
            Err(_) => Some(value),
        }
    }

    fn in_home(&self, below: &str) -> Option<PathBuf> {
        Some(self.home.as_ref()?.join(below))
    }

    fn cache(&self) -> Option<PathBuf> {
        self.folder("XDG_CACHE_HOME").filter(|folder| folder.is_absolute()).or_else(|| self.in_home(".cache"))
    }

    fn hugging_face(&self) -> Option<PathBuf> {
        let named = self.folder("HF_HUB_CACHE").or_else(|| self.folder("HUGGINGFACE_HUB_CACHE"));
        let home = || self.folder("HF_HOME").or_else(|| Some(self.cache()?.join("huggingface")));
        named.or_else(|| Some(home()?.join("hub")))
    }

    fn lm_studio(&self) -> Vec<PathBuf> {
        let pointed = self.in_home(".lmstudio-home-pointer").and_then(|pointer| folder_in_pointer(&pointer));
        let homes: Vec<_> =
            pointed.into_iter().chain(self.in_home(".lmstudio")).chain(self.in_home(".cache/lm-studio")).collect();
        let settings = [".config/LM Studio", "Library/Application Support/LM Studio", "AppData/Roaming/LM Studio"];
        let settings = homes.iter().cloned().chain(settings.iter().filter_map(|place| self.in_home(place)));
        let chosen = settings.filter_map(|folder| folder_in_settings(&folder.join("settings.json")));
        chosen.chain(homes.iter().map(|home| home.join("models"))).collect()
    }

    fn ollama(&self) -> Vec<PathBuf> {
        let own = self.folder("OLLAMA_MODELS").or_else(|| self.in_home(".ollama/models"));
        own.into_iter().chain(OLLAMA_OF_SYSTEM.map(PathBuf::from)).collect()
    }

    fn llama_cpp(&self) -> Vec<PathBuf> {
        if let Some(folder) = self.folder("LLAMA_CACHE") {
            return vec![folder];
        }
        let local = self.folder("LOCALAPPDATA").or_else(|| self.in_home("AppData/Local"));
        let caches = [self.cache(), self.in_home("Library/Caches"), local];
        caches.into_iter().flatten().map(|cache| cache.join("llama.cpp")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    fn user<'a>(variables: &'a dyn Fn(&str) -> Option<OsString>, home: &Path) -> User<'a> {
        User { variable: variables, home: Some(home.to_owned()) }
    }

    #[test]
    fn the_usual_places_are_below_the_home() {
        let none = |_: &str| None;
        let user = user(&none, Path::new("/home/ada"));
        assert_eq!(user.hugging_face(), Some("/home/ada/.cache/huggingface/hub".into()));
        assert_eq!(
            user.lm_studio(),
            [PathBuf::from("/home/ada/.lmstudio/models"), "/home/ada/.cache/lm-studio/models".into()]
        );
        assert_eq!(user.ollama()[0], Path::new("/home/ada/.ollama/models"));
        assert_eq!(user.llama_cpp()[0], Path::new("/home/ada/.cache/llama.cpp"));
    }

    #[test]
    fn variables_move_them() {
        let set = |name: &str| {
            let value = match name {
                "XDG_CACHE_HOME" => "/cache",
                "HF_HOME" => "~/hf",
                "OLLAMA_MODELS" => "/big/ollama",
                "LLAMA_CACHE" => "/big/llama",
                _ => return None,
            };
            Some(OsString::from(value))
        };
        let user = user(&set, Path::new("/home/ada"));
        assert_eq!(user.hugging_face(), Some("/home/ada/hf/hub".into()));
        assert_eq!(user.ollama()[0], Path::new("/big/ollama"));
        assert_eq!(user.llama_cpp(), [Path::new("/big/llama")]);
        let only_cache = |name: &str| (name == "XDG_CACHE_HOME").then(|| OsString::from("/cache"));
        let user = User { variable: &only_cache, home: None };
        assert_eq!(user.hugging_face(), Some("/cache/huggingface/hub".into()));
        assert_eq!(user.llama_cpp(), [Path::new("/cache/llama.cpp")]);
        let hub = |name: &str| (name == "HF_HUB_CACHE").then(|| OsString::from("/hub"));
        assert_eq!(User { variable: &hub, home: None }.hugging_face(), Some("/hub".into()));
        let relative = |name: &str| (name == "XDG_CACHE_HOME").then(|| OsString::from("cache"));
        assert_eq!(User { variable: &relative, home: None }.hugging_face(), None);
    }

    #[test]
    fn lm_studio_says_itself_where_it_is() {
        let home = tempfile::tempdir().expect("temp folder");
        let moved = home.path().join("moved");
        fs::create_dir_all(&moved).expect("folder");
        fs::write(home.path().join(".lmstudio-home-pointer"), format!("{}\n", moved.display())).expect("pointer");
        let settings = serde_json::json!({ "downloadsFolder": home.path().join("downloads") }).to_string();
        fs::write(moved.join("settings.json"), settings).expect("settings");
        let none = |_: &str| None;
        let folders = user(&none, home.path()).lm_studio();
        assert_eq!(folders[..2], [home.path().join("downloads"), moved.join("models")]);

        // Neither a relative folder nor a damaged file leads anywhere.
        fs::write(moved.join("settings.json"), r#"{"downloadsFolder": "../.."}"#).expect("settings");
        fs::write(home.path().join(".lmstudio-home-pointer"), "../elsewhere").expect("pointer");
        let folders = user(&none, home.path()).lm_studio();
        assert_eq!(folders, [home.path().join(".lmstudio/models"), home.path().join(".cache/lm-studio/models")]);
    }
}
