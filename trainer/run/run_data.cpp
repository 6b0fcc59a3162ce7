#include "trainer/run/run_data.hpp"

#include "trainer/data/text_set.hpp"
#include "trainer/error.hpp"
#include "trainer/run/run_memory.hpp"

namespace ddprun::trainer {
namespace {

/// As far as they are known before any are loaded.
std::uint64_t known_bytes(const Options& options) {
  if (reads_texts(options.model))
    return options.data == kGeneratedData ? expected_text_bytes(options.sentences) : 0;
  return known_data_bytes(options.data, generated_shape(options), target_of(options.model));
}

TrainAndTest load(const Options& options) {
  if (reads_texts(options.model)) return load_texts(options.data, options.sentences);
  return load_data(options.data, generated_shape(options), target_of(options.model),
                   options.classes);
}

}  // namespace

TrainAndTest load_sets(const Options& options, int workers, const MachineMemory& there) {
  const auto check = [&](std::uint64_t bytes) {
    const std::string why = why_data_too_large(bytes, workers, there);
    if (!why.empty()) throw DataError(why);
  };
  check(known_bytes(options));
  TrainAndTest sets = load(options);
  check(sets.train->bytes() + sets.test->bytes());
  return sets;
}

void check_sets(const TrainAndTest& sets, const Graph& graph) {
  if (!sets.train->has_texts()) return;
  check_texts(*sets.train, "training", graph.text());
  check_texts(*sets.test, "held-out", graph.text());
}

}  // namespace ddprun::trainer
