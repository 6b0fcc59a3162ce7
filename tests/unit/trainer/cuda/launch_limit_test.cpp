#include "trainer/cuda/launch_limit.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <vector>

#include "tests/emulated_gpu/emulated_gpu.hpp"
#include "trainer/cuda/launch.hpp"

namespace ddprun::trainer {
namespace {

using cuda::LaunchLimit;
using cuda::LaunchLimits;
using cuda::Stream;

/// The numbers of the events, -1: none.
std::vector<int> steps(LaunchLimit& limit, const std::vector<std::uint64_t>& calls) {
  std::vector<int> numbers;
  for (const std::uint64_t operations : calls) {
    const LaunchLimit::Step step = limit.add(operations);
    numbers.push_back(step.record ? static_cast<int>(*step.record) : -1);
    numbers.push_back(step.wait ? static_cast<int>(*step.wait) : -1);
  }
  return numbers;
}

TEST_CASE("an event is recorded every 256 operations, and with the third the oldest is awaited") {
  LaunchLimit limit;
  CHECK(steps(limit, {255, 1}) == std::vector<int>{-1, -1, 0, -1});
  CHECK(steps(limit, {200, 55, 1}) == std::vector<int>{-1, -1, -1, -1, 1, -1});
  CHECK(steps(limit, {256, 256, 256}) == std::vector<int>{2, 0, 0, 1, 1, 2});
}

TEST_CASE("a graph weighs as its nodes, and one of very many nodes lets the host go on, too") {
  LaunchLimit limit;
  CHECK(steps(limit, {100, 5000, 255}) == std::vector<int>{-1, -1, 0, -1, -1, -1});
  CHECK(steps(limit, {5000, 5000}) == std::vector<int>{1, -1, 2, 0});
}

/// Adds 1 to a float so often, as the plugin does: each launch is counted.
struct Ahead {
  explicit Ahead(test::EmulatedGpuSettings settings) : gpu(settings), limits(gpu) {
    gpu.clear(Stream::compute, sum, sizeof(float));
    const float one = 1;
    std::memcpy(pinned, &one, sizeof one);
    gpu.copy_in(Stream::compute, pinned, addend, sizeof(float));
  }
  void launch() {
    cuda::launch_over(gpu, 1, cuda::AddInto{sum, addend, 1});
    most = std::max(most, gpu.pending(Stream::compute));
    limits.add(Stream::compute, 1);
  }
  test::EmulatedGpu gpu;
  LaunchLimits limits;
  std::byte* pinned = gpu.allocate_pinned(sizeof(float));
  float* sum = reinterpret_cast<float*>(gpu.allocate(sizeof(float)));
  float* addend = reinterpret_cast<float*>(gpu.allocate(sizeof(float)));
  std::size_t most = 0;  ///< that was pending
};

TEST_CASE("however many launches the host gives a GPU, fewer than 1000 are pending") {
  std::size_t most = 0;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    Ahead one({.seed = seed});
    for (int i = 0; i < 5000; ++i) one.launch();
    most = std::max(most, one.most);
    CHECK(one.most < 1000);
    one.gpu.copy_out(Stream::compute, one.sum, one.pinned, sizeof(float));
    one.gpu.synchronize(Stream::compute);
    float sum = 0;
    std::memcpy(&sum, one.pinned, sizeof sum);
    CHECK(sum == 5000);
  }
  CHECK(most > 2 * LaunchLimit::kOperationsPerEvent);  // the host does get ahead
}

TEST_CASE("a host that is far ahead of a GPU that hangs is under the watch") {
  Ahead one({.hangs_at = 1});
  int looks = 0;
  one.gpu.set_watch([&](auto) {
    if (++looks == 3) throw std::runtime_error("a peer is lost");
  });
  const auto launch_all = [&] {
    for (int i = 0; i < 5000; ++i) one.launch();
  };
  CHECK_THROWS_WITH(launch_all(), "a peer is lost");
  CHECK(one.most < 1000);
  one.gpu.reset();
}

}  // namespace
}  // namespace ddprun::trainer
