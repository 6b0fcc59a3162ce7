#include "trainer/cuda/cuda_device.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "tests/emulated_gpu/emulated_gpu.hpp"
#include "trainer/compute/buffer.hpp"
#include "trainer/compute/numeric.hpp"
#include "trainer/compute/philox.hpp"
#include "trainer/cuda/input_buffers.hpp"
#include "trainer/host/host_device.hpp"

namespace ddprun::trainer {
namespace {

struct DeviceFixture {
  test::EmulatedGpu gpu;
  std::unique_ptr<Device> device = cuda::make_cuda_device(gpu);

  DeviceMemory given(const std::vector<float>& values) const {
    DeviceMemory memory = device->allocate(values.size() * sizeof(float));
    device->copy_in(std::as_bytes(std::span(values)), memory.data());
    return memory;
  }
  std::vector<float> taken(const DeviceMemory& memory) const {
    std::vector<float> values(memory.bytes() / sizeof(float));
    device->copy_out(memory.data(), std::as_writable_bytes(std::span(values)));
    return values;
  }
};

Parameter parameter(std::size_t offset, std::size_t count, bool decay, ParameterRole role) {
  Parameter one;
  one.offset = offset;
  one.count = count;
  one.decay = decay;
  one.role = role;
  return one;
}

TEST_CASE("the peak of a device counts what was allocated at one time") {
  const DeviceFixture fixture;
  const std::size_t before = fixture.device->peak_bytes();
  {
    const DeviceMemory first = fixture.device->allocate(3000);
    const DeviceMemory second = fixture.device->allocate(1000);
  }
  const DeviceMemory later = fixture.device->allocate(2000);
  CHECK(fixture.device->peak_bytes() == before + 4000);
}

TEST_CASE("new memory of the device holds zeros") {
  const DeviceFixture fixture;
  const DeviceMemory memory = fixture.device->allocate(1000 * sizeof(float));
  CHECK(fixture.taken(memory) == std::vector<float>(1000, 0.0F));
}

TEST_CASE("bytes come back as they were, also more than one piece of the way") {
  const DeviceFixture fixture;
  std::vector<float> values(3'000'000);
  std::iota(values.begin(), values.end(), 0.0F);
  const DeviceMemory memory = fixture.given(values);
  CHECK(fixture.taken(memory) == values);
  CHECK(fixture.device->hash(memory.as<float>()) == hash_floats(values));
}

TEST_CASE("small copies on their way do not hold up the host, and a full ring loses none") {
  DeviceFixture fixture;
  constexpr std::size_t kCopies = 600;
  const DeviceMemory memory = fixture.device->allocate(kCopies * sizeof(float));
  const std::uint64_t before = fixture.gpu.host_waits();
  std::vector<float> values(kCopies);
  std::iota(values.begin(), values.end(), 1.0F);
  for (std::size_t i = 0; i < kCopies; ++i)
    fixture.device->copy_in(std::as_bytes(std::span(values).subspan(i, 1)),
                            memory.as<float>().data() + i);
  CHECK(fixture.gpu.host_waits() == before);
  CHECK(fixture.taken(memory) == values);
  // Pieces of odd sizes, round the ring several times, in both directions.
  std::vector<float> large((cuda::Staging::kRingBytes * 3 + 40) / sizeof(float));
  std::iota(large.begin(), large.end(), 3.0F);
  const DeviceMemory there = fixture.device->allocate(large.size() * sizeof(float));
  for (std::size_t at = 0, size = 7; at < large.size(); at += size, size = size * 5 % 300'007) {
    const auto piece = std::span(large).subspan(at, std::min(size, large.size() - at));
    fixture.device->copy_in(std::as_bytes(piece), there.as<float>().data() + at);
  }
  CHECK(fixture.taken(there) == large);
}

TEST_CASE("sums, searches for infs and storage types work over whole arenas") {
  const DeviceFixture fixture;
  const std::vector<float> values{1, 2.0009765625F, -3, 1e-9F, 5};
  const DeviceMemory memory = fixture.given(values);
  fixture.device->add_into(memory.as<float>(), fixture.given(values).as<float>().data());
  CHECK(fixture.taken(memory) == std::vector<float>{2, 4.001953125F, -6, 2e-9F, 10});

  const DeviceMemory state = fixture.device->allocate(sizeof(StepState));
  const auto found_inf = [&] {
    StepState there;
    fixture.device->copy_out(state.data(), std::as_writable_bytes(std::span(&there, 1)));
    return there.found_inf;
  };
  fixture.device->find_non_finite(memory.as<float>(), state.as<StepState>().front());
  CHECK(found_inf() == 0);
  const DeviceMemory infinite = fixture.given({0, std::numeric_limits<float>::infinity()});
  fixture.device->find_non_finite(infinite.as<float>(), state.as<StepState>().front());
  CHECK(found_inf() == 1);

  const DeviceMemory halves = fixture.device->allocate(values.size() * 2);
  fixture.device->copy_in(Storage::fp16, values, halves.data());
  std::vector<Half> got(values.size());
  fixture.device->copy_out(halves.data(), std::as_writable_bytes(std::span(got)));
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(load(got[i]) == round_to_half(values[i]));
}

TEST_CASE("the norm of all gradients has the same bits on a GPU") {
  // Weights of one lane, of some blocks, and of so many that sums need three rounds.
  std::vector<Parameter> parameters;
  std::size_t size = 0;
  for (const std::size_t count : {1, 5000, 300'000}) {
    parameters.push_back({.name = "w", .shape = {}, .offset = size, .count = count});
    size += count + 3;
  }
  parameters.push_back({.name = "mean", .shape = {}, .offset = size, .count = 9});
  parameters.back().role = ParameterRole::statistic;
  size += 9;
  std::vector<float> gradients(size);
  for (std::uint32_t i = 0; i < size; ++i)
    gradients[i] = unit_uniform(philox({{i, 0, 0, 0}}, 3, 0).word[0]) - 0.4F;
  const auto norm = [&](Device& device, const float* there, DeviceMemory memory) {
    StepState state;
    state.scaler.scale = 4;
    device.copy_in(std::as_bytes(std::span(&state, 1)), memory.data());
    device.make_update({.clip_norm = 1}, parameters, 1)
        ->measure_norm(there, memory.as<StepState>().front());
    device.copy_out(memory.data(), std::as_writable_bytes(std::span(&state, 1)));
    return state.gradient_norm;
  };
  const DeviceFixture fixture;
  const DeviceMemory there = fixture.given(gradients);
  const std::unique_ptr<Device> host = make_host_device(Bf16::rounded);
  const double here = norm(*host, gradients.data(), host->allocate(sizeof(StepState)));
  CHECK(norm(*fixture.device, there.as<float>().data(),
             fixture.device->allocate(sizeof(StepState))) == here);
  double squares = 0;
  for (const Parameter& parameter : std::span(parameters).first(3))
    for (std::size_t i = 0; i < parameter.count; ++i)
      squares += std::pow(static_cast<double>(gradients[parameter.offset + i]), 2);
  CHECK(here == Approx(std::sqrt(squares) / 4).epsilon(1e-12));
}

TEST_CASE("attention asks a GPU for as much work for any number of samples") {
  const auto calls = [](int samples) {
    DeviceFixture fixture;
    Device& device = *fixture.device;
    constexpr int kWidth = 4;
    constexpr int kChannels = 6;
    const OperationShape shape{.batch = samples,
                               .inputs = {{{1, kWidth, 3 * kChannels}, GradientUse::overwrite}},
                               .output = {1, kWidth, kChannels},
                               .parameter_counts = {}};
    const auto attention =
        device.make_operation({.kind = layer::Attention{.heads = 2, .positions = kWidth}}, shape);
    const auto values = static_cast<std::size_t>(samples * kWidth * 3 * kChannels);
    const DeviceMemory input = fixture.given(std::vector<float>(values, 0.5F));
    const DeviceMemory slopes = fixture.given(std::vector<float>(values / 3, 0.5F));
    const DeviceMemory output = device.allocate(slopes.bytes());
    const DeviceMemory gradient = device.allocate(input.bytes());
    const DeviceMemory saved = device.allocate(attention->memory().saved);
    const DeviceMemory workspace = device.allocate(attention->memory().workspace);
    const DeviceMemory lengths =
        device.allocate(static_cast<std::size_t>(samples) * sizeof(std::int32_t));
    const void* const inputs[] = {input.data()};
    void* const gradients[] = {gradient.data()};
    const Tensors tensors{.inputs = inputs,
                          .parameters = {},
                          .output = output.data(),
                          .saved = saved.data(),
                          .workspace = workspace.data(),
                          .output_gradient = slopes.data(),
                          .input_gradients = gradients,
                          .parameter_gradients = {}};
    const Pass pass{.count = samples, .lengths = lengths.as<std::int32_t>().data()};
    const std::uint64_t before = fixture.gpu.calls();
    attention->forward(tensors, pass);
    attention->backward(tensors, pass);
    const std::uint64_t after = fixture.gpu.calls();
    fixture.gpu.synchronize(cuda::Stream::compute);
    return after - before;
  };
  CHECK(calls(1) == calls(33));
}

TEST_CASE("the optimizer's pass is cut into pieces of single parameters") {
  const std::vector<Parameter> parameters{parameter(0, 20000, true, ParameterRole::weight),
                                          parameter(20032, 5, false, ParameterRole::weight),
                                          parameter(20064, 3, false, ParameterRole::statistic)};
  const auto pieces = cuda::update_pieces(parameters, 0.5, 10, 20066);
  REQUIRE(pieces.size() == 4);
  CHECK((pieces[0].begin == 10 && pieces[0].count == 16384 && pieces[0].decay == 0.5));
  CHECK((pieces[1].begin == 16394 && pieces[1].count == 3606 && !pieces[1].is_statistic));
  CHECK((pieces[2].begin == 20032 && pieces[2].count == 5 && pieces[2].decay == 0));
  CHECK((pieces[3].begin == 20064 && pieces[3].count == 2 && pieces[3].is_statistic));
}

}  // namespace
}  // namespace ddprun::trainer
