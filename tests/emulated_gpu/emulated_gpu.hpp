// A GPU in software: the kernels of trainer/cuda, compiled for the CPU, with their real launches.
// What a GPU leaves open is decided by a seed: in which order streams go on, and how late. So a
// missing event shows as wrong bits.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "tests/emulated_gpu/emulated_memory.hpp"
#include "tests/emulated_gpu/native_stream.hpp"
#include "trainer/cuda/gpu.hpp"
#include "trainer/cuda/watch.hpp"

namespace ddprun::trainer::test {

struct EmulatedGpuSettings {
  std::uint64_t seed = 0;  ///< of the schedule
  std::size_t memory = std::size_t{1} << 32;
  std::size_t used = 0;                  ///< of it, by other programs
  std::optional<std::size_t> free = {};  ///< what free_memory() gives; none: what is free
  int number = 0;  ///< on its machine: GPUs of different numbers have different uuids
  std::uint64_t forgotten_wait = 0;  ///< the wait of this number is left out: a planted bug
  std::uint64_t fails_at = 0;   ///< work of this number, counted from 1, and all after it fails
  std::uint64_t hangs_at = 0;   ///< work of this number is never done
  std::uint64_t blocks_at = 0;  ///< the call that gives work of this number never returns
  bool captures = true;         ///< false: no capture of a graph can begin
  bool tf32 = false;            ///< products and convolutions round floats to tf32
};

class EmulatedGpu final : public cuda::Gpu {
 public:
  explicit EmulatedGpu(EmulatedGpuSettings settings = {});
  ~EmulatedGpu() override = default;

  [[nodiscard]] cuda::GpuFacts facts() const override;
  [[nodiscard]] std::size_t free_memory() override {
    return settings_.free.value_or(settings_.memory - settings_.used - memory_.used());
  }
  std::byte* allocate(std::size_t bytes) override;
  void release(std::byte* memory) override;
  std::byte* allocate_pinned(std::size_t bytes) override;
  void release_pinned(std::byte* memory) override;
  void copy_in(cuda::Stream stream, const std::byte* pinned, void* to, std::size_t bytes) override;
  void copy_out(cuda::Stream stream, const void* from, std::byte* pinned,
                std::size_t bytes) override;
  void copy(cuda::Stream stream, const void* from, void* to, std::size_t bytes) override;
  void clear(cuda::Stream stream, void* memory, std::size_t bytes) override;

  cuda::Event make_event() override;
  /// All are.
  cuda::Event make_timed_event() override { return make_event(); }
  [[nodiscard]] double seconds_between(cuda::Event first, cuda::Event last) override;
  void record(cuda::Event event, cuda::Stream stream) override;
  void wait(cuda::Stream stream, cuda::Event event) override;
  [[nodiscard]] bool has_come(cuda::Event event) override;
  void synchronize(cuda::Event event) override;
  void synchronize(cuda::Stream stream) override;
  void set_watch(cuda::WatchFunction watch) override { watch_.set(std::move(watch)); }
  /// A NativeStream.
  [[nodiscard]] void* native(cuda::Stream stream) override;

  void launch(cuda::Stream stream, const cuda::Launch& launch) override;
  void multiply(cuda::Stream stream, const cuda::MatrixProduct& product) override;
  [[nodiscard]] std::size_t workspace_bytes(cuda::ConvolutionPass pass,
                                            const cuda::ConvolutionShape& shape) override;
  void convolve(cuda::Stream stream, const cuda::ConvolutionCall& call) override;

  void begin_capture(cuda::Stream stream) override;
  cuda::Captured end_capture(cuda::Stream stream) override;
  [[nodiscard]] std::size_t nodes(cuda::Captured graph) const override;
  void replay(cuda::Stream stream, cuda::Captured graph) override;
  void release(cuda::Captured graph) noexcept override;

  /// Launches and library calls that the GPU has done.
  [[nodiscard]] std::uint64_t work_done() const { return work_done_; }
  /// How often the host has given it work: a whole graph is one call.
  [[nodiscard]] std::uint64_t calls() const { return calls_; }
  /// What a stream has been given and not done.
  [[nodiscard]] std::size_t pending(cuda::Stream stream) const;
  /// Captured and not released.
  [[nodiscard]] std::size_t graphs() const;
  /// In all of these together.
  [[nodiscard]] std::size_t graph_nodes() const;
  /// Forgets all work and what its watch has thrown, as a driver does that resets it.
  void reset();
  /// How often the host has asked to wait for it.
  [[nodiscard]] std::uint64_t host_waits() const { return host_waits_; }
  [[nodiscard]] std::size_t memory_used() const { return memory_.used(); }

 private:
  /// One thing that a stream does, or waits for.
  struct Work {
    enum class Kind { run, attempt, record, wait } kind = Kind::run;
    std::function<void()> run;
    std::function<bool()> attempt;  // until it returns true, what follows waits
    std::size_t event = 0;
    std::uint64_t ticket = 0;  // of the event: which recording of it
  };
  struct EventState {
    std::uint64_t recorded = 0;  // as the host asked for
    std::uint64_t come = 0;
    std::chrono::steady_clock::time_point came_at;
  };
  using Queues = std::array<std::deque<Work>, cuda::kStreams>;
  using Captures = std::array<bool, cuda::kStreams>;
  struct Graph {
    Queues queues;
    std::uint64_t works = 0;  // launches and library calls
  };

  void add(cuda::Stream stream, Work work);
  void run(cuda::Stream stream, std::function<void()> work);
  std::size_t choose(const std::vector<std::size_t>& ready);
  bool run_some(Queues& queues);
  void run_until(const std::function<bool()>& done, const char* call);
  void refuse_in_capture(const char* call);
  [[nodiscard]] bool is_blocked(const Work& work) const;
  std::uint64_t draw();
  void begin_work(cuda::Stream stream, const std::string& name);
  void count_works(cuda::Stream stream, const std::string& name, std::uint64_t count);

  void wait_a_little(std::chrono::steady_clock::time_point began);
  [[nodiscard]] bool finish_all();
  [[nodiscard]] bool may_free() noexcept;
  void free_blocking();

  const EmulatedGpuSettings settings_;
  std::uint64_t random_;
  bool is_partial_ = false;
  std::size_t favourite_ = 0;
  const std::uint64_t forgotten_wait_;
  std::uint64_t waits_ = 0;
  std::uint64_t works_ = 0;
  std::uint64_t calls_ = 0;
  std::uint64_t host_waits_ = 0;
  EmulatedMemory memory_;
  std::array<NativeStream, cuda::kStreams> native_;
  cuda::Watch watch_;
  bool attempted_in_vain_ = false;
  std::map<const std::byte*, std::unique_ptr<std::byte[]>> pinned_;
  Queues queues_;
  std::vector<EventState> events_;
  bool capturing_ = false;
  bool is_capture_invalid_ = false;
  Captures captures_{};  // the streams that take part
  std::map<std::size_t, std::uint64_t> recorded_in_capture_;
  Queues captured_;
  std::uint64_t captured_works_ = 0;
  std::vector<std::shared_ptr<Graph>> graphs_;
  std::uint64_t work_done_ = 0;
};

}  // namespace ddprun::trainer::test
