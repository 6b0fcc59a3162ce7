#include "tests/unit/trainer/cuda/plugin/fake_cudnn.hpp"

#include <cstring>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace ddprun::trainer::cuda::test {
namespace {

template <class Descriptor>
cudnnStatus_t create(Descriptor* descriptor) {
  static int something = 0;
  *descriptor = reinterpret_cast<Descriptor>(&something);
  return CUDNN_STATUS_SUCCESS;
}
template <class Descriptor>
cudnnStatus_t destroy(Descriptor /*descriptor*/) {
  return CUDNN_STATUS_SUCCESS;
}
template <class Performance>
cudnnStatus_t list(int most, int* count, Performance* found) {
  *count = 0;
  answers.math_of_list = answers.math;
  if (answers.of_list != CUDNN_STATUS_SUCCESS) return answers.of_list;
  for (const Answers::Listed& one : answers.listed) {
    if (*count == most) break;
    found[*count] = {};
    found[*count].algo = static_cast<decltype(found->algo)>(one.algorithm);
    found[*count].status = CUDNN_STATUS_SUCCESS;
    found[*count].determinism = one.determinism;
    found[*count].mathType = one.math;
    ++*count;
  }
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

Cudnn fake_cudnn() {
  Cudnn cudnn{};
  cudnn.create = create<cudnnHandle_t>;
  cudnn.destroy = destroy<cudnnHandle_t>;
  cudnn.set_stream = [](cudnnHandle_t, cudaStream_t) { return CUDNN_STATUS_SUCCESS; };
  cudnn.error_string = [](cudnnStatus_t) { return "CUDNN_STATUS_EXECUTION_FAILED"; };
  cudnn.last_error_string = [](char* text, std::size_t size) {
    std::strncpy(text, answers.last_error.c_str(), size);
  };
  cudnn.tensor_create = create<cudnnTensorDescriptor_t>;
  cudnn.tensor_set = [](cudnnTensorDescriptor_t, cudnnTensorFormat_t, cudnnDataType_t, int, int,
                        int, int) { return CUDNN_STATUS_SUCCESS; };
  cudnn.tensor_destroy = destroy<cudnnTensorDescriptor_t>;
  cudnn.filter_create = create<cudnnFilterDescriptor_t>;
  cudnn.filter_set = [](cudnnFilterDescriptor_t, cudnnDataType_t, cudnnTensorFormat_t, int outputs,
                        int inputs, int, int) {
    answers.has_odd_channels = outputs % 8 != 0 || inputs % 8 != 0;
    return CUDNN_STATUS_SUCCESS;
  };
  cudnn.filter_destroy = destroy<cudnnFilterDescriptor_t>;
  cudnn.convolution_create = create<cudnnConvolutionDescriptor_t>;
  cudnn.convolution_set = [](cudnnConvolutionDescriptor_t, int, int, int, int, int, int,
                             cudnnConvolutionMode_t,
                             cudnnDataType_t) { return CUDNN_STATUS_SUCCESS; };
  cudnn.convolution_set_math = [](cudnnConvolutionDescriptor_t, cudnnMathType_t math) {
    ++answers.math_set;
    answers.math = math;
    return CUDNN_STATUS_SUCCESS;
  };
  cudnn.convolution_destroy = destroy<cudnnConvolutionDescriptor_t>;
  cudnn.forward_algorithms = [](cudnnHandle_t, cudnnTensorDescriptor_t, cudnnFilterDescriptor_t,
                                cudnnConvolutionDescriptor_t, cudnnTensorDescriptor_t, int most,
                                int* count, cudnnConvolutionFwdAlgoPerf_t* found) {
    return list(most, count, found);
  };
  cudnn.input_gradient_algorithms =
      [](cudnnHandle_t, cudnnFilterDescriptor_t, cudnnTensorDescriptor_t,
         cudnnConvolutionDescriptor_t, cudnnTensorDescriptor_t, int most, int* count,
         cudnnConvolutionBwdDataAlgoPerf_t* found) { return list(most, count, found); };
  cudnn.weight_gradient_algorithms =
      [](cudnnHandle_t, cudnnTensorDescriptor_t, cudnnTensorDescriptor_t,
         cudnnConvolutionDescriptor_t, cudnnFilterDescriptor_t, int most, int* count,
         cudnnConvolutionBwdFilterAlgoPerf_t* found) { return list(most, count, found); };
  cudnn.forward_workspace = [](cudnnHandle_t, cudnnTensorDescriptor_t, cudnnFilterDescriptor_t,
                               cudnnConvolutionDescriptor_t, cudnnTensorDescriptor_t,
                               cudnnConvolutionFwdAlgo_t algorithm,
                               std::size_t* bytes) { return answers.workspace(algorithm, bytes); };
  cudnn.input_gradient_workspace = [](cudnnHandle_t, cudnnFilterDescriptor_t,
                                      cudnnTensorDescriptor_t, cudnnConvolutionDescriptor_t,
                                      cudnnTensorDescriptor_t,
                                      cudnnConvolutionBwdDataAlgo_t algorithm, std::size_t* bytes) {
    return answers.workspace(algorithm, bytes);
  };
  cudnn.weight_gradient_workspace =
      [](cudnnHandle_t, cudnnTensorDescriptor_t, cudnnTensorDescriptor_t,
         cudnnConvolutionDescriptor_t, cudnnFilterDescriptor_t,
         cudnnConvolutionBwdFilterAlgo_t algorithm,
         std::size_t* bytes) { return answers.workspace(algorithm, bytes); };
  cudnn.forward = [](cudnnHandle_t, const void*, cudnnTensorDescriptor_t, const void* input,
                     cudnnFilterDescriptor_t, const void* weight, cudnnConvolutionDescriptor_t,
                     cudnnConvolutionFwdAlgo_t algorithm, void*, std::size_t size, const void*,
                     cudnnTensorDescriptor_t,
                     void* output) { return answers.run(algorithm, size, input, weight, output); };
  cudnn.input_gradient = [](cudnnHandle_t, const void*, cudnnFilterDescriptor_t, const void* weight,
                            cudnnTensorDescriptor_t, const void* output,
                            cudnnConvolutionDescriptor_t, cudnnConvolutionBwdDataAlgo_t algorithm,
                            void*, std::size_t size, const void*, cudnnTensorDescriptor_t,
                            void* input) {
    return answers.run(algorithm, size, input, weight, output);
  };
  cudnn.weight_gradient = [](cudnnHandle_t, const void*, cudnnTensorDescriptor_t, const void* input,
                             cudnnTensorDescriptor_t, const void* output,
                             cudnnConvolutionDescriptor_t,
                             cudnnConvolutionBwdFilterAlgo_t algorithm, void*, std::size_t size,
                             const void* old_factor, cudnnFilterDescriptor_t, void* weight) {
    return answers.run(algorithm, size, input, weight, output,
                       *static_cast<const float*>(old_factor) != 0);
  };
  return cudnn;
}

}  // namespace ddprun::trainer::cuda::test
