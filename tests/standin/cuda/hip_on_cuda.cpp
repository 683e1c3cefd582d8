// The HIP and hiprtc entry points that Layercake calls, carried out by an NVIDIA card: a second "driver" with its own
// contexts and real asynchronous behaviour, for machines where no AMD card is to be had.
//
// Every stand-in device has its own CUDA context on CUDA device 0. Each entry point makes that context current for the
// length of the call and puts back the one it found, so a CUDA program on the same thread is not disturbed.
//
// Environment:
//   LAYERCAKE_STANDIN_ARCH        architecture name told (gfx1100)
//   LAYERCAKE_STANDIN_DEVICES     number of devices (1)
//   LAYERCAKE_STANDIN_MEMORY_MIB  memory each device has (all the card's)
//   LAYERCAKE_STANDIN_PEER        0: devices say they have no peer access (1)
//   LAYERCAKE_NVRTC               path of libnvrtc, tried before the loader's own
#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace {

// The part of CUDA's driver API and NVRTC used here, declared by hand so that no CUDA headers are needed.
using CUresult = int;
using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUcontext = struct CUctx_st*;
using CUstream = struct CUstream_st*;
using CUevent = struct CUevent_st*;
using CUmodule = struct CUmod_st*;
using CUfunction = struct CUfunc_st*;
using nvrtcProgram = struct nvrtcProg_st*;

struct Cuda {
    CUresult (*Init)(unsigned);
    CUresult (*DeviceGet)(CUdevice*, int);
    CUresult (*DeviceGetCount)(int*);
    CUresult (*DeviceGetName)(char*, int, CUdevice);
    CUresult (*DeviceGetAttribute)(int*, int, CUdevice);
    CUresult (*DeviceTotalMem)(size_t*, CUdevice);
    CUresult (*CtxCreate)(CUcontext*, unsigned, CUdevice);
    CUresult (*CtxPopCurrent)(CUcontext*);
    CUresult (*CtxGetCurrent)(CUcontext*);
    CUresult (*CtxSetCurrent)(CUcontext);
    CUresult (*CtxSynchronize)();
    CUresult (*MemGetInfo)(size_t*, size_t*);
    CUresult (*MemAlloc)(CUdeviceptr*, size_t);
    CUresult (*MemFree)(CUdeviceptr);
    CUresult (*MemHostAlloc)(void**, size_t, unsigned);
    CUresult (*MemFreeHost)(void*);
    CUresult (*StreamCreate)(CUstream*, unsigned);
    CUresult (*StreamDestroy)(CUstream);
    CUresult (*StreamSynchronize)(CUstream);
    CUresult (*StreamQuery)(CUstream);
    CUresult (*StreamWaitEvent)(CUstream, CUevent, unsigned);
    CUresult (*StreamGetCtx)(CUstream, CUcontext*);
    CUresult (*EventCreate)(CUevent*, unsigned);
    CUresult (*EventDestroy)(CUevent);
    CUresult (*EventRecord)(CUevent, CUstream);
    CUresult (*EventSynchronize)(CUevent);
    CUresult (*EventQuery)(CUevent);
    CUresult (*EventElapsedTime)(float*, CUevent, CUevent);
    CUresult (*MemcpyHtoDAsync)(CUdeviceptr, const void*, size_t, CUstream);
    CUresult (*MemcpyDtoHAsync)(void*, CUdeviceptr, size_t, CUstream);
    CUresult (*MemcpyDtoDAsync)(CUdeviceptr, CUdeviceptr, size_t, CUstream);
    CUresult (*MemcpyPeerAsync)(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t, CUstream);
    CUresult (*MemsetD8Async)(CUdeviceptr, unsigned char, size_t, CUstream);
    CUresult (*ModuleLoadData)(CUmodule*, const void*);
    CUresult (*ModuleUnload)(CUmodule);
    CUresult (*ModuleGetFunction)(CUfunction*, CUmodule, const char*);
    CUresult (*FuncSetAttribute)(CUfunction, int, int);
    CUresult (*LaunchKernel)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void**,
                             void**);
};

struct Nvrtc {
    int (*CreateProgram)(nvrtcProgram*, const char*, const char*, int, const char* const*, const char* const*);
    int (*DestroyProgram)(nvrtcProgram*);
    int (*CompileProgram)(nvrtcProgram, int, const char* const*);
    int (*GetProgramLogSize)(nvrtcProgram, size_t*);
    int (*GetProgramLog)(nvrtcProgram, char*);
    int (*GetCUBINSize)(nvrtcProgram, size_t*);
    int (*GetCUBIN)(nvrtcProgram, char*);
};

template <typename F>
bool find(void* library, const char* name, F& function) {
    function = reinterpret_cast<F>(dlsym(library, name));
    return function != nullptr;
}

bool load_cuda(Cuda& c) {
    void* lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (lib == nullptr) return false;
    // cuCtxCreate_v2 is asked for by name: newer headers map cuCtxCreate to versions with another argument list.
    return find(lib, "cuInit", c.Init) && find(lib, "cuDeviceGet", c.DeviceGet) &&
           find(lib, "cuDeviceGetCount", c.DeviceGetCount) && find(lib, "cuDeviceGetName", c.DeviceGetName) &&
           find(lib, "cuDeviceGetAttribute", c.DeviceGetAttribute) && find(lib, "cuDeviceTotalMem_v2", c.DeviceTotalMem) &&
           find(lib, "cuCtxCreate_v2", c.CtxCreate) && find(lib, "cuCtxPopCurrent_v2", c.CtxPopCurrent) &&
           find(lib, "cuCtxGetCurrent", c.CtxGetCurrent) && find(lib, "cuCtxSetCurrent", c.CtxSetCurrent) &&
           find(lib, "cuCtxSynchronize", c.CtxSynchronize) && find(lib, "cuMemGetInfo_v2", c.MemGetInfo) &&
           find(lib, "cuMemAlloc_v2", c.MemAlloc) && find(lib, "cuMemFree_v2", c.MemFree) &&
           find(lib, "cuMemHostAlloc", c.MemHostAlloc) && find(lib, "cuMemFreeHost", c.MemFreeHost) &&
           find(lib, "cuStreamCreate", c.StreamCreate) && find(lib, "cuStreamDestroy_v2", c.StreamDestroy) &&
           find(lib, "cuStreamSynchronize", c.StreamSynchronize) && find(lib, "cuStreamQuery", c.StreamQuery) &&
           find(lib, "cuStreamWaitEvent", c.StreamWaitEvent) && find(lib, "cuStreamGetCtx", c.StreamGetCtx) &&
           find(lib, "cuEventCreate", c.EventCreate) && find(lib, "cuEventDestroy_v2", c.EventDestroy) &&
           find(lib, "cuEventRecord", c.EventRecord) && find(lib, "cuEventSynchronize", c.EventSynchronize) &&
           find(lib, "cuEventQuery", c.EventQuery) && find(lib, "cuEventElapsedTime", c.EventElapsedTime) &&
           find(lib, "cuMemcpyHtoDAsync_v2", c.MemcpyHtoDAsync) && find(lib, "cuMemcpyDtoHAsync_v2", c.MemcpyDtoHAsync) &&
           find(lib, "cuMemcpyDtoDAsync_v2", c.MemcpyDtoDAsync) && find(lib, "cuMemcpyPeerAsync", c.MemcpyPeerAsync) &&
           find(lib, "cuMemsetD8Async", c.MemsetD8Async) && find(lib, "cuModuleLoadData", c.ModuleLoadData) &&
           find(lib, "cuModuleUnload", c.ModuleUnload) && find(lib, "cuModuleGetFunction", c.ModuleGetFunction) &&
           find(lib, "cuFuncSetAttribute", c.FuncSetAttribute) && find(lib, "cuLaunchKernel", c.LaunchKernel);
}

bool load_nvrtc(Nvrtc& n) {
    void* lib = nullptr;
    if (const char* path = std::getenv("LAYERCAKE_NVRTC"); path != nullptr && *path != '\0') {
        lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    for (const char* name : {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"}) {
        if (lib == nullptr) lib = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    }
    if (lib == nullptr) return false;
    return find(lib, "nvrtcCreateProgram", n.CreateProgram) && find(lib, "nvrtcDestroyProgram", n.DestroyProgram) &&
           find(lib, "nvrtcCompileProgram", n.CompileProgram) && find(lib, "nvrtcGetProgramLogSize", n.GetProgramLogSize) &&
           find(lib, "nvrtcGetProgramLog", n.GetProgramLog) && find(lib, "nvrtcGetCUBINSize", n.GetCUBINSize) &&
           find(lib, "nvrtcGetCUBIN", n.GetCUBIN);
}

// CUDA's numbers of the device attributes used here.
constexpr int kCuWarpSize = 10, kCuMajor = 75, kCuMinor = 76, kCuProcessors = 16, kCuSharedOptin = 97, kCuMaxThreads = 1;
constexpr int kCuMaxDynamicShared = 8;  // function attribute
constexpr size_t kMaxShared = 64 * 1024;  // AMD's workgroup limit
constexpr size_t kSharedWithoutOptin = 48 * 1024;

enum : int {
    kSuccess = 0,
    kInvalidValue = 1,
    kOutOfMemory = 2,
    kNotInitialized = 3,
    kNoDevice = 100,
    kInvalidDevice = 101,
    kInvalidHandle = 400,
    kNotReady = 600,
    kPeerAccessUnsupported = 217,
    kPeerAccessAlreadyEnabled = 704,
    kLaunchFailure = 719,
    kUnknown = 999,
};

struct Error {
    int code;
    const char* name;
    const char* text;
};
// HIP's errors that CUDA's driver has under the same number.
const Error kErrors[] = {
    {0, "hipSuccess", "no error"},
    {1, "hipErrorInvalidValue", "invalid argument"},
    {2, "hipErrorOutOfMemory", "out of memory"},
    {3, "hipErrorNotInitialized", "initialization error"},
    {4, "hipErrorDeinitialized", "driver shutting down"},
    {35, "hipErrorInsufficientDriver", "driver version is insufficient for runtime version"},
    {98, "hipErrorInvalidDeviceFunction", "invalid device function"},
    {100, "hipErrorNoDevice", "no ROCm-capable device is detected"},
    {101, "hipErrorInvalidDevice", "invalid device ordinal"},
    {200, "hipErrorInvalidImage", "device kernel image is invalid"},
    {201, "hipErrorInvalidContext", "invalid device context"},
    {205, "hipErrorMapFailed", "mapping of buffer object failed"},
    {206, "hipErrorUnmapFailed", "unmapping of buffer object failed"},
    {209, "hipErrorNoBinaryForGpu", "no kernel image is available for execution on the device"},
    {214, "hipErrorECCNotCorrectable", "uncorrectable ECC error encountered"},
    {215, "hipErrorUnsupportedLimit", "limit is not supported on this architecture"},
    {217, "hipErrorPeerAccessUnsupported", "peer access is not supported between these two devices"},
    {218, "hipErrorInvalidKernelFile", "invalid kernel file"},
    {300, "hipErrorInvalidSource", "device kernel image is invalid"},
    {301, "hipErrorFileNotFound", "file not found"},
    {302, "hipErrorSharedObjectSymbolNotFound", "shared object symbol not found"},
    {303, "hipErrorSharedObjectInitFailed", "shared object initialization failed"},
    {304, "hipErrorOperatingSystem", "OS call failed or operation not supported on this OS"},
    {400, "hipErrorInvalidHandle", "invalid resource handle"},
    {401, "hipErrorIllegalState", "the operation cannot be performed in the present state"},
    {500, "hipErrorNotFound", "named symbol not found"},
    {600, "hipErrorNotReady", "device not ready"},
    {700, "hipErrorIllegalAddress", "an illegal memory access was encountered"},
    {701, "hipErrorLaunchOutOfResources", "too many resources requested for launch"},
    {702, "hipErrorLaunchTimeOut", "the launch timed out and was terminated"},
    {704, "hipErrorPeerAccessAlreadyEnabled", "peer access is already enabled"},
    {705, "hipErrorPeerAccessNotEnabled", "peer access has not been enabled"},
    {709, "hipErrorContextIsDestroyed", "context is destroyed"},
    {710, "hipErrorAssert", "device-side assert triggered"},
    {712, "hipErrorHostMemoryAlreadyRegistered", "part or all of the requested memory range is already mapped"},
    {713, "hipErrorHostMemoryNotRegistered", "pointer does not correspond to a registered memory region"},
    {719, "hipErrorLaunchFailure", "unspecified launch failure"},
    {720, "hipErrorCooperativeLaunchTooLarge", "too many blocks in cooperative launch"},
    {801, "hipErrorNotSupported", "operation not supported"},
    {999, "hipErrorUnknown", "unknown error"},
};

const Error* find_error(int code) {
    for (const Error& error : kErrors) {
        if (error.code == code) return &error;
    }
    return nullptr;
}

// A CUDA driver error as HIP's number.
int from_cuda(CUresult code) {
    switch (code) {
        case 34:   // stub library
        case 46:   // device unavailable
            return kNoDevice;
        case 222:  // PTX of a newer version
        case 223:
            return 200;
        case 714:  // hardware stack error
        case 715:  // illegal instruction
        case 716:  // misaligned address
        case 717:  // invalid address space
        case 718:  // invalid program counter
            return kLaunchFailure;
        case 803:  // driver and kernel module differ
            return 35;
        default:
            return find_error(code) != nullptr ? code : kUnknown;
    }
}

size_t env_number(const char* name, size_t otherwise) {
    const char* text = std::getenv(name);
    if (text == nullptr || *text == '\0') return otherwise;
    char* end = nullptr;
    const unsigned long long value = std::strtoull(text, &end, 10);
    if (*end != '\0') {
        std::fprintf(stderr, "stand-in libamdhip64: %s=%s is no number; ignored\n", name, text);
        return otherwise;
    }
    return static_cast<size_t>(value);
}

std::string arch_name() {
    const char* arch = std::getenv("LAYERCAKE_STANDIN_ARCH");
    return arch != nullptr && *arch != '\0' ? arch : "gfx1100";
}

struct Device {
    CUcontext context = nullptr;
    size_t used_bytes = 0;
    std::set<int> peers;
};
struct Allocation {
    int device;
    size_t size_bytes;
};

// All that the stand-in driver knows. Made at the first call, never taken down: other threads may still be in it at exit.
struct Driver {
    Cuda cuda{};
    int status = kNoDevice;
    CUdevice card = 0;
    size_t limit_bytes = 0;
    std::mutex mutex;  // over the fields below
    std::vector<Device> devices;
    std::map<CUdeviceptr, Allocation> allocations;
    std::map<void*, int> pinned;  // device whose context each was made in

    Driver() {
        if (!load_cuda(cuda)) return;
        if (CUresult code = cuda.Init(0); code != 0) {
            status = from_cuda(code);
            return;
        }
        int n_cards = 0;
        if (cuda.DeviceGetCount(&n_cards) != 0 || n_cards == 0 || cuda.DeviceGet(&card, 0) != 0) return;
        size_t total = 0;
        if (CUresult code = cuda.DeviceTotalMem(&total, card); code != 0) {
            status = from_cuda(code);
            return;
        }
        limit_bytes = total;
        if (size_t mib = env_number("LAYERCAKE_STANDIN_MEMORY_MIB", 0); mib != 0) limit_bytes = std::min(total, mib << 20);
        const size_t n_devices = std::min<size_t>(env_number("LAYERCAKE_STANDIN_DEVICES", 1), 31);
        devices.resize(n_devices);
        status = n_devices == 0 ? kNoDevice : kSuccess;
    }

    int n_devices() const { return static_cast<int>(devices.size()); }
    bool has(int device) const { return device >= 0 && device < n_devices(); }

    // The context of a device, made at its first use.
    int context(int device, CUcontext* out) {
        std::lock_guard<std::mutex> lock(mutex);
        Device& d = devices[static_cast<size_t>(device)];
        if (d.context == nullptr) {
            CUcontext made = nullptr;
            if (CUresult code = cuda.CtxCreate(&made, 0, card); code != 0) return from_cuda(code);
            // Creation pushes the context on this thread's stack, over the caller's own.
            CUcontext popped = nullptr;
            cuda.CtxPopCurrent(&popped);
            d.context = made;
        }
        *out = d.context;
        return kSuccess;
    }
    int attribute(int number) const {
        int value = 0;
        return cuda.DeviceGetAttribute(&value, number, card) == 0 ? value : 0;
    }
};

Driver& driver() {
    static Driver* const made = new Driver();
    return *made;
}

const Nvrtc* nvrtc() {
    static const Nvrtc* const made = [] {
        auto table = std::make_unique<Nvrtc>();
        if (load_nvrtc(*table)) return table.release();
        std::fprintf(stderr, "stand-in libamdhip64: no libnvrtc found; name one in LAYERCAKE_NVRTC\n");
        return static_cast<Nvrtc*>(nullptr);
    }();
    return made;
}

thread_local int current_device = 0;
thread_local int last_error = kSuccess;

int done(int code) {
    // A question about readiness is no error to be remembered.
    if (code != kSuccess && code != kNotReady) last_error = code;
    return code;
}
int done_cuda(CUresult code) { return done(from_cuda(code)); }

// Makes a context current and puts back the one found.
class Current {
  public:
    Current(const Cuda& cuda, CUcontext wanted) : cuda_(cuda) {
        code_ = cuda_.CtxGetCurrent(&found_);
        if (code_ != 0) return;
        code_ = cuda_.CtxSetCurrent(wanted);
        set_ = code_ == 0;
    }
    ~Current() {
        if (set_) cuda_.CtxSetCurrent(found_);
    }
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;
    CUresult code() const { return code_; }

  private:
    const Cuda& cuda_;
    CUcontext found_ = nullptr;
    CUresult code_ = 0;
    bool set_ = false;
};

// Runs `call` (which returns a CUDA code) inside the context of `device`.
template <typename F>
int on_device(int device, F call) {
    Driver& d = driver();
    if (d.status != kSuccess) return done(d.status);
    if (!d.has(device)) return done(kInvalidDevice);
    CUcontext context = nullptr;
    if (int code = d.context(device, &context); code != kSuccess) return done(code);
    Current current(d.cuda, context);
    return done_cuda(current.code() != 0 ? current.code() : call(d.cuda));
}

// The same inside the context that `stream` belongs to: in HIP a stream, not the thread, says where work goes.
template <typename F>
int on_stream(CUstream stream, F call) {
    if (stream == nullptr) return on_device(current_device, call);
    Driver& d = driver();
    if (d.status != kSuccess) return done(d.status);
    CUcontext context = nullptr;
    if (CUresult code = d.cuda.StreamGetCtx(stream, &context); code != 0) return done_cuda(code);
    Current current(d.cuda, context);
    return done_cuda(current.code() != 0 ? current.code() : call(d.cuda));
}

CUdeviceptr address(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

// CUDA's number of a HIP device attribute; -1 where this stand-in has none.
int cuda_attribute(int hip) {
    switch (hip) {
        case 0: return 32;     // EccEnabled
        case 2: return 40;     // AsyncEngineCount
        case 3: return 19;     // CanMapHostMemory
        case 5: return 13;     // ClockRate
        case 6: return 20;     // ComputeMode
        case 8: return 31;     // ConcurrentKernels
        case 16: return 18;    // Integrated
        case 18: return 17;    // KernelExecTimeout
        case 19: return 38;    // L2CacheSize
        case 23: return 75;    // ComputeCapabilityMajor
        case 24: return 83;    // ManagedMemory
        case 26: return 2;     // MaxBlockDimX
        case 27: return 3;     // MaxBlockDimY
        case 28: return 4;     // MaxBlockDimZ
        case 29: return 5;     // MaxGridDimX
        case 30: return 6;     // MaxGridDimY
        case 31: return 7;     // MaxGridDimZ
        case 56: return kCuMaxThreads;  // MaxThreadsPerBlock
        case 57: return 39;    // MaxThreadsPerMultiProcessor
        case 58: return 11;    // MaxPitch
        case 59: return 37;    // MemoryBusWidth
        case 60: return 36;    // MemoryClockRate
        case 61: return 76;    // ComputeCapabilityMinor
        case 63: return kCuProcessors;  // MultiprocessorCount
        case 71: return 12;    // MaxRegistersPerBlock
        case 72: return 82;    // MaxRegistersPerMultiprocessor
        case 76: return 81;    // SharedMemPerMultiprocessor
        case 83: return 9;     // TotalConstantMemory
        case 85: return 41;    // UnifiedAddressing
        case 87: return kCuWarpSize;  // WarpSize
        default: return -1;
    }
}

std::string device_name(const Driver& d) {
    char name[200] = "";
    d.cuda.DeviceGetName(name, sizeof name, d.card);
    return std::string(name) + " as " + arch_name();
}

// Offsets of the few fields filled in a hipDeviceProp_t, which changed its layout with ROCm 6 (R0600).
struct PropertiesLayout {
    size_t size, total_bytes, shared_bytes, warp_size, max_threads, major, minor, processors, arch_name;
};
constexpr PropertiesLayout kBeforeR0600{792, 256, 264, 276, 280, 328, 332, 336, 396};
constexpr PropertiesLayout kR0600{1472, 288, 296, 308, 320, 360, 364, 388, 1160};

template <typename T>
void put(void* base, size_t offset, T value) {
    std::memcpy(static_cast<char*>(base) + offset, &value, sizeof value);
}

int properties(void* out, int device, const PropertiesLayout& at) {
    Driver& d = driver();
    if (out == nullptr) return done(kInvalidValue);
    if (d.status != kSuccess) return done(d.status);
    if (!d.has(device)) return done(kInvalidDevice);
    std::memset(out, 0, at.size);
    std::snprintf(static_cast<char*>(out), 256, "%s", device_name(d).c_str());
    put<uint64_t>(out, at.total_bytes, d.limit_bytes);
    put<uint64_t>(out, at.shared_bytes, kMaxShared);
    put<int32_t>(out, at.warp_size, d.attribute(kCuWarpSize));
    put<int32_t>(out, at.max_threads, d.attribute(kCuMaxThreads));
    put<int32_t>(out, at.major, d.attribute(kCuMajor));
    put<int32_t>(out, at.minor, d.attribute(kCuMinor));
    put<int32_t>(out, at.processors, d.attribute(kCuProcessors));
    std::snprintf(static_cast<char*>(out) + at.arch_name, 256, "%s", arch_name().c_str());
    return kSuccess;
}

// hiprtc's options as NVRTC's: definitions and the language are kept, the architecture is this machine's, the rest is AMD's.
std::vector<std::string> nvrtc_options(int n_options, const char* const* options) {
    std::vector<std::string> out;
    for (int i = 0; i < n_options; ++i) {
        const std::string option = options[i];
        const auto starts = [&](const char* with) { return option.rfind(with, 0) == 0; };
        if (option == "-D" || option == "-U" || option == "-I") {
            if (i + 1 < n_options) out.push_back(option + options[++i]);
        } else if (starts("-D") || starts("-U") || starts("-I") || starts("-std=") || starts("--std=")) {
            out.push_back(option);
        } else if (option == "-mllvm" || option == "-Xclang" || option == "--offload-arch" || option == "--gpu-architecture") {
            ++i;
        } else if (option == "-ffast-math") {
            out.push_back("--use_fast_math");
        } else if (option == "-ffp-contract=off") {
            out.push_back("--fmad=false");
        }
    }
    const Driver& d = driver();
    const int sm = d.status == kSuccess ? d.attribute(kCuMajor) * 10 + d.attribute(kCuMinor) : 90;
    out.push_back("--gpu-architecture=sm_" + std::to_string(sm));
    return out;
}

constexpr int kRtcInvalidInput = 3, kRtcInvalidProgram = 4, kRtcInternal = 11;

}  // namespace

#define API extern "C" __attribute__((visibility("default")))

API int hipInit(unsigned flags) { return done(flags != 0 ? static_cast<int>(kInvalidValue) : driver().status); }

API int hipDriverGetVersion(int* version) {
    if (version == nullptr) return done(kInvalidValue);
    *version = 60200000;
    return kSuccess;
}
API int hipRuntimeGetVersion(int* version) { return hipDriverGetVersion(version); }

API int hipGetDeviceCount(int* count) {
    if (count == nullptr) return done(kInvalidValue);
    *count = driver().status == kSuccess ? driver().n_devices() : 0;
    return done(driver().status);
}

API int hipDeviceGet(int* device, int ordinal) {
    if (device == nullptr) return done(kInvalidValue);
    if (!driver().has(ordinal)) return done(kInvalidDevice);
    *device = ordinal;
    return kSuccess;
}
API int hipDeviceGetName(char* name, int len, int device) {
    if (name == nullptr || len <= 0) return done(kInvalidValue);
    if (!driver().has(device)) return done(kInvalidDevice);
    std::snprintf(name, static_cast<size_t>(len), "%s", device_name(driver()).c_str());
    return kSuccess;
}
API int hipDeviceGetPCIBusId(char* id, int len, int device) {
    if (id == nullptr || len < 13) return done(kInvalidValue);
    if (!driver().has(device)) return done(kInvalidDevice);
    std::snprintf(id, static_cast<size_t>(len), "0000:f0:%02x.0", static_cast<unsigned>(device));
    return kSuccess;
}
API int hipDeviceGetUuid(char* uuid, int device) {
    if (uuid == nullptr) return done(kInvalidValue);
    if (!driver().has(device)) return done(kInvalidDevice);
    char text[17];
    std::snprintf(text, sizeof text, "5ca1ab1e%08x", static_cast<unsigned>(device));
    std::memcpy(uuid, text, 16);
    return kSuccess;
}
API int hipDeviceGetAttribute(int* value, int attribute, int device) {
    Driver& d = driver();
    if (value == nullptr) return done(kInvalidValue);
    if (!d.has(device)) return done(kInvalidDevice);
    switch (attribute) {
        case 67:  // PciBusId
            *value = 0xf0;
            return kSuccess;
        case 68:  // PciDeviceId
            *value = device;
            return kSuccess;
        case 69:  // PciDomainID
            *value = 0;
            return kSuccess;
        case 74:  // MaxSharedMemoryPerBlock: what a launch here may ask for, AMD's limit at most
            *value = std::min<int>(kMaxShared, d.attribute(kCuSharedOptin));
            return kSuccess;
        default: break;
    }
    const int number = cuda_attribute(attribute);
    if (number < 0) return done(kInvalidValue);
    return done_cuda(d.cuda.DeviceGetAttribute(value, number, d.card));
}
API int hipDeviceTotalMem(size_t* bytes, int device) {
    if (bytes == nullptr) return done(kInvalidValue);
    if (!driver().has(device)) return done(kInvalidDevice);
    *bytes = driver().limit_bytes;
    return kSuccess;
}
API int hipGetDevicePropertiesR0600(void* out, int device) { return properties(out, device, kR0600); }
API int hipGetDeviceProperties(void* out, int device) { return properties(out, device, kBeforeR0600); }

API int hipSetDevice(int device) {
    if (driver().status != kSuccess) return done(driver().status);
    if (!driver().has(device)) return done(kInvalidDevice);
    current_device = device;
    return kSuccess;
}
API int hipGetDevice(int* device) {
    if (device == nullptr) return done(kInvalidValue);
    if (driver().status != kSuccess) return done(driver().status);
    *device = current_device;
    return kSuccess;
}
API int hipDeviceSynchronize() {
    return on_device(current_device, [](const Cuda& c) { return c.CtxSynchronize(); });
}

API int hipMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
    if (free_bytes == nullptr || total_bytes == nullptr) return done(kInvalidValue);
    const int device = current_device;
    return on_device(device, [=](const Cuda& c) {
        size_t card_free = 0, card_total = 0;
        if (CUresult code = c.MemGetInfo(&card_free, &card_total); code != 0) return code;
        Driver& d = driver();
        std::lock_guard<std::mutex> lock(d.mutex);
        const size_t used = d.devices[static_cast<size_t>(device)].used_bytes;
        *free_bytes = std::min(card_free, d.limit_bytes - std::min(used, d.limit_bytes));
        *total_bytes = d.limit_bytes;
        return 0;
    });
}
API int hipMalloc(void** out, size_t size) {
    if (out == nullptr) return done(kInvalidValue);
    *out = nullptr;
    if (size == 0) return kSuccess;
    const int device = current_device;
    return on_device(device, [=](const Cuda& c) {
        Driver& d = driver();
        Device& mine = d.devices[static_cast<size_t>(device)];
        {
            // Booked before the allocation, so that two threads cannot pass the limit together.
            std::lock_guard<std::mutex> lock(d.mutex);
            if (size > d.limit_bytes || mine.used_bytes > d.limit_bytes - size) return static_cast<int>(kOutOfMemory);
            mine.used_bytes += size;
        }
        CUdeviceptr pointer = 0;
        const CUresult code = c.MemAlloc(&pointer, size);
        std::lock_guard<std::mutex> lock(d.mutex);
        if (code != 0) {
            mine.used_bytes -= size;
            return code;
        }
        d.allocations[pointer] = Allocation{device, size};
        *out = reinterpret_cast<void*>(static_cast<uintptr_t>(pointer));
        return 0;
    });
}
API int hipFree(void* pointer) {
    if (pointer == nullptr) return kSuccess;
    Driver& d = driver();
    Allocation found{};
    {
        std::lock_guard<std::mutex> lock(d.mutex);
        const auto at = d.allocations.find(address(pointer));
        if (at == d.allocations.end()) return done(kInvalidValue);
        found = at->second;
        d.allocations.erase(at);
    }
    const int code = on_device(found.device, [=](const Cuda& c) { return c.MemFree(address(pointer)); });
    std::lock_guard<std::mutex> lock(d.mutex);
    d.devices[static_cast<size_t>(found.device)].used_bytes -= found.size_bytes;
    return code;
}
API int hipHostMalloc(void** out, size_t size, unsigned flags) {
    if (out == nullptr) return done(kInvalidValue);
    *out = nullptr;
    if (size == 0) return kSuccess;
    const int device = current_device;
    return on_device(device, [=](const Cuda& c) {
        // HIP's portable, mapped and write-combined bits are CUDA's; pinned memory serves all devices in HIP.
        const CUresult code = c.MemHostAlloc(out, size, (flags & 7U) | 1U);
        if (code != 0) return code;
        Driver& d = driver();
        std::lock_guard<std::mutex> lock(d.mutex);
        d.pinned[*out] = device;
        return 0;
    });
}
API int hipHostFree(void* pointer) {
    if (pointer == nullptr) return kSuccess;
    Driver& d = driver();
    int device = 0;
    {
        std::lock_guard<std::mutex> lock(d.mutex);
        const auto at = d.pinned.find(pointer);
        if (at == d.pinned.end()) return done(kInvalidValue);
        device = at->second;
        d.pinned.erase(at);
    }
    return on_device(device, [=](const Cuda& c) { return c.MemFreeHost(pointer); });
}

API int hipStreamCreateWithFlags(CUstream* stream, unsigned flags) {
    if (stream == nullptr || flags > 1) return done(kInvalidValue);
    return on_device(current_device, [=](const Cuda& c) { return c.StreamCreate(stream, flags); });
}
API int hipStreamDestroy(CUstream stream) {
    if (stream == nullptr) return done(kInvalidHandle);
    return on_stream(stream, [=](const Cuda& c) { return c.StreamDestroy(stream); });
}
API int hipStreamSynchronize(CUstream stream) {
    return on_stream(stream, [=](const Cuda& c) { return c.StreamSynchronize(stream); });
}
API int hipStreamQuery(CUstream stream) {
    return on_stream(stream, [=](const Cuda& c) { return c.StreamQuery(stream); });
}
API int hipStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
    if (event == nullptr) return done(kInvalidHandle);
    return on_stream(stream, [=](const Cuda& c) { return c.StreamWaitEvent(stream, event, flags); });
}

API int hipEventCreateWithFlags(CUevent* event, unsigned flags) {
    if (event == nullptr) return done(kInvalidValue);
    // The low bits are CUDA's; the release scopes above them have no counterpart there.
    return on_device(current_device, [=](const Cuda& c) { return c.EventCreate(event, flags & 7U); });
}
API int hipEventDestroy(CUevent event) {
    if (event == nullptr) return done(kInvalidHandle);
    return on_device(current_device, [=](const Cuda& c) { return c.EventDestroy(event); });
}
API int hipEventRecord(CUevent event, CUstream stream) {
    if (event == nullptr) return done(kInvalidHandle);
    return on_stream(stream, [=](const Cuda& c) { return c.EventRecord(event, stream); });
}
API int hipEventSynchronize(CUevent event) {
    if (event == nullptr) return done(kInvalidHandle);
    return on_device(current_device, [=](const Cuda& c) { return c.EventSynchronize(event); });
}
API int hipEventQuery(CUevent event) {
    if (event == nullptr) return done(kInvalidHandle);
    return on_device(current_device, [=](const Cuda& c) { return c.EventQuery(event); });
}
API int hipEventElapsedTime(float* ms, CUevent start, CUevent stop) {
    if (ms == nullptr) return done(kInvalidValue);
    if (start == nullptr || stop == nullptr) return done(kInvalidHandle);
    return on_device(current_device, [=](const Cuda& c) { return c.EventElapsedTime(ms, start, stop); });
}

API int hipMemcpyHtoDAsync(void* to, void* from, size_t size, CUstream stream) {
    if (size == 0) return kSuccess;
    return on_stream(stream, [=](const Cuda& c) { return c.MemcpyHtoDAsync(address(to), from, size, stream); });
}
API int hipMemcpyDtoHAsync(void* to, void* from, size_t size, CUstream stream) {
    if (size == 0) return kSuccess;
    return on_stream(stream, [=](const Cuda& c) { return c.MemcpyDtoHAsync(to, address(from), size, stream); });
}
API int hipMemcpyDtoDAsync(void* to, void* from, size_t size, CUstream stream) {
    if (size == 0) return kSuccess;
    return on_stream(stream, [=](const Cuda& c) { return c.MemcpyDtoDAsync(address(to), address(from), size, stream); });
}
API int hipMemsetD8Async(void* to, unsigned char value, size_t count, CUstream stream) {
    if (count == 0) return kSuccess;
    return on_stream(stream, [=](const Cuda& c) { return c.MemsetD8Async(address(to), value, count, stream); });
}
API int hipMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, size_t size, CUstream stream) {
    Driver& d = driver();
    if (d.status != kSuccess) return done(d.status);
    if (!d.has(to_device) || !d.has(from_device)) return done(kInvalidDevice);
    if (size == 0) return kSuccess;
    CUcontext to_context = nullptr, from_context = nullptr;
    if (int code = d.context(to_device, &to_context); code != kSuccess) return done(code);
    if (int code = d.context(from_device, &from_context); code != kSuccess) return done(code);
    return on_stream(stream, [=](const Cuda& c) {
        return c.MemcpyPeerAsync(address(to), to_context, address(from), from_context, size, stream);
    });
}

// Copies between two contexts of one card need no permission, so peer access is a matter of what is told. Kernels cannot
// read the other context's memory: like Layercake, a user of this stand-in must only copy.
API int hipDeviceCanAccessPeer(int* can, int device, int peer) {
    if (can == nullptr) return done(kInvalidValue);
    if (!driver().has(device) || !driver().has(peer)) return done(kInvalidDevice);
    *can = device != peer && env_number("LAYERCAKE_STANDIN_PEER", 1) != 0 ? 1 : 0;
    return kSuccess;
}
API int hipDeviceEnablePeerAccess(int peer, unsigned flags) {
    if (flags != 0) return done(kInvalidValue);
    int can = 0;
    if (int code = hipDeviceCanAccessPeer(&can, current_device, peer); code != kSuccess) return code;
    if (peer == current_device) return done(kInvalidDevice);
    if (can == 0) return done(kPeerAccessUnsupported);
    Driver& d = driver();
    std::lock_guard<std::mutex> lock(d.mutex);
    const bool fresh = d.devices[static_cast<size_t>(current_device)].peers.insert(peer).second;
    return done(fresh ? kSuccess : kPeerAccessAlreadyEnabled);
}

API int hipModuleLoadData(CUmodule* module, const void* image) {
    if (module == nullptr || image == nullptr) return done(kInvalidValue);
    return on_device(current_device, [=](const Cuda& c) { return c.ModuleLoadData(module, image); });
}
API int hipModuleUnload(CUmodule module) {
    if (module == nullptr) return done(kInvalidHandle);
    return on_device(current_device, [=](const Cuda& c) { return c.ModuleUnload(module); });
}
API int hipModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
    if (function == nullptr || name == nullptr) return done(kInvalidValue);
    if (module == nullptr) return done(kInvalidHandle);
    return on_device(current_device, [=](const Cuda& c) { return c.ModuleGetFunction(function, module, name); });
}
API int hipModuleLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                              unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void** params,
                              void** extra) {
    if (function == nullptr) return done(kInvalidHandle);
    if (shared_bytes > kMaxShared) return done(kInvalidValue);
    // HIP ends the list of extras with 3, CUDA with 0; the other marks agree.
    std::vector<void*> extras;
    if (extra != nullptr) {
        size_t i = 0;
        for (; reinterpret_cast<uintptr_t>(extra[i]) == 1 || reinterpret_cast<uintptr_t>(extra[i]) == 2; i += 2) {
            extras.push_back(extra[i]);
            extras.push_back(extra[i + 1]);
        }
        if (reinterpret_cast<uintptr_t>(extra[i]) != 3) return done(kInvalidValue);
        extras.push_back(nullptr);
    }
    return on_stream(stream, [&](const Cuda& c) {
        if (shared_bytes > kSharedWithoutOptin) {
            if (CUresult code = c.FuncSetAttribute(function, kCuMaxDynamicShared, static_cast<int>(shared_bytes)); code != 0) {
                return code;
            }
        }
        return c.LaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, params,
                              extras.empty() ? nullptr : extras.data());
    });
}

API const char* hipGetErrorName(int code) {
    const Error* error = find_error(code);
    return error != nullptr ? error->name : "hipErrorUnknown";
}
API const char* hipGetErrorString(int code) {
    const Error* error = find_error(code);
    return error != nullptr ? error->text : "unknown error";
}
API int hipGetLastError() { return std::exchange(last_error, static_cast<int>(kSuccess)); }

API int hiprtcVersion(int* major, int* minor) {
    if (major == nullptr || minor == nullptr) return kRtcInvalidInput;
    *major = 9;
    *minor = 0;
    return 0;
}
API int hiprtcCreateProgram(nvrtcProgram* program, const char* source, const char* name, int n_headers, const char** headers,
                            const char** include_names) {
    if (program == nullptr || source == nullptr) return kRtcInvalidInput;
    if (nvrtc() == nullptr) return kRtcInternal;
    return nvrtc()->CreateProgram(program, source, name, n_headers, headers, include_names);
}
API int hiprtcDestroyProgram(nvrtcProgram* program) {
    if (program == nullptr) return kRtcInvalidInput;
    return nvrtc() == nullptr ? kRtcInvalidProgram : nvrtc()->DestroyProgram(program);
}
API int hiprtcCompileProgram(nvrtcProgram program, int n_options, const char** options) {
    if (n_options < 0 || (n_options > 0 && options == nullptr)) return kRtcInvalidInput;
    if (nvrtc() == nullptr) return kRtcInvalidProgram;
    const std::vector<std::string> texts = nvrtc_options(n_options, options);
    std::vector<const char*> pointers;
    for (const std::string& text : texts) pointers.push_back(text.c_str());
    return nvrtc()->CompileProgram(program, static_cast<int>(pointers.size()), pointers.data());
}
API int hiprtcGetProgramLogSize(nvrtcProgram program, size_t* size) {
    return nvrtc() == nullptr ? kRtcInvalidProgram : nvrtc()->GetProgramLogSize(program, size);
}
API int hiprtcGetProgramLog(nvrtcProgram program, char* log) {
    return nvrtc() == nullptr ? kRtcInvalidProgram : nvrtc()->GetProgramLog(program, log);
}
API int hiprtcGetCodeSize(nvrtcProgram program, size_t* size) {
    return nvrtc() == nullptr ? kRtcInvalidProgram : nvrtc()->GetCUBINSize(program, size);
}
API int hiprtcGetCode(nvrtcProgram program, char* code) {
    return nvrtc() == nullptr ? kRtcInvalidProgram : nvrtc()->GetCUBIN(program, code);
}
API const char* hiprtcGetErrorString(int code) {
    static const char* const names[] = {
        "HIPRTC_SUCCESS",
        "HIPRTC_ERROR_OUT_OF_MEMORY",
        "HIPRTC_ERROR_PROGRAM_CREATION_FAILURE",
        "HIPRTC_ERROR_INVALID_INPUT",
        "HIPRTC_ERROR_INVALID_PROGRAM",
        "HIPRTC_ERROR_INVALID_OPTION",
        "HIPRTC_ERROR_COMPILATION",
        "HIPRTC_ERROR_BUILTIN_OPERATION_FAILURE",
        "HIPRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION",
        "HIPRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION",
        "HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID",
        "HIPRTC_ERROR_INTERNAL_ERROR",
    };
    return code >= 0 && code <= kRtcInternal ? names[code] : "unknown hiprtc error";
}
