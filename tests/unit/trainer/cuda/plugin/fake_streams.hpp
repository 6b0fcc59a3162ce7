// Streams, events and graphs of CUDA's runtime without a GPU, for tests of cuda_gpu.cpp. Nothing
// that a stream is given is done before the host waits for it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

namespace ddprun::trainer::cuda::test {

struct FakeStreams {
  struct Stream {
    std::uint64_t given = 0;
    std::uint64_t done = 0;
  };
  struct Event {
    std::size_t stream = 0;
    std::uint64_t position = 0;  ///< in what the stream was given; each operation takes 1 ms
    bool is_timed = false;
  };
  std::vector<Stream> streams;
  std::vector<Event> events;
  std::uint64_t most_pending = 0;  ///< in one stream
  std::size_t nodes = 1;           ///< of each graph
  bool hangs = false;              ///< nothing is done any more
  bool captures = false;           ///< what is given now is not pending
  int waits_in_capture = 0;
  int freed = 0;  ///< calls of cudaFreeHost
};

/// Shared by all tests of the program, one after another: each begins with a new one.
FakeStreams& fake_streams();

/// `operations` more are pending.
void give(cudaStream_t stream, std::uint64_t operations);

}  // namespace ddprun::trainer::cuda::test
