#include "trainer/cuda/plugin/convolutions.hpp"

#include <algorithm>
#include <array>

#include "base/rounded_up.hpp"
#include "trainer/cuda/launch.hpp"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace ddprun::trainer::cuda {
namespace {

constexpr std::size_t kWorkspaceBytesMax = std::size_t{1} << 30;

std::byte* aligned(void* address) {
  return reinterpret_cast<std::byte*>(
      rounded_up(reinterpret_cast<std::uintptr_t>(address), kAllocationAlignment));
}

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

std::size_t weight_count(const ConvolutionShape& shape) {
  return static_cast<std::size_t>(shape.window.size) * static_cast<std::size_t>(shape.window.size) *
         static_cast<std::size_t>(shape.input.channels) *
         static_cast<std::size_t>(shape.output.channels);
}

bool are_equal(const ConvolutionShape& a, const ConvolutionShape& b) {
  return a.batch == b.batch && a.input == b.input && a.output == b.output && a.type == b.type &&
         a.window.size == b.window.size && a.window.stride == b.window.stride &&
         a.window.padding == b.window.padding;
}

const char* function_of(ConvolutionPass pass) {
  switch (pass) {
    case ConvolutionPass::forward:
      break;
    case ConvolutionPass::input_gradient:
      return "cudnnConvolutionBackwardData";
    case ConvolutionPass::weight_gradient:
      return "cudnnConvolutionBackwardFilter";
  }
  return "cudnnConvolutionForward";
}

std::string text_of(const ConvolutionShape& shape) {
  return fmt::format("batch {}, {}x{}x{} to {}x{}x{}, window {}, stride {}, padding {}",
                     shape.batch, shape.input.height, shape.input.width, shape.input.channels,
                     shape.output.height, shape.output.width, shape.output.channels,
                     shape.window.size, shape.window.stride, shape.window.padding);
}

}  // namespace

/// One pass of one shape: cuDNN's descriptors, and the algorithms that may be used, the best first.
struct Convolutions::Prepared {
  explicit Prepared(const Cudnn& cudnn) : library(cudnn) {}
  ~Prepared() {
    for (cudnnTensorDescriptor_t tensor : {input, output})
      if (tensor != nullptr) (void)library.tensor_destroy(tensor);
    if (weight != nullptr) (void)library.filter_destroy(weight);
    if (convolution != nullptr) (void)library.convolution_destroy(convolution);
  }
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;

  const Cudnn& library;
  ConvolutionPass pass = ConvolutionPass::forward;
  ConvolutionShape shape;
  cudnnTensorDescriptor_t input = nullptr, output = nullptr;
  cudnnFilterDescriptor_t weight = nullptr;
  cudnnConvolutionDescriptor_t convolution = nullptr;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;  // as the descriptor has it
  std::vector<Algorithm> algorithms;
  std::size_t workspace = 0;  // of any of them
  std::size_t narrow = 0;     // bytes of a weight gradient in the activations' type; 0: not wanted
  /// In use: where the result is overwritten, and where it is added to what is there. Each has its
  /// own, so that what a shard gets does not depend on what was computed before.
  std::array<std::size_t, 2> in_use{};
};

Convolutions::Convolutions(const Cudnn& cudnn, const GpuName& gpu, Settings settings)
    : cudnn_(cudnn), gpu_(gpu), settings_(settings) {
  check(cudnn_.create(&handle_), "cudnnCreate", {});
}

Convolutions::~Convolutions() {
  prepared_.clear();
  if (handle_ != nullptr) (void)cudnn_.destroy(handle_);
}

void Convolutions::check(cudnnStatus_t status, const char* call,
                         const ConvolutionShape& shape) const {
  if (status == CUDNN_STATUS_SUCCESS) return;
  throw GpuError(fmt::format("{} failed on {}: {} ({})", call, gpu_.text(),
                             cudnn_.error_text(status), text_of(shape)));
}

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
    if (each.status != CUDNN_STATUS_SUCCESS || each.memory > kWorkspaceBytesMax) continue;
    if (settings_.deterministic && each.determinism != CUDNN_DETERMINISTIC) continue;
    result.push_back(
        {static_cast<int>(each.algo), math_of(one.shape.type, each.mathType), each.memory});
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

/// Those that cuDNN's manual calls deterministic and general, where it can run them: its list is a
/// guess, and may name only others, or some that it refuses later.
std::vector<Convolutions::Algorithm> Convolutions::documented(const Prepared& one) const {
  std::vector<int> numbers;
  switch (one.pass) {
    case ConvolutionPass::forward:
      numbers = {CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM,
                 CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM};
      break;
    case ConvolutionPass::input_gradient:
      numbers = {CUDNN_CONVOLUTION_BWD_DATA_ALGO_1};
      break;
    case ConvolutionPass::weight_gradient:
      numbers = {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1};
      break;
  }
  std::vector<Algorithm> result;
  for (const int number : numbers) {
    Algorithm algorithm{number, one.math, 0};
    if (ask_workspace(one, number, algorithm.workspace) == CUDNN_STATUS_SUCCESS &&
        algorithm.workspace <= kWorkspaceBytesMax)
      result.push_back(algorithm);
  }
  return result;
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

Convolutions::Prepared& Convolutions::prepared(ConvolutionPass pass,
                                               const ConvolutionShape& shape) {
  for (const auto& one : prepared_)
    if (one->pass == pass && are_equal(one->shape, shape)) return *one;
  auto made = std::make_unique<Prepared>(cudnn_);
  made->pass = pass;
  made->shape = shape;
  const cudnnDataType_t type = data_type(shape.type);
  const auto tensor = [&](cudnnTensorDescriptor_t& descriptor, const ActivationShape& of) {
    check(cudnn_.tensor_create(&descriptor), "cudnnCreateTensorDescriptor", shape);
    check(cudnn_.tensor_set(descriptor, CUDNN_TENSOR_NHWC, type, shape.batch, of.channels,
                            of.height, of.width),
          "cudnnSetTensor4dDescriptor", shape);
  };
  tensor(made->input, shape.input);
  tensor(made->output, shape.output);
  check(cudnn_.filter_create(&made->weight), "cudnnCreateFilterDescriptor", shape);
  check(cudnn_.filter_set(made->weight, type, CUDNN_TENSOR_NHWC, shape.output.channels,
                          shape.input.channels, shape.window.size, shape.window.size),
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
  made->algorithms = listed(*made);
  for (const Algorithm& further : documented(*made)) {
    const auto is_same = [&](const Algorithm& one) { return one.number == further.number; };
    if (std::none_of(made->algorithms.begin(), made->algorithms.end(), is_same))
      made->algorithms.push_back(further);
  }
  if (made->algorithms.empty())
    throw GpuError(fmt::format("cuDNN has no {}algorithm for {} on {} ({})",
                               settings_.deterministic ? "deterministic " : "", function_of(pass),
                               gpu_.text(), text_of(shape)));
  for (const Algorithm& algorithm : made->algorithms)
    made->workspace =
        std::max(made->workspace, rounded_up(algorithm.workspace, kAllocationAlignment));
  if (pass == ConvolutionPass::weight_gradient && shape.type != ElementType::fp32)
    made->narrow = weight_count(shape) * sizeof(std::uint16_t);
  prepared_.push_back(std::move(made));
  return *prepared_.back();
}

std::size_t Convolutions::workspace_bytes(ConvolutionPass pass, const ConvolutionShape& shape) {
  const Prepared& one = prepared(pass, shape);
  // The memory plan's places lie on 64 bytes.
  return kAllocationAlignment + one.workspace + one.narrow;
}

cudnnStatus_t Convolutions::run(Prepared& one, const Algorithm& algorithm,
                                const ConvolutionCall& call, void* weight, float old_factor,
                                std::byte* workspace) const {
  constexpr float kFactor = 1;
  if (algorithm.math != one.math) {
    const cudnnStatus_t set = cudnn_.convolution_set_math(one.convolution, algorithm.math);
    if (set != CUDNN_STATUS_SUCCESS) return set;
    one.math = algorithm.math;
  }
  switch (call.pass) {
    case ConvolutionPass::forward:
      break;
    case ConvolutionPass::input_gradient:
      return cudnn_.input_gradient(
          handle_, &kFactor, one.weight, weight, one.output, call.output, one.convolution,
          static_cast<cudnnConvolutionBwdDataAlgo_t>(algorithm.number), workspace,
          algorithm.workspace, &old_factor, one.input, call.input);
    case ConvolutionPass::weight_gradient:
      return cudnn_.weight_gradient(
          handle_, &kFactor, one.input, call.input, one.output, call.output, one.convolution,
          static_cast<cudnnConvolutionBwdFilterAlgo_t>(algorithm.number), workspace,
          algorithm.workspace, &old_factor, one.weight, weight);
  }
  return cudnn_.forward(handle_, &kFactor, one.input, call.input, one.weight, weight,
                        one.convolution, static_cast<cudnnConvolutionFwdAlgo_t>(algorithm.number),
                        workspace, algorithm.workspace, &old_factor, one.output, call.output);
}

void Convolutions::convolve(cudaStream_t stream, const ConvolutionCall& call,
                            const std::function<void(const Launch&)>& launch) {
  Prepared& one = prepared(call.pass, call.shape);
  if (stream != stream_) {
    check(cudnn_.set_stream(handle_, stream), "cudnnSetStream", call.shape);
    stream_ = stream;
  }
  std::byte* const workspace = aligned(call.workspace);
  const bool widens = one.narrow > 0;
  void* const weight = widens ? workspace + one.workspace : call.weight;
  const float old_factor = call.accumulate && !widens ? 1.0F : 0.0F;
  cudnnStatus_t status = CUDNN_STATUS_NOT_SUPPORTED;
  // cuDNN's list is a guess of what works: what it refuses here is not tried again. It has several
  // codes for that, of one category.
  std::size_t& in_use = one.in_use[old_factor == 0.0F ? 0 : 1];
  for (; in_use < one.algorithms.size(); ++in_use) {
    status = run(one, one.algorithms[in_use], call, weight, old_factor, workspace);
    if (CUDNN_STATUS_CATEGORY(status) != CUDNN_STATUS_NOT_SUPPORTED) break;
  }
  check(status, function_of(call.pass), call.shape);
  if (!widens) return;
  auto* const to = static_cast<float*>(call.weight);
  const std::size_t count = weight_count(call.shape);
  const std::size_t blocks = (count + kBlockThreads - 1) / kBlockThreads;
  const auto grid = static_cast<unsigned>(std::min(blocks, kBlocksMax));
  if (call.shape.type == ElementType::fp16) {
    launch(launch_of(
        WidenValues<Half>{static_cast<const Half*>(weight), to, call.accumulate, count}, grid));
  } else {
    launch(launch_of(
        WidenValues<BFloat16>{static_cast<const BFloat16*>(weight), to, call.accumulate, count},
        grid));
  }
}

}  // namespace ddprun::trainer::cuda
