// What the stand-in's environment variables say; read once.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

struct DeviceConfig {
    uint32_t wave_size;
    std::string arch;
    uint64_t memory_bytes;
};

// "N": the N-th alone; "N+": from the N-th on. 0: none.
struct Nth {
    uint64_t first = 0;
    bool onwards = false;
    bool hits(uint64_t count) const { return first != 0 && (onwards ? count >= first : count == first); }
};

struct Config {
    std::vector<DeviceConfig> devices;
    bool no_device, integrated, trace, checks;
    uint64_t seed;
    uint32_t n_threads;
    Nth fail_alloc, fail_launch;
    uint64_t lost_after;
    bool has_lost_after;
    int lost_device;
    uint64_t copy_bytes_per_s;
    std::string fail_compile, compiler;
};

const Config& config();

// 32 or 64, by the chip's name.
uint32_t wave_size_of(const std::string& arch);
