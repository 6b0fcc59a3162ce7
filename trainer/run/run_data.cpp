#include "trainer/run/run_data.hpp"

#include <fmt/format.h>

#include "trainer/data/text_set.hpp"
#include "trainer/error.hpp"
#include "trainer/run/memory_remedy.hpp"

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
    const std::string why = why_data_too_large(bytes, workers, there, memory_choices(options, 1));
    if (!why.empty()) throw DataError(why);
  };
  check(known_bytes(options));
  TrainAndTest sets = load(options);
  check(sets.train->bytes() + sets.test->bytes());
  return sets;
}

void check_sets(const TrainAndTest& sets, const Graph& graph, const Options& options) {
  if (!sets.train->has_texts()) return;
  const std::string shorten = options.data == kGeneratedData
                                  ? fmt::format("use --max-tokens={}", graph.text().positions)
                                  : "shorten it";
  check_texts(*sets.train, "training", graph.text(), shorten);
  check_texts(*sets.test, "held-out", graph.text(), shorten);
}

}  // namespace ddprun::trainer
