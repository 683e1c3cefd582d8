// HIP: initialisation, devices and their properties.
#include <cstdio>
#include <cstring>

#include "config.hpp"
#include "device.hpp"
#include "memory.hpp"
#include "simt.hpp"
#include "stream.hpp"
#include "trace.hpp"

namespace {
bool is_device(int ordinal) { return ordinal >= 0 && ordinal < device::count(); }

struct Name {
    char text[256];
};
Name name_of(int ordinal) {
    Name n{};
    snprintf(n.text, sizeof n.text, "Stand-in %s", config().devices[(size_t)ordinal].arch.c_str());
    return n;
}
int bus_of(int ordinal) { return 3 + ordinal; }

void put(void* props, size_t at, const void* value, size_t bytes) { memcpy((char*)props + at, value, bytes); }
void put_int(void* props, size_t at, int value) { put(props, at, &value, sizeof value); }

constexpr int n_multiprocessors = 8, shared_bytes = 64 << 10, clock_khz = 2000000, memory_khz = 1000000, bus_bits = 128, l2_bytes = 4 << 20;
}  // namespace

HIP_EXPORT Error hipInit(unsigned flags) {
    TRACE("%u", flags);
    if (flags) return hipErrorInvalidValue;
    // Real HIP 5.2 gives 101 here where there is no device.
    if (device::count() == 0) return hipErrorInvalidDevice;
    static bool once = (simt::install_fault_handler(), true);
    (void)once;
    return hipSuccess;
}

HIP_EXPORT Error hipDriverGetVersion(int* version) {
    if (!version) return hipErrorInvalidValue;
    *version = 60000000;
    return hipSuccess;
}

HIP_EXPORT Error hipRuntimeGetVersion(int* version) { return hipDriverGetVersion(version); }

HIP_EXPORT Error hipGetDeviceCount(int* count) {
    if (!count) return hipErrorInvalidValue;
    *count = device::count();
    TRACE("%d", *count);
    return *count ? hipSuccess : hipErrorNoDevice;
}

HIP_EXPORT Error hipDeviceGet(int* out, int ordinal) {
    if (!out) return hipErrorInvalidValue;
    if (!is_device(ordinal)) return hipErrorInvalidDevice;
    *out = ordinal;
    return hipSuccess;
}

HIP_EXPORT Error hipDeviceGetName(char* name, int len, int ordinal) {
    if (!name || len <= 0) return hipErrorInvalidValue;
    if (!is_device(ordinal)) return hipErrorInvalidDevice;
    snprintf(name, (size_t)len, "%s", name_of(ordinal).text);
    return hipSuccess;
}

HIP_EXPORT Error hipDeviceGetPCIBusId(char* id, int len, int ordinal) {
    if (!id || len <= 0) return hipErrorInvalidValue;
    if (!is_device(ordinal)) return hipErrorInvalidDevice;
    if (snprintf(id, (size_t)len, "0000:%02x:00.0", bus_of(ordinal)) >= len) return hipErrorInvalidValue;
    return hipSuccess;
}

HIP_EXPORT Error hipDeviceGetUuid(char* uuid, int ordinal) {
    if (!uuid) return hipErrorInvalidValue;
    if (!is_device(ordinal)) return hipErrorInvalidDevice;
    char text[17];
    snprintf(text, sizeof text, "57a4d1%010x", ordinal);
    memcpy(uuid, text, 16);
    return hipSuccess;
}

HIP_EXPORT Error hipDeviceGetAttribute(int* out, int attribute, int ordinal) {
    if (!out) return hipErrorInvalidValue;
    if (!is_device(ordinal)) return hipErrorInvalidDevice;
    const DeviceConfig& d = config().devices[(size_t)ordinal];
    switch (attribute) {
        case 2: *out = 1; break;                                   // AsyncEngineCount
        case 3: *out = 1; break;                                   // CanMapHostMemory
        case 5: *out = clock_khz; break;                           // ClockRate
        case 8: *out = 1; break;                                   // ConcurrentKernels
        case 16: *out = config().integrated; break;                // Integrated
        case 19: *out = l2_bytes; break;                           // L2CacheSize
        case 23: *out = d.wave_size == 64 ? 9 : 11; break;         // ComputeCapabilityMajor
        case 61: *out = 0; break;                                  // ComputeCapabilityMinor
        case 24: *out = 0; break;                                  // ManagedMemory
        case 26: case 27: case 28: *out = 1024; break;             // MaxBlockDimX, Y, Z
        case 29: *out = 2147483647; break;                         // MaxGridDimX
        case 30: case 31: *out = 65535; break;                     // MaxGridDimY, Z
        case 56: *out = (int)simt::max_threads; break;             // MaxThreadsPerBlock
        case 57: *out = 2048; break;                               // MaxThreadsPerMultiProcessor
        case 59: *out = bus_bits; break;                           // MemoryBusWidth
        case 60: *out = memory_khz; break;                         // MemoryClockRate
        case 63: *out = n_multiprocessors; break;                  // MultiprocessorCount
        case 65: *out = 0; break;                                  // PageableMemoryAccess
        case 67: *out = bus_of(ordinal); break;                    // PciBusId
        case 68: *out = 0; break;                                  // PciDeviceId
        case 69: *out = 0; break;                                  // PciDomainID
        case 71: *out = 65536; break;                              // MaxRegistersPerBlock
        case 74: *out = shared_bytes; break;                       // MaxSharedMemoryPerBlock
        case 85: *out = 1; break;                                  // UnifiedAddressing
        case 87: *out = (int)d.wave_size; break;                   // WarpSize
        case 10002: *out = shared_bytes; break;                    // MaxSharedMemoryPerMultiprocessor
        default: return hipErrorInvalidValue;
    }
    return hipSuccess;
}

HIP_EXPORT Error hipDeviceTotalMem(size_t* bytes, int ordinal) {
    if (!bytes) return hipErrorInvalidValue;
    if (!is_device(ordinal)) return hipErrorInvalidDevice;
    *bytes = config().devices[(size_t)ordinal].memory_bytes;
    return hipSuccess;
}

// hipDeviceProp_t of ROCm 6: name, uuid[16], luid[8], luidDeviceNodeMask, totalGlobalMem at 288, ... gcnArchName at 1160.
HIP_EXPORT Error hipGetDevicePropertiesR0600(void* props, int ordinal) {
    if (!props) return hipErrorInvalidValue;
    if (!is_device(ordinal)) return hipErrorInvalidDevice;
    const DeviceConfig& d = config().devices[(size_t)ordinal];
    memset(props, 0, 1472);
    put(props, 0, name_of(ordinal).text, 256);
    hipDeviceGetUuid((char*)props + 256, ordinal);
    put(props, 288, &d.memory_bytes, 8);
    size_t shared = shared_bytes;
    put(props, 296, &shared, 8);
    put_int(props, 308, (int)d.wave_size);
    put_int(props, 320, (int)simt::max_threads);
    snprintf((char*)props + 1160, 256, "%s", d.arch.c_str());
    return hipSuccess;
}

// hipDeviceProp_t up to ROCm 5.
HIP_EXPORT Error hipGetDeviceProperties(void* props, int ordinal) {
    if (!props) return hipErrorInvalidValue;
    if (!is_device(ordinal)) return hipErrorInvalidDevice;
    const DeviceConfig& d = config().devices[(size_t)ordinal];
    memset(props, 0, 792);
    put(props, 0, name_of(ordinal).text, 256);
    put(props, 256, &d.memory_bytes, 8);
    size_t shared = shared_bytes;
    put(props, 264, &shared, 8);
    put_int(props, 276, (int)d.wave_size);
    put_int(props, 280, (int)simt::max_threads);
    snprintf((char*)props + 396, 256, "%s", d.arch.c_str());
    put_int(props, 652, config().integrated);
    return hipSuccess;
}

HIP_EXPORT Error hipSetDevice(int ordinal) {
    if (!is_device(ordinal)) return hipErrorInvalidDevice;
    device::set_current(ordinal);
    return hipSuccess;
}

HIP_EXPORT Error hipGetDevice(int* ordinal) {
    if (!ordinal) return hipErrorInvalidValue;
    *ordinal = device::current();
    return hipSuccess;
}

HIP_EXPORT Error hipDeviceSynchronize() {
    int ordinal = device::current();
    TRACE("device %d", ordinal);
    if (!is_device(ordinal)) return hipErrorNoDevice;
    stream::synchronize_device(ordinal);
    return device::state(ordinal);
}

HIP_EXPORT Error hipDeviceCanAccessPeer(int* can, int ordinal, int peer) {
    if (!can) return hipErrorInvalidValue;
    if (!is_device(ordinal) || !is_device(peer)) return hipErrorInvalidDevice;
    *can = ordinal != peer;
    return hipSuccess;
}

HIP_EXPORT Error hipDeviceEnablePeerAccess(int peer, unsigned flags) {
    if (flags) return hipErrorInvalidValue;
    if (!is_device(peer) || peer == device::current()) return hipErrorInvalidDevice;
    static bool enabled[64][64];
    bool& e = enabled[device::current()][peer];
    if (e) return hipErrorPeerAccessAlreadyEnabled;
    e = true;
    return hipSuccess;
}

HIP_EXPORT Error hipGetLastError() { return is_device(device::current()) ? device::state(device::current()) : hipErrorNoDevice; }
HIP_EXPORT Error hipPeekAtLastError() { return hipGetLastError(); }

HIP_EXPORT const char* hipGetErrorName(Error error) {
    switch (error) {
#define CASE(name) case name: return #name;
        CASE(hipSuccess)
        CASE(hipErrorInvalidValue)
        CASE(hipErrorOutOfMemory)
        CASE(hipErrorNotInitialized)
        CASE(hipErrorInvalidConfiguration)
        CASE(hipErrorNoDevice)
        CASE(hipErrorInvalidDevice)
        CASE(hipErrorInvalidImage)
        CASE(hipErrorNoBinaryForGpu)
        CASE(hipErrorInvalidHandle)
        CASE(hipErrorNotFound)
        CASE(hipErrorNotReady)
        CASE(hipErrorLaunchOutOfResources)
        CASE(hipErrorPeerAccessAlreadyEnabled)
        CASE(hipErrorLaunchFailure)
        CASE(hipErrorNotSupported)
        CASE(hipErrorUnknown)
#undef CASE
    }
    return "hipErrorUnknown";
}

HIP_EXPORT const char* hipGetErrorString(Error error) {
    switch (error) {
        case hipSuccess: return "no error";
        case hipErrorInvalidValue: return "invalid argument";
        case hipErrorOutOfMemory: return "out of memory";
        case hipErrorNotInitialized: return "initialization error";
        case hipErrorInvalidConfiguration: return "invalid configuration argument";
        case hipErrorNoDevice: return "no ROCm-capable device is detected";
        case hipErrorInvalidDevice: return "invalid device ordinal";
        case hipErrorInvalidImage: return "device kernel image is invalid";
        case hipErrorNoBinaryForGpu: return "no kernel image is available for execution on the device";
        case hipErrorInvalidHandle: return "invalid resource handle";
        case hipErrorNotFound: return "named symbol not found";
        case hipErrorNotReady: return "device not ready";
        case hipErrorLaunchOutOfResources: return "out of resources";
        case hipErrorPeerAccessAlreadyEnabled: return "peer access is already enabled";
        case hipErrorLaunchFailure: return "unspecified launch failure";
        case hipErrorNotSupported: return "operation not supported";
        case hipErrorUnknown: return "unknown error";
    }
    return "unknown error";
}
