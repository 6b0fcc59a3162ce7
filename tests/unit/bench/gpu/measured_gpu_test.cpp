// What is measured of a GPU, on an emulated one. Whole runs: tests/scripts/test_gpu_race.py.
#include "bench/gpu/measured_gpu.hpp"

#include <catch2/catch.hpp>
#include <cstring>
#include <memory>

#include "tests/emulated_gpu/emulated_gpu.hpp"
#include "trainer/cuda/launch.hpp"

namespace ddprun::bench {
namespace {

using cuda::Stream;

/// A float of the GPU to which steps add 1 twice.
struct Steps {
  explicit Steps(StepTimes& times)
      : gpu(std::make_unique<trainer::test::EmulatedGpu>(), times),
        floats(reinterpret_cast<float*>(gpu.allocate(4 * sizeof(float)))),
        state(reinterpret_cast<trainer::StepState*>(gpu.allocate(sizeof(trainer::StepState)))),
        pinned(gpu.allocate_pinned(sizeof(float))) {
    gpu.clear(Stream::compute, floats, 4 * sizeof(float));
    gpu.clear(Stream::compute, state, sizeof(trainer::StepState));
    const float one = 1;
    std::memcpy(pinned, &one, sizeof one);
    gpu.copy_in(Stream::compute, pinned, floats + 1, sizeof one);
    gpu.synchronize(Stream::compute);
  }
  void add() { cuda::launch_over(gpu, 1, cuda::AddInto{floats, floats + 1, 1}); }
  void update() {
    cuda::launch(gpu, 1,
                 cuda::UpdateArena{.config = {},
                                   .state = state,
                                   .pieces = nullptr,
                                   .piece_count = 0,
                                   .parameters = floats,
                                   .gradients = floats,
                                   .first = nullptr,
                                   .second = nullptr,
                                   .statistic_share = 1});
    cuda::launch(gpu, 1, cuda::FinishStep{{}, state});
  }
  [[nodiscard]] float result() {
    gpu.copy_out(Stream::compute, floats, pinned, sizeof(float));
    gpu.synchronize(Stream::compute);
    float value = 0;
    std::memcpy(&value, pinned, sizeof value);
    return value;
  }

  MeasuredGpu gpu;
  float* floats;
  trainer::StepState* state;
  std::byte* pinned;
};

TEST_CASE("steps of launches and of graphs are counted by their end, and do what they did") {
  StepTimes times(1);
  {
    Steps steps(times);
    for (int i = 0; i < 3; ++i) {
      steps.add();
      steps.add();
      steps.update();
    }
    steps.gpu.begin_capture(Stream::compute);
    steps.add();
    steps.add();
    const cuda::Captured shard = steps.gpu.end_capture(Stream::compute);
    steps.gpu.begin_capture(Stream::compute);
    steps.update();
    const cuda::Captured update = steps.gpu.end_capture(Stream::compute);
    for (int i = 0; i < 4; ++i) {
      steps.gpu.replay(Stream::compute, shard);
      steps.gpu.replay(Stream::compute, update);
    }
    CHECK(steps.result() == 14);
  }
  CHECK(times.steps() == 6);
  CHECK(times.step_seconds() > 0);
  CHECK(times.gap_share() > 0);
  CHECK(times.gap_share() < 1);
  CHECK(times.update_rate() > 0);
}

TEST_CASE("steps around a copy of weights to the host are not measured") {
  StepTimes times(0);
  {
    Steps steps(times);
    constexpr std::size_t kBytes = std::size_t{1} << 20;
    std::byte* const weights = steps.gpu.allocate(kBytes);
    std::byte* const host = steps.gpu.allocate_pinned(kBytes);
    for (int i = 0; i < 4; ++i) {
      steps.add();
      if (i == 2) steps.gpu.copy_out(Stream::compute, weights, host, kBytes);
      steps.update();
    }
  }
  CHECK(times.steps() == 3);
}

}  // namespace
}  // namespace ddprun::bench
