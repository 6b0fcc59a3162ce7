#include "trainer/cuda/plugin/cuda_gpu.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>
#include <vector>

#include "trainer/cuda/launch_limit.hpp"
#include "trainer/cuda/plugin/all_launchers.hpp"
#include "trainer/cuda/plugin/convolutions.hpp"
#include "trainer/cuda/plugin/cuda_calls.hpp"
#include "trainer/cuda/plugin/matrix_products.hpp"
#include "trainer/cuda/watch.hpp"

namespace ddprun::trainer::cuda {
namespace {

/// Between two looks of a host that waits and watches.
constexpr std::chrono::microseconds kLookEvery{20};

std::string uuid_text(const cudaUUID_t& uuid) {
  std::string text = "GPU";
  for (std::size_t i = 0; i < sizeof uuid.bytes; ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

cudaDeviceProp use_gpu(int number) {
  const GpuName unnamed(number, "not yet open");
  check(cudaSetDevice(number), "cudaSetDevice", unnamed);
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, number), "cudaGetDeviceProperties", unnamed);
  return properties;
}

/// None waits for CUDA's default stream. That of communication comes first where both could run:
/// others wait for what it sends.
class Streams {
 public:
  explicit Streams(const GpuName& gpu) {
    int least = 0;
    int greatest = 0;
    check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange",
          gpu);
    for (int k = 0; k < kStreams; ++k) {
      const int priority = static_cast<Stream>(k) == Stream::communication ? greatest : least;
      check(cudaStreamCreateWithPriority(&streams_[static_cast<std::size_t>(k)],
                                         cudaStreamNonBlocking, priority),
            "cudaStreamCreateWithPriority", gpu);
    }
  }
  ~Streams() {
    for (cudaStream_t stream : streams_)
      if (stream != nullptr) (void)cudaStreamDestroy(stream);
  }
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  [[nodiscard]] cudaStream_t at(Stream stream) const {
    return streams_[static_cast<std::size_t>(stream)];
  }

 private:
  std::array<cudaStream_t, kStreams> streams_{};
};

class CudaGpu final : public Gpu {
 public:
  /// The libraries are opened first: what is missing is found without a GPU.
  CudaGpu(const OpenGpu& settings, const CublasLt& cublas, const Cudnn& cudnn)
      : properties_(use_gpu(settings.number)),
        name_(settings.number, properties_.name),
        streams_(name_),
        products_(cublas, name_, settings.tf32),
        convolutions_(cudnn, name_,
                      {.deterministic = settings.deterministic, .tf32 = settings.tf32}),
        launchers_(all_launchers()) {
    int runtime = 0;
    check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion", name_);
    facts_ = {.name = properties_.name,
              .uuid = uuid_text(properties_.uuid),
              .card = fmt::format("{:04x}:{:02x}:{:02x}", properties_.pciDomainID,
                                  properties_.pciBusID, properties_.pciDeviceID),
              .capability = properties_.major * 10 + properties_.minor,
              .memory = properties_.totalGlobalMem,
              .libraries = fmt::format("CUDA {}, {}, {}", cuda_version_text(runtime),
                                       cublas.version_text(), cudnn.version_text())};
  }

  ~CudaGpu() override {
    // Nobody is left to be told of a failure.
    for (const Graph& graph : graphs_)
      if (graph.executable != nullptr) (void)cudaGraphExecDestroy(graph.executable);
    for (cudaEvent_t event : events_) (void)cudaEventDestroy(event);
  }

  [[nodiscard]] GpuFacts facts() const override { return facts_; }

  // ---- memory ----

  [[nodiscard]] std::size_t free_memory() override { return memory_info().free; }
  std::byte* allocate(std::size_t bytes) override {
    watch_.check();
    void* memory = nullptr;
    const cudaError_t code = cudaMalloc(&memory, bytes);
    if (code == cudaErrorMemoryAllocation) throw out_of_memory(bytes);
    check(code, "cudaMalloc", name_);
    return static_cast<std::byte*>(memory);
  }
  /// After a failure nothing can be freed, and what failed has been or will be reported.
  void release(std::byte* memory) override {
    if (may_free()) (void)cudaFree(memory);
  }

  std::byte* allocate_pinned(std::size_t bytes) override {
    watch_.check();
    void* memory = nullptr;
    const cudaError_t code = cudaMallocHost(&memory, bytes);
    if (code == cudaErrorMemoryAllocation) {
      (void)cudaGetLastError();
      throw OutOfGpuMemory(fmt::format("{} bytes of the host's memory cannot be pinned for {}",
                                       bytes, name_.text()));
    }
    check(code, "cudaMallocHost", name_);
    return static_cast<std::byte*>(memory);
  }
  void release_pinned(std::byte* memory) override {
    if (may_free() && cudaDeviceSynchronize() == cudaSuccess) (void)cudaFreeHost(memory);
  }

  void copy_in(Stream stream, const std::byte* pinned, void* to, std::size_t bytes) override {
    copy(stream, pinned, to, bytes, cudaMemcpyHostToDevice);
  }
  void copy_out(Stream stream, const void* from, std::byte* pinned, std::size_t bytes) override {
    copy(stream, from, pinned, bytes, cudaMemcpyDeviceToHost);
  }
  void copy(Stream stream, const void* from, void* to, std::size_t bytes) override {
    copy(stream, from, to, bytes, cudaMemcpyDeviceToDevice);
  }
  void clear(Stream stream, void* memory, std::size_t bytes) override {
    check(cudaMemsetAsync(memory, 0, bytes, streams_.at(stream)), "cudaMemsetAsync", name_);
    count(stream, 1);
  }

  // ---- order ----

  Event make_event() override { return make_event(cudaEventDisableTiming); }
  Event make_timed_event() override { return make_event(cudaEventDefault); }
  [[nodiscard]] double seconds_between(Event first, Event last) override {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, at(first), at(last)), "cudaEventElapsedTime", name_);
    return static_cast<double>(milliseconds) / 1000;
  }
  void record(Event event, Stream stream) override {
    check(cudaEventRecord(at(event), streams_.at(stream)), "cudaEventRecord", name_);
  }
  void wait(Stream stream, Event event) override {
    check(cudaStreamWaitEvent(streams_.at(stream), at(event), 0), "cudaStreamWaitEvent", name_);
  }
  [[nodiscard]] bool has_come(Event event) override {
    return is_done(cudaEventQuery(at(event)), "cudaEventQuery");
  }
  void synchronize(Event event) override {
    if (watch_.is_set()) {
      watch_until([&] { return has_come(event); });
    } else {
      check(cudaEventSynchronize(at(event)), "cudaEventSynchronize", name_);
    }
  }
  void synchronize(Stream stream) override {
    const cudaStream_t native_stream = streams_.at(stream);
    if (watch_.is_set()) {
      watch_until([&] { return is_done(cudaStreamQuery(native_stream), "cudaStreamQuery"); });
    } else {
      check(cudaStreamSynchronize(native_stream), "cudaStreamSynchronize", name_);
    }
  }
  void set_watch(WatchFunction watch) override { watch_.set(std::move(watch)); }
  [[nodiscard]] void* native(Stream stream) override { return streams_.at(stream); }

  // ---- work ----

  void launch(Stream stream, const Launch& launch) override {
    const KernelLauncher launcher = launchers_.at(static_cast<std::size_t>(launch.kernel));
    const cudaError_t code = launcher(launch.arguments, launch.blocks, streams_.at(stream));
    if (code != cudaSuccess)
      check(code, ("the launch of " + kernel_name(launch.kernel)).c_str(), name_);
    count(stream, 1);
  }
  void multiply(Stream stream, const MatrixProduct& product) override {
    products_.multiply(streams_.at(stream), product);
    count(stream, kProductOperations);
  }
  [[nodiscard]] std::size_t workspace_bytes(ConvolutionPass pass,
                                            const ConvolutionShape& shape) override {
    return convolutions_.workspace_bytes(pass, shape);
  }
  void convolve(Stream stream, const ConvolutionCall& call) override {
    convolutions_.convolve(streams_.at(stream), call,
                           [&](const Launch& widening) { launch(stream, widening); });
    count(stream, kConvolutionOperations);
  }

  // ---- graphs ----

  void begin_capture(Stream stream) override {
    check(cudaStreamBeginCapture(streams_.at(stream), cudaStreamCaptureModeThreadLocal),
          "cudaStreamBeginCapture", name_);
    captures_ = true;
  }
  Captured end_capture(Stream stream) override {
    captures_ = false;
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(streams_.at(stream), &graph), "cudaStreamEndCapture", name_);
    Graph made;
    const cudaError_t counted = cudaGraphGetNodes(graph, nullptr, &made.nodes);
    const cudaError_t code = cudaGraphInstantiate(&made.executable, graph, 0);
    (void)cudaGraphDestroy(graph);
    check(code, "cudaGraphInstantiate", name_);
    graphs_.push_back(made);
    check(counted, "cudaGraphGetNodes", name_);
    // Else the first launch of it does this, and takes longer.
    check(cudaGraphUpload(made.executable, streams_.at(stream)), "cudaGraphUpload", name_);
    return static_cast<Captured>(graphs_.size() - 1);
  }
  [[nodiscard]] std::size_t nodes(Captured graph) const override {
    return graphs_.at(static_cast<std::size_t>(graph)).nodes;
  }
  void replay(Stream stream, Captured graph) override {
    const Graph& one = graphs_.at(static_cast<std::size_t>(graph));
    check(cudaGraphLaunch(one.executable, streams_.at(stream)), "cudaGraphLaunch", name_);
    count(stream, one.nodes);
  }
  /// What failed before has been or will be reported.
  void release(Captured graph) noexcept override {
    cudaGraphExec_t& executable = graphs_[static_cast<std::size_t>(graph)].executable;
    if (executable != nullptr) (void)cudaGraphExecDestroy(executable);
    executable = nullptr;
  }

 private:
  struct Graph {
    cudaGraphExec_t executable = nullptr;  // null: released
    std::size_t nodes = 0;
  };

  Event make_event(unsigned flags) {
    cudaEvent_t event = nullptr;
    check(cudaEventCreateWithFlags(&event, flags), "cudaEventCreateWithFlags", name_);
    events_.push_back(event);
    return static_cast<Event>(events_.size() - 1);
  }
  [[nodiscard]] cudaEvent_t at(Event event) const {
    return events_.at(static_cast<std::size_t>(event));
  }
  void copy(Stream stream, const void* from, void* to, std::size_t bytes, cudaMemcpyKind kind) {
    check(cudaMemcpyAsync(to, from, bytes, kind, streams_.at(stream)), "cudaMemcpyAsync", name_);
    count(stream, 1);
  }
  /// What is captured is not pending, and waiting within a capture is an error.
  void count(Stream stream, std::uint64_t operations) {
    if (!captures_) limits_.add(stream, operations);
  }
  bool is_done(cudaError_t code, const char* call) {
    if (code == cudaErrorNotReady) {
      (void)cudaGetLastError();  // is asked for after a launch, and this is no error
      return false;
    }
    check(code, call, name_);
    return true;
  }
  /// Freeing waits for all streams. Under the watch, a lost peer or a deadline ends the sums that
  /// it would wait for.
  [[nodiscard]] bool may_free() noexcept {
    return watch_.may_free([&] {
      for (int stream = 0; stream < kStreams; ++stream) synchronize(static_cast<Stream>(stream));
    });
  }
  template <class Done>
  void watch_until(const Done& done) {
    const auto began = std::chrono::steady_clock::now();
    for (;;) {
      // Before the question: a process that was stopped for long learns first that all is done.
      const auto waited = std::chrono::steady_clock::now() - began;
      if (done()) return;
      watch_.look(waited);
      std::this_thread::sleep_for(kLookEvery);
    }
  }
  [[nodiscard]] OutOfGpuMemory out_of_memory(std::size_t bytes) {
    (void)cudaGetLastError();
    const MemoryInfo info = memory_info();
    return OutOfGpuMemory(fmt::format("{} bytes were asked for, but {} of {} bytes are free on {}",
                                      bytes, info.free, info.all, name_.text()));
  }
  struct MemoryInfo {
    std::size_t free = 0;
    std::size_t all = 0;
  };
  [[nodiscard]] MemoryInfo memory_info() const {
    MemoryInfo info;
    check(cudaMemGetInfo(&info.free, &info.all), "cudaMemGetInfo", name_);
    return info;
  }

  cudaDeviceProp properties_;
  GpuName name_;
  Streams streams_;
  MatrixProducts products_;
  Convolutions convolutions_;
  std::vector<KernelLauncher> launchers_;
  GpuFacts facts_;
  std::vector<cudaEvent_t> events_;
  std::vector<Graph> graphs_;
  bool captures_ = false;
  LaunchLimits limits_{*this};
  Watch watch_;
};

}  // namespace

std::unique_ptr<Gpu> make_cuda_gpu(const OpenGpu& settings) {
  const CublasLt cublas = open_cublaslt(settings.places);
  if (!cublas.library.handle) throw DataError(cublas.library.why);
  const Cudnn cudnn = open_cudnn(settings.places);
  if (!cudnn.library.handle) throw DataError(cudnn.library.why);
  return std::make_unique<CudaGpu>(settings, cublas, cudnn);
}

}  // namespace ddprun::trainer::cuda
