#include "trainer/compute/memory_plan.hpp"

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/rounded_up.hpp"

namespace ddprun::trainer {
namespace {

constexpr std::size_t kAlignment = 64;

std::size_t aligned(std::size_t bytes) { return rounded_up(bytes, kAlignment); }

bool overlap(const MemoryNeed& a, const MemoryNeed& b) {
  return a.first <= b.last && b.first <= a.last;
}

/// Values that share one piece of memory, as layers that work in place make them.
class Pieces {
 public:
  int add(MemoryNeed need) {
    needs_.push_back(need);
    return static_cast<int>(needs_.size()) - 1;
  }
  void extend(int piece, int to) {
    int& last = needs_[static_cast<std::size_t>(piece)].last;
    last = std::max(last, to);
  }
  [[nodiscard]] const std::vector<MemoryNeed>& needs() const { return needs_; }

 private:
  std::vector<MemoryNeed> needs_;
};

/// Layer i runs forward in moment i and backward in moment 2 n - 1 - i.
class Planner {
 public:
  Planner(const Graph& graph, int batch, std::size_t value_bytes, bool trains,
          std::span<const OperationMemory> memories)
      : layers_(graph.layers()),
        batch_(batch),
        value_bytes_(value_bytes),
        trains_(trains),
        memories_(memories),
        uses_(gradient_uses(graph)),
        places_(layers_.size()) {}

  MemoryPlan plan() {
    for (std::size_t i = 0; i < layers_.size(); ++i) place_output(i);
    if (trains_)
      for (std::size_t i = layers_.size(); i-- > 0;) place_gradients(i);
    return finished();
  }

 private:
  struct LayerPieces {
    std::optional<int> output, gradient, saved;
  };

  [[nodiscard]] int backward_of(std::size_t layer) const {
    return static_cast<int>(2 * layers_.size() - 1 - layer);
  }
  [[nodiscard]] std::size_t bytes_of(std::size_t layer) const {
    return static_cast<std::size_t>(batch_) * layers_[layer].output.count() * value_bytes_;
  }
  [[nodiscard]] bool has_backward(std::size_t layer) const {
    const auto& uses = uses_[layer];
    return trains_ && (!layers_[layer].parameters.empty() ||
                       std::any_of(uses.begin(), uses.end(),
                                   [](GradientUse use) { return use != GradientUse::none; }));
  }
  [[nodiscard]] std::size_t readers_of(std::size_t input) const {
    std::size_t count = 0;
    for (const Layer& layer : layers_)
      count += static_cast<std::size_t>(
          std::count(layer.inputs.begin(), layer.inputs.end(), static_cast<int>(input)));
    return count;
  }
  /// Nobody but this layer's forward reads what it overwrites.
  [[nodiscard]] bool is_in_place(std::size_t layer) const {
    const Layer& one = layers_[layer];
    if (!works_in_place(one.kind)) return false;
    const auto input = static_cast<std::size_t>(one.inputs.at(0));
    return layers_[input].output == one.output && readers_of(input) == 1 &&
           !backward_reads(one.kind).inputs &&
           !(has_backward(input) && backward_reads(layers_[input].kind).output);
  }

  void place_output(std::size_t i) {
    const Layer& layer = layers_[i];
    const int now = static_cast<int>(i);
    LayerPieces& own = places_[i];
    const BackwardReads reads = backward_reads(layer.kind);
    for (const int input : layer.inputs) {
      const std::optional<int>& piece = places_[static_cast<std::size_t>(input)].output;
      if (piece) pieces_.extend(*piece, has_backward(i) && reads.inputs ? backward_of(i) : now);
    }
    if (is_in_place(i)) {
      own.output = places_[static_cast<std::size_t>(layer.inputs[0])].output;
    } else if (bytes_of(i) > 0) {
      own.output = pieces_.add({bytes_of(i), now, now});
    }
    if (own.output && has_backward(i) && reads.output) pieces_.extend(*own.output, backward_of(i));
    const std::size_t saved = memories_[i].saved;
    if (saved > 0) own.saved = pieces_.add({saved, now, has_backward(i) ? backward_of(i) : now});
  }

  /// Places the gradients of the layer's inputs, which its backward makes.
  void place_gradients(std::size_t i) {
    if (!has_backward(i)) return;
    const int now = backward_of(i);
    LayerPieces& own = places_[i];
    if (own.gradient) pieces_.extend(*own.gradient, now);
    for (std::size_t k = 0; k < layers_[i].inputs.size(); ++k) {
      const auto input = static_cast<std::size_t>(layers_[i].inputs[k]);
      if (uses_[i][k] != GradientUse::overwrite) continue;
      const bool shares = k == 0 && own.gradient && works_in_place(layers_[i].kind) &&
                          bytes_of(input) == bytes_of(i);
      places_[input].gradient =
          shares ? own.gradient : std::optional(pieces_.add({bytes_of(input), now, now}));
    }
  }

  [[nodiscard]] MemoryPlan finished() const {
    const Placement placement = place(pieces_.needs());
    const auto place_of = [&](const std::optional<int>& piece) {
      return piece ? placement.offsets[static_cast<std::size_t>(*piece)] : LayerPlaces::kNowhere;
    };
    MemoryPlan plan;
    for (const LayerPieces& one : places_)
      plan.layers.push_back({place_of(one.output), place_of(one.gradient), place_of(one.saved)});
    plan.workspace = placement.bytes;
    std::size_t most = 0;
    for (const OperationMemory& memory : memories_) most = std::max(most, memory.workspace);
    plan.bytes = plan.workspace + aligned(most);
    return plan;
  }

  const std::vector<Layer>& layers_;
  int batch_;
  std::size_t value_bytes_;
  bool trains_;
  std::span<const OperationMemory> memories_;
  std::vector<std::vector<GradientUse>> uses_;
  std::vector<LayerPieces> places_;
  Pieces pieces_;
};

}  // namespace

Placement place(std::span<const MemoryNeed> needs) {
  std::vector<std::size_t> order(needs.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return needs[a].bytes > needs[b].bytes; });
  Placement placement;
  placement.offsets.resize(needs.size());
  std::vector<std::size_t> placed;  // by rising offset
  for (const std::size_t one : order) {
    const std::size_t bytes = aligned(needs[one].bytes);
    std::size_t at = 0;
    for (const std::size_t other : placed) {
      if (!overlap(needs[one], needs[other])) continue;
      const std::size_t begin = placement.offsets[other];
      if (at + bytes <= begin) break;
      at = std::max(at, begin + aligned(needs[other].bytes));
    }
    placement.offsets[one] = at;
    placement.bytes = std::max(placement.bytes, at + bytes);
    const auto behind = std::find_if(placed.begin(), placed.end(), [&](std::size_t other) {
      return placement.offsets[other] > at;
    });
    placed.insert(behind, one);
  }
  return placement;
}

std::vector<std::vector<GradientUse>> gradient_uses(const Graph& graph) {
  const std::vector<Layer>& layers = graph.layers();
  std::vector<bool> trains(layers.size(), false);  // parameters lie in the layer or before it
  for (std::size_t i = 0; i < layers.size(); ++i) {
    trains[i] = !layers[i].parameters.empty() ||
                std::any_of(layers[i].inputs.begin(), layers[i].inputs.end(),
                            [&](int input) { return trains[static_cast<std::size_t>(input)]; });
  }
  std::vector<std::vector<GradientUse>> uses(layers.size());
  std::vector<bool> given(layers.size(), false);
  for (std::size_t i = layers.size(); i-- > 0;) {
    for (const int input : layers[i].inputs) {
      const auto from = static_cast<std::size_t>(input);
      GradientUse use = GradientUse::none;
      if (trains[i] && trains[from])
        use = given[from] ? GradientUse::accumulate : GradientUse::overwrite;
      if (use != GradientUse::none) given[from] = true;
      uses[i].push_back(use);
    }
  }
  return uses;
}

MemoryPlan plan_memory(const Graph& graph, int batch, std::size_t value_bytes, bool trains,
                       std::span<const OperationMemory> memories) {
  return Planner(graph, batch, value_bytes, trains, memories).plan();
}

}  // namespace ddprun::trainer
