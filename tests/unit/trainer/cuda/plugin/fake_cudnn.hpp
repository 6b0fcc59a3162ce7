// cuDNN's functions as a test wants them, and convolutions over them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "trainer/cuda/plugin/convolutions.hpp"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace ddprun::trainer::cuda::test {

/// What fake_cudnn() answers, and what it was asked. Descriptors are addresses that nobody follows.
struct Answers {
  struct Listed {
    int algorithm;
    cudnnDeterminism_t determinism;
    cudnnMathType_t math = CUDNN_TENSOR_OP_MATH;
  };
  std::vector<Listed> listed{};
  std::vector<int> runnable{};                         // by the workspace query
  std::vector<int> refused{};                          // when they are to run
  cudnnStatus_t refusal = CUDNN_STATUS_NOT_SUPPORTED;  // of these
  std::vector<int> refused_sums{};                     // when they are to add to what is there
  cudnnStatus_t of_list = CUDNN_STATUS_SUCCESS;        // of the query for the list
  cudnnStatus_t failure = CUDNN_STATUS_SUCCESS;        // of any run
  std::string last_error{};
  std::vector<std::pair<int, std::size_t>> workspaces{};  // of algorithms; 1000 of any other
  std::size_t more_for_tensor_cores = 0;                  // in such arithmetic
  bool refuses_odd_channels = false;                      // no algorithm for them at all
  /// Called by a run with input, weight, output.
  std::function<void(void*, void*, void*)> compute{};
  // What it was asked.
  std::vector<int> ran{};
  int math_set = 0;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;          // the last one
  cudnnMathType_t math_of_list = CUDNN_DEFAULT_MATH;  // as a list was asked for
  bool has_odd_channels = false;                      // the newest filter
  bool was_short = false;                             // a run had less workspace than it needs

  [[nodiscard]] std::size_t needed(int algorithm) const {
    std::size_t bytes = 1000;
    for (const auto& [one, size] : workspaces)
      if (one == algorithm) bytes = size;
    return bytes + (math == CUDNN_TENSOR_OP_MATH ? more_for_tensor_cores : 0);
  }
  [[nodiscard]] cudnnStatus_t run(int algorithm, std::size_t workspace_size, const void* input,
                                  const void* weight, const void* output, bool adds = false) {
    ran.push_back(algorithm);
    if (failure != CUDNN_STATUS_SUCCESS) return failure;
    for (const int one : adds ? refused_sums : refused)
      if (one == algorithm) return refusal;
    was_short = was_short || workspace_size < needed(algorithm);
    if (compute)
      compute(const_cast<void*>(input), const_cast<void*>(weight), const_cast<void*>(output));
    return CUDNN_STATUS_SUCCESS;
  }
  [[nodiscard]] cudnnStatus_t workspace(int algorithm, std::size_t* bytes) const {
    bool is_known = false;
    for (const int one : runnable) is_known = is_known || one == algorithm;
    for (const Listed& one : listed) is_known = is_known || one.algorithm == algorithm;
    if (!is_known || (refuses_odd_channels && has_odd_channels)) return CUDNN_STATUS_NOT_SUPPORTED;
    *bytes = needed(algorithm);
    return CUDNN_STATUS_SUCCESS;
  }
};
/// Shared by all tests of the program, one after another.
inline Answers answers;

Cudnn fake_cudnn();

inline constexpr ConvolutionPass kPasses[] = {
    ConvolutionPass::forward, ConvolutionPass::input_gradient, ConvolutionPass::weight_gradient};
inline const ConvolutionShape kShape{.batch = 2,
                                     .input = {.height = 8, .width = 8, .channels = 3},
                                     .output = {.height = 8, .width = 8, .channels = 16},
                                     .window = {.size = 3, .stride = 1, .padding = 1},
                                     .type = ElementType::fp32};

struct Fixture {
  explicit Fixture(Answers its_answers, Convolutions::Settings settings = {}) {
    answers = std::move(its_answers);
    convolutions = std::make_unique<Convolutions>(fake_cudnn(), GpuName(0, "test"), settings);
  }
  void convolve(ConvolutionPass pass, const ConvolutionShape& shape = kShape,
                bool accumulate = false) const {
    std::vector<std::byte> workspace(convolutions->workspace_bytes(pass, shape));
    convolutions->convolve(
        nullptr,
        {.pass = pass, .shape = shape, .accumulate = accumulate, .workspace = workspace.data()},
        [](const Launch&) {});
  }
  std::unique_ptr<Convolutions> convolutions;
};

}  // namespace ddprun::trainer::cuda::test

#pragma GCC diagnostic pop
