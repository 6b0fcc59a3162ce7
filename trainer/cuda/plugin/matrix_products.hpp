// Matrix products by cuBLASLt, which is opened at run time with the types of its header.
#pragma once

#include <cublasLt.h>

#include <compare>
#include <map>
#include <memory>
#include <string>

#include "trainer/cuda/open_library.hpp"
#include "trainer/cuda/plugin/cuda_calls.hpp"

namespace ddprun::trainer::cuda {

struct CublasLt {
  FoundLibrary library;  ///< without a handle nothing below can be called

  decltype(&cublasLtCreate) create;
  decltype(&cublasLtDestroy) destroy;
  decltype(&cublasLtGetStatusString) status_string;
  decltype(&cublasLtMatmulDescCreate) desc_create;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set;
  decltype(&cublasLtMatrixLayoutCreate) layout_create;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy;
  decltype(&cublasLtMatrixLayoutSetAttribute) layout_set;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
  decltype(&cublasLtMatmul) matmul;

  /// "cuBLASLt 13.1.0".
  [[nodiscard]] std::string version_text() const;
};

CublasLt open_cublaslt(const LibraryPlaces& places);

class MatrixProducts {
 public:
  /// `tf32`: the factors of products of floats may be rounded to tf32.
  MatrixProducts(const CublasLt& cublas, const GpuName& gpu, bool tf32);
  ~MatrixProducts();
  MatrixProducts(const MatrixProducts&) = delete;
  MatrixProducts& operator=(const MatrixProducts&) = delete;

  void multiply(cudaStream_t stream, const MatrixProduct& product);

 private:
  struct Prepared;
  /// What decides which algorithm is used. Where memory lies counts as far as its alignment goes.
  struct Key {
    int rows, columns, depth, batch;
    std::int64_t strides[6];  // of a, b, out: between rows, between matrices of the batch
    int types[2];             // of a and b, of out
    int transposed[2];
    int has_bias;
    unsigned alignments[4];  // of a, b, out, bias
    auto operator<=>(const Key&) const = default;
  };

  static Key key_of(const MatrixProduct& product);
  const Prepared& prepared(const MatrixProduct& product);
  void check(cublasStatus_t status, const char* call, const MatrixProduct& product) const;
  void* workspace(cudaStream_t stream);

  CublasLt cublas_;
  GpuName gpu_;
  bool tf32_;
  cublasLtHandle_t handle_ = nullptr;
  std::map<Key, std::unique_ptr<Prepared>> prepared_;
  std::map<cudaStream_t, void*> workspaces_;
};

}  // namespace ddprun::trainer::cuda
