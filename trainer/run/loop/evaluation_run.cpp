// --eval: the held-out set through a model that is not trained.
#include <fmt/format.h>

#include "base/duration.hpp"
#include "trainer/compute/buffer.hpp"
#include "trainer/run/exit_codes.hpp"
#include "trainer/run/loop/shard_computer.hpp"
#include "trainer/run/loop/train_loop.hpp"
#include "trainer/run/plan/run_data.hpp"

namespace ddprun::trainer {
namespace {

using std::chrono::steady_clock;

/// The sums over all ranks of the values that each has.
template <class Value>
CommResult sum_over_ranks(Communicator& communicator, std::span<Value> values,
                          Clock::time_point deadline) {
  std::vector<Value> all(values.size() * static_cast<std::size_t>(communicator.world_size()));
  const CommResult result =
      communicator.all_gather(std::as_bytes(std::span<const Value>(values)),
                              std::as_writable_bytes(std::span(all)), deadline);
  if (!result.ok()) return result;
  for (std::size_t i = values.size(); i < all.size(); ++i) all[i % values.size()] += all[i];
  std::copy_n(all.begin(), values.size(), values.begin());
  return result;
}

int give_up(const TrainParts& parts, const CommResult& why) {
  parts.report.error(fmt::format("gave up the evaluation: {}", why.detail));
  parts.communicator.abort(why.detail);
  return kExitPeerLost;
}

}  // namespace

int evaluate_held_out(const TrainParts& parts) {
  const auto began = steady_clock::now();
  const bool labels = parts.graph.target() == Target::label;
  const int rank = parts.communicator.rank();
  ShardComputer computer(parts.graph, parts.device, parts.lanes, parts.preparation,
                         {.executor = {.batch = parts.plan.batch,
                                       .precision = parts.options.precision.format,
                                       .threads = parts.options.device.threads_per_shard},
                          .seed = parts.options.seed,
                          .shards = parts.plan.shards});
  EvaluationResult result{.weights_file = parts.options.model.init_from.value_or(""),
                          .weights_hash = hash_text(parts.learner.hash()),
                          .data = parts.sets.test->name(),
                          .counters = {},
                          .classes = {},
                          .class_names = parts.sets.class_names};
  if (labels) result.classes.resize(static_cast<std::size_t>(parts.graph.classes()));
  SampleReader samples(*parts.sets.test, reader_settings(parts.plan, parts.environment));
  Progress progress;
  progress.at(0, "evaluate");
  computer.evaluate(
      samples, rank, parts.communicator.world_size(), parts.learner.weights(),
      [&](double share) {
        progress.at(0, "evaluate");
        if (rank != 0) return true;
        const double done = seconds_between(began, steady_clock::now());
        parts.report.evaluation({.step = 0,
                                 .last_step = 0,
                                 .epoch = 0,
                                 .epochs = 1,
                                 .share = share,
                                 .seconds_left = share > 0 ? done / share - done : 0},
                                began, steady_clock::now());
        return true;
      },
      result.classes);
  result.counters = computer.take_counters();

  const Clock::time_point deadline = Clock::now() + parts.options.comm.timeout;
  std::vector<std::int64_t> counts;
  for (const ClassCount& one : result.classes)
    counts.insert(counts.end(), {one.wanted, one.predicted, one.correct});
  CommResult shared = sum_over_ranks(parts.communicator, std::span(&result.counters, 1), deadline);
  if (shared.ok() && labels)
    shared = sum_over_ranks(parts.communicator, std::span(counts), deadline);
  if (!shared.ok()) return give_up(parts, shared);
  for (std::size_t i = 0; i < result.classes.size(); ++i)
    result.classes[i] = {counts[3 * i], counts[3 * i + 1], counts[3 * i + 2]};
  if (!labels)
    result.classes =
        mask_counts(result.counters, static_cast<std::int64_t>(parts.graph.logits().count()));
  if (result.counters.not_finite > 0) {
    // The others end after rank 0, so that a launcher does not take them for the first to fail.
    if (rank != 0) return give_up(parts, parts.communicator.barrier(deadline));
    parts.report.error(fmt::format("{}: look at this sample, and at the weights in {}",
                                   held_out_not_finite(result.counters, ""), result.weights_file));
    return kExitFailure;
  }
  result.seconds = seconds_between(began, steady_clock::now());
  parts.report.end(result);
  return kExitSuccess;
}

}  // namespace ddprun::trainer
