// A pass's inputs on their way to a GPU: what arrives, and in which order.
#include "trainer/cuda/input_buffers.hpp"

#include <catch2/catch.hpp>
#include <cstdint>
#include <vector>

#include "tests/emulated_gpu/emulated_gpu.hpp"
#include "trainer/compute/numeric.hpp"
#include "trainer/cuda/cuda_device.hpp"

namespace ddprun::trainer {
namespace {

constexpr std::size_t kChannels = 3;

std::vector<float> some_tables() {
  std::vector<float> tables(kChannels * kByteValues);
  for (std::size_t i = 0; i < tables.size(); ++i)
    tables[i] = (static_cast<float>(i) - 300.0F) / 97.0F;
  return tables;
}
std::vector<std::uint8_t> some_pixels(std::size_t count, unsigned pass) {
  std::vector<std::uint8_t> pixels(count);
  for (std::size_t i = 0; i < count; ++i)
    pixels[i] = static_cast<std::uint8_t>((i + 1) * (7 + pass) + pass * 31);
  return pixels;
}
template <class T>
std::vector<T> taken(Device& device, const DeviceMemory& memory) {
  std::vector<T> values(memory.bytes() / sizeof(T));
  device.copy_out(memory.data(), std::as_writable_bytes(std::span(values)));
  return values;
}

TEST_CASE("images arrive as the values of the host's tables in every storage, zeros behind them") {
  test::EmulatedGpu gpu({.seed = 3});
  const auto device = cuda::make_cuda_device(gpu);
  const std::vector<float> tables = some_tables();
  const std::vector<std::uint8_t> pixels = some_pixels(600 * kChannels, 0);
  std::vector<float> expected(pixels.size() + 12);
  look_up({.pixels = pixels, .tables = tables, .to = {}}, 0,
          std::span(expected).first(pixels.size()));
  const auto fed = [&](Storage storage) {
    DeviceMemory there = device->allocate(expected.size() * bytes_of(storage));
    const std::vector<std::byte> rubbish(there.bytes(), std::byte{0x77});
    device->copy_in(rubbish, there.data());
    device->feed(
        {.values = {},
         .images = {
             .pixels = pixels, .tables = tables, .storage = storage, .to = there.as<std::byte>()}});
    return there;
  };
  CHECK(taken<float>(*device, fed(Storage::fp32)) == expected);
  const auto halves = taken<Half>(*device, fed(Storage::fp16));
  const auto bfloats = taken<BFloat16>(*device, fed(Storage::bf16));
  bool same = true;
  for (std::size_t i = 0; i < expected.size(); ++i)
    same = same && load(halves[i]) == round_to_half(expected[i]) &&
           load(bfloats[i]) == round_to_bfloat16(expected[i]);
  CHECK(same);
}

TEST_CASE("windows of images arrive with the bits that the host sees, zeros behind them") {
  constexpr WindowSides kSides{.from_height = 7, .from_width = 9, .height = 5, .width = 8};
  constexpr std::uint32_t kSamples = 40;
  test::EmulatedGpu gpu({.seed = 4});
  const auto device = cuda::make_cuda_device(gpu);
  const std::vector<float> tables = some_tables();
  const std::vector<std::uint8_t> pixels = some_pixels(kSamples * 7 * 9 * kChannels, 0);
  std::vector<ImageWindow> windows;
  for (std::uint32_t i = 0; i < kSamples; ++i)
    windows.push_back(draw_window(kSides, {.padding = 3, .mirrors = 1}, 1, 2, i));
  InputImages images{
      .pixels = pixels, .tables = tables, .to = {}, .windows = windows, .sides = kSides};
  std::vector<float> expected(images.values() + 15);
  look_up(images, 0, std::span(expected).first(images.values()));
  const auto fed = [&](Storage storage) {
    DeviceMemory there = device->allocate(expected.size() * bytes_of(storage));
    const std::vector<std::byte> rubbish(there.bytes(), std::byte{0x77});
    device->copy_in(rubbish, there.data());
    images.storage = storage;
    images.to = there.as<std::byte>();
    device->feed({.values = {}, .images = images});
    return there;
  };
  CHECK(taken<float>(*device, fed(Storage::fp32)) == expected);
  const auto halves = taken<Half>(*device, fed(Storage::fp16));
  const auto bfloats = taken<BFloat16>(*device, fed(Storage::bf16));
  bool same = true;
  for (std::size_t i = 0; i < expected.size(); ++i)
    same = same && load(halves[i]) == round_to_half(expected[i]) &&
           load(bfloats[i]) == round_to_bfloat16(expected[i]);
  CHECK(same);
}

TEST_CASE("other inputs arrive as they are, also where a later pass has more of them") {
  test::EmulatedGpu gpu;
  const auto device = cuda::make_cuda_device(gpu);
  for (const std::size_t count : {3U, 5U, 400'000U, 600'000U, 2U}) {
    std::vector<std::int32_t> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<std::int32_t>(i * 77 + count);
    const std::vector<std::int32_t> number{-5};
    const DeviceMemory first = device->allocate(4);
    const DeviceMemory second = device->allocate((count + 2) * 4);
    const std::vector<std::byte> rubbish(second.bytes(), std::byte{0x77});
    device->copy_in(rubbish, second.data());
    device->feed({.values = {{std::as_bytes(std::span(number)), first.as<std::byte>()},
                             {std::as_bytes(std::span(values)), second.as<std::byte>()}},
                  .images = {}});
    CHECK(taken<std::int32_t>(*device, first) == number);
    values.resize(count + 2, 0);
    CHECK(taken<std::int32_t>(*device, second) == values);
  }
}

/// A set in the GPU's memory.
DeviceMemory stored(Device& device, std::span<const std::byte> set) {
  DeviceMemory there = device.allocate_samples(set.size());
  device.copy_samples_in(set, there.data());
  return there;
}

TEST_CASE("samples that stay on the GPU arrive as those that are sent, in bytes and in words") {
  constexpr WindowSides kSides{.from_height = 6, .from_width = 4, .height = 5, .width = 8};
  constexpr std::size_t kSamples = 23;
  const std::vector<std::size_t> picks{22, 0, 7, 7, 13};
  const std::vector<float> tables = some_tables();
  for (const std::size_t channels : {1U, 3U}) {  // of 24 and 72 bytes, or of 25 and 75
    for (const int from_width : {4, 5}) {
      for (const bool has_windows : {false, true}) {
        CAPTURE(channels, from_width, has_windows);
        WindowSides sides = kSides;
        sides.from_width = from_width;
        sides.from_height = from_width == 4 ? 6 : 5;
        const auto pixels_each =
            static_cast<std::size_t>(sides.from_height * sides.from_width) * channels;
        test::EmulatedGpu gpu({.seed = 6});
        const auto device = cuda::make_cuda_device(gpu);
        const std::vector<std::uint8_t> set = some_pixels(kSamples * pixels_each, 3);
        const DeviceMemory set_there = stored(*device, std::as_bytes(std::span(set)));
        std::vector<std::uint8_t> sent;
        std::vector<StoredRow> rows;
        std::vector<ImageWindow> windows;
        for (const std::size_t pick : picks) {
          rows.push_back({.begin = pick * pixels_each, .size = pixels_each});
          const auto begin = set.begin() + static_cast<std::ptrdiff_t>(rows.back().begin);
          sent.insert(sent.end(), begin, begin + static_cast<std::ptrdiff_t>(pixels_each));
          if (has_windows)
            windows.push_back(draw_window(sides, {.padding = 3, .mirrors = 1}, 1, 2,
                                          static_cast<std::uint32_t>(pick)));
        }
        InputImages images{.pixels = sent,
                           .tables = std::span(tables).first(channels * kByteValues),
                           .windows = windows,
                           .sides = sides};
        std::vector<float> expected(images.values() + 9);
        look_up(images, 0, std::span(expected).first(images.values()));
        images.pixels = {};
        images.stored = {.set = set_there.as<std::byte>(), .rows = rows, .row_bytes = pixels_each};
        for (const bool are_masks : {false, true}) {
          const DeviceMemory there = device->allocate(expected.size() * sizeof(float));
          images.to = there.as<std::byte>();
          Inputs inputs{.values = {}, .images = {}};
          (are_masks ? inputs.masks : inputs.images) = images;
          device->feed(inputs);
          CHECK(taken<float>(*device, there) == expected);
        }
      }
    }
  }
}

TEST_CASE("texts that stay on the GPU arrive with zeros behind each") {
  test::EmulatedGpu gpu({.seed = 8});
  const auto device = cuda::make_cuda_device(gpu);
  const std::vector<std::int32_t> set{1, 2, 3, 4, 5, 6, 7, 8, 9};
  const DeviceMemory set_there = stored(*device, std::as_bytes(std::span(set)));
  // 7, 8, 9 / 1 / 2, 3, 4, 5
  const std::vector<StoredRow> rows{{24, 12}, {0, 4}, {4, 16}};
  const DeviceMemory there = device->allocate(14 * sizeof(std::int32_t));
  const std::vector<std::byte> rubbish(there.bytes(), std::byte{0x77});
  device->copy_in(rubbish, there.data());
  device->feed({.values = {{{},
                            there.as<std::byte>(),
                            {.set = set_there.as<std::byte>(), .rows = rows, .row_bytes = 16}}},
                .images = {}});
  CHECK(taken<std::int32_t>(*device, there) ==
        std::vector<std::int32_t>{7, 8, 9, 0, 1, 0, 0, 0, 2, 3, 4, 5, 0, 0});
}

/// What each of six passes finds, given to the GPU without waiting for it.
struct Found {
  std::vector<float> values;
  std::uint64_t host_waits = 0;  ///< after the first two passes, which allocate
};
Found passes(std::uint64_t seed, std::uint64_t forgotten_wait, bool stays) {
  constexpr unsigned kPasses = 6;
  constexpr std::size_t kValues = 2 * kChannels;
  test::EmulatedGpu gpu({.seed = seed, .forgotten_wait = forgotten_wait});
  const auto device = cuda::make_cuda_device(gpu);
  const std::vector<float> tables = some_tables();
  const DeviceMemory there = device->allocate((kValues + 1) * sizeof(float));
  const auto all = there.as<float>();
  const DeviceMemory kept = device->allocate(kPasses * there.bytes());
  std::vector<std::uint8_t> set;
  for (unsigned pass = 0; pass < kPasses; ++pass) {
    const std::vector<std::uint8_t> pixels = some_pixels(kValues, pass);
    set.insert(set.end(), pixels.begin(), pixels.end());
  }
  const DeviceMemory set_there =
      stays ? stored(*device, std::as_bytes(std::span(set))) : DeviceMemory();
  Found found;
  std::uint64_t before = 0;
  for (unsigned pass = 0; pass < kPasses; ++pass) {
    if (pass == 2) before = gpu.host_waits();
    // Written over at once.
    std::vector<std::uint8_t> pixels = some_pixels(kValues, pass);
    float number = static_cast<float>(pass) + 0.5F;
    StoredRow row{.begin = pass * kValues, .size = kValues};
    InputImages images{
        .pixels = pixels, .tables = tables, .to = std::as_writable_bytes(all.first(kValues))};
    if (stays) {
      images.pixels = {};
      images.stored = {
          .set = set_there.as<std::byte>(), .rows = std::span(&row, 1), .row_bytes = kValues};
    }
    device->feed(
        {.values = {{std::as_bytes(std::span(&number, 1)), std::as_writable_bytes(all.last(1))}},
         .images = images});
    pixels.assign(pixels.size(), 0);
    number = 0;
    row = {};
    device->store(Storage::fp32, all, kept.as<float>().subspan(pass * all.size()).data());
  }
  found.host_waits = gpu.host_waits() - before;
  found.values = taken<float>(*device, kept);
  return found;
}

TEST_CASE("each pass finds its own inputs, whatever the GPU does first, and the host never waits") {
  const std::vector<float> expected = [] {
    std::vector<float> values;
    for (unsigned pass = 0; pass < 6; ++pass) {
      std::vector<float> one(2 * kChannels);
      const std::vector<std::uint8_t> pixels = some_pixels(one.size(), pass);
      const std::vector<float> tables = some_tables();
      look_up({.pixels = pixels, .tables = tables, .to = {}}, 0, one);
      values.insert(values.end(), one.begin(), one.end());
      values.push_back(static_cast<float>(pass) + 0.5F);
    }
    return values;
  }();
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    for (const bool stays : {false, true}) {
      CAPTURE(seed, stays);
      const Found found = passes(seed, 0, stays);
      REQUIRE(found.values == expected);
      REQUIRE(found.host_waits == 0);
    }
  }
}

TEST_CASE(
    "passes beyond any ring are fed while the compute stream is behind, also between updates") {
  // More than fits into a ring of the usual size, as 128 pictures of 227 x 227 are.
  constexpr std::size_t kPixels = 3 * cuda::Staging::kRingBytes / kChannels * kChannels;
  constexpr unsigned kPasses = 6;
  test::EmulatedGpu gpu({.seed = 5});
  const auto device = cuda::make_cuda_device(gpu);
  const std::vector<float> tables = some_tables();
  const DeviceMemory there = device->allocate(kPixels * sizeof(Half));
  const DeviceMemory kept = device->allocate(kPasses * sizeof(std::uint32_t));
  const DeviceMemory rate = device->allocate(sizeof(float));
  bool goes_on = false;
  for (unsigned pass = 0; pass < kPasses; ++pass) {
    const std::vector<std::uint8_t> pixels(kPixels, static_cast<std::uint8_t>(pass));
    device->feed({.values = {},
                  .images = {.pixels = pixels,
                             .tables = tables,
                             .storage = Storage::fp16,
                             .to = there.as<std::byte>()}});
    gpu.copy(cuda::Stream::compute, there.data(), kept.as<std::uint32_t>().data() + pass,
             sizeof(std::uint32_t));
    device->copy_in(std::as_bytes(std::span(tables).first(1)), rate.data());
    if (pass != 1) continue;
    // What the compute stream is given from now on waits; a host that waits for it is an error.
    static_cast<test::NativeStream*>(gpu.native(cuda::Stream::compute))->enqueue([&] {
      return goes_on;
    });
    gpu.set_watch([looks = 0](auto) mutable {
      if (++looks > 2000) throw cuda::GpuError("the host waits for the compute stream");
    });
  }
  goes_on = true;
  gpu.set_watch({});
  const auto values = taken<Half>(*device, kept);
  for (unsigned pass = 0; pass < kPasses; ++pass)
    CHECK(load(values[2 * pass]) == round_to_half(tables[pass]));
}

TEST_CASE("a wait of the two streams that is left out shows as wrong inputs") {
  const bool stays = GENERATE(false, true);
  const std::vector<float> expected = passes(1, 0, stays).values;
  // A pass has two waits: the copy waits until the buffer is free, then the computation for the
  // copy. The first two passes find their buffers free.
  for (const std::uint64_t wait : {2U, 4U, 5U, 6U, 7U, 8U}) {
    bool is_found = false;
    for (std::uint64_t seed = 1; seed <= 400 && !is_found; ++seed)
      is_found = passes(seed, wait, stays).values != expected;
    CAPTURE(wait, stays);
    CHECK(is_found);
  }
}

TEST_CASE("inputs within a captured pass are refused") {
  test::EmulatedGpu gpu;
  const auto device = cuda::make_cuda_device(gpu);
  CHECK_THROWS_WITH(device->capture([&] { device->feed({}); }),
                    Catch::Contains("inputs were fed while a CUDA graph was captured"));
}

}  // namespace
}  // namespace ddprun::trainer
