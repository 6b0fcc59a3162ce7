#include "trainer/run/plan/run_checkpoints.hpp"

#include <fmt/format.h>

#include <system_error>
#include <utility>
#include <vector>

#include "trainer/compute/buffer.hpp"
#include "trainer/run/cli/evaluation_arguments.hpp"
#include "trainer/run/plan/plan.hpp"

namespace ddprun::trainer {
namespace {

std::string number_list(const std::vector<float>& values) {
  std::string text;
  for (const float value : values) text += fmt::format("{}{}", text.empty() ? "" : ",", value);
  return text;
}

}  // namespace

CheckpointLayout make_layout(const Options& options, const Graph& graph, const TrainAndTest& sets,
                             const Preparation& preparation) {
  const DataSet& set = *sets.train;
  CheckpointLayout layout;
  layout.parameters = graph.parameters();
  layout.arena_size = graph.arena_size();
  layout.moments = moment_names(optimizer_config(options));
  // What a reader needs to feed the network.
  layout.metadata = {{"model", to_string(options.model.name)},
                     {"stem", to_string(options.model.stem)},
                     {"decoder", to_string(options.model.decoder)},
                     {"data", set.name()},
                     {"seed", std::to_string(options.seed)},
                     {"test_data", hash_text(sets.test->content_hash())},
                     {"classes", std::to_string(graph.classes())}};
  if (is_generated(options)) layout.metadata.insert({"generated", options.data.folder});
  if (!sets.class_names.empty())
    layout.metadata.insert({kClassNamesEntry, joined_class_names(sets.class_names)});
  if (graph.target() == Target::mask)
    layout.metadata.insert(
        {"pos_weight",
         fmt::format("{}", positive_weight_of(options, facts_of(*sets.train, *sets.test)))});
  if (options.data.mask_threshold)
    layout.metadata.insert({"mask_threshold", std::to_string(*options.data.mask_threshold)});
  if (options.data.max_tokens)
    layout.metadata.insert({"max_tokens", std::to_string(*options.data.max_tokens)});
  if (set.texts() != nullptr) {
    layout.metadata.insert({"size", to_string(options.model.size)});
    layout.metadata.insert({"vocabulary", std::to_string(graph.text().vocabulary)});
    if (!is_generated(options)) layout.metadata.insert({"tokens", to_string(options.data.tokens)});
    layout.vocabulary = sets.vocabulary;
    if (options.data.tokens == TokenKind::pieces) layout.vocabulary_file = kPieceModelFile;
  } else {
    layout.metadata.insert({"image_shape", to_string(preparation.shape())});
    if (const std::optional<Crop>& crop = options.data.preparation.crop) {
      layout.metadata.insert({"crop", to_string(*crop)});
      layout.metadata.insert({"picture_shape", to_string(set.images()->shape())});
    }
    layout.metadata.insert({"mean", number_list(preparation.normalization().mean)});
    layout.metadata.insert({"deviation", number_list(preparation.normalization().deviation)});
  }
  return layout;
}

/// A disk that is full costs the protection, not the run.
std::optional<DirectoryClaim> claim_directory(const std::filesystem::path& out,
                                              const WorkerEnvironment& environment,
                                              Report& report) {
  if (!environment.epoch) return std::nullopt;
  try {
    return DirectoryClaim(out, {environment.run_id, static_cast<std::uint64_t>(*environment.epoch),
                                static_cast<std::uint64_t>(environment.round)});
  } catch (const std::system_error& error) {
    report.warning(
        fmt::format("cannot claim the directory of checkpoints for this round: {}", error.what()));
    return std::nullopt;
  }
}

std::unique_ptr<CheckpointKeeper> make_keeper(const Options& options, const StartingPoint& start,
                                              const std::filesystem::path& out,
                                              CheckpointLayout layout,
                                              std::optional<DirectoryClaim> claim, Report& report) {
  return std::make_unique<CheckpointKeeper>(
      CheckpointKeeper::Settings{
          .every = options.checkpoints.every,
          .sequence_next = start.sequence_next,
          .step_on_disk = start.step_on_disk,
          .block_on_disk = start.block_on_disk,
          .path_on_disk = start.path,
          .writer = {.directory = out,
                     .keep = static_cast<std::size_t>(options.checkpoints.keep),
                     .layout = std::move(layout),
                     .claim = std::move(claim),
                     .on_failure = {}},
          .warn = [&report](const std::string& text) { report.warning(text); },
          .fail = [&report](const std::string& text) { report.error(text); }},
      Clock::now());
}

}  // namespace ddprun::trainer
