#include "trainer/run/run_data.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "trainer/checkpoint/checkpoint_files.hpp"
#include "trainer/data/text_set.hpp"
#include "trainer/error.hpp"
#include "trainer/run/memory_check.hpp"
#include "trainer/run/memory_remedy.hpp"

namespace ddprun::trainer {
namespace {

/// The words that the evaluated model knows.
std::optional<std::filesystem::path> vocabulary_file(const Options& options) {
  if (!options.eval) return std::nullopt;
  const auto file = std::filesystem::path(*options.init_from).parent_path() / kVocabularyFile;
  std::error_code unreadable;
  return std::filesystem::exists(file, unreadable) ? std::optional(file) : std::nullopt;
}

DataRequest request_of(const Options& options, int workers) {
  const DataKind of_images = target_of(options.model) == Target::mask ? DataKind::masked_images
                                                                      : DataKind::labelled_images;
  return {
      .data = options.data,
      .kind = reads_texts(options.model) ? DataKind::texts : of_images,
      .images = {.shape = generated_shape(options),
                 .threads = std::max(1, usable_cores() / workers),
                 .mask_threshold = options.mask_threshold,
                 .holdout = options.holdout,
                 .seed = options.seed},
      .other_shape = options.image_shape ? std::optional(generated_shape(options)) : std::nullopt,
      .head = options.classes,
      .sentences = {.count = options.sentences,
                    .tokens = options.max_tokens.value_or(kSentenceTokens)},
      .texts = {.tokens = options.tokens,
                .has_header = options.tsv_header,
                .vocabulary = vocabulary_file(options),
                .longest = options.max_tokens.value_or(kTextPositions)}};
}

}  // namespace

TrainAndTest load_sets(const Options& options, int workers, const MachineMemory& there) {
  const auto check = [&](std::uint64_t bytes) {
    const std::string why = why_data_too_large(bytes, workers, there, memory_choices(options, 1));
    if (!why.empty()) throw DataError(why);
  };
  const DataRequest request = request_of(options, workers);
  check(known_data_bytes(request));
  TrainAndTest sets = load_data(request);
  check(sets.train->bytes() + sets.test->bytes());
  return sets;
}

void check_sets(const TrainAndTest& sets, const Graph& graph) {
  if (!sets.train->has_texts()) return;
  const std::string shorten = fmt::format("use --max-tokens={}", graph.text().positions);
  check_texts(*sets.train, "training", graph.text(), shorten);
  check_texts(*sets.test, "held-out", graph.text(), shorten);
}

}  // namespace ddprun::trainer
