// Convolutions that cuDNN does not compute as they are: with padded channels, and sums.
#include "trainer/cuda/plugin/convolution_rows.hpp"

#include <catch2/catch.hpp>
#include <vector>

#include "tests/unit/trainer/cuda/plugin/fake_cudnn.hpp"
#include "trainer/cuda/gpu.hpp"

namespace ddprun::trainer::cuda {
namespace {

using test::Fixture;
using test::kPasses;
using test::kShape;

/// What a kernel does with memory of the host. False: it is another one.
template <class Kernel>
bool run_kernel(const Launch& launch) {
  if (launch.kernel != PlaceIn<Kernel, AllKernels>::value) return false;
  for (unsigned block = 0; block < launch.blocks; ++block)
    for (unsigned thread = 0; thread < kBlockThreads; ++thread)
      (*static_cast<const Kernel*>(launch.arguments))(ThreadPlace{block, launch.blocks, thread});
  return true;
}
template <class T>
bool run_copy(const Launch& launch) {
  return run_kernel<PadChannels<T>>(launch) || run_kernel<CopyChannels<T>>(launch) ||
         run_kernel<AddValues<T>>(launch);
}

/// Rows of channels of a convolution with a window of one pixel.
template <class T>
struct PixelConvolution {
  std::size_t pixels, inputs, outputs;
  T* input;
  T* weight;
  T* output;
  /// One of the three from the other two.
  void compute(ConvolutionPass pass) const {
    const auto in = [&](std::size_t p, std::size_t i) -> T& { return input[p * inputs + i]; };
    const auto of = [&](std::size_t o, std::size_t i) -> T& { return weight[o * inputs + i]; };
    const auto out = [&](std::size_t p, std::size_t o) -> T& { return output[p * outputs + o]; };
    const auto sum = [](std::size_t count, auto term) {
      float all = 0;
      for (std::size_t k = 0; k < count; ++k) all += term(k);
      return all;
    };
    for (std::size_t p = 0; p < pixels; ++p)
      for (std::size_t o = 0; o < outputs; ++o)
        if (pass == ConvolutionPass::forward)
          store(out(p, o), sum(inputs, [&](auto i) { return load(in(p, i)) * load(of(o, i)); }));
    for (std::size_t p = 0; p < pixels; ++p)
      for (std::size_t i = 0; i < inputs; ++i)
        if (pass == ConvolutionPass::input_gradient)
          store(in(p, i), sum(outputs, [&](auto o) { return load(out(p, o)) * load(of(o, i)); }));
    for (std::size_t o = 0; o < outputs; ++o)
      for (std::size_t i = 0; i < inputs; ++i)
        if (pass == ConvolutionPass::weight_gradient)
          store(of(o, i), sum(pixels, [&](auto p) { return load(out(p, o)) * load(in(p, i)); }));
  }
};

template <class T>
std::vector<T> numbers(std::size_t count, int first) {
  std::vector<T> all(count);
  for (std::size_t i = 0; i < count; ++i)
    store(all[i], static_cast<float>((first + static_cast<int>(i)) % 7 - 3));
  return all;
}

template <class T>
void check_padded(ElementType type, ConvolutionPass pass, bool accumulate) {
  constexpr std::size_t kPixels = 4;
  constexpr std::size_t kInputs = 3;
  constexpr std::size_t kOutputs = 11;
  const ConvolutionShape shape{.batch = 1,
                               .input = {.height = 2, .width = 2, .channels = kInputs},
                               .output = {.height = 2, .width = 2, .channels = kOutputs},
                               .window = {.size = 1, .stride = 1},
                               .type = type};
  std::vector<T> input = numbers<T>(kPixels * kInputs, 1);
  std::vector<T> weight = numbers<T>(kOutputs * kInputs, 2);
  std::vector<T> output = numbers<T>(kPixels * kOutputs, 3);
  std::vector<float> gradient(kOutputs * kInputs, 100.0F);
  std::vector<T> want_input = input, want_weight = weight, want_output = output;
  PixelConvolution<T>{kPixels,           kInputs, kOutputs, want_input.data(), want_weight.data(),
                      want_output.data()}
      .compute(pass);

  const Fixture fixture(
      {.listed = {{1, CUDNN_DETERMINISTIC}},
       .refuses_odd_channels = true,
       .compute = [pass](void* in, void* w, void* out) {
         PixelConvolution<T>{
             kPixels, 8, 16, static_cast<T*>(in), static_cast<T*>(w), static_cast<T*>(out)}
             .compute(pass);
       }});
  std::vector<std::byte> workspace(fixture.convolutions->workspace_bytes(pass, shape));
  const bool of_weight = pass == ConvolutionPass::weight_gradient;
  fixture.convolutions->convolve(
      nullptr,
      {.pass = pass,
       .shape = shape,
       .input = input.data(),
       .weight = of_weight ? static_cast<void*>(gradient.data()) : weight.data(),
       .output = output.data(),
       .accumulate = accumulate,
       .workspace = workspace.data()},
      [](const Launch& launch) {
        const bool is_known = run_copy<float>(launch) || run_copy<Half>(launch) ||
                              run_kernel<WidenValues<Half>>(launch);
        CHECK(is_known);
      });
  for (std::size_t i = 0; i < input.size(); ++i) CHECK(load(input[i]) == load(want_input[i]));
  for (std::size_t i = 0; i < output.size(); ++i) CHECK(load(output[i]) == load(want_output[i]));
  if (!of_weight) return;
  for (std::size_t i = 0; i < gradient.size(); ++i)
    CHECK(gradient[i] == (accumulate ? 100 : 0) + load(want_weight[i]));
}

TEST_CASE("channels for which cuDNN has no algorithm are padded, and the result is the same") {
  for (const ConvolutionPass pass : kPasses) {
    for (const bool accumulate : {false, true}) {
      if (accumulate && pass != ConvolutionPass::weight_gradient) continue;
      INFO("pass " << static_cast<int>(pass) << ", adds " << accumulate);
      check_padded<float>(ElementType::fp32, pass, accumulate);
      check_padded<Half>(ElementType::fp16, pass, accumulate);
    }
  }
}

TEST_CASE("where no algorithm adds to what is there, a kernel of our own does") {
  const Fixture fixture(
      {.listed = {{4, CUDNN_DETERMINISTIC}},
       .refused_sums = {4},
       .compute = [](void*, void* weight, void*) { static_cast<float*>(weight)[0] = 5; }});
  std::vector<float> gradient(std::size_t{16} * 9 * 3, 1.0F);
  std::vector<std::byte> workspace(
      fixture.convolutions->workspace_bytes(ConvolutionPass::weight_gradient, kShape));
  fixture.convolutions->convolve(nullptr,
                                 {.pass = ConvolutionPass::weight_gradient,
                                  .shape = kShape,
                                  .weight = gradient.data(),
                                  .accumulate = true,
                                  .workspace = workspace.data()},
                                 [](const Launch& launch) { CHECK(run_copy<float>(launch)); });
  CHECK(gradient[0] == 6);
}

}  // namespace
}  // namespace ddprun::trainer::cuda
