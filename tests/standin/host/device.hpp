// The state of each device, and the errors that stay.
#pragma once
#include <string>

#include "hip.hpp"

namespace device {

int count();
// The calling thread's.
int current();
void set_current(int ordinal);

// hipSuccess, or the error that every further call on the device gives.
Error state(int ordinal);
// The first error stays. The text goes to stderr.
void fail(int ordinal, Error error, const std::string& text);
// A launch or copy is about to be queued: counts it, and gives the error with which it fails.
Error count_launch(int ordinal);
Error count_copy(int ordinal);

}  // namespace device
