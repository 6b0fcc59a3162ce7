#include "trainer/cuda/cuda_device.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "trainer/compute/buffer.hpp"
#include "trainer/compute/device.hpp"
#include "trainer/cuda/input_buffers.hpp"
#include "trainer/cuda/kernels/arena_kernels.hpp"
#include "trainer/cuda/launch.hpp"
#include "trainer/cuda/operations.hpp"

namespace ddprun::trainer::cuda {
namespace {

class CudaUpdate final : public ArenaUpdate {
 public:
  CudaUpdate(Gpu& gpu, Device& device, const OptimizerConfig& config,
             std::span<const Parameter> parameters, int shards)
      : gpu_(gpu),
        device_(device),
        config_(config),
        parameters_(parameters.begin(), parameters.end()),
        statistic_share_(1.0F / static_cast<float>(shards)) {
    if (config_.clip_norm <= 0) return;
    const std::vector<NormBlock> blocks = norm_blocks(parameters_);
    norm_blocks_ = device_.allocate(blocks.size() * sizeof(NormBlock));
    device_.copy_in(std::as_bytes(std::span(blocks)), norm_blocks_.data());
    const std::size_t sums = blocks.size() * kNormLanes;
    sums_ = device_.allocate(sums * sizeof(double));
    run_sums_ = device_.allocate(norm_runs(sums) * sizeof(double));
  }

  void measure_norm(const float* gradients, StepState& state) override {
    double* from = sums_.as<double>().data();
    double* to = run_sums_.as<double>().data();
    std::size_t count = sums_.as<double>().size();
    launch_over(gpu_, count,
                SumSquares{gradients, norm_blocks_.as<NormBlock>().data(), from, count});
    for (; count > 1; count = norm_runs(count)) {
      launch_over(gpu_, norm_runs(count), SumRuns{from, to, count});
      std::swap(from, to);
    }
    launch(gpu_, 1, SetGradientNorm{from, &state});
  }

  void run(std::size_t begin, std::size_t end, const UpdateArenas& arenas,
           const StepState& state) override {
    const Pieces& pieces = pieces_of(begin, end);
    if (pieces.count == 0) return;
    launch(gpu_, static_cast<unsigned>(std::min(pieces.count, kBlocksMax)),
           UpdateArena{.config = config_,
                       .state = &state,
                       .pieces = pieces.memory.as<UpdatePiece>().data(),
                       .piece_count = pieces.count,
                       .parameters = arenas.parameters,
                       .gradients = arenas.gradients,
                       .first = arenas.first,
                       .second = arenas.second,
                       .statistic_share = statistic_share_});
  }

 private:
  struct Pieces {
    DeviceMemory memory;
    std::size_t count = 0;
  };

  /// Made once for each range.
  const Pieces& pieces_of(std::size_t begin, std::size_t end) {
    const auto [found, is_new] = pieces_.try_emplace({begin, end});
    if (is_new) {
      const auto pieces = update_pieces(parameters_, config_.weight_decay, begin, end);
      found->second = {device_.allocate(pieces.size() * sizeof(UpdatePiece)), pieces.size()};
      device_.copy_in(std::as_bytes(std::span(pieces)), found->second.memory.data());
    }
    return found->second;
  }

  Gpu& gpu_;
  Device& device_;
  OptimizerConfig config_;
  std::vector<Parameter> parameters_;
  float statistic_share_;
  std::map<std::pair<std::size_t, std::size_t>, Pieces> pieces_;
  DeviceMemory norm_blocks_;
  DeviceMemory sums_;      // kNormLanes of each block
  DeviceMemory run_sums_;  // of these
};

class CudaGraph final : public CapturedWork {
 public:
  CudaGraph(Gpu& gpu, Captured graph) : gpu_(gpu), graph_(graph) {}
  ~CudaGraph() override { gpu_.release(graph_); }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;
  void replay() override { gpu_.replay(Stream::compute, graph_); }
  [[nodiscard]] std::size_t nodes() const override { return gpu_.nodes(graph_); }

 private:
  Gpu& gpu_;
  Captured graph_;
};

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(Gpu& gpu) : gpu_(gpu), staging_(gpu), inputs_(gpu) {}

  [[nodiscard]] std::string description(Precision precision) const override {
    const GpuFacts facts = gpu_.facts();
    return facts.name + ", " + facts.libraries + precision_text(precision);
  }
  [[nodiscard]] Storage storage(Precision precision) const override {
    switch (precision) {
      case Precision::fp32:
      case Precision::tf32:
        break;
      case Precision::bf16:
        return Storage::bf16;
      case Precision::fp16:
        return Storage::fp16;
    }
    return Storage::fp32;
  }
  void use_threads(int /*threads*/) override {}

  DeviceMemory allocate(std::size_t bytes) override {
    DeviceMemory memory = allocate_samples(bytes);
    clear({memory.data(), bytes});
    return memory;
  }
  [[nodiscard]] std::size_t peak_bytes() const override {
    return count_.peak() + inputs_.bytes();  // which only grow
  }
  void copy_in(std::span<const std::byte> host, void* to) override {
    refuse_in_capture("a copy from the host's memory was asked for");
    staging_.copy_in(Stream::compute, host, to);
  }
  void copy_out(const void* from, std::span<std::byte> host) override {
    refuse_in_capture("a copy to the host's memory was asked for");
    staging_.copy_out(Stream::compute, from, host);
  }
  void copy_in(Storage storage, std::span<const float> host, void* to) override {
    if (storage == Storage::fp32) {
      copy_in(std::as_bytes(host), to);
      return;
    }
    if (floats_.bytes() < host.size_bytes()) floats_ = allocate(host.size_bytes());
    copy_in(std::as_bytes(host), floats_.data());
    store(storage, floats_.as<float>().first(host.size()), to);
  }
  void copy(std::span<const std::byte> from, std::byte* to) override {
    if (!from.empty()) gpu_.copy(Stream::compute, from.data(), to, from.size());
  }
  void clear(std::span<std::byte> memory) override {
    if (!memory.empty()) gpu_.clear(Stream::compute, memory.data(), memory.size());
  }
  void feed(const Inputs& inputs) override {
    refuse_in_capture("inputs were fed");
    inputs_.feed(inputs);
  }
  /// Not cleared: that would be work of another stream than the copies.
  DeviceMemory allocate_samples(std::size_t bytes) override {
    if (bytes == 0) return {};
    refuse_in_capture("memory was asked for");
    std::byte* const data = gpu_.allocate(bytes);
    count_.add(bytes);
    return {data, bytes, [this, bytes](std::byte* memory) {
              count_.remove(bytes);
              gpu_.release(memory);
            }};
  }
  void copy_samples_in(std::span<const std::byte> host, std::byte* to) override {
    refuse_in_capture("a copy from the host's memory was asked for");
    inputs_.copy_samples_in(host, to);
  }

  [[nodiscard]] bool accumulates_gradients() const override { return true; }
  std::unique_ptr<Operation> make_operation(const Layer& layer,
                                            const OperationShape& shape) override {
    return cuda::make_operation(gpu_, layer, shape);
  }
  void store(Storage storage, std::span<const float> from, void* to) override {
    const std::size_t count = from.size();
    if (storage == Storage::bf16) {
      launch_over(gpu_, count,
                  StoreFloats<BFloat16>{from.data(), static_cast<BFloat16*>(to), count});
    } else if (storage == Storage::fp16) {
      launch_over(gpu_, count, StoreFloats<Half>{from.data(), static_cast<Half*>(to), count});
    } else {
      gpu_.copy(Stream::compute, from.data(), to, from.size_bytes());
    }
  }

  void add_into(std::span<float> sum, const float* addend) override {
    launch_over(gpu_, sum.size(), AddInto{sum.data(), addend, sum.size()});
  }
  void find_non_finite(std::span<const float> values, StepState& state) override {
    launch_over(gpu_, values.size(), FindNonFinite{values.data(), &state, values.size()});
  }
  std::unique_ptr<ArenaUpdate> make_update(const OptimizerConfig& config,
                                           std::span<const Parameter> parameters,
                                           int shards) override {
    return std::make_unique<CudaUpdate>(gpu_, *this, config, parameters, shards);
  }
  void finish_step(const ScalerConfig& config, StepState& state) override {
    launch(gpu_, 1, FinishStep{config, &state});
  }
  std::uint64_t hash(std::span<const float> values) override {
    std::vector<float> host(values.size());
    copy_out(values.data(), std::as_writable_bytes(std::span(host)));
    return hash_floats(host);
  }

  [[nodiscard]] bool can_capture() const override { return true; }
  std::unique_ptr<CapturedWork> capture(const std::function<void()>& work) override {
    gpu_.begin_capture(Stream::compute);
    captures_ = true;
    try {
      work();
    } catch (...) {
      captures_ = false;
      give_up_capture();
      throw;
    }
    captures_ = false;
    return std::make_unique<CudaGraph>(gpu_, gpu_.end_capture(Stream::compute));
  }

 private:
  /// A graph would do it again from memory that by then holds something else, and CUDA does not
  /// refuse all of it.
  void refuse_in_capture(const char* what) const {
    if (captures_) throw GpuError(std::string(what) + " while a CUDA graph was captured");
  }
  /// Until then the stream would do nothing. What was wrong with the capture is known already.
  void give_up_capture() {
    try {
      gpu_.release(gpu_.end_capture(Stream::compute));
    } catch (const GpuError&) {
    }
  }

  static std::string precision_text(Precision precision) {
    switch (precision) {
      case Precision::fp32:
        break;
      case Precision::tf32:
        return ", tf32";
      case Precision::bf16:
        return ", bf16";
      case Precision::fp16:
        return ", fp16";
    }
    return "";
  }

  Gpu& gpu_;
  MemoryCount count_;
  Staging staging_;
  InputBuffers inputs_;
  DeviceMemory floats_;  // of copy_in(), before they are stored
  bool captures_ = false;
};

constexpr std::size_t kPieceElements = 16384;

}  // namespace

std::unique_ptr<Device> make_cuda_device(Gpu& gpu) { return std::make_unique<CudaDevice>(gpu); }

std::vector<UpdatePiece> update_pieces(std::span<const Parameter> parameters, double decay,
                                       std::size_t begin, std::size_t end) {
  std::vector<UpdatePiece> pieces;
  for (const Parameter& parameter : parameters) {
    const std::size_t last = std::min(end, parameter.offset + parameter.count);
    for (std::size_t at = std::max(begin, parameter.offset); at < last; at += kPieceElements)
      pieces.push_back({.begin = at,
                        .count = static_cast<std::uint32_t>(std::min(kPieceElements, last - at)),
                        .is_statistic = parameter.role == ParameterRole::statistic,
                        .decay = parameter.decay ? decay : 0.0});
  }
  return pieces;
}

}  // namespace ddprun::trainer::cuda
