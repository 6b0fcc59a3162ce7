// The functions of cuDNN that are used here, opened at run time with the types of its header.
#pragma once

#include <cudnn.h>

#include <string>

#include "trainer/cuda/open_library.hpp"

// cuDNN 9 marks all of its older interface as deprecated (docs/decisions/0010-cudnn-calls.md).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace ddprun::trainer::cuda {

struct Cudnn {
  FoundLibrary library;  ///< without a handle nothing below can be called

  decltype(&cudnnCreate) create;
  decltype(&cudnnDestroy) destroy;
  decltype(&cudnnSetStream) set_stream;
  decltype(&cudnnGetErrorString) error_string;
  decltype(&cudnnGetLastErrorString) last_error_string;  ///< null: not in this version
  decltype(&cudnnCreateTensorDescriptor) tensor_create;
  decltype(&cudnnSetTensor4dDescriptor) tensor_set;
  decltype(&cudnnDestroyTensorDescriptor) tensor_destroy;
  decltype(&cudnnCreateFilterDescriptor) filter_create;
  decltype(&cudnnSetFilter4dDescriptor) filter_set;
  decltype(&cudnnDestroyFilterDescriptor) filter_destroy;
  decltype(&cudnnCreateConvolutionDescriptor) convolution_create;
  decltype(&cudnnSetConvolution2dDescriptor) convolution_set;
  decltype(&cudnnSetConvolutionMathType) convolution_set_math;
  decltype(&cudnnDestroyConvolutionDescriptor) convolution_destroy;
  decltype(&cudnnGetConvolutionForwardAlgorithm_v7) forward_algorithms;
  decltype(&cudnnGetConvolutionBackwardDataAlgorithm_v7) input_gradient_algorithms;
  decltype(&cudnnGetConvolutionBackwardFilterAlgorithm_v7) weight_gradient_algorithms;
  decltype(&cudnnGetConvolutionForwardWorkspaceSize) forward_workspace;
  decltype(&cudnnGetConvolutionBackwardDataWorkspaceSize) input_gradient_workspace;
  decltype(&cudnnGetConvolutionBackwardFilterWorkspaceSize) weight_gradient_workspace;
  decltype(&cudnnConvolutionForward) forward;
  decltype(&cudnnConvolutionBackwardData) input_gradient;
  decltype(&cudnnConvolutionBackwardFilter) weight_gradient;

  /// What cuDNN calls the failure, with its explanation of the last one where it has any.
  [[nodiscard]] std::string error_text(cudnnStatus_t status) const;
  /// "cuDNN 9.19.0".
  [[nodiscard]] std::string version_text() const;
};

Cudnn open_cudnn(const LibraryPlaces& places);

}  // namespace ddprun::trainer::cuda

#pragma GCC diagnostic pop
