//! From units to images for a chip: what a driver loads as a module.
//!
//! [`store::KernelStore`] is what others use. It looks in memory, in folders of images built ahead ([`prebuilt`]) and
//! in the disk cache ([`cache`]); what is missing it gives to the vendor's run-time compiler ([`rtc`]) in child
//! processes ([`worker`]), because a compiler can abort or hang.

pub mod cache;
mod error;
pub mod hiprtc;
mod job;
mod kind;
pub mod nvrtc;
mod options;
mod pool;
pub mod prebuilt;
pub mod rtc;
mod seal;
pub mod store;
pub mod worker;

pub use error::CompileError;
pub use job::{Job, Key};
pub use kind::CompilerKind;
pub use options::{KernelOptions, Runner};
pub use store::KernelStore;

/// Looks up an environment variable, or what stands for it in a test.
pub type Variable<'a> = dyn Fn(&str) -> Option<std::ffi::OsString> + 'a;
