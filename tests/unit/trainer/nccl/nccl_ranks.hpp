// The ranks of a group as threads of one process, each with an emulated GPU, over the fake NCCL.
#pragma once

#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "tests/emulated_gpu/emulated_gpu.hpp"
#include "tests/support/child.hpp"
#include "tests/unit/trainer/comm/memory_exchange.hpp"
#include "trainer/cuda/cuda_device.hpp"
#include "trainer/nccl/nccl_communicator.hpp"

namespace ddprun::trainer::test {

inline std::shared_ptr<const nccl::Library> fake_nccl() {
  auto opened = nccl::Library::open(ddprun::test::helper("libnccl_fake.so"));
  if (!opened.library) throw std::runtime_error(opened.why);
  return std::move(opened.library);
}

/// What the fake does wrong while one lives. See fake_nccl.cpp.
class FakeFaults {
 public:
  explicit FakeFaults(const std::string& faults) { setenv("DDPRUN_FAKE_NCCL", faults.c_str(), 1); }
  ~FakeFaults() { unsetenv("DDPRUN_FAKE_NCCL"); }
  FakeFaults(const FakeFaults&) = delete;
  FakeFaults& operator=(const FakeFaults&) = delete;
};

/// Far more than a step takes: one of an emulated GPU under ASan can take 10 s on a loaded machine.
inline Clock::time_point soon() { return Clock::now() + std::chrono::seconds(60); }

struct NcclRank {
  EmulatedGpu& gpu;
  Device& device;
  Communicator& communicator;
  std::string how = {};  ///< CommSetup::how

  void write(std::span<const float> values, int slot = 0) {
    device.copy_in(std::as_bytes(values), communicator.arena(slot).data());
  }
  [[nodiscard]] std::vector<float> read() {
    std::vector<float> values(communicator.arena(0).size());
    device.copy_out(communicator.arena(0).data(), std::as_writable_bytes(std::span(values)));
    return values;
  }
};

struct NcclGroupSettings {
  int world_size = 2;
  int shards = 2;
  std::size_t arena_floats = 0;
  SumOrder order = SumOrder::tree;
  std::uint64_t seed = 1;            ///< of the GPUs' schedules
  std::uint64_t forgotten_wait = 0;  ///< of rank 0's GPU
  std::uint64_t hangs_at = 0;        ///< of rank 0's GPU: see EmulatedGpuSettings
  std::chrono::milliseconds timeout{20'000};
  std::chrono::milliseconds join_within{20'000};
  int rounds = 1;  ///< communicators, one after the other, on the same GPUs
};

/// What went wrong, in words; Catch2's checks are not for several threads.
class Problems {
 public:
  void add(int rank, const std::string& what) {
    const std::lock_guard lock(mutex_);
    all_.push_back("rank " + std::to_string(rank) + ": " + what);
  }
  void expect(bool holds, const NcclRank& one, const std::string& what) {
    if (!holds) add(one.communicator.rank(), what);
  }
  [[nodiscard]] std::vector<std::string> all() const { return all_; }

 private:
  std::mutex mutex_;
  std::vector<std::string> all_;
};

/// Runs `body` on each rank that has a communicator; `failed` gets the others' results.
inline void run_nccl_group(const NcclGroupSettings& settings, Problems& problems,
                           const std::function<void(NcclRank&)>& body,
                           const std::function<void(int, const CommSetup&)>& failed = {}) {
  const auto library = fake_nccl();
  MemoryExchange exchange;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < settings.world_size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        EmulatedGpu gpu({.seed = settings.seed * 100 + static_cast<std::uint64_t>(rank),
                         .forgotten_wait = rank == 0 ? settings.forgotten_wait : 0,
                         .hangs_at = rank == 0 ? settings.hangs_at : 0});
        const auto device = cuda::make_cuda_device(gpu);
        for (int round = 0; round < settings.rounds; ++round) {
          const CommOptions options{.rank = rank,
                                    .world_size = settings.world_size,
                                    .shards = settings.shards,
                                    .order = settings.order,
                                    .arena_floats = settings.arena_floats,
                                    .group = "comm/" + std::to_string(round),
                                    .on_phase = {},
                                    .device = device.get()};
          CommSetup setup =
              nccl::make_nccl_communicator({.comm = options,
                                            .gpu = gpu,
                                            .library = library,
                                            .timeout = settings.timeout,
                                            .shares_gpus = true},
                                           exchange, Clock::now() + settings.join_within);
          if (setup.communicator) {
            NcclRank one{gpu, *device, *setup.communicator, setup.how};
            body(one);
          } else if (failed) {
            failed(rank, setup);
          } else {
            problems.add(rank, setup.result.detail);
          }
        }
      } catch (const std::exception& error) {
        problems.add(rank, error.what());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace ddprun::trainer::test
