// A GPU that measures what its compute stream does, by events with times around each piece of work
// that it is given.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "bench/gpu/step_times.hpp"
#include "trainer/cuda/gpu.hpp"
#include "trainer/run/plan/gpus.hpp"

namespace ddprun::bench {

namespace cuda = trainer::cuda;

class MeasuredGpu final : public cuda::Gpu {
 public:
  /// `times` outlives it, and is whole once it is gone.
  MeasuredGpu(std::unique_ptr<cuda::Gpu> gpu, StepTimes& times)
      : gpu_(std::move(gpu)), times_(times) {}
  ~MeasuredGpu() override;

  [[nodiscard]] cuda::GpuFacts facts() const override { return gpu_->facts(); }
  [[nodiscard]] std::size_t free_memory() override { return gpu_->free_memory(); }
  std::byte* allocate(std::size_t bytes) override;
  void release(std::byte* memory) override;
  std::byte* allocate_pinned(std::size_t bytes) override { return gpu_->allocate_pinned(bytes); }
  void release_pinned(std::byte* memory) override { gpu_->release_pinned(memory); }
  void copy_in(cuda::Stream stream, const std::byte* pinned, void* to, std::size_t bytes) override;
  void copy_out(cuda::Stream stream, const void* from, std::byte* pinned,
                std::size_t bytes) override;
  void copy(cuda::Stream stream, const void* from, void* to, std::size_t bytes) override;
  void clear(cuda::Stream stream, void* memory, std::size_t bytes) override;

  cuda::Event make_event() override { return gpu_->make_event(); }
  cuda::Event make_timed_event() override { return gpu_->make_timed_event(); }
  void record(cuda::Event event, cuda::Stream stream) override { gpu_->record(event, stream); }
  void wait(cuda::Stream stream, cuda::Event event) override { gpu_->wait(stream, event); }
  [[nodiscard]] bool has_come(cuda::Event event) override { return gpu_->has_come(event); }
  [[nodiscard]] double seconds_between(cuda::Event first, cuda::Event last) override {
    return gpu_->seconds_between(first, last);
  }
  void synchronize(cuda::Event event) override { gpu_->synchronize(event); }
  void synchronize(cuda::Stream stream) override { gpu_->synchronize(stream); }
  void set_watch(cuda::WatchFunction watch) override { gpu_->set_watch(std::move(watch)); }
  [[nodiscard]] void* native(cuda::Stream stream) override { return gpu_->native(stream); }

  void launch(cuda::Stream stream, const cuda::Launch& launch) override;
  void multiply(cuda::Stream stream, const cuda::MatrixProduct& product) override;
  [[nodiscard]] std::size_t workspace_bytes(cuda::ConvolutionPass pass,
                                            const cuda::ConvolutionShape& shape) override {
    return gpu_->workspace_bytes(pass, shape);
  }
  void convolve(cuda::Stream stream, const cuda::ConvolutionCall& call) override;

  void begin_capture(cuda::Stream stream) override;
  cuda::Captured end_capture(cuda::Stream stream) override;
  [[nodiscard]] std::size_t nodes(cuda::Captured graph) const override {
    return gpu_->nodes(graph);
  }
  void replay(cuda::Stream stream, cuda::Captured graph) override;
  void release(cuda::Captured graph) noexcept override { gpu_->release(graph); }

 private:
  /// What is known of a piece before it is done.
  struct Piece {
    std::uint64_t bytes = 0;  ///< that kernels of an update read and write
    bool updates = false;
    bool ends_step = false;
    bool is_other = false;
  };
  struct Span {
    cuda::Event begin, end;
    Piece piece;
  };

  template <class Call>
  void measure(cuda::Stream stream, const Piece& piece, const Call& call);
  [[nodiscard]] Piece piece_of(const cuda::Launch& launch) const;
  [[nodiscard]] std::uint64_t bytes_at(const void* memory) const;
  void collect_done();
  void collect_oldest();
  cuda::Event take_event();

  std::unique_ptr<cuda::Gpu> gpu_;
  StepTimes& times_;
  std::map<const std::byte*, std::size_t> allocated_;
  std::optional<Piece> captured_;  ///< while a graph is
  std::vector<Piece> graphs_;      ///< by Captured
  std::deque<Span> spans_;         ///< the oldest first
  std::optional<cuda::Event> last_end_;
  std::vector<cuda::Event> unused_;
};

/// Those of `gpus`, measured.
class MeasuredGpus final : public trainer::GpuSource {
 public:
  MeasuredGpus(trainer::GpuSource& gpus, std::uint64_t warm_up) : gpus_(gpus), times_(warm_up) {}
  trainer::FoundGpu find(const trainer::GpuQuestion& question) override;
  std::string versions() override { return gpus_.versions(); }
  [[nodiscard]] const StepTimes& times() const { return times_; }

 private:
  trainer::GpuSource& gpus_;
  StepTimes times_;
};

}  // namespace ddprun::bench
