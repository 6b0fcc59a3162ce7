// Matrix products by cuBLASLt.
#pragma once

#include <compare>
#include <map>
#include <memory>

#include "trainer/cuda/plugin/cublaslt.hpp"
#include "trainer/cuda/plugin/cuda_calls.hpp"

namespace ddprun::trainer::cuda {

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
