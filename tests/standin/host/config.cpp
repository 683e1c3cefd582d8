#include "config.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace {
std::string text_of(const char* name) {
    const char* value = getenv((std::string("LAYERCAKE_STANDIN_") + name).c_str());
    return value ? value : "";
}

uint64_t number_in(const char* name, const std::string& text, uint64_t otherwise) {
    if (text.empty()) return otherwise;
    char* end = nullptr;
    uint64_t value = strtoull(text.c_str(), &end, 10);
    if (*end) {
        fprintf(stderr, "standin: LAYERCAKE_STANDIN_%s=%s is not a number\n", name, text.c_str());
        exit(2);
    }
    return value;
}

uint64_t number_of(const char* name, uint64_t otherwise) { return number_in(name, text_of(name), otherwise); }

// Of a list with commas, the entry for one device; the last holds for all further ones.
std::string entry_of(const char* name, size_t device) {
    std::string list = text_of(name);
    size_t start = 0;
    for (; device > 0; device--) {
        size_t comma = list.find(',', start);
        if (comma == std::string::npos) break;
        start = comma + 1;
    }
    return list.substr(start, list.find(',', start) - start);
}

Nth nth_of(const char* name) {
    std::string text = text_of(name);
    Nth nth;
    if (!text.empty() && text.back() == '+') {
        nth.onwards = true;
        text.pop_back();
    }
    nth.first = number_in(name, text, 0);
    return nth;
}

Config read() {
    Config c;
    c.no_device = number_of("NO_DEVICE", 0) != 0;
    c.integrated = number_of("INTEGRATED", 0) != 0;
    c.trace = number_of("TRACE", 0) != 0;
    c.checks = number_of("CHECKS", 1) != 0;
    c.seed = number_of("SEED", 0);
    c.n_threads = (uint32_t)number_of("THREADS", std::clamp(std::thread::hardware_concurrency(), 2u, 4u));
    c.fail_alloc = nth_of("FAIL_ALLOC");
    c.fail_launch = nth_of("FAIL_LAUNCH");
    c.has_lost_after = !text_of("LOST_AFTER").empty();
    c.lost_after = number_of("LOST_AFTER", 0);
    c.lost_device = (int)number_of("LOST_DEVICE", 0);
    c.copy_bytes_per_s = number_of("COPY_BYTES_PER_S", 0);
    c.fail_compile = text_of("FAIL_COMPILE");
    c.compiler = text_of("CLANG");
    size_t n_devices = c.no_device ? 0 : number_of("DEVICES", 1);
    for (size_t i = 0; i < n_devices; i++) {
        DeviceConfig d;
        d.arch = entry_of("ARCH", i);
        d.wave_size = (uint32_t)number_in("WAVE", entry_of("WAVE", i), d.arch.empty() ? 32 : wave_size_of(d.arch));
        if (d.wave_size != 32 && d.wave_size != 64) {
            fprintf(stderr, "standin: LAYERCAKE_STANDIN_WAVE must be 32 or 64\n");
            exit(2);
        }
        if (d.arch.empty()) d.arch = d.wave_size == 64 ? "gfx90a" : "gfx1100";
        d.memory_bytes = number_in("MEMORY_MIB", entry_of("MEMORY_MIB", i), 2048) << 20;
        c.devices.push_back(d);
    }
    return c;
}
}  // namespace

const Config& config() {
    // Never destroyed: stream threads may still run while the process ends.
    static const Config& c = *new Config(read());
    return c;
}

// gfx9xx chips (gfx90a, gfx942) have waves of 64 lanes, gfx10xx and later 32.
uint32_t wave_size_of(const std::string& arch) { return arch.size() == 6 && arch.compare(0, 4, "gfx9") == 0 ? 64 : 32; }
