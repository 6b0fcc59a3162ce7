// What kernels do behind the end of their memory on the emulated GPU. In the release build:
// AddressSanitizer ends such a process first.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "tests/unit/trainer/cuda/one_gpu.hpp"
#include "trainer/cuda/launch.hpp"

namespace ddprun::trainer {
namespace {

using Catch::Contains;
using cuda::Stream;

TEST_CASE("a kernel that writes behind the end of its memory is found where that is freed") {
  const auto found = [](const auto& write) {
    test::OneGpu one;
    float* const values = one.floats(80);
    one.gpu.clear(Stream::compute, values, 80 * sizeof(float));
    std::byte* const short_one = one.gpu.allocate(7 * sizeof(float));
    one.gpu.clear(Stream::compute, short_one, 7 * sizeof(float));
    write(one.gpu, values, short_one);
    one.gpu.synchronize(Stream::compute);
    one.gpu.release(short_one);
  };
  const auto adds = [](std::size_t count) {
    return [count](cuda::Gpu& gpu, const float* values, std::byte* to) {
      cuda::launch_over(gpu, count, cuda::AddInto{reinterpret_cast<float*>(to), values, count});
    };
  };
  CHECK_NOTHROW(found(adds(7)));
  CHECK_THROWS_WITH(found(adds(8)), Contains("behind the end of 28 bytes"));
  CHECK_THROWS_WITH(found(adds(70)), Contains("behind the end of 28 bytes"));
  CHECK_THROWS_WITH(found([](cuda::Gpu& gpu, const float* values, std::byte* to) {
                      auto* const halves = reinterpret_cast<Half*>(to);
                      cuda::launch_over(gpu, 15, cuda::StoreFloats<Half>{values, halves, 15});
                    }),
                    Contains("wrote 0 bytes behind the end of 28 bytes"));
}

TEST_CASE("a kernel that reads behind the end of its memory meets nans") {
  test::OneGpu one;
  float* const sum = one.floats(8);
  float* const addend = one.floats(7);
  one.gpu.clear(Stream::compute, sum, 8 * sizeof(float));
  one.gpu.clear(Stream::compute, addend, 7 * sizeof(float));
  one.gpu.synchronize(Stream::compute);
  cuda::launch_over(one.gpu, 8, cuda::AddInto{sum, addend, 8});
  CHECK(one.first(sum + 6) == 0);
  CHECK(std::isnan(one.first(sum + 7)));
}

TEST_CASE("a sample that is gathered from behind the end of its set is of nans") {
  test::OneGpu one;
  float* const set = one.floats(7);
  one.gpu.clear(Stream::compute, set, 7 * sizeof(float));
  float* const gathered = one.floats(4);
  std::byte* const rows = one.gpu.allocate(sizeof(StoredRow));
  std::byte* const pinned = one.gpu.allocate_pinned(sizeof(StoredRow));
  const StoredRow beyond{.begin = 4 * sizeof(float), .size = 4 * sizeof(float)};
  std::memcpy(pinned, &beyond, sizeof beyond);
  one.gpu.copy_in(Stream::compute, pinned, rows, sizeof beyond);
  using Word = std::uint32_t;
  cuda::launch_over(one.gpu, 4,
                    cuda::GatherRows<Word>{.set = reinterpret_cast<const Word*>(set),
                                           .rows = reinterpret_cast<const StoredRow*>(rows),
                                           .to = reinterpret_cast<Word*>(gathered),
                                           .count = 4,
                                           .row_words = 4});
  CHECK(one.first(gathered + 2) == 0);
  CHECK(std::isnan(one.first(gathered + 3)));
  one.gpu.release_pinned(pinned);
}

}  // namespace
}  // namespace ddprun::trainer
