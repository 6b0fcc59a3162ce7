// The streams of one GPU.
#pragma once

#include <array>

#include "trainer/cuda/plugin/cuda_calls.hpp"

namespace ddprun::trainer::cuda {

/// None waits for CUDA's default stream. That of communication comes first where both could run:
/// others wait for what it sends.
class Streams {
 public:
  explicit Streams(const GpuName& gpu) {
    int least = 0;
    int greatest = 0;
    check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange",
          gpu);
    for (int k = 0; k < kStreams; ++k) {
      const int priority = static_cast<Stream>(k) == Stream::communication ? greatest : least;
      check(cudaStreamCreateWithPriority(&streams_[static_cast<std::size_t>(k)],
                                         cudaStreamNonBlocking, priority),
            "cudaStreamCreateWithPriority", gpu);
    }
  }
  ~Streams() {
    for (cudaStream_t stream : streams_)
      if (stream != nullptr) (void)cudaStreamDestroy(stream);
  }
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  [[nodiscard]] cudaStream_t at(Stream stream) const {
    return streams_[static_cast<std::size_t>(stream)];
  }

 private:
  std::array<cudaStream_t, kStreams> streams_{};
};

}  // namespace ddprun::trainer::cuda
