#include "trainer/cuda/plugin/cublaslt.hpp"

#include <fmt/format.h>

namespace ddprun::trainer::cuda {
namespace {

// CUDA's libraries keep their interface within a major version; it is in the file's name.
constexpr std::size_t kMajor = CUBLAS_VER_MAJOR;

std::string text_of(std::size_t version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

void find(CublasLt& cublas, Symbols& symbols) {
  symbols.find("cublasLtCreate", cublas.create);
  symbols.find("cublasLtDestroy", cublas.destroy);
  symbols.find("cublasLtGetStatusString", cublas.status_string);
  symbols.find("cublasLtMatmulDescCreate", cublas.desc_create);
  symbols.find("cublasLtMatmulDescDestroy", cublas.desc_destroy);
  symbols.find("cublasLtMatmulDescSetAttribute", cublas.desc_set);
  symbols.find("cublasLtMatrixLayoutCreate", cublas.layout_create);
  symbols.find("cublasLtMatrixLayoutDestroy", cublas.layout_destroy);
  symbols.find("cublasLtMatrixLayoutSetAttribute", cublas.layout_set);
  symbols.find("cublasLtMatmulPreferenceCreate", cublas.preference_create);
  symbols.find("cublasLtMatmulPreferenceDestroy", cublas.preference_destroy);
  symbols.find("cublasLtMatmulPreferenceSetAttribute", cublas.preference_set);
  symbols.find("cublasLtMatmulAlgoGetHeuristic", cublas.heuristic);
  symbols.find("cublasLtMatmul", cublas.matmul);
}

}  // namespace

std::string CublasLt::version_text() const { return "cuBLASLt " + text_of(library.version); }

CublasLt open_cublaslt(const LibraryPlaces& places) {
  CublasLt cublas{};
  cublas.library = open_library(
      {.name = fmt::format("cuBLASLt {}", kMajor),
       .file = fmt::format("libcublasLt.so.{}", kMajor),
       .pip = kMajor >= 13 ? "nvidia-cublas" : fmt::format("nvidia-cublas-cu{}", kMajor)},
      places,
      {.name = "cuBLASLt",
       .version_function = "cublasLtGetVersion",
       .oldest = kMajor * 10000,
       .text = text_of,
       .version =
           [](Symbols& symbols) {
             decltype(&cublasLtGetVersion) version = nullptr;
             symbols.find("cublasLtGetVersion", version);
             return version();
           },
       .find = [&](Symbols& symbols) { find(cublas, symbols); }});
  return cublas;
}

}  // namespace ddprun::trainer::cuda
