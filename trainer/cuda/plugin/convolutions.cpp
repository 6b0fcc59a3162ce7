#include "trainer/cuda/plugin/convolutions.hpp"

#include "base/rounded_up.hpp"
#include "trainer/cuda/launch.hpp"
#include "trainer/cuda/plugin/convolution_rows.hpp"
#include "trainer/cuda/plugin/prepared_convolution.hpp"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace ddprun::trainer::cuda {
namespace {

std::byte* aligned(void* address) {
  return reinterpret_cast<std::byte*>(
      rounded_up(reinterpret_cast<std::uintptr_t>(address), kAllocationAlignment));
}

std::string text_of(const ConvolutionShape& shape) {
  return fmt::format("batch {}, {}x{}x{} to {}x{}x{}, window {}, stride {}, padding {}",
                     shape.batch, shape.input.height, shape.input.width, shape.input.channels,
                     shape.output.height, shape.output.width, shape.output.channels,
                     shape.window.size, shape.window.stride, shape.window.padding);
}

}  // namespace

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

Convolutions::Prepared& Convolutions::prepared(ConvolutionPass pass,
                                               const ConvolutionShape& shape) {
  for (const auto& one : prepared_)
    if (one->pass == pass && one->shape == shape) return *one;
  refusal_.clear();
  std::unique_ptr<Prepared> made = prepare(pass, shape, shape);
  const ConvolutionShape larger = padded(shape);
  if (!made && larger != shape) made = prepare(pass, shape, larger);
  if (!made)
    throw GpuError(fmt::format(
        "cuDNN has no {}algorithm for {} on {} ({}){}{}",
        settings_.deterministic ? "deterministic " : "", function_of(pass), gpu_.text(),
        text_of(shape), refusal_.empty() ? "" : "; the first that was tried: " + refusal_,
        settings_.deterministic ? "; --no-deterministic allows others" : ""));
  prepared_.push_back(std::move(made));
  return *prepared_.back();
}

std::size_t Convolutions::workspace_bytes(ConvolutionPass pass, const ConvolutionShape& shape) {
  // The memory plan's places lie on 64 bytes.
  return kAllocationAlignment + prepared(pass, shape).bytes();
}

cudnnStatus_t Convolutions::run(Prepared& one, const Algorithm& algorithm, const Memory& memory,
                                float old_factor) const {
  constexpr float kFactor = 1;
  if (const cudnnStatus_t set = set_math(one, algorithm.math); set != CUDNN_STATUS_SUCCESS)
    return set;
  switch (one.pass) {
    case ConvolutionPass::forward:
      break;
    case ConvolutionPass::input_gradient:
      return cudnn_.input_gradient(
          handle_, &kFactor, one.weight, memory.weight, one.output, memory.output, one.convolution,
          static_cast<cudnnConvolutionBwdDataAlgo_t>(algorithm.number), memory.workspace,
          algorithm.workspace, &old_factor, one.input, memory.input);
    case ConvolutionPass::weight_gradient:
      return cudnn_.weight_gradient(
          handle_, &kFactor, one.input, memory.input, one.output, memory.output, one.convolution,
          static_cast<cudnnConvolutionBwdFilterAlgo_t>(algorithm.number), memory.workspace,
          algorithm.workspace, &old_factor, one.weight, memory.weight);
  }
  return cudnn_.forward(handle_, &kFactor, one.input, memory.input, one.weight, memory.weight,
                        one.convolution, static_cast<cudnnConvolutionFwdAlgo_t>(algorithm.number),
                        memory.workspace, algorithm.workspace, &old_factor, one.output,
                        memory.output);
}

void Convolutions::convolve(cudaStream_t stream, const ConvolutionCall& call,
                            const LaunchFunction& launch) {
  Prepared& one = prepared(call.pass, call.shape);
  if (stream != stream_) {
    check(cudnn_.set_stream(handle_, stream), "cudnnSetStream", call.shape);
    stream_ = stream;
  }
  std::byte* const workspace = aligned(call.workspace);
  const bool forward = call.pass == ConvolutionPass::forward;
  const bool of_weight = one.is_weight_gradient();
  const bool adds = call.accumulate && !one.has_temporary_weight();
  Memory memory{
      .input = call.input, .weight = call.weight, .output = call.output, .workspace = workspace};
  if (one.has_temporary_weight()) memory.weight = workspace + one.weight_place();
  if (one.is_padded()) {
    memory = {.input = workspace + one.input_place(),
              .weight = workspace + one.weight_place(),
              .output = workspace + one.output_place(),
              .workspace = workspace};
    const ElementType type = call.shape.type;
    if (call.pass != ConvolutionPass::input_gradient)
      pad(launch, type, call.input, input_rows(one.shape), memory.input, input_rows(one.computed));
    if (!of_weight)
      pad(launch, type, call.weight, weight_rows(one.shape), memory.weight,
          weight_rows(one.computed));
    if (!forward)
      pad(launch, type, call.output, output_rows(one.shape), memory.output,
          output_rows(one.computed));
  }
  check(run(one, *one.algorithms[adds ? 1 : 0], memory, adds ? 1.0F : 0.0F), function_of(call.pass),
        call.shape);
  if (of_weight && one.has_temporary_weight()) return take_weight(one, call, memory, launch);
  if (!one.is_padded()) return;
  if (forward) {
    take_out(launch, call.shape.type, memory.output, output_rows(one.computed), call.output,
             output_rows(one.shape));
  } else {
    take_out(launch, call.shape.type, memory.input, input_rows(one.computed), call.input,
             input_rows(one.shape));
  }
}

/// From the workspace to its place, in floats.
void Convolutions::take_weight(const Prepared& one, const ConvolutionCall& call,
                               const Memory& memory, const LaunchFunction& launch) {
  const Rows rows = weight_rows(one.shape);
  const std::size_t count = rows.count();
  const void* from = memory.weight;
  if (one.is_padded()) {
    void* const taken_out = memory.workspace + one.taken_out_place();
    take_out(launch, call.shape.type, from, weight_rows(one.computed), taken_out, rows);
    from = taken_out;
  }
  auto* const to = static_cast<float*>(call.weight);
  switch (call.shape.type) {
    case ElementType::fp32: {
      const auto* const values = static_cast<const float*>(from);
      if (call.accumulate)
        return launch_over(launch, count, AddValues<float>{to, values, to, count});
      return launch_over(launch, count,
                         CopyChannels<float>{values, to, rows.channels, 0, rows.channels, 0,
                                             rows.channels, count});
    }
    case ElementType::fp16:
      return launch_over(
          launch, count,
          WidenValues<Half>{static_cast<const Half*>(from), to, call.accumulate, count});
    case ElementType::bf16:
      return launch_over(
          launch, count,
          WidenValues<BFloat16>{static_cast<const BFloat16*>(from), to, call.accumulate, count});
  }
}

}  // namespace ddprun::trainer::cuda
