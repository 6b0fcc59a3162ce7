// The functions of cuBLASLt that are used here, opened at run time with the types of its header.
#pragma once

#include <cublasLt.h>

#include <string>

#include "trainer/cuda/open_library.hpp"

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

}  // namespace ddprun::trainer::cuda
