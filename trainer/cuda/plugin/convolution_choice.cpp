// Which algorithm of cuDNN a convolution gets (docs/decisions/0010-cudnn-calls.md).
#include <algorithm>
#include <array>

#include "base/rounded_up.hpp"
#include "trainer/cuda/plugin/convolution_rows.hpp"
#include "trainer/cuda/plugin/convolutions.hpp"
#include "trainer/cuda/plugin/prepared_convolution.hpp"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace ddprun::trainer::cuda {
namespace {

constexpr std::size_t kWorkspaceBytesMax = std::size_t{1} << 30;

cudnnDataType_t data_type(ElementType type) {
  switch (type) {
    case ElementType::fp32:
      break;
    case ElementType::fp16:
      return CUDNN_DATA_HALF;
    case ElementType::bf16:
      return CUDNN_DATA_BFLOAT16;
  }
  return CUDNN_DATA_FLOAT;
}

}  // namespace

/// Where cuDNN may compute as `listed`: fp32 is fp32 (cuDNN's default may round floats to tf32),
/// and tf32 is tf32 (with ALLOW_CONVERSION floats may become halves).
cudnnMathType_t Convolutions::math_of(ElementType type, cudnnMathType_t listed) const {
  if (type != ElementType::fp32) return listed;
  if (!settings_.tf32) return CUDNN_FMA_MATH;
  return listed == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION ? CUDNN_DEFAULT_MATH : listed;
}

/// Those of cuDNN's list that the settings allow, in its order, which is by time.
template <class Performance, class Function, class... Descriptors>
std::vector<Convolutions::Algorithm> Convolutions::usable(Function function, const char* name,
                                                          const Prepared& one,
                                                          Descriptors... descriptors) const {
  constexpr int kAlgorithmsMax = 16;
  std::array<Performance, kAlgorithmsMax> found{};
  int count = 0;
  const cudnnStatus_t status =
      function(handle_, descriptors..., kAlgorithmsMax, &count, found.data());
  if (CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED) return {};
  check(status, name, one.shape);
  std::vector<Algorithm> result;
  for (int k = 0; k < count; ++k) {
    const Performance& each = found.at(static_cast<std::size_t>(k));
    if (each.status != CUDNN_STATUS_SUCCESS) continue;
    if (settings_.deterministic && each.determinism != CUDNN_DETERMINISTIC) continue;
    result.push_back({static_cast<int>(each.algo), math_of(one.shape.type, each.mathType)});
  }
  return result;
}

std::vector<Convolutions::Algorithm> Convolutions::listed(const Prepared& one) const {
  switch (one.pass) {
    case ConvolutionPass::forward:
      break;
    case ConvolutionPass::input_gradient:
      return usable<cudnnConvolutionBwdDataAlgoPerf_t>(
          cudnn_.input_gradient_algorithms, "cudnnGetConvolutionBackwardDataAlgorithm_v7", one,
          one.weight, one.output, one.convolution, one.input);
    case ConvolutionPass::weight_gradient:
      return usable<cudnnConvolutionBwdFilterAlgoPerf_t>(
          cudnn_.weight_gradient_algorithms, "cudnnGetConvolutionBackwardFilterAlgorithm_v7", one,
          one.input, one.output, one.convolution, one.weight);
  }
  return usable<cudnnConvolutionFwdAlgoPerf_t>(cudnn_.forward_algorithms,
                                               "cudnnGetConvolutionForwardAlgorithm_v7", one,
                                               one.input, one.weight, one.convolution, one.output);
}

/// Those that cuDNN's manual calls deterministic and general: its list is a guess, and may name
/// only others, or some that it refuses later.
std::vector<Convolutions::Algorithm> Convolutions::documented(const Prepared& one) const {
  switch (one.pass) {
    case ConvolutionPass::forward:
      break;
    case ConvolutionPass::input_gradient:
      return {{CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, one.math}};
    case ConvolutionPass::weight_gradient:
      return {{CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, one.math}};
  }
  return {{CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, one.math},
          {CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, one.math}};
}

cudnnStatus_t Convolutions::ask_workspace(const Prepared& one, int algorithm,
                                          std::size_t& bytes) const {
  switch (one.pass) {
    case ConvolutionPass::forward:
      break;
    case ConvolutionPass::input_gradient:
      return cudnn_.input_gradient_workspace(
          handle_, one.weight, one.output, one.convolution, one.input,
          static_cast<cudnnConvolutionBwdDataAlgo_t>(algorithm), &bytes);
    case ConvolutionPass::weight_gradient:
      return cudnn_.weight_gradient_workspace(
          handle_, one.input, one.output, one.convolution, one.weight,
          static_cast<cudnnConvolutionBwdFilterAlgo_t>(algorithm), &bytes);
  }
  return cudnn_.forward_workspace(handle_, one.input, one.weight, one.convolution, one.output,
                                  static_cast<cudnnConvolutionFwdAlgo_t>(algorithm), &bytes);
}

/// Null: cuDNN has no algorithm for what is to be computed.
std::unique_ptr<Convolutions::Prepared> Convolutions::prepare(ConvolutionPass pass,
                                                              const ConvolutionShape& shape,
                                                              const ConvolutionShape& computed) {
  auto made = std::make_unique<Prepared>(cudnn_);
  made->pass = pass;
  made->shape = shape;
  made->computed = computed;
  const cudnnDataType_t type = data_type(shape.type);
  const auto tensor = [&](cudnnTensorDescriptor_t& descriptor, const ActivationShape& of) {
    check(cudnn_.tensor_create(&descriptor), "cudnnCreateTensorDescriptor", shape);
    check(cudnn_.tensor_set(descriptor, CUDNN_TENSOR_NHWC, type, shape.batch, of.channels,
                            of.height, of.width),
          "cudnnSetTensor4dDescriptor", shape);
  };
  tensor(made->input, computed.input);
  tensor(made->output, computed.output);
  check(cudnn_.filter_create(&made->weight), "cudnnCreateFilterDescriptor", shape);
  check(cudnn_.filter_set(made->weight, type, CUDNN_TENSOR_NHWC, computed.output.channels,
                          computed.input.channels, shape.window.size, shape.window.size),
        "cudnnSetFilter4dDescriptor", shape);
  check(cudnn_.convolution_create(&made->convolution), "cudnnCreateConvolutionDescriptor", shape);
  check(cudnn_.convolution_set(made->convolution, shape.window.padding, shape.window.padding,
                               shape.window.stride, shape.window.stride, 1, 1,
                               CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
        "cudnnSetConvolution2dDescriptor", shape);
  // For floats cuDNN's default allows tf32.
  made->math = math_of(shape.type,
                       shape.type == ElementType::fp32 ? CUDNN_DEFAULT_MATH : CUDNN_TENSOR_OP_MATH);
  check(cudnn_.convolution_set_math(made->convolution, made->math), "cudnnSetConvolutionMathType",
        shape);
  std::vector<Algorithm> candidates = listed(*made);
  for (const Algorithm& further : documented(*made)) {
    const auto is_same = [&](const Algorithm& one) { return one.number == further.number; };
    if (std::none_of(candidates.begin(), candidates.end(), is_same)) candidates.push_back(further);
  }
  made->algorithms[0] = choose(*made, candidates, 0.0F);
  if (!made->algorithms[0]) return nullptr;
  if (made->is_weight_gradient() && made->is_fp32() && !made->is_padded())
    made->algorithms[1] = choose(*made, candidates, 1.0F);
  for (const auto& algorithm : made->algorithms)
    if (algorithm)
      made->workspace =
          std::max(made->workspace, rounded_up(algorithm->workspace, kAllocationAlignment));
  return made;
}

/// The first one that works: each is tried once, on memory of its own. cuDNN's list is a guess, and
/// any code may be its answer to an algorithm that does not suit the GPU. Only an error that stays
/// with the GPU ends the run: cudaFree reports it.
std::optional<Convolutions::Algorithm> Convolutions::choose(
    Prepared& one, const std::vector<Algorithm>& candidates, float old_factor) {
  for (Algorithm algorithm : candidates) {
    if (set_math(one, algorithm.math) != CUDNN_STATUS_SUCCESS) continue;
    // With this kind of arithmetic; the list's number may be of another.
    if (ask_workspace(one, algorithm.number, algorithm.workspace) != CUDNN_STATUS_SUCCESS ||
        algorithm.workspace > kWorkspaceBytesMax)
      continue;
    const cudnnStatus_t status = try_out(one, algorithm, old_factor);
    if (status == CUDNN_STATUS_SUCCESS) return algorithm;
    if (refusal_.empty()) refusal_ = cudnn_.error_text(status);
  }
  return std::nullopt;
}

/// Where there is no memory for it, the algorithm is believed to work.
cudnnStatus_t Convolutions::try_out(Prepared& one, const Algorithm& algorithm,
                                    float old_factor) const {
  const ElementType type = one.shape.type;
  const std::size_t input = bytes_of(input_rows(one.computed), type);
  const std::size_t weight = bytes_of(weight_rows(one.computed), type);
  const std::size_t output = bytes_of(output_rows(one.computed), type);
  void* memory = nullptr;
  if (cudaMalloc(&memory, input + weight + output + algorithm.workspace) != cudaSuccess) {
    (void)cudaGetLastError();
    return CUDNN_STATUS_SUCCESS;
  }
  auto* const first = static_cast<std::byte*>(memory);
  const cudnnStatus_t status = run(one, algorithm,
                                   {.input = first,
                                    .weight = first + input,
                                    .output = first + input + weight,
                                    .workspace = first + input + weight + output},
                                   old_factor);
  cuda::check(cudaFree(memory), "cudaFree after a convolution was tried", gpu_);
  return status;
}

cudnnStatus_t Convolutions::set_math(Prepared& one, cudnnMathType_t math) const {
  if (math == one.math) return CUDNN_STATUS_SUCCESS;
  const cudnnStatus_t set = cudnn_.convolution_set_math(one.convolution, math);
  if (set == CUDNN_STATUS_SUCCESS) one.math = math;
  return set;
}

}  // namespace ddprun::trainer::cuda
