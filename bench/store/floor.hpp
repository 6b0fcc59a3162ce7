// The floor: the least that a one-thread server on epoll can do for the same messages. It reads
// what a request is long and sends what its reply is long; it looks at no key and keeps no value.
#pragma once

#include <cstdint>

#include "base/unique_handle.hpp"
#include "bench/store/script.hpp"

namespace ddprun::bench {

/// Writes the floor's header over the first bytes of `message` and keeps its length: a kind byte
/// and the lengths of request and reply, two bytes each; four each where one is over 65,535.
void put_floor_header(Message& message);

/// Serves on a listening, non-blocking socket until the process ends.
[[noreturn]] void serve_floor(UniqueFd listener);

}  // namespace ddprun::bench
