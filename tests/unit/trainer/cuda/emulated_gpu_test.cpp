// The emulated GPU finds what a real one would not forgive.
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <functional>
#include <set>
#include <vector>

#include "tests/unit/trainer/cuda/one_gpu.hpp"
#include "trainer/cuda/launch.hpp"

namespace ddprun::trainer {
namespace {

using Catch::Contains;
using cuda::GpuError;
using cuda::Stream;
using Gpu = test::OneGpu;

TEST_CASE("new memory of the emulated GPU holds nans") {
  Gpu one;
  const float value = one.first(one.floats(1));
  CHECK(value != value);
}

TEST_CASE("an address of the host in the place of the GPU's is refused, and the other way round") {
  Gpu one;
  alignas(64) float place[8] = {};
  float* const host = place + 4;
  float* const there = one.floats(4);
  CHECK_THROWS_WITH(one.gpu.clear(Stream::compute, host, 4), Contains("host"));
  CHECK_THROWS_WITH(one.gpu.copy_in(Stream::compute, reinterpret_cast<std::byte*>(there), there, 4),
                    Contains("GPU's memory"));
  CHECK_THROWS_WITH(cuda::launch_over(one.gpu, 4, cuda::AddInto{there, host, 4}),
                    Contains("AddInto") && Contains("host"));
}

TEST_CASE("a call beyond the end of its memory is refused") {
  Gpu one;
  CHECK_THROWS_AS(one.gpu.clear(Stream::compute, one.floats(4), 17), GpuError);
}

#if defined(__SANITIZE_ADDRESS__)
// Without the sanitizer: emulated_fences_test.cpp.
TEST_CASE("a kernel that reads behind the end of its memory ends its process") {
  Gpu one;
  float* const sum = one.floats(8);
  float* const addend = one.floats(7);
  one.gpu.clear(Stream::compute, sum, 8 * sizeof(float));
  one.gpu.clear(Stream::compute, addend, 7 * sizeof(float));
  one.gpu.synchronize(Stream::compute);
  // In a process of its own, which AddressSanitizer ends.
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::fclose(stderr);
    cuda::launch_over(one.gpu, 8, cuda::AddInto{sum, addend, 8});
    one.gpu.synchronize(Stream::compute);
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status != 0);
}
#endif

TEST_CASE("a missing event shows as wrong bits") {
  const auto run = [](std::uint64_t seed, bool waits) {
    Gpu one(seed);
    float* const from = one.floats(1);
    float* const to = one.floats(1);
    one.gpu.clear(Stream::compute, to, sizeof(float));
    one.gpu.clear(Stream::compute, from, sizeof(float));
    one.gpu.synchronize(Stream::compute);
    std::byte* const pinned = one.gpu.allocate_pinned(sizeof(float));
    const float value = 5;
    std::memcpy(pinned, &value, sizeof value);
    const cuda::Event copied = one.gpu.make_event();
    one.gpu.copy_in(Stream::copy, pinned, from, sizeof(float));
    one.gpu.record(copied, Stream::copy);
    if (waits) one.gpu.wait(Stream::compute, copied);
    cuda::launch_over(one.gpu, 1, cuda::AddInto{to, from, 1});
    const float sum = one.first(to);
    one.gpu.synchronize(Stream::copy);
    return sum;
  };
  std::set<float> with, without;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    with.insert(run(seed, true));
    without.insert(run(seed, false));
  }
  CHECK(with == std::set<float>{5});
  CHECK(without == std::set<float>{0, 5});
}

TEST_CASE("streams that wait for each other are an error, not a hang") {
  Gpu one;
  const cuda::Event never = one.gpu.make_event();
  const cuda::Event other = one.gpu.make_event();
  one.gpu.record(never, Stream::copy);
  one.gpu.synchronize(Stream::copy);
  one.gpu.wait(Stream::compute, never);  // has come
  CHECK_NOTHROW(one.gpu.synchronize(Stream::compute));
  one.gpu.record(other, Stream::copy);
  CHECK_NOTHROW(one.gpu.synchronize(other));
}

TEST_CASE("memory of a GPU that hangs is not freed, and the next call that allocates tells why") {
  test::EmulatedGpu gpu({.hangs_at = 1});
  std::byte* const memory = gpu.allocate(64);
  std::byte* const pinned = gpu.allocate_pinned(64);
  cuda::launch_over(
      gpu, 1, cuda::AddInto{reinterpret_cast<float*>(memory), reinterpret_cast<float*>(memory), 1});
  gpu.set_watch([](auto) { throw DeviceError("it hangs"); });
  CHECK_NOTHROW(gpu.release(memory));
  CHECK(gpu.memory_used() == 64);
  CHECK_NOTHROW(gpu.release_pinned(pinned));
  CHECK_THROWS_WITH(gpu.allocate(4), Contains("it hangs"));
  CHECK_THROWS_WITH(gpu.allocate_pinned(4), Contains("it hangs"));
  CHECK_THROWS_WITH(gpu.synchronize(Stream::compute), Contains("it hangs"));
  gpu.set_watch({});
  CHECK_NOTHROW(gpu.release(memory));  // it still hangs
  gpu.reset();
  gpu.release(memory);
  CHECK(gpu.memory_used() == 0);
}

TEST_CASE("a captured graph does its work each time it is replayed, and none before") {
  Gpu one;
  float* const sum = one.floats(1);
  float* const addend = one.floats(1);
  one.gpu.clear(Stream::compute, sum, sizeof(float));
  const float value = 2;
  std::byte* const pinned = one.gpu.allocate_pinned(sizeof(float));
  std::memcpy(pinned, &value, sizeof value);
  one.gpu.copy_in(Stream::compute, pinned, addend, sizeof(float));
  one.gpu.begin_capture(Stream::compute);
  cuda::launch_over(one.gpu, 1, cuda::AddInto{sum, addend, 1});
  const cuda::Captured graph = one.gpu.end_capture(Stream::compute);
  CHECK(one.first(sum) == 0);
  for (int k = 0; k < 3; ++k) one.gpu.replay(Stream::compute, graph);
  CHECK(one.first(sum) == 6);
  CHECK(one.gpu.graphs() == 1);
  one.gpu.release(graph);
  CHECK(one.gpu.graphs() == 0);
  CHECK_THROWS_WITH(one.gpu.replay(Stream::compute, graph), Contains("released"));
}

TEST_CASE("nothing comes of a capture in which the host waits, asks, allocates or frees") {
  Gpu one;
  std::byte* const memory = one.gpu.allocate(4);
  const cuda::Event event = one.gpu.make_event();
  one.gpu.record(event, Stream::compute);
  const std::vector<std::function<void()>> mistakes{
      [&] { one.gpu.synchronize(Stream::compute); }, [&] { one.gpu.synchronize(event); },
      [&] { (void)one.gpu.has_come(event); },        [&] { (void)one.gpu.allocate(4); },
      [&] { (void)one.gpu.allocate_pinned(4); },     [&] { one.gpu.release(memory); }};
  for (const auto& mistake : mistakes) {
    one.gpu.begin_capture(Stream::compute);
    CHECK_THROWS_WITH(mistake(), Contains("captured"));
    CHECK_THROWS_WITH(one.gpu.end_capture(Stream::compute), Contains("invalidated"));
  }
  CHECK(one.gpu.graphs() == 0);
  CHECK_NOTHROW(one.gpu.synchronize(Stream::compute));
}

}  // namespace
}  // namespace ddprun::trainer
