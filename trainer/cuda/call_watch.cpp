#include "trainer/cuda/call_watch.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "base/start_thread.hpp"

namespace ddprun::trainer::cuda {
namespace {

using namespace std::chrono_literals;

class GuardedGpu final : public Gpu {
 public:
  GuardedGpu(std::unique_ptr<Gpu> gpu, CallWatch& calls) : gpu_(std::move(gpu)), calls_(calls) {}

  ~GuardedGpu() override {
    const Guard guard(&calls_, "the end of the GPU's use");
    gpu_.reset();
  }
  GuardedGpu(const GuardedGpu&) = delete;
  GuardedGpu& operator=(const GuardedGpu&) = delete;

  [[nodiscard]] GpuFacts facts() const override { return gpu_->facts(); }

  [[nodiscard]] std::size_t free_memory() override {
    const Guard guard(&calls_, "cudaMemGetInfo");
    return gpu_->free_memory();
  }
  std::byte* allocate(std::size_t bytes) override {
    const Guard guard(&calls_, "an allocation");
    return gpu_->allocate(bytes);
  }
  void release(std::byte* memory) override {
    const Guard guard(&calls_, "a release of memory");
    gpu_->release(memory);
  }
  std::byte* allocate_pinned(std::size_t bytes) override {
    const Guard guard(&calls_, "an allocation of pinned memory");
    return gpu_->allocate_pinned(bytes);
  }
  void release_pinned(std::byte* memory) override {
    const Guard guard(&calls_, "a release of pinned memory");
    gpu_->release_pinned(memory);
  }
  void copy_in(Stream stream, const std::byte* pinned, void* to, std::size_t bytes) override {
    const Guard guard(&calls_, "a copy to the GPU");
    gpu_->copy_in(stream, pinned, to, bytes);
  }
  void copy_out(Stream stream, const void* from, std::byte* pinned, std::size_t bytes) override {
    const Guard guard(&calls_, "a copy from the GPU");
    gpu_->copy_out(stream, from, pinned, bytes);
  }
  void copy(Stream stream, const void* from, void* to, std::size_t bytes) override {
    const Guard guard(&calls_, "a copy within the GPU");
    gpu_->copy(stream, from, to, bytes);
  }
  void clear(Stream stream, void* memory, std::size_t bytes) override {
    const Guard guard(&calls_, "a fill with zeros");
    gpu_->clear(stream, memory, bytes);
  }

  Event make_event() override {
    const Guard guard(&calls_, "cudaEventCreate");
    return gpu_->make_event();
  }
  Event make_timed_event() override {
    const Guard guard(&calls_, "cudaEventCreate");
    return gpu_->make_timed_event();
  }
  [[nodiscard]] double seconds_between(Event first, Event last) override {
    const Guard guard(&calls_, "cudaEventElapsedTime");
    return gpu_->seconds_between(first, last);
  }
  void record(Event event, Stream stream) override {
    const Guard guard(&calls_, "cudaEventRecord");
    gpu_->record(event, stream);
  }
  void wait(Stream stream, Event event) override {
    const Guard guard(&calls_, "cudaStreamWaitEvent");
    gpu_->wait(stream, event);
  }
  [[nodiscard]] bool has_come(Event event) override {
    const Guard guard(&calls_, "cudaEventQuery");
    return gpu_->has_come(event);
  }
  void synchronize(Event event) override {
    const Guard guard(&calls_, "a wait for an event");
    gpu_->synchronize(event);
  }
  void synchronize(Stream stream) override {
    const Guard guard(&calls_, "a wait for a stream");
    gpu_->synchronize(stream);
  }
  void set_watch(WatchFunction watch) override {
    if (!watch) return gpu_->set_watch({});
    gpu_->set_watch([this, inner = std::move(watch)](std::chrono::steady_clock::duration waited) {
      calls_.progress();
      inner(waited);
      calls_.progress();
    });
  }
  [[nodiscard]] void* native(Stream stream) override { return gpu_->native(stream); }

  void launch(Stream stream, const Launch& launch) override {
    const Guard guard(&calls_, "the launch of a kernel");
    gpu_->launch(stream, launch);
  }
  void multiply(Stream stream, const MatrixProduct& product) override {
    const Guard guard(&calls_, "the launch of a matrix product");
    gpu_->multiply(stream, product);
  }
  [[nodiscard]] std::size_t workspace_bytes(ConvolutionPass pass,
                                            const ConvolutionShape& shape) override {
    const Guard guard(&calls_, "the choice of a convolution's algorithm");
    return gpu_->workspace_bytes(pass, shape);
  }
  void convolve(Stream stream, const ConvolutionCall& call) override {
    const Guard guard(&calls_, "the launch of a convolution");
    gpu_->convolve(stream, call);
  }

  void begin_capture(Stream stream) override {
    const Guard guard(&calls_, "the begin of a capture");
    gpu_->begin_capture(stream);
  }
  Captured end_capture(Stream stream) override {
    const Guard guard(&calls_, "the making of a graph");
    return gpu_->end_capture(stream);
  }
  [[nodiscard]] std::size_t nodes(Captured graph) const override { return gpu_->nodes(graph); }
  void replay(Stream stream, Captured graph) override {
    const Guard guard(&calls_, "the launch of a graph");
    gpu_->replay(stream, graph);
  }
  void release(Captured graph) noexcept override {
    const Guard guard(&calls_, "the release of a graph");
    gpu_->release(graph);
  }

 private:
  using Guard = CallWatch::Scope;

  std::unique_ptr<Gpu> gpu_;
  CallWatch& calls_;
};

}  // namespace

CallClock::CallClock(std::chrono::nanoseconds limit)
    : limit_(limit), every_(std::clamp<std::chrono::nanoseconds>(limit / 16, 1ms, 1s)) {}

bool CallClock::is_late(Clock::time_point now, std::uint64_t serial, bool is_called) {
  const std::chrono::nanoseconds passed = looked_ ? now - *looked_ : 0ns;
  looked_ = now;
  if (!is_called || serial != seen_) {
    seen_ = serial;
    waited_ = {};
    return false;
  }
  waited_ += std::min(passed, 2 * every_);
  return waited_ >= limit_;
}

CallWatch::CallWatch(std::chrono::nanoseconds limit, LateFunction late)
    : clock_(limit), late_(std::move(late)) {
  auto started = start_thread("call-watch", [this] { watch(); });
  if (!started) throw std::runtime_error(why_no_thread(started.error()));
  thread_ = std::move(*started);
}

CallWatch::~CallWatch() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void CallWatch::happened(const std::string& what) {
  const std::lock_guard lock(mutex_);
  happened_ = what;
}

void CallWatch::watch() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, clock_.every(), [this] { return ends_; })) {
    const std::uint64_t serial = serial_;
    const char* const call = call_;
    if (!clock_.is_late(CallClock::Clock::now(), serial, call != nullptr)) continue;
    late_(happened_.empty() ? call : happened_ + "; then " + call, clock_.waited());
    return;
  }
}

std::unique_ptr<Gpu> make_guarded_gpu(std::unique_ptr<Gpu> gpu, CallWatch& calls) {
  return std::make_unique<GuardedGpu>(std::move(gpu), calls);
}

}  // namespace ddprun::trainer::cuda
