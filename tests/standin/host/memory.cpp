#include "memory.hpp"

#include <cstring>
#include <map>
#include <mutex>
#include <sys/mman.h>

#include "config.hpp"

namespace memory {
namespace {
constexpr size_t page_bytes = 4096;
constexpr unsigned char guard = 0xA5;

struct Allocation {
    char* mapping;
    size_t mapping_bytes;
    size_t bytes;
    int device;
    size_t slack() const { return (16 - bytes % 16) % 16; }
};

std::mutex lock;
std::map<char*, Allocation> device_memory;
std::map<char*, size_t> host_memory;
std::map<int, size_t> used;

size_t rounded(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

bool all_guard(const char* from, const char* to) {
    for (; from < to; from++)
        if ((unsigned char)*from != guard) return false;
    return true;
}

std::string describe(const char* start, const Allocation& a) {
    char text[96];
    snprintf(text, sizeof text, "the allocation of %zu bytes at %p on device %d", a.bytes, (const void*)start, a.device);
    return text;
}

template <class M>
auto holding(M& map, const void* p) {
    auto it = map.upper_bound((char*)p);
    return it == map.begin() ? map.end() : --it;
}
}  // namespace

void* allocate(int device, size_t bytes) {
    std::lock_guard hold(lock);
    size_t total = config().devices[(size_t)device].memory_bytes;
    if (bytes > total || used[device] + rounded(bytes, page_bytes) > total) return nullptr;
    size_t inner = rounded(bytes, page_bytes), mapping_bytes = inner + 2 * page_bytes;
    auto* mapping = (char*)mmap(nullptr, mapping_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED) return nullptr;
    if (mprotect(mapping + page_bytes, inner, PROT_READ | PROT_WRITE)) {
        munmap(mapping, mapping_bytes);
        return nullptr;
    }
    char* end = mapping + page_bytes + inner;
    char* start = end - rounded(bytes, 16);
    memset(mapping + page_bytes, guard, (size_t)(start - mapping) - page_bytes);
    memset(start, poison, bytes);
    memset(start + bytes, guard, (size_t)(end - start) - bytes);
    used[device] += inner;
    device_memory[start] = Allocation{mapping, mapping_bytes, bytes, device};
    return start;
}

bool release(void* p, std::string& error) {
    std::lock_guard hold(lock);
    auto it = device_memory.find((char*)p);
    if (it == device_memory.end()) return false;
    Allocation& a = it->second;
    if (!all_guard(a.mapping + page_bytes, it->first)) error = "bytes before " + describe(it->first, a) + " have been written";
    if (!all_guard(it->first + a.bytes, it->first + a.bytes + a.slack())) error = "bytes after " + describe(it->first, a) + " have been written";
    used[a.device] -= a.mapping_bytes - 2 * page_bytes;
    munmap(a.mapping, a.mapping_bytes);
    device_memory.erase(it);
    return true;
}

int device_of(const void* p, size_t bytes) {
    std::lock_guard hold(lock);
    auto it = holding(device_memory, p);
    if (it == device_memory.end() || (size_t)((char*)p - it->first) + bytes > it->second.bytes) return -1;
    return it->second.device;
}

size_t used_bytes(int device) {
    std::lock_guard hold(lock);
    return used[device];
}

std::string check_guards() {
    constexpr int most = 64;
    static char* next = nullptr;
    std::lock_guard hold(lock);
    auto it = device_memory.lower_bound(next);
    for (int i = 0; i < most && !device_memory.empty(); i++, it++) {
        if (it == device_memory.end()) {
            next = nullptr;
            if (device_memory.size() > most) break;
            it = device_memory.begin();
        }
        auto& [start, a] = *it;
        next = start + 1;
        if (!all_guard(start + a.bytes, start + a.bytes + a.slack())) return "bytes after " + describe(start, a) + " have been written";
        size_t front = (size_t)(start - a.mapping) - page_bytes;
        if (!all_guard(start - (front < 16 ? front : 16), start)) return "bytes before " + describe(start, a) + " have been written";
    }
    return "";
}

std::string describe_fault(const void* address) {
    char text[64];
    snprintf(text, sizeof text, "bad access to address %p", address);
    std::string out = text;
    for (auto& [start, a] : device_memory) {
        if ((char*)address < a.mapping || (char*)address >= a.mapping + a.mapping_bytes) continue;
        bool after = (char*)address >= start;
        size_t distance = after ? (size_t)((char*)address - start) - a.bytes : (size_t)(start - (char*)address);
        out += ", " + std::to_string(distance) + (after ? " bytes after the end of " : " bytes before ") + describe(start, a);
        return out;
    }
    return out + ", in no allocation";
}

void* allocate_host(size_t bytes) {
    void* p = mmap(nullptr, rounded(bytes ? bytes : 1, page_bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return nullptr;
    std::lock_guard hold(lock);
    host_memory[(char*)p] = bytes;
    memset(p, poison, bytes);
    return p;
}

bool release_host(void* p) {
    std::lock_guard hold(lock);
    auto it = host_memory.find((char*)p);
    if (it == host_memory.end()) return false;
    munmap(p, rounded(it->second ? it->second : 1, page_bytes));
    host_memory.erase(it);
    return true;
}

bool is_pinned(const void* p, size_t bytes) {
    std::lock_guard hold(lock);
    auto it = holding(host_memory, p);
    return it != host_memory.end() && (size_t)((char*)p - it->first) + bytes <= it->second;
}
}  // namespace memory
