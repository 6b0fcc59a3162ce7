// Convolutions by cuDNN's older interface (docs/decisions/0010-cudnn-calls.md).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trainer/cuda/plugin/convolution_rows.hpp"
#include "trainer/cuda/plugin/cuda_calls.hpp"
#include "trainer/cuda/plugin/cudnn.hpp"

namespace ddprun::trainer::cuda {

class Convolutions {
 public:
  struct Settings {
    bool deterministic = true;
    bool tf32 = false;  ///< of floats: they may be rounded to tf32
  };
  Convolutions(const Cudnn& cudnn, const GpuName& gpu, Settings settings);
  ~Convolutions();
  Convolutions(const Convolutions&) = delete;
  Convolutions& operator=(const Convolutions&) = delete;

  /// At the first time for a shape each algorithm that may be used is tried, on memory of its own.
  std::size_t workspace_bytes(ConvolutionPass pass, const ConvolutionShape& shape);
  /// `launch`: on the same stream.
  void convolve(cudaStream_t stream, const ConvolutionCall& call, const LaunchFunction& launch);

 private:
  struct Prepared;
  struct Memory;
  struct Algorithm {
    int number = 0;
    cudnnMathType_t math = CUDNN_DEFAULT_MATH;
    std::size_t workspace = 0;
  };

  Prepared& prepared(ConvolutionPass pass, const ConvolutionShape& shape);
  template <class Performance, class Function, class... Descriptors>
  std::vector<Algorithm> usable(Function function, const char* name, const Prepared& one,
                                Descriptors... descriptors) const;
  std::vector<Algorithm> listed(const Prepared& one) const;
  std::vector<Algorithm> documented(const Prepared& one) const;
  std::unique_ptr<Prepared> prepare(ConvolutionPass pass, const ConvolutionShape& shape,
                                    const ConvolutionShape& computed);
  std::optional<Algorithm> choose(Prepared& one, const std::vector<Algorithm>& candidates,
                                  float old_factor);
  cudnnStatus_t try_out(Prepared& one, const Algorithm& algorithm, float old_factor) const;
  cudnnStatus_t set_math(Prepared& one, cudnnMathType_t math) const;
  [[nodiscard]] cudnnMathType_t math_of(ElementType type, cudnnMathType_t listed) const;
  cudnnStatus_t ask_workspace(const Prepared& one, int algorithm, std::size_t& bytes) const;
  cudnnStatus_t run(Prepared& one, const Algorithm& algorithm, const Memory& memory,
                    float old_factor) const;
  static void take_weight(const Prepared& one, const ConvolutionCall& call, const Memory& memory,
                          const LaunchFunction& launch);
  void check(cudnnStatus_t status, const char* call, const ConvolutionShape& shape) const;

  Cudnn cudnn_;
  GpuName gpu_;
  Settings settings_;
  cudnnHandle_t handle_ = nullptr;
  cudaStream_t stream_ = nullptr;  // of the handle
  std::vector<std::unique_ptr<Prepared>> prepared_;
  std::string refusal_;  // why cuDNN did not run the first algorithm of the newest shape
};

}  // namespace ddprun::trainer::cuda
