#include "trainer/host/host_device.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <variant>
#include <vector>

#include "base/overloaded.hpp"
#include "trainer/compute/buffer.hpp"
#include "trainer/compute/device.hpp"
#include "trainer/host/float_sum.hpp"
#include "trainer/host/host_loops.hpp"
#include "trainer/host/operations.hpp"
#include "trainer/host/thread_count.hpp"

namespace ddprun::trainer {
namespace {

/// Layers that only pick or move values: what was representable stays so.
bool is_exact(const LayerKind& kind) {
  return std::holds_alternative<layer::Relu>(kind) ||
         std::holds_alternative<layer::Flatten>(kind) ||
         std::holds_alternative<layer::Concat>(kind) ||
         std::holds_alternative<layer::FirstToken>(kind) ||
         std::holds_alternative<layer::MaxPool>(kind);
}

/// Whether the operation works on real bf16. The others get copies that are floats (converted()):
/// slower, but right.
bool knows_bf16(const LayerKind& kind) {
  if (const auto* const pool = std::get_if<layer::MaxPool>(&kind))
    return pool->window.size <= pool->window.stride;  // else gradients add up, which wants floats
  // Attention's products are oneDNN's sgemm.
  return !std::holds_alternative<layer::AdaptiveAveragePool>(kind) &&
         !std::holds_alternative<layer::Attention>(kind);
}

std::unique_ptr<Operation> make_plain(const LayerKind& kind, const OperationShape& shape) {
  return std::visit(
      Overloaded{
          [](const layer::Images&) { return std::unique_ptr<Operation>(); },
          [&](const layer::Convolution& one) { return make_convolution(shape, one.window); },
          [&](const layer::TransposedConvolution& one) {
            return make_transposed_convolution(shape, one);
          },
          [&](const layer::Linear&) { return make_linear(shape); },
          [&](const layer::Relu&) { return make_relu(shape); },
          [&](const layer::MaxPool& one) { return make_max_pool(shape, one.window); },
          [&](const layer::AdaptiveAveragePool&) { return make_adaptive_average_pool(shape); },
          [&](const layer::BatchNorm& one) { return make_batch_norm(shape, one.relu); },
          [&](const layer::Dropout& one) { return make_dropout(shape, one); },
          [&](const layer::Flatten&) { return make_flatten(shape); },
          [&](const layer::Add&) { return make_add(shape); },
          [&](const layer::Upsample&) { return make_upsample(shape); },
          [&](const layer::Concat&) { return make_concat(shape); },
          [](const layer::Tokens&) { return std::unique_ptr<Operation>(); },
          [&](const layer::Embedding&) { return make_embedding(shape); },
          [&](const layer::LayerNorm&) { return make_layer_norm(shape); },
          [&](const layer::Gelu&) { return make_gelu(shape); },
          [&](const layer::Tanh&) { return make_tanh(shape); },
          [&](const layer::AttentionProjection&) { return make_attention_projection(shape); },
          [&](const layer::Attention& one) { return make_attention(shape, one); },
          [&](const layer::FirstToken&) { return make_first_token(shape); },
          [&](const layer::SoftmaxCrossEntropy&) { return make_softmax_cross_entropy(shape); },
          [&](const layer::BinaryCrossEntropy& one) {
            return make_binary_cross_entropy(shape, one.positive_weight);
          },
      },
      kind);
}

class HostUpdate final : public ArenaUpdate {
 public:
  HostUpdate(const OptimizerConfig& config, std::span<const Parameter> parameters, int shards)
      : config_(config),
        parameters_(parameters.begin(), parameters.end()),
        statistic_share_(1.0F / static_cast<float>(shards)) {
    if (config_.clip_norm <= 0) return;
    norm_blocks_ = norm_blocks(parameters_);
    sums_.resize(std::max(norm_blocks_.size() * kNormLanes, std::size_t{1}));
  }

  void measure_norm(const float* gradients, StepState& state) override {
    for (std::size_t i = 0; i < norm_blocks_.size(); ++i) {
      const NormBlock& block = norm_blocks_[i];
      sum_squares_by_lane({gradients + block.begin, block.count},
                          std::span(sums_).subspan(i * kNormLanes).first<kNormLanes>());
    }
    for (std::size_t count = sums_.size(); count > 1; count = norm_runs(count))
      for (std::size_t run = 0; run < norm_runs(count); ++run)
        sums_[run] = sum_run(sums_.data(), count, run);
    set_gradient_norm(sums_.front(), state);
  }

  void run(std::size_t begin, std::size_t end, const UpdateArenas& arenas,
           const StepState& state) override {
    if (state.found_inf != 0) return;
    const UpdateScalars scalars = update_scalars(config_, state);
    for (const Parameter& parameter : parameters_) {
      const std::size_t from = std::max(begin, parameter.offset);
      const std::size_t to = std::min(end, parameter.offset + parameter.count);
      if (from >= to) continue;
      const std::span<float> values{arenas.parameters + from, to - from};
      const std::span<const float> slopes{arenas.gradients + from, to - from};
      const double decay = parameter.decay ? config_.weight_decay : 0.0;
      if (parameter.role == ParameterRole::statistic) {
        mix_statistic(values, slopes, statistic_share_);
      } else if (config_.kind == OptimizerKind::adamw) {
        adamw_range(scalars, keep_factor(scalars.learning_rate, decay), values, slopes,
                    arenas.first + from, arenas.second + from);
      } else {
        sgd_range(config_, scalars, static_cast<float>(decay), values, slopes,
                  arenas.first == nullptr ? nullptr : arenas.first + from);
      }
    }
  }

 private:
  OptimizerConfig config_;
  std::vector<Parameter> parameters_;
  float statistic_share_;
  std::vector<NormBlock> norm_blocks_;
  std::vector<double> sums_;
};

class HostDevice final : public Device {
 public:
  explicit HostDevice(Bf16 bf16)
      : stores_bf16_(bf16 == Bf16::stored_if_possible && has_bf16_instructions()) {}

  [[nodiscard]] std::string description(Precision precision) const override {
    return compute_description(storage(precision));
  }

  [[nodiscard]] Storage storage(Precision precision) const override {
    switch (precision) {
      case Precision::fp32:
      case Precision::tf32:  // refused before (choose_device)
        break;
      case Precision::bf16:
        return stores_bf16_ ? Storage::bf16 : Storage::rounded_to_bf16;
      case Precision::fp16:
        return Storage::rounded_to_fp16;
    }
    return Storage::fp32;
  }

  void use_threads(int threads) override { set_thread_count(threads); }

  DeviceMemory allocate(std::size_t bytes) override {
    if (bytes == 0) return {};
    std::byte* const data = allocate_memory(bytes);
    std::memset(data, 0, bytes);
    count_.add(bytes);
    return {data, bytes, [this, bytes](std::byte* memory) {
              count_.remove(bytes);
              free_memory(memory);
            }};
  }
  [[nodiscard]] std::size_t peak_bytes() const override { return count_.peak(); }
  void copy_in(std::span<const std::byte> host, void* to) override {
    copy(host.data(), to, host.size());
  }
  void copy_out(const void* from, std::span<std::byte> host) override {
    copy(from, host.data(), host.size());
  }
  void copy_in(Storage storage, std::span<const float> host, void* to) override {
    store(storage, host, to);
  }
  void copy(std::span<const std::byte> from, std::byte* to) override {
    std::copy(from.begin(), from.end(), to);
  }
  void clear(std::span<std::byte> memory) override {
    if (!memory.empty()) std::memset(memory.data(), 0, memory.size());
  }

  std::unique_ptr<Operation> make_operation(const Layer& layer,
                                            const OperationShape& shape) override {
    std::unique_ptr<Operation> operation = make_stored(layer, shape);
    const bool accumulates =
        std::any_of(shape.inputs.begin(), shape.inputs.end(),
                    [](const auto& input) { return input.gradient == GradientUse::accumulate; });
    if (accumulates) operation = accumulating(std::move(operation), shape);
    if (is_rounded(shape.storage) && (accumulates || !is_exact(layer.kind)))
      operation = rounded(std::move(operation), shape);
    return operation;
  }
  void store(Storage storage, std::span<const float> from, void* to) override {
    if (storage == Storage::bf16) {
      store_bfloat16(from, static_cast<BFloat16*>(to));
    } else {
      round_to_storage(storage, from, static_cast<float*>(to));
    }
  }

  void add_into(std::span<float> sum, const float* addend) override {
    trainer::add_into(sum.data(), addend, sum.size());
  }
  void find_non_finite(std::span<const float> values, StepState& state) override {
    if (any_non_finite(values)) state.found_inf = 1;
  }
  std::unique_ptr<ArenaUpdate> make_update(const OptimizerConfig& config,
                                           std::span<const Parameter> parameters,
                                           int shards) override {
    return std::make_unique<HostUpdate>(config, parameters, shards);
  }
  void finish_step(const ScalerConfig& config, StepState& state) override {
    trainer::finish_step(config, state);
  }
  std::uint64_t hash(std::span<const float> values) override { return hash_floats(values); }

 private:
  static bool is_rounded(Storage storage) {
    return storage == Storage::rounded_to_bf16 || storage == Storage::rounded_to_fp16;
  }
  static std::unique_ptr<Operation> make_stored(const Layer& layer, const OperationShape& shape) {
    if (shape.storage != Storage::bf16 || knows_bf16(layer.kind))
      return make_plain(layer.kind, shape);
    OperationShape of_floats = shape;
    of_floats.storage = Storage::fp32;
    return converted(make_plain(layer.kind, of_floats), layer.kind, shape);
  }
  static void copy(const void* from, void* to, std::size_t bytes) {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }

  bool stores_bf16_;
  MemoryCount count_;
};

}  // namespace

std::unique_ptr<Device> make_host_device(Bf16 bf16) { return std::make_unique<HostDevice>(bf16); }

}  // namespace ddprun::trainer
