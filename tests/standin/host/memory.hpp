// Device memory: host memory that ends at a page nobody may touch, filled with a pattern.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace memory {

constexpr unsigned char poison = 0xCB;

// Null when the device has too little left.
void* allocate(int device, size_t bytes);
// False when `p` is no allocation. `error` is set when bytes around it have been written over.
bool release(void* p, std::string& error);
// The device whose allocation holds all of [p, p + bytes), or -1.
int device_of(const void* p, size_t bytes);
size_t used_bytes(int device);
// Empty, or what was written outside of an allocation. Looks at a part of the allocations at a time where they are many.
std::string check_guards();
// What a faulting address is, for people. Takes no lock: it runs in a signal handler.
std::string describe_fault(const void* address);

void* allocate_host(size_t bytes);
bool release_host(void* p);
bool is_pinned(const void* p, size_t bytes);

}  // namespace memory
