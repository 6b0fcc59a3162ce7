// Runs a graph on a device: forward in order, backward in reverse, in one piece of memory.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "trainer/compute/batch.hpp"
#include "trainer/compute/captured_work.hpp"
#include "trainer/compute/device.hpp"
#include "trainer/model/graph.hpp"

namespace ddprun::trainer {

/// A model's parameters, two arenas with the same offsets, in the device's memory.
struct Weights {
  const float* master = nullptr;
  const void* stored = nullptr;  ///< the same in the storage type; fp32: the master
  auto operator<=>(const Weights&) const = default;
};

/// One of the parts of a global batch. What is random in it depends on this alone.
struct ShardId {
  std::uint64_t seed = 0;
  const StepState* state = nullptr;  ///< in the device's memory; the step is read from it there
  int shard = 0;
  int shards = 1;  ///< V
};

/// Computes one shard at a time, for one thread at a time. A pass over a batch is forward(), loss()
/// and, in training, backward(). Of each number of samples, and of texts of each width, it prepares
/// the operations once; there are at most positions / kLengthUnit widths.
class GraphExecutor {
 public:
  struct Settings {
    int batch = 1;  ///< the most samples that are asked for
    Precision precision = Precision::fp32;
    int threads = 1;  ///< of the CPU, where that is the device
    /// Captures compute(), and evaluate() with counters; outlives the executor; null: as one that
    /// is off.
    Capture* capture = nullptr;
    std::vector<std::size_t> cuts{};  ///< see compute()
  };
  /// So many kinds of shards and evaluations are captured: numbers of samples, widths, arenas of
  /// gradients, and whether they are added to.
  static constexpr std::size_t kRepeatedMax = 64;

  /// Both outlive the executor.
  GraphExecutor(const Graph& graph, Device& device, Settings settings);
  ~GraphExecutor();
  GraphExecutor(const GraphExecutor&) = delete;
  GraphExecutor& operator=(const GraphExecutor&) = delete;

  /// begin() and forward().
  void train(const Batch& batch, const Weights& weights, const ShardId& shard);
  /// Gives the device the batch, which has 1 to settings.batch samples. Throws DataError if a label
  /// is not one of the model's classes, a mask has values beyond 0 and 1, or a token is not in the
  /// vocabulary; std::logic_error if it has no samples, or more. `weights` must stay as they are
  /// until the end of the pass.
  void begin(const Batch& batch, const Weights& weights, const ShardId& shard);
  /// Computes the logits of all of the batch.
  void forward();
  /// Forward only, always as a full batch: what is missing is computed from zeros and does not
  /// count. So a sample's loss does not depend on how many others there are. `turn`: the number of
  /// the batch in its set; Counters::first_not_finite is then the sample's place in the set.
  void evaluate(const Batch& batch, const Weights& weights, int turn = 0);
  /// Does evaluate() and loss(), captured in one piece where capture is on.
  void evaluate(const Batch& batch, const Weights& weights, int turn, Counters& counters);

  /// Adds what the samples of the pass came to.
  void loss(Counters& counters);
  /// What the loss is computed of, sample after sample: at most those of the pass, to the host's
  /// memory. Before backward(). Waits for the device.
  void copy_logits(std::span<float> to) const;

  /// Computes the gradient of the mean loss of the batch times the state's loss scale / V.
  /// Overwrites the arena or adds to it, and calls `final_up_to(end)` with rising element offsets
  /// as they become final, at last with the size. Padding between parameters gets zeros, or stays.
  void backward(const GradientArena& arena, const std::function<void(std::size_t)>& final_up_to);

  // Where the loss is computed elsewhere (GatheredLoss): in the place of loss() and backward().

  /// The logits of all samples of the pass, as the device stores them, in its memory. Before
  /// backward_from_logits().
  [[nodiscard]] std::span<const std::byte> logits() const;
  /// The place for their gradient, in the device's memory, of the same size.
  [[nodiscard]] std::span<std::byte> logits_gradient();
  /// As backward(), from what was written to logits_gradient().
  void backward_from_logits(const GradientArena& arena,
                            const std::function<void(std::size_t)>& final_up_to);

  /// train(), loss() and backward() of one shard, in this order; `begin_gradients` gives the arena
  /// of its gradients. Where capture is on, what it asks the device for is captured in pieces, and
  /// `final_up_to` is called behind each. These end where the final gradients reach one of
  /// Settings::cuts (rising), and at the end.
  void compute(const Batch& batch, const Weights& weights, const ShardId& shard, Counters& counters,
               const std::function<GradientArena()>& begin_gradients,
               const std::function<void(std::size_t)>& final_up_to);

  /// Bytes of the device's memory that bytes() will come to, and of labels, masks and texts, if
  /// shards of `train_batch` samples are trained and settings.batch evaluated, texts with `width`
  /// tokens (images: 0). Makes the operations, but allocates nothing.
  std::size_t bytes_needed(int train_batch, int width);
  /// Bytes of the device's memory that hold the tensors of its passes; 0 before the first one.
  [[nodiscard]] std::size_t bytes() const { return memory_.bytes(); }

 private:
  struct Prepared;
  struct Key {
    int batch = 0;
    int width = 0;  // of texts; of images 0
    bool trains = false;
    auto operator<=>(const Key&) const = default;
  };

  /// Shards with the same key ask the device for the same. The executor's own addresses are left
  /// out: when they change, all is forgotten.
  struct RepeatedKey {
    Key pass;
    Weights weights;
    const void* gradients = nullptr;
    bool accumulates = false;
    const void* counters = nullptr;
    const void* state = nullptr;
    std::uint64_t seed = 0;
    int shards = 1;
    auto operator<=>(const RepeatedKey&) const = default;
  };
  struct RepeatedPass;

  [[nodiscard]] Key key_of(const Batch& batch) const;
  Prepared& prepared(Key key);
  RepeatedPass& repeated(const RepeatedKey& key);
  void begin_pass(const Batch& batch, const Weights& weights, Key key, int shard);
  void begin_evaluation(const Batch& batch, const Weights& weights, int turn);
  [[nodiscard]] bool captures();
  /// Goes back through the layers from the last one before `end` down to `first`.
  void backward(std::size_t first, std::size_t end, const GradientArena& arena,
                const std::function<void(std::size_t)>& final_up_to);
  void feed(const Batch& batch, int shard);
  void clear_padding(const Layer& layer, std::size_t end, std::span<float> gradients);
  [[nodiscard]] const Parameter& parameter(int index) const;
  void point_to(std::size_t layer, Prepared& prepared);
  [[nodiscard]] std::byte* at(std::size_t offset) const;
  [[nodiscard]] std::span<std::byte> of_logits(std::size_t offset) const;

  const Graph& graph_;
  Device& device_;
  Settings settings_;
  Storage storage_;
  // Before the memory, which waits for the device when it is freed: by then none is under way.
  std::map<RepeatedKey, std::unique_ptr<RepeatedPass>> repeated_;
  std::unique_ptr<RepeatedPass> further_;  // beyond kRepeatedMax
  DeviceMemory memory_;                    // of the largest plan; the others are views of it
  PassInputs inputs_;
  std::map<Key, std::unique_ptr<Prepared>> prepared_;
  Prepared* current_ = nullptr;  // of the pass under way
  Weights weights_;
  Pass pass_;
};

}  // namespace ddprun::trainer
