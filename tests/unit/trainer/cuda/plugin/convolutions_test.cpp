// Which of cuDNN's algorithms a convolution gets, whatever cuDNN's list says.
#include "trainer/cuda/plugin/convolutions.hpp"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/unit/trainer/cuda/plugin/fake_cudnn.hpp"
#include "tests/unit/trainer/cuda/plugin/fake_runtime.hpp"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace ddprun::trainer::cuda {
namespace {

using test::Answers;
using test::answers;
using test::Fixture;
using test::kPasses;
using test::kShape;

TEST_CASE("where cuDNN lists no deterministic algorithm, one that its manual calls so is used") {
  for (const ConvolutionPass pass : kPasses) {
    const Fixture fixture({.listed = {{0, CUDNN_NON_DETERMINISTIC}}, .runnable = {1}});
    fixture.convolve(pass);
    for (const int ran : answers.ran) CHECK(ran == 1);
    CHECK(fixture.convolutions->workspace_bytes(pass, kShape) >= 1000);
  }
  // Forward has two such algorithms.
  const Fixture fixture({.runnable = {0}});
  fixture.convolve(ConvolutionPass::forward);
  CHECK(answers.ran == std::vector<int>{0, 0});  // tried once before
}

TEST_CASE("where none works at all, the error names the pass and the shape") {
  const Fixture fixture({.listed = {{3, CUDNN_NON_DETERMINISTIC}}});
  CHECK_THROWS_WITH(fixture.convolve(ConvolutionPass::weight_gradient),
                    Catch::Contains("no deterministic algorithm for cudnnConvolutionBackward") &&
                        Catch::Contains("window 3") &&
                        Catch::Contains("--no-deterministic allows others"));
  const Fixture allows_all({.listed = {{3, CUDNN_NON_DETERMINISTIC}}}, {.deterministic = false});
  allows_all.convolve(ConvolutionPass::weight_gradient);
  CHECK(answers.ran.back() == 3);
}

TEST_CASE("algorithms that cuDNN lists are tried at first, and memory is kept for the chosen one") {
  const Fixture fixture(
      {.listed = {{4, CUDNN_DETERMINISTIC}, {6, CUDNN_DETERMINISTIC}, {7, CUDNN_DETERMINISTIC}},
       .refused = {4},
       .workspaces = {{4, 5'000'000}, {6, 2000}, {7, 9'000'000}}});
  const std::size_t bytes = fixture.convolutions->workspace_bytes(ConvolutionPass::forward, kShape);
  CHECK(bytes >= 2000);
  CHECK(bytes < 4000);
  fixture.convolve(ConvolutionPass::forward);
  fixture.convolve(ConvolutionPass::forward);
  CHECK(answers.ran == std::vector<int>{4, 6, 6, 6});
  CHECK_FALSE(answers.was_short);
}

TEST_CASE("the workspace is asked for with the kind of arithmetic in which the algorithm runs") {
  // For the list the kind is that of tensor cores in both.
  ConvolutionShape half = kShape;
  half.type = ElementType::fp16;
  for (const cudnnMathType_t listed : {CUDNN_DEFAULT_MATH, CUDNN_TENSOR_OP_MATH}) {
    const Fixture fixture(
        {.listed = {{1, CUDNN_DETERMINISTIC, listed}}, .more_for_tensor_cores = 100'000});
    const std::size_t bytes = fixture.convolutions->workspace_bytes(ConvolutionPass::forward, half);
    CHECK((bytes > 100'000) == (listed == CUDNN_TENSOR_OP_MATH));
    fixture.convolve(ConvolutionPass::forward, half);
    CHECK_FALSE(answers.was_short);
  }
}

TEST_CASE("an algorithm that needs more than 1 GiB is not used") {
  const Fixture fixture({.listed = {{4, CUDNN_DETERMINISTIC}, {6, CUDNN_DETERMINISTIC}},
                         .workspaces = {{4, std::size_t{1} << 31}}});
  fixture.convolve(ConvolutionPass::forward);
  CHECK(answers.ran == std::vector<int>{6, 6});
}

TEST_CASE("where cuDNN refuses all of its list, or has none, the one of its manual is tried") {
  const Fixture refuses({.listed = {{4, CUDNN_DETERMINISTIC}}, .runnable = {1}, .refused = {4}});
  refuses.convolve(ConvolutionPass::input_gradient);
  CHECK(answers.ran == std::vector<int>{4, 1, 1});
  const Fixture has_none({.runnable = {1}, .of_list = CUDNN_STATUS_NOT_SUPPORTED});
  has_none.convolve(ConvolutionPass::input_gradient);
  CHECK(answers.ran == std::vector<int>{1, 1});
}

TEST_CASE("an algorithm that cannot add is used all the same where nothing is added to") {
  const Fixture fixture(
      {.listed = {{4, CUDNN_DETERMINISTIC}, {6, CUDNN_DETERMINISTIC}}, .refused_sums = {4}});
  for (int step = 0; step < 2; ++step) {
    fixture.convolve(ConvolutionPass::weight_gradient);
    fixture.convolve(ConvolutionPass::weight_gradient, kShape, true);
  }
  // Tried: 4, and of sums 4 and 6.
  CHECK(answers.ran == std::vector<int>{4, 4, 6, 4, 6, 4, 6});
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
    CHECK(answers.math_of_list == CUDNN_DEFAULT_MATH);
    tf32.convolve(ConvolutionPass::forward);
    CHECK(answers.math ==
          (listed == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION ? CUDNN_DEFAULT_MATH : listed));
    ConvolutionShape half = kShape;
    half.type = ElementType::fp16;
    tf32.convolve(ConvolutionPass::forward, half);
    CHECK(answers.math == listed);
  }
}

TEST_CASE("whatever cuDNN answers to an algorithm that is tried, the next one is tried") {
  for (const cudnnStatus_t refusal : {CUDNN_STATUS_NOT_SUPPORTED, CUDNN_STATUS_EXECUTION_FAILED,
                                      CUDNN_STATUS_BAD_PARAM, CUDNN_STATUS_ALLOC_FAILED}) {
    for (const ConvolutionPass pass : kPasses) {
      const Fixture fixture({.listed = {{4, CUDNN_DETERMINISTIC}, {6, CUDNN_DETERMINISTIC}},
                             .refused = {4},
                             .refusal = refusal});
      fixture.convolve(pass);
      CHECK(answers.ran.front() == 4);
      CHECK(answers.ran.back() == 6);
    }
  }
}

TEST_CASE("an error that stays with the GPU ends the run at the first algorithm that is tried") {
  const Fixture fixture({.listed = {{4, CUDNN_DETERMINISTIC}, {6, CUDNN_DETERMINISTIC}},
                         .refused = {4},
                         .refusal = CUDNN_STATUS_EXECUTION_FAILED});
  test::lasting_error = cudaErrorIllegalAddress;
  CHECK_THROWS_WITH(fixture.convolve(ConvolutionPass::forward),
                    Catch::Contains("after a convolution was tried failed"));
  test::lasting_error = cudaSuccess;
  CHECK(answers.ran == std::vector<int>{4});
}

TEST_CASE("a failure has cuDNN's explanation, where cuDNN has one") {
  const Fixture fixture({.listed = {{1, CUDNN_DETERMINISTIC}}});
  fixture.convolve(ConvolutionPass::forward);
  answers.failure = CUDNN_STATUS_EXECUTION_FAILED;
  answers.last_error = "the kernel's engine has no plan";
  CHECK_THROWS_WITH(
      fixture.convolve(ConvolutionPass::forward),
      Catch::Contains("CUDNN_STATUS_EXECUTION_FAILED: the kernel's engine has no plan (batch 2"));
  CHECK_THROWS_WITH(fixture.convolve(ConvolutionPass::input_gradient),
                    Catch::Contains("no deterministic algorithm") &&
                        Catch::Contains("; the first that was tried: CUDNN_STATUS_EXECUTION_FAILED"
                                        ": the kernel's engine has no plan; --no-"));
  answers.last_error.clear();
  CHECK_THROWS_WITH(fixture.convolve(ConvolutionPass::forward),
                    Catch::Contains("CUDNN_STATUS_EXECUTION_FAILED (batch 2"));
}

}  // namespace
}  // namespace ddprun::trainer::cuda
