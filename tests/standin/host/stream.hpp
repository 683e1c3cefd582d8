// Streams: a thread each, with a queue. Events order them.
#pragma once
#include <functional>

#include "hip.hpp"

namespace stream {

struct Stream;
struct Event;

Stream* create(int device);
// Null: the current device's default stream. Null is returned for a handle that is none.
Stream* find(void* handle);
int device_of(const Stream* s);
Error destroy(void* handle);
// `work` is skipped when the device has failed before its turn comes.
void enqueue(Stream* s, std::function<void()> work);
void synchronize(Stream* s);
bool idle(Stream* s);
void synchronize_device(int device);

Event* create_event(int device, unsigned flags);
Error destroy_event(void* handle);
int device_of_event(void* handle);
Error record(void* event, Stream* s);
Error wait(Stream* s, void* event);
Error synchronize_event(void* event);
Error query_event(void* event);
Error elapsed(float* ms, void* start, void* stop);

}  // namespace stream
