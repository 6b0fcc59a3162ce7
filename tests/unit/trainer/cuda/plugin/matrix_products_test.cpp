// For which products cuBLASLt is asked anew which algorithm to use.
#include "trainer/cuda/plugin/matrix_products.hpp"

#include <catch2/catch.hpp>
#include <vector>

namespace ddprun::trainer::cuda {
namespace {

int heuristics = 0;
std::vector<cublasComputeType_t> arithmetic;

template <class Descriptor>
cublasStatus_t destroy(Descriptor /*descriptor*/) {
  return CUBLAS_STATUS_SUCCESS;
}
template <class Descriptor>
void set(Descriptor* descriptor) {
  static int something = 0;
  *descriptor = reinterpret_cast<Descriptor>(&something);
}

CublasLt table() {
  CublasLt cublas{};
  cublas.create = [](cublasLtHandle_t* handle) { return set(handle), CUBLAS_STATUS_SUCCESS; };
  cublas.destroy = destroy<cublasLtHandle_t>;
  cublas.status_string = [](cublasStatus_t) { return "CUBLAS_STATUS_OF_THE_TEST"; };
  cublas.desc_create = [](cublasLtMatmulDesc_t* made, cublasComputeType_t type, cudaDataType_t) {
    arithmetic.push_back(type);
    return set(made), CUBLAS_STATUS_SUCCESS;
  };
  cublas.desc_destroy = destroy<cublasLtMatmulDesc_t>;
  cublas.desc_set = [](cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t, const void*,
                       std::size_t) { return CUBLAS_STATUS_SUCCESS; };
  cublas.layout_create = [](cublasLtMatrixLayout_t* made, cudaDataType, std::uint64_t,
                            std::uint64_t,
                            std::int64_t) { return set(made), CUBLAS_STATUS_SUCCESS; };
  cublas.layout_destroy = destroy<cublasLtMatrixLayout_t>;
  cublas.layout_set = [](cublasLtMatrixLayout_t, cublasLtMatrixLayoutAttribute_t, const void*,
                         std::size_t) { return CUBLAS_STATUS_SUCCESS; };
  cublas.preference_create = [](cublasLtMatmulPreference_t* made) {
    return set(made), CUBLAS_STATUS_SUCCESS;
  };
  cublas.preference_destroy = destroy<cublasLtMatmulPreference_t>;
  cublas.preference_set = [](cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t,
                             const void*, std::size_t) { return CUBLAS_STATUS_SUCCESS; };
  cublas.heuristic = [](cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                        cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                        cublasLtMatmulPreference_t, int, cublasLtMatmulHeuristicResult_t* best,
                        int* count) {
    ++heuristics;
    *best = {};
    *count = 1;
    return CUBLAS_STATUS_SUCCESS;
  };
  cublas.matmul = [](cublasLtHandle_t, cublasLtMatmulDesc_t, const void*, const void*,
                     cublasLtMatrixLayout_t, const void*, cublasLtMatrixLayout_t, const void*,
                     const void*, cublasLtMatrixLayout_t, void*, cublasLtMatrixLayout_t,
                     const cublasLtMatmulAlgo_t*, void*, std::size_t,
                     cudaStream_t) { return CUBLAS_STATUS_SUCCESS; };
  return cublas;
}

TEST_CASE("a product is prepared anew where an address has another alignment, also the bias'") {
  heuristics = 0;
  MatrixProducts products(table(), GpuName(0, "test"), false);
  alignas(256) static float memory[1024];
  const auto multiply = [&](const float* bias, float* out) {
    products.multiply(nullptr, {.rows = 4,
                                .columns = 4,
                                .depth = 4,
                                .a = {.data = memory, .stride = 4},
                                .b = {.data = memory + 64, .stride = 4},
                                .out = out,
                                .out_stride = 4,
                                .bias = bias});
  };
  multiply(memory + 128, memory + 256);
  multiply(memory + 192, memory + 256);  // as far as it is aligned, the same
  CHECK(heuristics == 1);
  multiply(memory + 129, memory + 256);
  CHECK(heuristics == 2);
  multiply(memory + 129, memory + 260);
  CHECK(heuristics == 3);
  multiply(nullptr, memory + 256);
  CHECK(heuristics == 4);
}

TEST_CASE("only products of floats are computed in tf32, and only where that is asked for") {
  alignas(256) static float memory[1024];
  for (const bool tf32 : {false, true}) {
    arithmetic.clear();
    MatrixProducts products(table(), GpuName(0, "test"), tf32);
    for (const ElementType type : {ElementType::fp32, ElementType::bf16})
      products.multiply(nullptr, {.rows = 4,
                                  .columns = 4,
                                  .depth = 4,
                                  .a = {.data = memory, .type = type, .stride = 4},
                                  .b = {.data = memory + 64, .type = type, .stride = 4},
                                  .out = memory + 256,
                                  .out_stride = 4});
    CHECK(arithmetic == std::vector{tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
                                    CUBLAS_COMPUTE_32F});
  }
}

}  // namespace
}  // namespace ddprun::trainer::cuda
