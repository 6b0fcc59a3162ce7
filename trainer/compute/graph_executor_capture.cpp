// Shards and evaluations that an executor asks a device for again and again, in pieces that can be
// captured.
#include <algorithm>

#include "trainer/compute/graph_executor_parts.hpp"

namespace ddprun::trainer {
namespace {

/// `cuts`: numbers of final gradients, rising. A piece of backward ends behind the layer with which
/// it reaches one or several of them.
struct Cuts {
  std::span<const std::size_t> left;
  /// Whether one is reached by so many final gradients; each is once.
  bool reached_by(std::size_t end) {
    const auto next = std::upper_bound(left.begin(), left.end(), end);
    const bool is_reached = next != left.begin();
    left = {next, left.end()};
    return is_reached;
  }
};

}  // namespace

void GraphExecutor::compute(const Batch& batch, const Weights& weights, const ShardId& shard,
                            Counters& counters,
                            const std::function<GradientArena()>& begin_gradients,
                            const std::function<void(std::size_t)>& final_up_to) {
  begin(batch, weights, shard);
  if (!captures()) {
    forward();
    loss(counters);
    backward(begin_gradients(), final_up_to);
    return;
  }
  const GradientArena arena = begin_gradients();
  check_arena(arena, graph_.arena_size(), device_.accumulates_gradients());
  RepeatedPass& pass = repeated({.pass = key_of(batch),
                                 .weights = weights,
                                 .gradients = arena.floats.data(),
                                 .accumulates = arena.accumulates,
                                 .counters = &counters,
                                 .state = shard.state,
                                 .seed = shard.seed,
                                 .shards = shard.shards});
  std::size_t end = current_->nodes.size();
  for (RepeatedPass::Piece& piece : pass.pieces) {
    piece.work.run(*settings_.capture, [&] {
      if (end == current_->nodes.size()) {
        forward();
        loss(counters);
      }
      backward(piece.first, end, arena, [](std::size_t) {});
    });
    end = piece.first;
    final_up_to(piece.end);
  }
}

void GraphExecutor::evaluate(const Batch& batch, const Weights& weights, int turn,
                             Counters& counters) {
  begin_evaluation(batch, weights, turn);
  const auto work = [&] {
    forward();
    loss(counters);
  };
  if (!captures()) return work();
  RepeatedKey key{.pass = key_of(batch), .weights = weights, .counters = &counters};
  key.pass.trains = false;
  repeated(key).pieces.front().work.run(*settings_.capture, work);
}

/// A failed capture has ended all of them.
bool GraphExecutor::captures() {
  if (settings_.capture != nullptr && settings_.capture->is_on()) return true;
  repeated_.clear();
  further_.reset();
  return false;
}

/// Those that were met first are kept: a run with shards of more kinds than that computes the
/// others as they come.
GraphExecutor::RepeatedPass& GraphExecutor::repeated(const RepeatedKey& key) {
  if (const auto found = repeated_.find(key); found != repeated_.end()) return *found->second;
  auto made = std::make_unique<RepeatedPass>();
  Cuts cuts{settings_.cuts};
  for (std::size_t i = graph_.layers().size(); key.pass.trains && i-- > 0;) {
    const Layer& layer = graph_.layers()[i];
    if (layer.parameters.empty()) continue;
    const std::size_t end = graph_.final_up_to(layer);
    if (cuts.reached_by(end) || end == graph_.arena_size()) made->pieces.push_back({i, end, {}});
  }
  if (made->pieces.empty()) made->pieces.emplace_back();
  made->pieces.back().first = 0;
  if (repeated_.size() < kRepeatedMax) return *(repeated_[key] = std::move(made));
  settings_.capture->reach_limit();
  further_ = std::move(made);  // its work is done for the first time, always
  return *further_;
}

}  // namespace ddprun::trainer
