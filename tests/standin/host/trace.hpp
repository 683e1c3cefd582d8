// LAYERCAKE_STANDIN_TRACE: the calls, on stderr.
#pragma once
#include <cstdio>

#include "config.hpp"

#define TRACE(format, ...)                                                                          \
    do {                                                                                            \
        if (config().trace) fprintf(stderr, "standin: %s " format "\n", __func__, ##__VA_ARGS__);   \
    } while (0)
