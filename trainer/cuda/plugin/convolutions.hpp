// Convolutions by cuDNN's older interface (docs/decisions/0010-cudnn-calls.md).
#pragma once

#include <functional>
#include <memory>
#include <vector>

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

  std::size_t workspace_bytes(ConvolutionPass pass, const ConvolutionShape& shape);
  /// `launch`: on the same stream.
  void convolve(cudaStream_t stream, const ConvolutionCall& call,
                const std::function<void(const Launch&)>& launch);

 private:
  struct Prepared;
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
  [[nodiscard]] cudnnMathType_t math_of(ElementType type, cudnnMathType_t listed) const;
  cudnnStatus_t ask_workspace(const Prepared& one, int algorithm, std::size_t& bytes) const;
  cudnnStatus_t run(Prepared& one, const Algorithm& algorithm, const ConvolutionCall& call,
                    void* weight, float old_factor, std::byte* workspace) const;
  void check(cudnnStatus_t status, const char* call, const ConvolutionShape& shape) const;

  Cudnn cudnn_;
  GpuName gpu_;
  Settings settings_;
  cudnnHandle_t handle_ = nullptr;
  cudaStream_t stream_ = nullptr;  // of the handle
  std::vector<std::unique_ptr<Prepared>> prepared_;
};

}  // namespace ddprun::trainer::cuda
