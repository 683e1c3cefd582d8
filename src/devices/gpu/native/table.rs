//! Functions of a driver's library, in tables.

use std::ffi::{c_char, c_int, c_uint, c_void};

/// A function of a library, with its name for errors.
pub struct Function<F> {
    pub name: &'static str,
    pub pointer: F,
}

/// A table of functions that return 0 or an error's code, and the names under which a library has them.
macro_rules! function_table {
    ($(#[$meta:meta])* $table:ident, $names:ident { $($field:ident: fn($($argument:ty),* $(,)?);)* }) => {
        $(#[$meta])*
        pub struct $table {
            $(pub $field: $crate::devices::gpu::native::table::Function<
                unsafe extern "C" fn($($argument),*) -> std::ffi::c_int,
            >,)*
        }

        /// Names of the functions in a library.
        pub struct $names {
            $(pub $field: &'static str,)*
        }

        impl $table {
            /// # Safety
            /// The library's functions of these names have these types.
            ///
            /// # Errors
            /// The name that is missing.
            pub unsafe fn load(
                library: &'static libloading::Library,
                names: &$names,
            ) -> Result<$table, &'static str> {
                Ok($table {
                    $($field: $crate::devices::gpu::native::table::Function {
                        name: names.$field,
                        // SAFETY: the caller vouches for the type; the library is never unloaded.
                        pointer: *unsafe { library.get(names.$field) }.map_err(|_| names.$field)?,
                    },)*
                })
            }
        }
    };
}
pub(in crate::devices::gpu) use function_table;

function_table! {
    /// Calls that differ in nothing but their names. Devices are `int`; addresses and handles are as wide as a pointer.
    Calls, CallNames {
        init: fn(c_uint);
        version: fn(*mut c_int);
        n_devices: fn(*mut c_int);
        device_name: fn(*mut c_char, c_int, c_int);
        device_bytes: fn(*mut usize, c_int);
        device_attribute: fn(*mut c_int, c_int, c_int);
        memory: fn(*mut usize, *mut usize);
        alloc: fn(*mut u64, usize);
        free: fn(u64);
        alloc_pinned: fn(*mut *mut c_void, usize, c_uint);
        free_pinned: fn(*mut c_void);
        create_stream: fn(*mut usize, c_uint);
        destroy_stream: fn(usize);
        sync_stream: fn(usize);
        wait_event: fn(usize, usize, c_uint);
        create_event: fn(*mut usize, c_uint);
        destroy_event: fn(usize);
        record_event: fn(usize, usize);
        sync_event: fn(usize);
        query_event: fn(usize);
        elapsed_ms: fn(*mut f32, usize, usize);
        fill: fn(u64, u8, usize, usize);
        copy_to_device: fn(u64, *const c_void, usize, usize);
        copy_to_host: fn(*mut c_void, u64, usize, usize);
        copy_on_device: fn(u64, u64, usize, usize);
        can_access_peer: fn(*mut c_int, c_int, c_int);
        load_module: fn(*mut usize, *const c_void);
        unload_module: fn(usize);
        function: fn(*mut usize, usize, *const c_char);
        launch: fn(
            usize, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, usize, *mut *mut c_void, *mut *mut c_void,
        );
    }
}

/// Calls a function of a table: an expression for an `unsafe` block.
macro_rules! call {
    ($vendor:expr, $check:ident, $function:expr $(, $argument:expr)*) => {
        $vendor.$check($function.name, ($function.pointer)($($argument),*))
    };
}
pub(in crate::devices::gpu) use call;
