#include "device.hpp"

#include <atomic>
#include <cstdio>

#include "config.hpp"

namespace device {
namespace {
constexpr int max_devices = 64;
thread_local int current_device = 0;
std::atomic<int> states[max_devices];
std::atomic<uint64_t> n_calls[max_devices];
std::atomic<uint64_t> n_launches;

Error count_call(int ordinal) {
    const Config& c = config();
    uint64_t n = ++n_calls[ordinal];
    if (c.has_lost_after && ordinal == c.lost_device && n > c.lost_after)
        fail(ordinal, hipErrorNoDevice, "the device is lost, as LAYERCAKE_STANDIN_LOST_AFTER says");
    return state(ordinal);
}
}  // namespace

int count() {
    size_t n = config().devices.size();
    return n > max_devices ? max_devices : (int)n;
}
int current() { return current_device; }
void set_current(int ordinal) { current_device = ordinal; }
Error state(int ordinal) { return (Error)states[ordinal].load(); }

void fail(int ordinal, Error error, const std::string& text) {
    int none = hipSuccess;
    if (states[ordinal].compare_exchange_strong(none, error)) fprintf(stderr, "standin: device %d: %s\n", ordinal, text.c_str());
}

Error count_launch(int ordinal) {
    const Config& c = config();
    if (c.fail_launch.first && ordinal == c.lost_device && c.fail_launch.hits(++n_launches))
        fail(ordinal, hipErrorLaunchFailure, "the launch fails, as LAYERCAKE_STANDIN_FAIL_LAUNCH says");
    return count_call(ordinal);
}

Error count_copy(int ordinal) { return count_call(ordinal); }
}  // namespace device
