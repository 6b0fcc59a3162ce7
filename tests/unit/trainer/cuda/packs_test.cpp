// Kernels read and write 16 bytes at once where values lie so, and else one value after the other:
// with the same bits.
#include "trainer/cuda/kernels/packs.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <vector>

#include "tests/unit/trainer/cuda/one_gpu.hpp"
#include "trainer/cuda/gpu.hpp"
#include "trainer/cuda/launch.hpp"

namespace ddprun::trainer {
namespace {

using cuda::Stream;

/// Values in the memory of an emulated GPU, `shift` places behind where packs may begin.
class Memory {
 public:
  explicit Memory(std::size_t shift) : shift_(shift) {}

  template <class T>
  T* values(std::size_t count, int seed) {
    std::vector<T> host(count);
    for (std::size_t i = 0; i < count; ++i)
      store(host[i], static_cast<float>(
                         static_cast<int>(i * 37 + static_cast<std::size_t>(seed)) % 101 - 50) /
                         16);
    return put(host);
  }
  template <class T>
  T* put(const std::vector<T>& host) {
    const std::size_t bytes = host.size() * sizeof(T);
    std::byte* const memory = one_.gpu.allocate(bytes + shift_ * sizeof(T));
    T* const there = reinterpret_cast<T*>(memory) + shift_;
    std::byte* const pinned = one_.gpu.allocate_pinned(bytes);
    std::memcpy(pinned, host.data(), bytes);
    one_.gpu.copy_in(Stream::compute, pinned, there, bytes);
    return there;
  }
  template <class T>
  T get(const T* there) {
    std::byte* const pinned = one_.gpu.allocate_pinned(sizeof(T));
    one_.gpu.copy_out(Stream::compute, there, pinned, sizeof(T));
    one_.gpu.synchronize(Stream::compute);
    T value;
    std::memcpy(&value, pinned, sizeof value);
    return value;
  }
  template <class T>
  std::vector<float> read(const T* there, std::size_t count) {
    std::byte* const pinned = one_.gpu.allocate_pinned(count * sizeof(T));
    one_.gpu.copy_out(Stream::compute, there, pinned, count * sizeof(T));
    one_.gpu.synchronize(Stream::compute);
    std::vector<float> floats;
    for (std::size_t i = 0; i < count; ++i) {
      T value;
      std::memcpy(&value, pinned + i * sizeof(T), sizeof value);
      floats.push_back(load(value));
    }
    return floats;
  }
  template <class Kernel>
  void run(std::size_t count, const Kernel& kernel) {
    launch_over(one_.gpu, count, kernel);
  }

 private:
  std::size_t shift_;
  test::OneGpu one_;
};

/// What `work` gives where packs fit, and one place further on, where they do not.
template <class Work>
void same_in_packs_and_one_by_one(const Work& work) {
  Memory packs(0);
  Memory singles(1);
  const std::vector<float> expected = work(singles);
  CHECK(work(packs) == expected);
  // Neither left all as it was.
  Memory untouched(0);
  CHECK(expected != untouched.read(untouched.values<float>(expected.size(), 3), expected.size()));
}

TEMPLATE_TEST_CASE("a kernel gives the same bits in packs as one by one", "", float, Half,
                   BFloat16) {
  using T = TestType;
  constexpr std::size_t kPixels = 6;
  // 16 channels fill packs, 6 do not.
  const std::size_t channels = GENERATE(std::size_t{16}, std::size_t{6});
  const std::size_t count = kPixels * channels;
  same_in_packs_and_one_by_one([&](Memory& memory) {
    T* const sum = memory.values<T>(count, 3);
    memory.run(count, cuda::AddValues<T>{memory.values<T>(count, 1), memory.values<T>(count, 2),
                                         sum, count});
    return memory.read(sum, count);
  });
  same_in_packs_and_one_by_one([&](Memory& memory) {
    T* const values = memory.values<T>(count, 3);
    memory.run(count, cuda::AddBias<T>{values, memory.values<T>(channels, 1), channels, count});
    return memory.read(values, count);
  });
  same_in_packs_and_one_by_one([&](Memory& memory) {
    // To the last of three times as many channels.
    T* const to = memory.values<T>(3 * count, 3);
    memory.run(count, cuda::CopyChannels<T>{memory.values<T>(count, 1), to, channels, 0,
                                            3 * channels, 2 * channels, channels, count});
    return memory.read(to, 3 * count);
  });
  const bool relu = GENERATE(false, true);
  const auto norm_of = [&](Memory& memory) {
    return cuda::BatchNormChannels{.weight = memory.values<float>(channels, 5),
                                   .bias = memory.values<float>(channels, 6),
                                   .mean = memory.values<float>(channels, 7),
                                   .variance = memory.values<float>(channels, 50),
                                   .channels = channels,
                                   .relu = relu};
  };
  // Some variances are below 0. Their roots are nans, which do not equal themselves.
  const auto numbers = [](std::vector<float> values) {
    for (float& value : values)
      if (value != value) value = 12345;
    return values;
  };
  same_in_packs_and_one_by_one([&](Memory& memory) {
    T* const output = memory.values<T>(count, 3);
    memory.run(count, cuda::BatchNormForward<T>{norm_of(memory), memory.values<T>(count, 1), output,
                                                count});
    return numbers(memory.read(output, count));
  });
  same_in_packs_and_one_by_one([&](Memory& memory) {
    T* const gradient = memory.values<T>(count, 3);
    memory.run(count, cuda::BatchNormGradient<T>{
                          norm_of(memory), memory.values<T>(count, 1), memory.values<T>(count, 2),
                          memory.values<float>(channels, 8), memory.values<float>(channels, 9),
                          1.0F / kPixels, gradient, count});
    return numbers(memory.read(gradient, count));
  });
}

TEMPLATE_TEST_CASE("pooling and enlarging give the same bits in packs as one by one", "", float,
                   Half, BFloat16) {
  using T = TestType;
  const int channels = GENERATE(16, 6);
  // Two images of 6 x 6 pixels; windows of 3 that overlap.
  const auto run = [&](Memory& memory, cuda::PoolShape shape, auto forward, auto gradient) {
    shape.channels = channels;
    const auto count = [&](int height, int width) {
      return static_cast<std::size_t>(2 * height * width * channels);
    };
    const std::size_t inputs = count(shape.in_height, shape.in_width);
    const std::size_t outputs = count(shape.out_height, shape.out_width);
    T* const output = memory.values<T>(outputs, 3);
    T* const input_gradient = memory.values<T>(inputs, 3);
    auto* const winners = reinterpret_cast<std::int32_t*>(memory.values<float>(outputs, 4));
    memory.run(outputs, forward(shape, memory.values<T>(inputs, 1), output, winners, outputs));
    memory.run(inputs,
               gradient(shape, memory.values<T>(outputs, 2), winners, input_gradient, inputs));
    std::vector<float> all = memory.read(output, outputs);
    for (const float value : memory.read(input_gradient, inputs)) all.push_back(value);
    return all;
  };
  const cuda::PoolShape windows{.in_height = 6,
                                .in_width = 6,
                                .out_height = 3,
                                .out_width = 3,
                                .channels = 0,
                                .size = 3,
                                .stride = 2,
                                .padding = 1};
  cuda::PoolShape twice = windows;
  twice.out_height = twice.out_width = 12;
  same_in_packs_and_one_by_one([&](Memory& memory) {
    return run(
        memory, windows,
        [](const auto& shape, T* from, T* to, std::int32_t* winners, std::size_t count) {
          return cuda::MaxPoolForward<T>{shape, from, to, winners, count};
        },
        [](const auto& shape, T* from, std::int32_t* winners, T* to, std::size_t count) {
          return cuda::MaxPoolGradient<T>{shape, from, winners, to, count};
        });
  });
  const auto without_winners = [&]<template <class> class Forward, template <class> class Gradient>(
                                   const cuda::PoolShape& of) {
    same_in_packs_and_one_by_one([&](Memory& memory) {
      return run(
          memory, of,
          [](const auto& shape, T* from, T* to, std::int32_t* /*winners*/, std::size_t count) {
            return Forward<T>{shape, from, to, count};
          },
          [](const auto& shape, T* from, std::int32_t* /*winners*/, T* to, std::size_t count) {
            return Gradient<T>{shape, from, to, count};
          });
    });
  };
  without_winners.template operator()<cuda::AdaptivePoolForward, cuda::AdaptivePoolGradient>(
      windows);
  without_winners.template operator()<cuda::UpsampleForward, cuda::UpsampleGradient>(twice);
}

TEMPLATE_TEST_CASE("floats and values of two bytes are converted alike in packs and one by one", "",
                   Half, BFloat16) {
  using T = TestType;
  const std::size_t count = GENERATE(std::size_t{32}, std::size_t{29});
  same_in_packs_and_one_by_one([&](Memory& memory) {
    T* const to = memory.values<T>(count, 3);
    memory.run(count, cuda::StoreFloats<T>{memory.values<float>(count, 1), to, count});
    return memory.read(to, count);
  });
  const bool adds = GENERATE(false, true);
  same_in_packs_and_one_by_one([&](Memory& memory) {
    float* const to = memory.values<float>(count, 3);
    memory.run(count, cuda::WidenValues<T>{memory.values<T>(count, 1), to, adds, count});
    return memory.read(to, count);
  });
}

TEST_CASE("an inf is found wherever it lies, in packs and one by one") {
  const std::size_t count = GENERATE(std::size_t{16}, std::size_t{13});
  // Behind the last one nothing is searched.
  for (std::size_t place = 0; place <= count; ++place) {
    Memory memory(0);
    std::vector<float> floats(count + 1, 1.0F);
    floats[place] = INFINITY;
    const float* const values = memory.put(floats);
    StepState* const state = memory.put(std::vector<StepState>(1));
    memory.run(count, cuda::FindNonFinite{values, state, count});
    CHECK(memory.get(state).found_inf == (place < count ? 1 : 0));
  }
}

TEST_CASE("a launch has one thread for each pack") {
  using cuda::launch_covering;
  constexpr std::size_t kBlock = cuda::kBlockThreads;
  CHECK(launch_covering(kBlock * 8, cuda::ReluForward<Half>{}).blocks == 1);
  CHECK(launch_covering(kBlock * 8 + 1, cuda::ReluForward<Half>{}).blocks == 2);
  CHECK(launch_covering(kBlock * 4, cuda::ReluForward<float>{}).blocks == 1);
  CHECK(launch_covering(kBlock * 4, cuda::TransposeImages<float>{}).blocks == 4);
}

}  // namespace
}  // namespace ddprun::trainer
