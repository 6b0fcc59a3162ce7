#include "trainer/cuda/plugin/cudnn.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <array>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace ddprun::trainer::cuda {
namespace {

// cuDNN keeps its interface within a major version; it is in the file's name.
constexpr std::size_t kMajor = CUDNN_MAJOR;

/// Since 9 a version has five digits, before it had four.
std::string text_of(std::size_t version) {
  if (version < 10000)
    return fmt::format("{}.{}.{}", version / 1000, version / 100 % 10, version % 100);
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

void find(Cudnn& cudnn, Symbols& symbols) {
  symbols.find("cudnnCreate", cudnn.create);
  symbols.find("cudnnDestroy", cudnn.destroy);
  symbols.find("cudnnSetStream", cudnn.set_stream);
  symbols.find("cudnnGetErrorString", cudnn.error_string);
  symbols.find_optional("cudnnGetLastErrorString", cudnn.last_error_string);
  symbols.find("cudnnCreateTensorDescriptor", cudnn.tensor_create);
  symbols.find("cudnnSetTensor4dDescriptor", cudnn.tensor_set);
  symbols.find("cudnnDestroyTensorDescriptor", cudnn.tensor_destroy);
  symbols.find("cudnnCreateFilterDescriptor", cudnn.filter_create);
  symbols.find("cudnnSetFilter4dDescriptor", cudnn.filter_set);
  symbols.find("cudnnDestroyFilterDescriptor", cudnn.filter_destroy);
  symbols.find("cudnnCreateConvolutionDescriptor", cudnn.convolution_create);
  symbols.find("cudnnSetConvolution2dDescriptor", cudnn.convolution_set);
  symbols.find("cudnnSetConvolutionMathType", cudnn.convolution_set_math);
  symbols.find("cudnnDestroyConvolutionDescriptor", cudnn.convolution_destroy);
  symbols.find("cudnnGetConvolutionForwardAlgorithm_v7", cudnn.forward_algorithms);
  symbols.find("cudnnGetConvolutionBackwardDataAlgorithm_v7", cudnn.input_gradient_algorithms);
  symbols.find("cudnnGetConvolutionBackwardFilterAlgorithm_v7", cudnn.weight_gradient_algorithms);
  symbols.find("cudnnGetConvolutionForwardWorkspaceSize", cudnn.forward_workspace);
  symbols.find("cudnnGetConvolutionBackwardDataWorkspaceSize", cudnn.input_gradient_workspace);
  symbols.find("cudnnGetConvolutionBackwardFilterWorkspaceSize", cudnn.weight_gradient_workspace);
  symbols.find("cudnnConvolutionForward", cudnn.forward);
  symbols.find("cudnnConvolutionBackwardData", cudnn.input_gradient);
  symbols.find("cudnnConvolutionBackwardFilter", cudnn.weight_gradient);
}

}  // namespace

std::string Cudnn::error_text(cudnnStatus_t status) const {
  std::array<char, 512> last{};
  if (last_error_string != nullptr) last_error_string(last.data(), last.size() - 1);
  if (last.front() == '\0') return error_string(status);
  return fmt::format("{}: {}", error_string(status), last.data());
}

std::string Cudnn::version_text() const { return "cuDNN " + text_of(library.version); }

Cudnn open_cudnn(const LibraryPlaces& places) {
  Cudnn cudnn{};
  cudnn.library = open_library({.name = fmt::format("cuDNN {}", kMajor),
                                .file = fmt::format("libcudnn.so.{}", kMajor),
                                .pip = fmt::format("nvidia-cudnn-cu{}", CUDART_VERSION / 1000)},
                               places,
                               {.name = "cuDNN",
                                .version_function = "cudnnGetVersion",
                                .oldest = kMajor * 10000,
                                .text = text_of,
                                .version =
                                    [](Symbols& symbols) {
                                      decltype(&cudnnGetVersion) version = nullptr;
                                      symbols.find("cudnnGetVersion", version);
                                      return version();
                                    },
                                .find = [&](Symbols& symbols) { find(cudnn, symbols); }});
  return cudnn;
}

}  // namespace ddprun::trainer::cuda
