// What the worker of bench_restart writes into the FIFO: far below PIPE_BUF, so records never mix.
#pragma once

#include <cstdint>

namespace ddprun::bench {

struct WorkerEvent {
  std::int32_t pid = 0;
  std::int32_t rank = 0;
  std::int64_t monotonic_ns = 0;
  char kind = 0;  ///< 's' started, 't' got SIGTERM
};

}  // namespace ddprun::bench
