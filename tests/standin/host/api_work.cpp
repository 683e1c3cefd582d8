// HIP: memory, streams, events, modules and launches.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <memory>
#include <thread>

#include "config.hpp"
#include "device.hpp"
#include "memory.hpp"
#include "module.hpp"
#include "stream.hpp"
#include "trace.hpp"

namespace {
using stream::Stream;

// The error of the calling thread's device, which every call on it gives.
Error current_state() { return device::current() < device::count() ? device::state(device::current()) : hipErrorNoDevice; }

// Kernels call functions of this library: its names must be found from libraries loaded later.
void share_names() {
    Dl_info info;
    if (dladdr((void*)&share_names, &info)) dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
}

void move(void* to, const void* from, size_t bytes) {
    auto start = std::chrono::steady_clock::now();
    memcpy(to, from, bytes);
    if (uint64_t rate = config().copy_bytes_per_s)
        std::this_thread::sleep_until(start + std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>((double)bytes / (double)rate)));
}

// `wait`: host memory that is not pinned is copied before the call returns.
Error queue_copy(void* handle, void* to, const void* from, size_t bytes, bool wait) {
    Stream* s = stream::find(handle);
    if (!s) return hipErrorInvalidHandle;
    int ordinal = stream::device_of(s);
    if (Error e = device::count_copy(ordinal)) return e;
    stream::enqueue(s, [=] { move(to, from, bytes); });
    if (wait) stream::synchronize(s);
    return wait ? device::state(ordinal) : hipSuccess;
}

Error queue_fill(void* handle, void* to, unsigned char value, size_t bytes) {
    if (bytes == 0) return hipSuccess;
    if (memory::device_of(to, bytes) < 0) return hipErrorInvalidValue;
    Stream* s = stream::find(handle);
    if (!s) return hipErrorInvalidHandle;
    if (Error e = device::count_copy(stream::device_of(s))) return e;
    stream::enqueue(s, [=] { memset(to, value, bytes); });
    return hipSuccess;
}
}  // namespace

// ---- memory ----

HIP_EXPORT Error hipMemGetInfo(size_t* free, size_t* total) {
    if (Error e = current_state()) return e;
    uint64_t bytes = config().devices[(size_t)device::current()].memory_bytes;
    if (total) *total = bytes;
    if (free) *free = bytes - memory::used_bytes(device::current());
    return hipSuccess;
}

HIP_EXPORT Error hipMalloc(void** out, size_t bytes) {
    static std::atomic<uint64_t> n_calls;
    TRACE("%zu bytes on device %d", bytes, device::current());
    if (!out) return hipErrorInvalidValue;
    if (Error e = current_state()) return e;
    *out = nullptr;
    if (bytes == 0) return hipSuccess;
    if (config().fail_alloc.hits(++n_calls)) return hipErrorOutOfMemory;
    *out = memory::allocate(device::current(), bytes);
    return *out ? hipSuccess : hipErrorOutOfMemory;
}

HIP_EXPORT Error hipFree(void* p) {
    TRACE("%p", p);
    if (!p) return hipSuccess;
    int ordinal = memory::device_of(p, 1);
    if (ordinal < 0) return hipErrorInvalidValue;
    stream::synchronize_device(ordinal);
    std::string error;
    if (!memory::release(p, error)) return hipErrorInvalidValue;
    if (!error.empty()) device::fail(ordinal, hipErrorLaunchFailure, error);
    return device::state(ordinal);
}

HIP_EXPORT Error hipHostMalloc(void** out, size_t bytes, unsigned) {
    TRACE("%zu bytes", bytes);
    if (!out) return hipErrorInvalidValue;
    if (Error e = current_state()) return e;
    *out = memory::allocate_host(bytes);
    return *out ? hipSuccess : hipErrorOutOfMemory;
}

HIP_EXPORT Error hipHostFree(void* p) {
    TRACE("%p", p);
    if (!p) return hipSuccess;
    if (!memory::is_pinned(p, 0)) return hipErrorInvalidValue;
    for (int i = 0; i < device::count(); i++) stream::synchronize_device(i);
    return memory::release_host(p) ? hipSuccess : hipErrorInvalidValue;
}

HIP_EXPORT Error hipMemcpyHtoDAsync(void* to, void* from, size_t bytes, void* s) {
    TRACE("%p from %p, %zu bytes, stream %p", to, from, bytes, s);
    if (bytes == 0) return hipSuccess;
    if (!from || memory::device_of(to, bytes) < 0) return hipErrorInvalidValue;
    return queue_copy(s, to, from, bytes, !memory::is_pinned(from, bytes));
}

HIP_EXPORT Error hipMemcpyDtoHAsync(void* to, void* from, size_t bytes, void* s) {
    TRACE("%p from %p, %zu bytes, stream %p", to, from, bytes, s);
    if (bytes == 0) return hipSuccess;
    if (!to || memory::device_of(from, bytes) < 0) return hipErrorInvalidValue;
    return queue_copy(s, to, from, bytes, !memory::is_pinned(to, bytes));
}

HIP_EXPORT Error hipMemcpyDtoDAsync(void* to, void* from, size_t bytes, void* s) {
    TRACE("%p from %p, %zu bytes, stream %p", to, from, bytes, s);
    if (bytes == 0) return hipSuccess;
    if (memory::device_of(to, bytes) < 0 || memory::device_of(from, bytes) < 0) return hipErrorInvalidValue;
    return queue_copy(s, to, from, bytes, false);
}

HIP_EXPORT Error hipMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, size_t bytes, void* s) {
    TRACE("%p on %d from %p on %d, %zu bytes, stream %p", to, to_device, from, from_device, bytes, s);
    if (bytes == 0) return hipSuccess;
    if (to_device < 0 || from_device < 0) return hipErrorInvalidDevice;
    if (memory::device_of(to, bytes) != to_device || memory::device_of(from, bytes) != from_device) return hipErrorInvalidValue;
    for (int ordinal : {to_device, from_device})
        if (Error e = device::state(ordinal)) return e;
    return queue_copy(s, to, from, bytes, false);
}

HIP_EXPORT Error hipMemcpyAsync(void* to, const void* from, size_t bytes, int, void* s) {
    bool to_device = memory::device_of(to, bytes) >= 0, from_device = memory::device_of(from, bytes) >= 0;
    if (to_device && from_device) return hipMemcpyDtoDAsync(to, (void*)from, bytes, s);
    if (to_device) return hipMemcpyHtoDAsync(to, (void*)from, bytes, s);
    return hipMemcpyDtoHAsync(to, (void*)from, bytes, s);
}

HIP_EXPORT Error hipMemsetD8Async(void* to, unsigned char value, size_t bytes, void* s) {
    TRACE("%p, %u, %zu bytes, stream %p", to, value, bytes, s);
    return queue_fill(s, to, value, bytes);
}

HIP_EXPORT Error hipMemsetAsync(void* to, int value, size_t bytes, void* s) {
    TRACE("%p, %d, %zu bytes, stream %p", to, value, bytes, s);
    return queue_fill(s, to, (unsigned char)value, bytes);
}

// ---- streams and events ----

HIP_EXPORT Error hipStreamCreateWithFlags(void** out, unsigned flags) {
    TRACE("%u on device %d", flags, device::current());
    if (!out || flags > 1) return hipErrorInvalidValue;
    if (Error e = current_state()) return e;
    *out = stream::create(device::current());
    return hipSuccess;
}

HIP_EXPORT Error hipStreamDestroy(void* handle) {
    TRACE("%p", handle);
    return handle ? stream::destroy(handle) : hipErrorInvalidHandle;
}

HIP_EXPORT Error hipStreamSynchronize(void* handle) {
    TRACE("%p", handle);
    Stream* s = stream::find(handle);
    if (!s) return hipErrorInvalidHandle;
    stream::synchronize(s);
    return device::state(stream::device_of(s));
}

HIP_EXPORT Error hipStreamQuery(void* handle) {
    Stream* s = stream::find(handle);
    if (!s) return hipErrorInvalidHandle;
    if (Error e = device::state(stream::device_of(s))) return e;
    return stream::idle(s) ? hipSuccess : hipErrorNotReady;
}

HIP_EXPORT Error hipStreamWaitEvent(void* handle, void* event, unsigned) {
    TRACE("stream %p, event %p", handle, event);
    Stream* s = stream::find(handle);
    if (!s) return hipErrorInvalidHandle;
    if (Error e = device::state(stream::device_of(s))) return e;
    return stream::wait(s, event);
}

HIP_EXPORT Error hipEventCreateWithFlags(void** out, unsigned flags) {
    if (!out) return hipErrorInvalidValue;
    if (Error e = current_state()) return e;
    *out = stream::create_event(device::current(), flags);
    TRACE("%p", *out);
    return hipSuccess;
}

HIP_EXPORT Error hipEventDestroy(void* event) { return stream::destroy_event(event); }

HIP_EXPORT Error hipEventRecord(void* event, void* handle) {
    TRACE("event %p, stream %p", event, handle);
    Stream* s = stream::find(handle);
    if (!s) return hipErrorInvalidHandle;
    if (Error e = device::state(stream::device_of(s))) return e;
    return stream::record(event, s);
}

HIP_EXPORT Error hipEventSynchronize(void* event) {
    TRACE("%p", event);
    if (Error e = stream::synchronize_event(event)) return e;
    int ordinal = stream::device_of_event(event);
    return ordinal < 0 ? hipErrorInvalidHandle : device::state(ordinal);
}

HIP_EXPORT Error hipEventQuery(void* event) {
    int ordinal = stream::device_of_event(event);
    if (ordinal < 0) return hipErrorInvalidHandle;
    if (Error e = device::state(ordinal)) return e;
    return stream::query_event(event);
}

HIP_EXPORT Error hipEventElapsedTime(float* ms, void* start, void* stop) {
    return ms ? stream::elapsed(ms, start, stop) : hipErrorInvalidValue;
}

// ---- modules and launches ----

HIP_EXPORT Error hipModuleLoadData(void** out, const void* code) {
    TRACE("on device %d", device::current());
    if (!out || !code) return hipErrorInvalidValue;
    if (Error e = current_state()) return e;
    static bool once = (share_names(), true);
    (void)once;
    module::Module* m = nullptr;
    Error e = module::load(&m, code, device::current());
    *out = m;
    return e;
}

HIP_EXPORT Error hipModuleUnload(void* m) {
    TRACE("%p", m);
    for (int i = 0; i < device::count(); i++) stream::synchronize_device(i);
    return module::unload((module::Module*)m);
}

HIP_EXPORT Error hipModuleGetFunction(void** out, void* m, const char* name) {
    if (!out || !name) return hipErrorInvalidValue;
    module::Function* f = nullptr;
    Error e = module::find(&f, (module::Module*)m, name);
    *out = f;
    TRACE("%s: %d", name, e);
    return e;
}

HIP_EXPORT Error hipModuleLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                                       unsigned block_z, unsigned shared_bytes, void* handle, void** params, void** extra) {
    auto* f = (module::Function*)function;
    TRACE("%p, grid %u %u %u, block %u %u %u, stream %p", function, grid_x, grid_y, grid_z, block_x, block_y, block_z, handle);
    Stream* s = stream::find(handle);
    if (!s || !module::is_function(f) || module::device_of(f) != stream::device_of(s)) return hipErrorInvalidHandle;
    simt::Dim grid{grid_x, grid_y, grid_z}, block{block_x, block_y, block_z};
    if (grid.count() == 0 || block.count() == 0 || grid_y > 65535 || grid_z > 65535 || grid_x > 0x7FFFFFFF) return hipErrorInvalidValue;
    if (block.count() > simt::max_threads || shared_bytes > 64 << 10) return hipErrorInvalidConfiguration;
    // Arguments packed into one buffer are not in what this library stands for. Dynamic shared memory is granted, but
    // no kernel that names it compiles.
    if (extra) return hipErrorNotSupported;
    auto args = std::make_shared<module::Arguments>(module::copy_arguments(f, params));
    int ordinal = stream::device_of(s);
    if (Error e = device::count_launch(ordinal)) return e;
    stream::enqueue(s, [=] {
        std::string error;
        bool ok = module::run(f, grid, block, args->pointers.get(), error);
        if (ok) {
            error = memory::check_guards();
            if (!error.empty()) error = "after kernel " + module::name_of(f) + ": " + error;
        }
        if (!error.empty()) device::fail(ordinal, hipErrorLaunchFailure, error);
    });
    return hipSuccess;
}
