#include "trainer/run/plan/run_data.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/program_folder.hpp"
#include "trainer/checkpoint/checkpoint_files.hpp"
#include "trainer/compute/image_windows.hpp"
#include "trainer/data/text_set.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

/// The words or pieces that the evaluated model knows; in training the file of --tokens.
std::optional<std::filesystem::path> vocabulary_file(const Options& options) {
  const bool has_file = reads_texts(options.model.name) && !is_generated(options) &&
                        options.data.tokens != TokenKind::bytes;
  if (!options.eval || !has_file) return options.data.piece_model;
  const bool has_words = options.data.tokens == TokenKind::words;
  const char* const name = has_words ? kVocabularyFile : kPieceModelFile;
  const auto file = std::filesystem::path(*options.model.init_from).parent_path() / name;
  std::error_code unreadable;
  if (std::filesystem::exists(file, unreadable)) return file;
  // With the words of another training set the figures would be wrong, and nobody would see it.
  throw DataError(
      fmt::format("--resume-from={}: no {} beside it, which has the {} of the model: copy that "
                  "of the checkpoint, too",
                  *options.model.init_from, name, has_words ? "words" : "pieces"));
}

DataRequest request_of(const Options& options, int workers, const MachineMemory& there,
                       bool loads_alone) {
  const DataKind of_images = target_of(options.model.name) == Target::mask
                                 ? DataKind::masked_images
                                 : DataKind::labelled_images;
  return {.data = options.data.folder,
          .kind = reads_texts(options.model.name) ? DataKind::texts : of_images,
          .images = {.shape = generated_shape(options),
                     .threads = std::max(1, usable_cores() / (loads_alone ? 1 : workers)),
                     .mask_threshold = options.data.mask_threshold,
                     .holdout = options.data.holdout,
                     .seed = options.seed,
                     .skip_bad = options.data.skip_bad,
                     .memory = data_memory(options, workers, there)},
          .other_shape =
              options.data.image_shape ? std::optional(generated_shape(options)) : std::nullopt,
          .head = options.model.classes,
          .sentences = {.count = options.data.sentences,
                        .tokens = options.data.max_tokens.value_or(kSentenceTokens)},
          .texts = {.tokens = options.data.tokens,
                    .vocabulary = vocabulary_file(options),
                    .is_kept = options.eval,
                    .plugin_folder = program_folder().string(),
                    .longest = options.data.max_tokens.value_or(kTextPositions)}};
}

}  // namespace

TrainAndTest load_sets(const Options& options, int workers, const MachineMemory& there,
                       bool loads_alone) {
  const auto check = [&](std::uint64_t bytes) {
    const std::string why =
        why_too_large({.data = bytes}, workers, there, "memory for the data sets");
    if (!why.empty()) throw DataError(why);
  };
  const DataRequest request = request_of(options, workers, there, loads_alone);
  check(known_data_bytes(request));
  TrainAndTest sets = load_data(request);
  check(sets.train->bytes() + sets.test->bytes());
  return sets;
}

std::uint64_t data_memory(const Options& options, int workers, const MachineMemory& there) {
  std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  if (options.data.memory) return *options.data.memory;
  if (there.most > 0) most = there.most / static_cast<std::uint64_t>(workers) / 2;
  if (there.address_space > 0) most = std::min(most, there.address_space / 2);
  return most;
}

SampleReader::Settings reader_settings(const TrainPlan& plan,
                                       const WorkerEnvironment& environment) {
  const ShardRun run = shard_run(plan.shards, environment.world_size, environment.rank);
  return {
      .samples_of_step = static_cast<std::size_t>(run.count) * static_cast<std::size_t>(plan.batch),
      .threads = std::max(1, usable_cores() / environment.local_world_size)};
}

std::uint64_t reader_bytes(const TrainAndTest& sets, const SampleReader::Settings& settings) {
  return SampleReader::bytes(*sets.train, settings) + SampleReader::bytes(*sets.test, settings);
}

std::uint64_t batch_bytes(const Graph& graph, int batch, ImageShape stored) {
  const std::size_t mask = graph.target() == Target::mask ? mask_size(stored) : 0;
  const auto positions = static_cast<std::size_t>(graph.text().positions);
  const std::size_t words = 1 + (positions > 0 ? positions + 1 : 0);
  const std::size_t window = positions > 0 ? 0 : sizeof(ImageWindow);
  return static_cast<std::uint64_t>(batch) *
         (sample_size(stored) + mask + words * sizeof(std::int32_t) + window);
}

void check_sets(const TrainAndTest& sets, const Graph& graph) {
  const TextSet* const texts = sets.train->texts();
  if (texts == nullptr) return;
  if (const int tokens = texts->shape().vocabulary; tokens > graph.text().vocabulary)
    throw DataError(
        fmt::format("the texts have {} different tokens, but the model has {}: use --size=tiny, or "
                    "--tokens with a smaller vocabulary",
                    tokens, graph.text().vocabulary));
  const std::string shorten = fmt::format("use --max-tokens={}", graph.text().positions);
  check_texts(*texts, "training", graph.text(), shorten);
  check_texts(*sets.test->texts(), "held-out", graph.text(), shorten);
}

}  // namespace ddprun::trainer
