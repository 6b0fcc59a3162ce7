// What the CUDA device needs of a GPU and its libraries, and no more: memory, streams, events,
// launches, graphs, matrix products and convolutions. CUDA is one implementation
// (plugin/cuda_gpu.cpp); the tests have an emulated one that needs no GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <utility>

#include "trainer/compute/operation.hpp"
#include "trainer/cuda/kernel.hpp"
#include "trainer/cuda/kernels/arena_kernels.hpp"
#include "trainer/cuda/kernels/dropout_kernels.hpp"
#include "trainer/cuda/kernels/element_kernels.hpp"
#include "trainer/cuda/kernels/input_kernels.hpp"
#include "trainer/cuda/kernels/loss_kernels.hpp"
#include "trainer/cuda/kernels/norm_kernels.hpp"
#include "trainer/cuda/kernels/pool_kernels.hpp"
#include "trainer/cuda/kernels/sum_kernels.hpp"
#include "trainer/cuda/kernels/text_kernels.hpp"
#include "trainer/cuda/watch.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer::cuda {

/// Every kernel of the trainer. Its place in this list is its number.
using AllKernels =
    Concatenated<ArenaKernels, DropoutKernels, ElementKernels, InputKernels, LossKernels,
                 NormKernels, PoolKernels, SumKernels, TextKernels>::type;

/// A call of CUDA or one of its libraries failed; the text names the call, the GPU and what CUDA
/// said. After one nothing on this GPU can be trusted.
class GpuError : public DeviceError {
 public:
  using DeviceError::DeviceError;
};

/// There is not enough memory; nothing else is wrong.
class OutOfGpuMemory : public std::bad_alloc {
 public:
  explicit OutOfGpuMemory(std::string text) : text_(std::move(text)) {}
  [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;  ///< bytes that were asked for, bytes that are free, which GPU
};

struct GpuFacts {
  std::string name;        ///< e.g. "NVIDIA H200"
  std::string uuid;        ///< as nvidia-smi prints it; of a MIG slice its own or the GPU's
  std::string card = {};   ///< its PCI address, "0000:07:00": MIG slices have that of their GPU
  int capability = 0;      ///< 90 for 9.0
  std::size_t memory = 0;  ///< bytes of all of it
  std::string libraries;   ///< versions, e.g. "CUDA 13.0, cuBLASLt 13.1.0, cuDNN 9.19.0"
};

/// Work of one stream runs in the order in which it was given; that of different ones in any order
/// that the events allow.
enum class Stream { compute, copy, communication };
inline constexpr int kStreams = 3;

/// Memory begins at a multiple of so many bytes, and so do the parts of a workspace, from where
/// that begins.
inline constexpr std::size_t kAllocationAlignment = 256;

enum class Event : int {};
enum class Captured : int {};  ///< a graph of launches

enum class ElementType { fp32, fp16, bf16 };

/// A launch of blocks of kBlockThreads threads.
struct Launch {
  int kernel = 0;  ///< its number in AllKernels
  unsigned blocks = 1;
  const void* arguments = nullptr;  ///< the kernel struct
};
template <class Kernel>
Launch launch_of(const Kernel& kernel, unsigned blocks) {
  static_assert(std::is_trivially_copyable_v<Kernel>);
  return {PlaceIn<Kernel, AllKernels>::value, blocks, &kernel};
}

/// Rows side by side, `stride` elements apart. `transposed`: what is there is the transposed
/// matrix, with the stride of that one's rows.
struct Matrix {
  const void* data = nullptr;
  ElementType type = ElementType::fp32;
  std::int64_t stride = 0;
  bool transposed = false;
  std::int64_t batch_stride = 0;  ///< elements from one matrix of a batch to the next
};

/// out = a b (+ bias of each column) (+ out), sums in fp32. a: rows x depth, b: depth x columns.
struct MatrixProduct {
  int rows = 0, columns = 0, depth = 0;
  int batch = 1;
  float factor = 1;  ///< of the product
  Matrix a, b;
  void* out = nullptr;
  ElementType out_type = ElementType::fp32;
  std::int64_t out_stride = 0;
  std::int64_t out_batch_stride = 0;
  const void* bias = nullptr;  ///< of the output's type; null: none
  bool accumulate = false;
};

enum class ConvolutionPass { forward, input_gradient, weight_gradient };

/// Activations channels-last, weights outputs x window x inputs (the arenas' layout).
struct ConvolutionShape {
  int batch = 1;
  ActivationShape input, output;
  Window window;
  ElementType type = ElementType::fp32;  ///< of activations and weights

  friend bool operator==(const ConvolutionShape&, const ConvolutionShape&) = default;
};

/// A pass reads two of the three tensors and writes the third. A weight gradient is fp32.
struct ConvolutionCall {
  ConvolutionPass pass = ConvolutionPass::forward;
  ConvolutionShape shape;
  void* input = nullptr;
  void* weight = nullptr;
  void* output = nullptr;
  bool accumulate = false;  ///< adds to what is there
  void* workspace = nullptr;
};

/// Every call but those that are said to wait returns at once; what it asked for happens on the
/// stream. Only where very much is pending does a call wait, under the watch (launch_limit.hpp).
/// Throws GpuError. One thread calls it.
class Gpu {
 public:
  virtual ~Gpu() = default;
  [[nodiscard]] virtual GpuFacts facts() const = 0;

  // ---- memory ----

  /// Bytes that no program has now.
  [[nodiscard]] virtual std::size_t free_memory() = 0;
  /// On a boundary of kAllocationAlignment; what is in it is not known. Throws OutOfGpuMemory.
  virtual std::byte* allocate(std::size_t bytes) = 0;
  /// Waits for all streams. If the watch throws meanwhile, the memory is not freed, and the next
  /// call that allocates or waits throws that.
  virtual void release(std::byte* memory) = 0;
  /// Memory of the host that the GPU reads and writes by itself.
  virtual std::byte* allocate_pinned(std::size_t bytes) = 0;
  /// As release().
  virtual void release_pinned(std::byte* memory) = 0;
  /// `pinned`: of allocate_pinned(); it must stay as it is until the copy is done.
  virtual void copy_in(Stream stream, const std::byte* pinned, void* to, std::size_t bytes) = 0;
  virtual void copy_out(Stream stream, const void* from, std::byte* pinned, std::size_t bytes) = 0;
  virtual void copy(Stream stream, const void* from, void* to, std::size_t bytes) = 0;
  /// With zeros.
  virtual void clear(Stream stream, void* memory, std::size_t bytes) = 0;

  // ---- order ----

  virtual Event make_event() = 0;
  /// One that also keeps the time at which it comes, which takes the GPU a little longer.
  virtual Event make_timed_event() = 0;
  /// The time between two timed events that have come.
  [[nodiscard]] virtual double seconds_between(Event first, Event last) = 0;
  virtual void record(Event event, Stream stream) = 0;
  /// What the stream is given from now on waits until the event, as it was last recorded, has come.
  virtual void wait(Stream stream, Event event) = 0;
  [[nodiscard]] virtual bool has_come(Event event) = 0;
  /// The host waits.
  virtual void synchronize(Event event) = 0;
  virtual void synchronize(Stream stream) = 0;
  /// `watch` is called again and again while the host waits here, by the thread that waits. What it
  /// throws once, all later waits for something that is not done throw. Empty: nothing is called.
  virtual void set_watch(WatchFunction watch) = 0;
  /// The stream as a library knows it that works on it directly: of CUDA a cudaStream_t.
  [[nodiscard]] virtual void* native(Stream stream) = 0;

  // ---- work ----

  /// The arguments are copied.
  virtual void launch(Stream stream, const Launch& launch) = 0;
  virtual void multiply(Stream stream, const MatrixProduct& product) = 0;
  [[nodiscard]] virtual std::size_t workspace_bytes(ConvolutionPass pass,
                                                    const ConvolutionShape& shape) = 0;
  virtual void convolve(Stream stream, const ConvolutionCall& call) = 0;

  // ---- graphs ----

  /// Until end_capture() the work of this stream, and of those that wait for its events, is not
  /// done but kept. Meanwhile this thread may not wait, ask whether an event has come, or allocate
  /// or release memory: that fails, and so does end_capture(), which is to be called all the same.
  virtual void begin_capture(Stream stream) = 0;
  virtual Captured end_capture(Stream stream) = 0;
  /// Launches, copies and fills in it.
  [[nodiscard]] virtual std::size_t nodes(Captured graph) const = 0;
  virtual void replay(Stream stream, Captured graph) = 0;
  /// A replay that is under way is done to its end.
  virtual void release(Captured graph) noexcept = 0;
};

}  // namespace ddprun::trainer::cuda
