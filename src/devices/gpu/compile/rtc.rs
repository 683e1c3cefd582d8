//! A run-time compiler: a shared library with the calls that NVRTC and hipRTC have in common. `unsafe` lives here.

use std::ffi::{CStr, CString, OsString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr;
use std::time::UNIX_EPOCH;

use libloading::Library;

use super::kind::CompilerKind;
use super::{CompileError, Job, hiprtc, nvrtc};
use crate::devices::gpu::chip::Arch;
use crate::devices::telemetry::library::note_reason;

type Program = *mut c_void;
type Names = *const *const c_char;

struct Calls {
    version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int,
    error_text: unsafe extern "C" fn(c_int) -> *const c_char,
    create: unsafe extern "C" fn(*mut Program, *const c_char, *const c_char, c_int, Names, Names) -> c_int,
    destroy: unsafe extern "C" fn(*mut Program) -> c_int,
    compile: unsafe extern "C" fn(Program, c_int, Names) -> c_int,
    log_size: unsafe extern "C" fn(Program, *mut usize) -> c_int,
    log: unsafe extern "C" fn(Program, *mut c_char) -> c_int,
    image_size: unsafe extern "C" fn(Program, *mut usize) -> c_int,
    image: unsafe extern "C" fn(Program, *mut c_char) -> c_int,
    /// Only NVRTC tells which chips it knows.
    n_archs: Option<unsafe extern "C" fn(*mut c_int) -> c_int>,
    archs: Option<unsafe extern "C" fn(*mut c_int) -> c_int>,
}

impl Calls {
    /// # Safety
    /// The library is a compiler of this kind: its symbols have these signatures.
    unsafe fn find(library: &Library, kind: CompilerKind) -> Result<Calls, String> {
        /// # Safety
        /// `T` is the type of the function of this name.
        unsafe fn call<T: Copy>(library: &Library, kind: CompilerKind, name: &str) -> Result<T, String> {
            let name = format!("{}{name}", kind.prefix());
            // SAFETY: the caller vouches for the type.
            let symbol = unsafe { library.get::<T>(name.as_bytes()) };
            symbol.map(|symbol| *symbol).map_err(|_| format!("has no {name}"))
        }
        let image = kind.image_name();
        // SAFETY: the signatures are those of nvrtc.h and hiprtc.h, which agree in these calls.
        unsafe {
            Ok(Calls {
                version: call(library, kind, "Version")?,
                error_text: call(library, kind, "GetErrorString")?,
                create: call(library, kind, "CreateProgram")?,
                destroy: call(library, kind, "DestroyProgram")?,
                compile: call(library, kind, "CompileProgram")?,
                log_size: call(library, kind, "GetProgramLogSize")?,
                log: call(library, kind, "GetProgramLog")?,
                image_size: call(library, kind, &format!("Get{image}Size"))?,
                image: call(library, kind, &format!("Get{image}"))?,
                n_archs: call(library, kind, "GetNumSupportedArchs").ok(),
                archs: call(library, kind, "GetSupportedArchs").ok(),
            })
        }
    }
}

/// Why a compiler that ran gave no image: its words.
#[derive(Clone, PartialEq, Debug)]
pub struct Refused {
    pub log: String,
}

/// A loaded compiler.
pub struct Rtc {
    kind: CompilerKind,
    calls: Calls,
    version: (c_int, c_int),
    file: PathBuf,
    // Last: the calls are its own.
    _library: Library,
}

/// Compilers recurse deeply; the usual stack of a thread is small.
const STACK_BYTES: usize = 64 << 20;

impl Rtc {
    /// The first compiler that is found and knows the chip.
    ///
    /// # Errors
    /// [`CompileError::NoCompiler`].
    pub fn find(arch: Arch) -> Result<Rtc, CompileError> {
        let kind = CompilerKind::of(arch);
        let (candidates, looked, hint) = match kind {
            CompilerKind::Nvrtc => {
                let places = nvrtc::Places::of_system();
                (nvrtc::candidates(&places), nvrtc::looked(&places), nvrtc::HINT)
            }
            CompilerKind::Hiprtc => {
                let places = hiprtc::Places::of_system();
                (hiprtc::candidates(&places), hiprtc::looked(&places), hiprtc::HINT)
            }
        };
        let mut reasons = Vec::new();
        for place in &candidates {
            match Rtc::load(kind, place) {
                Ok(rtc) => match rtc.knows(arch) {
                    Ok(()) => return Ok(rtc),
                    Err(reason) => note_reason(&mut reasons, place, reason),
                },
                Err(reason) => note_reason(&mut reasons, place, reason),
            }
        }
        let why = if reasons.is_empty() { "it is not installed".to_owned() } else { reasons.join("; ") };
        Err(CompileError::NoCompiler { arch, compiler: kind.name(), why, looked, hint: hint.to_owned() })
    }

    /// # Errors
    /// The loader's words.
    pub fn load(kind: CompilerKind, place: &Path) -> Result<Rtc, String> {
        use std::error::Error;
        // SAFETY: the places name the vendors' compilers, whose initialisers may run in any process.
        let library = unsafe { Library::new(place.as_os_str()) }
            .map_err(|error| error.source().map_or_else(|| error.to_string(), |cause| cause.to_string()))?;
        // SAFETY: as above.
        let calls = unsafe { Calls::find(&library, kind) }.map_err(|reason| format!("{} {reason}", place.display()))?;
        let (mut major, mut minor) = (0, 0);
        // SAFETY: both point to an int.
        let code = unsafe { (calls.version)(&mut major, &mut minor) };
        if code != 0 {
            return Err(format!("{} does not tell its version (error {code})", place.display()));
        }
        let file = mapped_file(calls.compile as usize).unwrap_or_else(|| place.to_owned());
        Ok(Rtc { kind, calls, version: (major, minor), file, _library: library })
    }

    /// "NVRTC 12.9", "hipRTC 9.0 of libamdhip64.so.5.2.21153": hipRTC's number does not change with its versions.
    pub fn name(&self) -> String {
        let (major, minor) = self.version;
        let of_file = match self.kind {
            CompilerKind::Nvrtc => String::new(),
            CompilerKind::Hiprtc => {
                format!(" of {}", self.file.file_name().unwrap_or_default().to_string_lossy())
            }
        };
        format!("{} {major}.{minor}{of_file}", self.kind.name())
    }

    /// Changes whenever another compiler is installed, also one that tells the same version.
    pub fn identity(&self) -> String {
        let facts = std::fs::metadata(&self.file).ok();
        let n_bytes = facts.as_ref().map_or(0, |facts| facts.len());
        let changed = facts.and_then(|facts| facts.modified().ok()?.duration_since(UNIX_EPOCH).ok());
        let changed = changed.map_or(0, |since| since.as_nanos());
        let file_name = self.file.file_name().unwrap_or_default().to_string_lossy();
        format!("{} {file_name} {n_bytes} {changed}", self.name())
    }

    pub fn file(&self) -> &Path {
        &self.file
    }

    fn knows(&self, arch: Arch) -> Result<(), String> {
        let (Arch::Sm(number), Some(n_archs), Some(archs)) = (arch, self.calls.n_archs, self.calls.archs) else {
            return Ok(());
        };
        let mut n: c_int = 0;
        // SAFETY: points to an int.
        if unsafe { n_archs(&mut n) } != 0 {
            return Ok(());
        }
        let mut known = vec![0 as c_int; usize::try_from(n).unwrap_or(0)];
        // SAFETY: the list has as many places as the library has chips.
        if unsafe { archs(known.as_mut_ptr()) } != 0 || known.contains(&c_int::from(number)) {
            return Ok(());
        }
        let range = match (known.iter().min(), known.iter().max()) {
            (Some(least), Some(most)) => format!("sm_{least} to sm_{most}"),
            (None, _) | (_, None) => "no chip".to_owned(),
        };
        Err(format!("{} at {} compiles for {range} only", self.name(), self.file.display()))
    }

    /// The image of a job, and the warnings that the compiler gave.
    ///
    /// # Errors
    /// The compiler's log, or the name of the call that failed.
    pub fn compile(&self, job: &Job) -> Result<Vec<u8>, Refused> {
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
            let work = thread.spawn_scoped(scope, || self.compile_here(job));
            let work = work.map_err(|error| Refused { log: format!("error: no thread to compile in: {error}") })?;
            work.join().unwrap_or_else(|_| Err(Refused { log: "error: the compiling thread panicked".to_owned() }))
        })
    }

    fn compile_here(&self, job: &Job) -> Result<Vec<u8>, Refused> {
        let refused = |log: String| Refused { log };
        let arch = job.arch().map_err(refused)?;
        let text = |text: &str| CString::new(text).map_err(|_| refused("error: a NUL byte in the source".to_owned()));
        let (source, file_name) = (text(&job.text)?, text(&job.file_name)?);
        let flags = self.kind.flags(arch);
        let options: Vec<_> = flags.iter().chain(&job.options).map(|o| text(o)).collect::<Result<_, _>>()?;
        let options: Vec<_> = options.iter().map(|option| option.as_ptr()).collect();

        let mut handle = ptr::null_mut();
        // SAFETY: NUL-terminated texts that outlive the call; no headers are given.
        let code = unsafe {
            (self.calls.create)(&mut handle, source.as_ptr(), file_name.as_ptr(), 0, ptr::null(), ptr::null())
        };
        self.check(code, "CreateProgram")?;
        let program = OwnedProgram { rtc: self, handle };
        let n_options = c_int::try_from(options.len()).unwrap_or(0);
        // SAFETY: a live program; as many NUL-terminated options as are said.
        let code = unsafe { (self.calls.compile)(program.handle, n_options, options.as_ptr()) };
        if code != 0 {
            let log = program.log();
            self.check(code, "CompileProgram")
                .map_err(|no_log| if log.trim().is_empty() { no_log } else { refused(log) })?;
        }
        let mut n_bytes = 0usize;
        // SAFETY: a live program that is compiled.
        self.check(unsafe { (self.calls.image_size)(program.handle, &mut n_bytes) }, "GetImageSize")?;
        let mut image = vec![0u8; n_bytes];
        // SAFETY: the image has room for as many bytes as it was said to take.
        self.check(unsafe { (self.calls.image)(program.handle, image.as_mut_ptr().cast()) }, "GetImage")?;
        if image.is_empty() { Err(refused("error: the image is empty".to_owned())) } else { Ok(image) }
    }

    fn check(&self, code: c_int, call: &str) -> Result<(), Refused> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: the call takes any number.
        let text = unsafe { (self.calls.error_text)(code) };
        let text = if text.is_null() {
            "unknown".into()
        } else {
            // SAFETY: not null; a constant text of the library.
            unsafe { CStr::from_ptr(text) }.to_string_lossy()
        };
        Err(Refused { log: format!("error: {}{call} failed: {text} ({code})", self.kind.prefix()) })
    }
}

struct OwnedProgram<'a> {
    rtc: &'a Rtc,
    handle: Program,
}

impl OwnedProgram<'_> {
    fn log(&self) -> String {
        let mut n_bytes = 0usize;
        // SAFETY: a live program.
        if unsafe { (self.rtc.calls.log_size)(self.handle, &mut n_bytes) } != 0 || n_bytes == 0 {
            return String::new();
        }
        let mut log = vec![0u8; n_bytes];
        // SAFETY: the log has room for as many bytes as it was said to take.
        if unsafe { (self.rtc.calls.log)(self.handle, log.as_mut_ptr().cast()) } != 0 {
            return String::new();
        }
        String::from_utf8_lossy(&log).trim_end_matches('\0').to_owned()
    }
}

impl Drop for OwnedProgram<'_> {
    fn drop(&mut self) {
        // SAFETY: a live program, which nobody uses after this.
        unsafe { (self.rtc.calls.destroy)(&mut self.handle) };
    }
}

/// A variable of the environment as a place that was looked at: with its value, where it has one.
pub(super) fn shown_variable(name: &str, value: Option<OsString>) -> String {
    let value = value.filter(|value| !value.is_empty()).map(|value| {
        let text: String = value.to_string_lossy().chars().filter(|c| !c.is_control()).collect();
        format!(" ({text})")
    });
    format!("${name}{}", value.as_deref().unwrap_or_default())
}

/// The file that an address of this process's code lies in, links followed.
fn mapped_file(address: usize) -> Option<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    maps.lines().find_map(|line| {
        let (from, to) = line.split(' ').next()?.split_once('-')?;
        let range = usize::from_str_radix(from, 16).ok()?..usize::from_str_radix(to, 16).ok()?;
        let path = line.get(line.find('/')?..)?;
        range.contains(&address).then(|| PathBuf::from(path))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn the_file_of_a_function_is_found() {
        let file = mapped_file(mapped_file as *const () as usize).unwrap();
        assert_eq!(file, std::env::current_exe().unwrap());
        assert_eq!(mapped_file(1), None);
    }

    #[test]
    fn a_library_that_is_no_compiler_is_refused() {
        let other = ["libm.so.6", "libSystem.dylib"].map(Path::new).into_iter();
        let reasons: Vec<_> = other.filter_map(|place| Rtc::load(CompilerKind::Nvrtc, place).err()).collect();
        assert!(reasons.iter().any(|reason| reason.contains("has no nvrtcVersion")), "{reasons:?}");
        assert!(Rtc::load(CompilerKind::Hiprtc, Path::new("/no/libhiprtc.so")).is_err());
    }
}
