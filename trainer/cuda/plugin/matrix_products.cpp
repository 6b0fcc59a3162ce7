#include "trainer/cuda/plugin/matrix_products.hpp"

#include <fmt/format.h>

#include <algorithm>

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

/// What NVIDIA recommends for its newest GPUs.
constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;
/// cuBLASLt asks for no more.
constexpr std::uintptr_t kAlignmentMost = 256;

cudaDataType_t data_type(ElementType type) {
  switch (type) {
    case ElementType::fp32:
      break;
    case ElementType::fp16:
      return CUDA_R_16F;
    case ElementType::bf16:
      return CUDA_R_16BF;
  }
  return CUDA_R_32F;
}

unsigned alignment_of(const void* address) {
  const auto number = reinterpret_cast<std::uintptr_t>(address);
  return static_cast<unsigned>(std::min(number & (~number + 1), kAlignmentMost));
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

// cuBLASLt thinks in columns: what it takes for the matrix of columns is the transposed one of our
// rows. So it computes out' = b' a', with the same memory and strides.
struct MatrixProducts::Prepared {
  explicit Prepared(const CublasLt& cublas) : library(cublas) {}
  ~Prepared() {
    for (cublasLtMatrixLayout_t layout : {left, right, out})
      if (layout != nullptr) (void)library.layout_destroy(layout);
    if (operation != nullptr) (void)library.desc_destroy(operation);
  }
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;

  const CublasLt& library;
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t left = nullptr, right = nullptr, out = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
};

MatrixProducts::MatrixProducts(const CublasLt& cublas, const GpuName& gpu, bool tf32)
    : cublas_(cublas), gpu_(gpu), tf32_(tf32) {
  check(cublas_.create(&handle_), "cublasLtCreate", {});
}

MatrixProducts::~MatrixProducts() {
  prepared_.clear();
  for (const auto& [stream, memory] : workspaces_) (void)cudaFree(memory);
  if (handle_ != nullptr) (void)cublas_.destroy(handle_);
}

void MatrixProducts::check(cublasStatus_t status, const char* call,
                           const MatrixProduct& product) const {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw GpuError(fmt::format("{} failed on {}: {} ({} x {} x {}, {} of them)", call, gpu_.text(),
                             cublas_.status_string(status), product.rows, product.columns,
                             product.depth, product.batch));
}

MatrixProducts::Key MatrixProducts::key_of(const MatrixProduct& product) {
  return {.rows = product.rows,
          .columns = product.columns,
          .depth = product.depth,
          .batch = product.batch,
          .strides = {product.a.stride, product.a.batch_stride, product.b.stride,
                      product.b.batch_stride, product.out_stride, product.out_batch_stride},
          .types = {static_cast<int>(product.a.type), static_cast<int>(product.out_type)},
          .transposed = {product.a.transposed, product.b.transposed},
          .has_bias = product.bias != nullptr,
          .alignments = {alignment_of(product.a.data), alignment_of(product.b.data),
                         alignment_of(product.out), alignment_of(product.bias)}};
}

const MatrixProducts::Prepared& MatrixProducts::prepared(const MatrixProduct& product) {
  std::unique_ptr<Prepared>& slot = prepared_[key_of(product)];
  if (slot) return *slot;
  if (product.a.type != product.b.type)
    throw GpuError(
        fmt::format("a product of matrices of two types was asked for on {}", gpu_.text()));
  auto made = std::make_unique<Prepared>(cublas_);

  // Without FAST_TF32 floats are multiplied as floats.
  const bool is_tf32 = tf32_ && product.a.type == ElementType::fp32;
  check(
      cublas_.desc_create(&made->operation,
                          is_tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F),
      "cublasLtMatmulDescCreate", product);
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    check(cublas_.desc_set(made->operation, attribute, &value, sizeof value),
          "cublasLtMatmulDescSetAttribute", product);
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, product.b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_TRANSB, product.a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (product.bias != nullptr) {
    // The pointer is set before the algorithm is chosen: cuBLASLt takes its alignment from there.
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, data_type(product.out_type));
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, product.bias);
  }

  const auto lay_out = [&](cublasLtMatrixLayout_t& layout, ElementType type, int rows, int columns,
                           std::int64_t stride, std::int64_t batch_stride) {
    check(cublas_.layout_create(&layout, data_type(type), static_cast<std::uint64_t>(columns),
                                static_cast<std::uint64_t>(rows), stride),
          "cublasLtMatrixLayoutCreate", product);
    const std::int32_t batch = product.batch;
    check(cublas_.layout_set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch),
          "cublasLtMatrixLayoutSetAttribute", product);
    check(cublas_.layout_set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &batch_stride,
                             sizeof batch_stride),
          "cublasLtMatrixLayoutSetAttribute", product);
  };
  const auto lay_out_operand = [&](cublasLtMatrixLayout_t& layout, const Matrix& matrix, int rows,
                                   int columns) {
    if (matrix.transposed) std::swap(rows, columns);
    lay_out(layout, matrix.type, rows, columns, matrix.stride, matrix.batch_stride);
  };
  lay_out_operand(made->left, product.b, product.depth, product.columns);
  lay_out_operand(made->right, product.a, product.rows, product.depth);
  lay_out(made->out, product.out_type, product.rows, product.columns, product.out_stride,
          product.out_batch_stride);

  cublasLtMatmulPreference_t preference = nullptr;
  check(cublas_.preference_create(&preference), "cublasLtMatmulPreferenceCreate", product);
  const std::unique_ptr<cublasLtMatmulPreferenceOpaque_t,
                        decltype(&cublasLtMatmulPreferenceDestroy)>
      destroys(preference, cublas_.preference_destroy);
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    check(cublas_.preference_set(preference, attribute, &value, sizeof value),
          "cublasLtMatmulPreferenceSetAttribute", product);
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{kWorkspaceBytes});
  // Partial sums stay floats, and are added in a fixed order: the other schemes round them to the
  // output's type, or add them as they come.
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, std::uint32_t{alignment_of(product.b.data)});
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, std::uint32_t{alignment_of(product.a.data)});
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, std::uint32_t{alignment_of(product.out)});
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, std::uint32_t{alignment_of(product.out)});
  cublasLtMatmulHeuristicResult_t best{};
  int count = 0;
  check(cublas_.heuristic(handle_, made->operation, made->left, made->right, made->out, made->out,
                          preference, 1, &best, &count),
        "cublasLtMatmulAlgoGetHeuristic", product);
  check(count > 0 ? best.state : CUBLAS_STATUS_NOT_SUPPORTED, "cublasLtMatmulAlgoGetHeuristic",
        product);
  made->algorithm = best.algo;
  slot = std::move(made);
  return *slot;
}

/// Each stream has a workspace of its own: products of two may run at once. Taken before any graph
/// is captured, as every shape is computed once before that.
void* MatrixProducts::workspace(cudaStream_t stream) {
  void*& memory = workspaces_[stream];
  if (memory == nullptr) {
    const cudaError_t code = cudaMalloc(&memory, kWorkspaceBytes);
    if (code == cudaErrorMemoryAllocation) {
      (void)cudaGetLastError();
      throw OutOfGpuMemory(fmt::format("{} bytes were asked for as the workspace of cuBLASLt on {}",
                                       kWorkspaceBytes, gpu_.text()));
    }
    cuda::check(code, "cudaMalloc", gpu_);
  }
  return memory;
}

void MatrixProducts::multiply(cudaStream_t stream, const MatrixProduct& product) {
  const Prepared& ready = prepared(product);
  if (product.bias != nullptr)
    check(cublas_.desc_set(ready.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &product.bias,
                           sizeof product.bias),
          "cublasLtMatmulDescSetAttribute", product);
  const float old_factor = product.accumulate ? 1.0F : 0.0F;
  check(
      cublas_.matmul(handle_, ready.operation, &product.factor, product.b.data, ready.left,
                     product.a.data, ready.right, &old_factor, product.out, ready.out, product.out,
                     ready.out, &ready.algorithm, workspace(stream), kWorkspaceBytes, stream),
      "cublasLtMatmul", product);
}

}  // namespace ddprun::trainer::cuda
