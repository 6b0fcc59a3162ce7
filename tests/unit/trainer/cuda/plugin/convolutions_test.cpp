// Which of cuDNN's algorithms a convolution gets, whatever cuDNN's list says.
#include "trainer/cuda/plugin/convolutions.hpp"

#include <catch2/catch.hpp>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace ddprun::trainer::cuda {
namespace {

/// What the table of functions below answers, and what it was asked. Descriptors are addresses
/// that nobody follows.
struct Answers {
  struct Listed {
    int algorithm;
    cudnnDeterminism_t determinism;
    cudnnMathType_t math = CUDNN_TENSOR_OP_MATH;
  };
  std::vector<Listed> listed{};
  std::vector<int> runnable{};                   // by the workspace query
  std::vector<int> refused{};                    // when they are to run
  std::vector<int> refused_sums{};               // when they are to add to what is there
  cudnnStatus_t of_list = CUDNN_STATUS_SUCCESS;  // of the query for the list
  cudnnStatus_t failure = CUDNN_STATUS_SUCCESS;  // of any run
  std::string last_error{};
  std::vector<int> ran{};
  int math_set = 0;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;  // the last one

  [[nodiscard]] cudnnStatus_t run(int algorithm, bool adds = false) {
    ran.push_back(algorithm);
    if (failure != CUDNN_STATUS_SUCCESS) return failure;
    for (const int one : adds ? refused_sums : refused)
      if (one == algorithm) return CUDNN_STATUS_NOT_SUPPORTED;
    return CUDNN_STATUS_SUCCESS;
  }
  [[nodiscard]] cudnnStatus_t workspace(int algorithm, std::size_t* bytes) const {
    for (const int one : runnable) {
      if (one != algorithm) continue;
      *bytes = 1000;
      return CUDNN_STATUS_SUCCESS;
    }
    return CUDNN_STATUS_NOT_SUPPORTED;
  }
};
Answers answers;

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

Cudnn table() {
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
  cudnn.filter_set = [](cudnnFilterDescriptor_t, cudnnDataType_t, cudnnTensorFormat_t, int, int,
                        int, int) { return CUDNN_STATUS_SUCCESS; };
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
  cudnn.forward = [](cudnnHandle_t, const void*, cudnnTensorDescriptor_t, const void*,
                     cudnnFilterDescriptor_t, const void*, cudnnConvolutionDescriptor_t,
                     cudnnConvolutionFwdAlgo_t algorithm, void*, std::size_t, const void*,
                     cudnnTensorDescriptor_t, void*) { return answers.run(algorithm); };
  cudnn.input_gradient = [](cudnnHandle_t, const void*, cudnnFilterDescriptor_t, const void*,
                            cudnnTensorDescriptor_t, const void*, cudnnConvolutionDescriptor_t,
                            cudnnConvolutionBwdDataAlgo_t algorithm, void*, std::size_t,
                            const void*, cudnnTensorDescriptor_t,
                            void*) { return answers.run(algorithm); };
  cudnn.weight_gradient = [](cudnnHandle_t, const void*, cudnnTensorDescriptor_t, const void*,
                             cudnnTensorDescriptor_t, const void*, cudnnConvolutionDescriptor_t,
                             cudnnConvolutionBwdFilterAlgo_t algorithm, void*, std::size_t,
                             const void* old_factor, cudnnFilterDescriptor_t, void*) {
    return answers.run(algorithm, *static_cast<const float*>(old_factor) != 0);
  };
  return cudnn;
}

constexpr ConvolutionPass kPasses[] = {ConvolutionPass::forward, ConvolutionPass::input_gradient,
                                       ConvolutionPass::weight_gradient};
const ConvolutionShape kShape{.batch = 2,
                              .input = {.height = 8, .width = 8, .channels = 3},
                              .output = {.height = 8, .width = 8, .channels = 16},
                              .window = {.size = 3, .stride = 1, .padding = 1},
                              .type = ElementType::fp32};

struct Fixture {
  explicit Fixture(Answers its_answers, Convolutions::Settings settings = {}) {
    answers = std::move(its_answers);
    convolutions = std::make_unique<Convolutions>(table(), GpuName(0, "test"), settings);
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

TEST_CASE("where cuDNN lists no deterministic algorithm, one that its manual calls so is used") {
  for (const ConvolutionPass pass : kPasses) {
    const Fixture fixture({.listed = {{0, CUDNN_NON_DETERMINISTIC}}, .runnable = {1}});
    fixture.convolve(pass);
    CHECK(answers.ran == std::vector<int>{1});
    CHECK(fixture.convolutions->workspace_bytes(pass, kShape) >= 1000);
  }
  // Of forward there are two.
  const Fixture fixture({.runnable = {0}});
  fixture.convolve(ConvolutionPass::forward);
  CHECK(answers.ran == std::vector<int>{0});
}

TEST_CASE("where none works at all, the error names the pass and the shape") {
  const Fixture fixture({.listed = {{3, CUDNN_NON_DETERMINISTIC}}});
  CHECK_THROWS_WITH(fixture.convolve(ConvolutionPass::weight_gradient),
                    Catch::Contains("no deterministic algorithm for cudnnConvolutionBackward") &&
                        Catch::Contains("window 3"));
}

TEST_CASE("an algorithm that cuDNN lists and then refuses is left out from then on") {
  const Fixture fixture(
      {.listed = {{4, CUDNN_DETERMINISTIC}, {6, CUDNN_DETERMINISTIC}}, .refused = {4}});
  fixture.convolve(ConvolutionPass::forward);
  fixture.convolve(ConvolutionPass::forward);
  CHECK(answers.ran == std::vector<int>{4, 6, 6});
}

TEST_CASE("where cuDNN refuses all of its list, or has none, the one of its manual is tried") {
  const Fixture refuses({.listed = {{4, CUDNN_DETERMINISTIC}}, .runnable = {1}, .refused = {4}});
  refuses.convolve(ConvolutionPass::weight_gradient);
  CHECK(answers.ran == std::vector<int>{4, 1});
  const Fixture has_none({.runnable = {1}, .of_list = CUDNN_STATUS_NOT_SUPPORTED});
  has_none.convolve(ConvolutionPass::weight_gradient);
  CHECK(answers.ran == std::vector<int>{1});
}

TEST_CASE("an algorithm that cannot add is used all the same where nothing is added to") {
  const Fixture fixture(
      {.listed = {{4, CUDNN_DETERMINISTIC}, {6, CUDNN_DETERMINISTIC}}, .refused_sums = {4}});
  for (int step = 0; step < 2; ++step) {
    fixture.convolve(ConvolutionPass::weight_gradient);
    fixture.convolve(ConvolutionPass::weight_gradient, kShape, true);
  }
  CHECK(answers.ran == std::vector<int>{4, 4, 6, 4, 6});
}

TEST_CASE("the kind of arithmetic is told to cuDNN when it changes, and not at every call") {
  ConvolutionShape half = kShape;
  half.type = ElementType::fp16;
  const Fixture fixture({.listed = {{1, CUDNN_DETERMINISTIC, CUDNN_DEFAULT_MATH}}});
  for (int call = 0; call < 5; ++call) fixture.convolve(ConvolutionPass::forward, half);
  CHECK(answers.math_set == 2);  // for the list, and for the algorithm
  for (int call = 0; call < 5; ++call) fixture.convolve(ConvolutionPass::forward);
  CHECK(answers.math_set == 3);  // fp32 is never anything but fp32
}

TEST_CASE(
    "floats are multiplied as floats, or in tf32 where that is asked for, and never as halves") {
  for (const cudnnMathType_t listed : {CUDNN_DEFAULT_MATH, CUDNN_TENSOR_OP_MATH,
                                       CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION, CUDNN_FMA_MATH}) {
    const Answers one{.listed = {{1, CUDNN_DETERMINISTIC, listed}}};
    const Fixture fp32(one);
    fp32.convolve(ConvolutionPass::forward);
    CHECK(answers.math == CUDNN_FMA_MATH);
    const Fixture tf32(one, {.tf32 = true});
    static_cast<void>(tf32.convolutions->workspace_bytes(ConvolutionPass::forward, kShape));
    CHECK(answers.math == CUDNN_DEFAULT_MATH);  // for the list
    tf32.convolve(ConvolutionPass::forward);
    CHECK(answers.math ==
          (listed == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION ? CUDNN_DEFAULT_MATH : listed));
    ConvolutionShape half = kShape;
    half.type = ElementType::fp16;
    tf32.convolve(ConvolutionPass::forward, half);
    CHECK(answers.math == listed);
  }
}

TEST_CASE("a failure has cuDNN's explanation, where cuDNN has one") {
  const Fixture fixture({.listed = {{1, CUDNN_DETERMINISTIC}},
                         .failure = CUDNN_STATUS_EXECUTION_FAILED,
                         .last_error = "the kernel's engine has no plan"});
  CHECK_THROWS_WITH(
      fixture.convolve(ConvolutionPass::forward),
      Catch::Contains("CUDNN_STATUS_EXECUTION_FAILED: the kernel's engine has no plan (batch 2"));
  answers.last_error.clear();
  CHECK_THROWS_WITH(fixture.convolve(ConvolutionPass::forward),
                    Catch::Contains("CUDNN_STATUS_EXECUTION_FAILED (batch 2"));
}

}  // namespace
}  // namespace ddprun::trainer::cuda
