#include "tests/emulated_gpu/emulated_libraries.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "trainer/compute/numeric.hpp"
#include "trainer/host/host_device.hpp"

namespace ddprun::trainer::test {

using cuda::ConvolutionCall;
using cuda::ConvolutionPass;
using cuda::ElementType;

namespace {

/// All 65536 of them: a third of the time of whole runs goes into conversions otherwise.
float value_of(Half half) {
  static const std::vector<float> values = [] {
    std::vector<float> all;
    for (unsigned bits = 0; bits < 0x10000U; ++bits)
      all.push_back(load(std::bit_cast<Half>(static_cast<std::uint16_t>(bits))));
    return all;
  }();
  return values[std::bit_cast<std::uint16_t>(half)];
}

float read(const void* data, ElementType type, std::size_t at) {
  switch (type) {
    case ElementType::fp32:
      return static_cast<const float*>(data)[at];
    case ElementType::fp16:
      return value_of(static_cast<const Half*>(data)[at]);
    case ElementType::bf16:
      break;
  }
  return load(static_cast<const BFloat16*>(data)[at]);
}

void write(void* data, ElementType type, std::size_t at, float value) {
  switch (type) {
    case ElementType::fp32:
      static_cast<float*>(data)[at] = value;
      return;
    case ElementType::fp16:
      store(static_cast<Half*>(data)[at], value);
      return;
    case ElementType::bf16:
      store(static_cast<BFloat16*>(data)[at], value);
  }
}

std::vector<float> read_all(const void* data, ElementType type, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = read(data, type, i);
  return values;
}

/// Rows side by side, in floats.
std::vector<float> plain(const cuda::Matrix& matrix, int index, int rows, int columns) {
  std::vector<float> values(static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns));
  const std::int64_t first = matrix.batch_stride * index;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      const std::int64_t at =
          first + (matrix.transposed ? c * matrix.stride + r : r * matrix.stride + c);
      values[static_cast<std::size_t>(r * columns + c)] =
          read(matrix.data, matrix.type, static_cast<std::size_t>(at));
    }
  }
  return values;
}

float rounded_to(ElementType type, float value) {
  if (type == ElementType::fp32) return value;
  return type == ElementType::fp16 ? round_to_half(value) : round_to_bfloat16(value);
}

/// To the nearest value with 10 bits behind the first one, as tensor cores are given them.
void round_to_tf32(std::vector<float>& values) {
  for (float& value : values)
    if (!is_non_finite(value)) value = bits_float((float_bits(value) + 0x1000U) & ~0x1fffU);
}

Device& host_device() {
  static const std::unique_ptr<Device> device = make_host_device();
  return *device;
}

struct Counts {
  std::size_t input, weight, output;
};
Counts counts_of(const cuda::ConvolutionShape& shape) {
  const auto batch = static_cast<std::size_t>(shape.batch);
  const auto window = static_cast<std::size_t>(shape.window.size * shape.window.size);
  return {batch * shape.input.count(),
          window * static_cast<std::size_t>(shape.input.channels) *
              static_cast<std::size_t>(shape.output.channels),
          batch * shape.output.count()};
}

}  // namespace

void emulate(const cuda::MatrixProduct& product, bool tf32) {
  const auto columns = static_cast<std::size_t>(product.columns);
  const auto depth = static_cast<std::size_t>(product.depth);
  for (int index = 0; index < product.batch; ++index) {
    std::vector<float> a = plain(product.a, index, product.rows, product.depth);
    std::vector<float> b = plain(product.b, index, product.depth, product.columns);
    for (auto* factor : {&a, &b})
      if (tf32 && product.a.type == ElementType::fp32) round_to_tf32(*factor);
    std::vector<float> sums(columns);
    for (int row = 0; row < product.rows; ++row) {
      std::fill(sums.begin(), sums.end(), 0.0F);
      for (std::size_t k = 0; k < depth; ++k) {
        const float factor = a[static_cast<std::size_t>(row) * depth + k];
        for (std::size_t c = 0; c < columns; ++c) sums[c] += factor * b[k * columns + c];
      }
      const auto first =
          static_cast<std::size_t>(product.out_batch_stride * index + product.out_stride * row);
      for (std::size_t c = 0; c < columns; ++c) {
        float value = sums[c] * product.factor;
        if (product.bias != nullptr) value += read(product.bias, product.out_type, c);
        if (product.accumulate) value += read(product.out, product.out_type, first + c);
        write(product.out, product.out_type, first + c, value);
      }
    }
  }
}

void emulate(const ConvolutionCall& call, bool tf32) {
  const cuda::ConvolutionShape& shape = call.shape;
  const Counts counts = counts_of(shape);
  const bool forward = call.pass == ConvolutionPass::forward;
  const bool of_input = call.pass == ConvolutionPass::input_gradient;
  const bool of_weight = call.pass == ConvolutionPass::weight_gradient;
  const auto known = [](const void* data, ElementType type, std::size_t count, bool is_read) {
    return is_read ? read_all(data, type, count) : std::vector<float>(count);
  };
  std::vector<float> input = known(call.input, shape.type, counts.input, !of_input);
  std::vector<float> weight = known(call.weight, shape.type, counts.weight, !of_weight);
  std::vector<float> output = known(call.output, shape.type, counts.output, !forward);
  for (auto* factor : {&input, &weight, &output})
    if (tf32 && shape.type == ElementType::fp32) round_to_tf32(*factor);

  Device& device = host_device();
  device.use_threads(1);
  const OperationShape one{
      .batch = shape.batch,
      .inputs = {{shape.input, of_input ? GradientUse::overwrite : GradientUse::none}},
      .output = shape.output,
      .parameter_counts = {counts.weight},
      .storage = Storage::fp32,
      .trains = !forward};
  const auto operation = device.make_operation(
      {.kind = layer::Convolution{.window = shape.window, .has_bias = false}}, one);
  const DeviceMemory saved = device.allocate(operation->memory().saved);
  const DeviceMemory workspace = device.allocate(operation->memory().workspace);
  std::vector<float> input_gradient(of_input ? counts.input : 0);
  std::vector<float> weight_gradient(counts.weight);
  const void* const inputs[] = {input.data()};
  const void* const parameters[] = {weight.data()};
  void* const input_gradients[] = {of_input ? input_gradient.data() : nullptr};
  float* const weight_gradients[] = {weight_gradient.data()};
  const Tensors tensors{.inputs = inputs,
                        .parameters = parameters,
                        .output = output.data(),
                        .saved = saved.data(),
                        .workspace = workspace.data(),
                        .output_gradient = output.data(),
                        .input_gradients = input_gradients,
                        .parameter_gradients = weight_gradients};
  if (forward) {
    operation->forward(tensors, {});
  } else {
    operation->backward(tensors, {});
  }
  // cuDNN writes it in the activations' type, and the plugin widens it.
  if (of_weight)
    for (float& value : weight_gradient) value = rounded_to(shape.type, value);
  const std::vector<float>& result = forward ? output : of_input ? input_gradient : weight_gradient;
  void* const to = forward ? call.output : of_input ? call.input : call.weight;
  const ElementType type = of_weight ? ElementType::fp32 : shape.type;
  for (std::size_t i = 0; i < result.size(); ++i)
    write(to, type, i, call.accumulate ? read(to, type, i) + result[i] : result[i]);
}

}  // namespace ddprun::trainer::test
