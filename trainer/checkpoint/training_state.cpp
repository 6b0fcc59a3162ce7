#include "trainer/checkpoint/training_state.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/json_text.hpp"

namespace ddprun::trainer {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kFormatName = "ddprun-checkpoint-";
constexpr const char* kFormat = "ddprun-checkpoint-3";

std::uint32_t checksum(const std::string& text) {
  return static_cast<std::uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(text.data()), text.size()));
}

Json to_json(const ConfigEntry::Value& value) {
  return std::visit([](const auto& held) { return Json(held); }, value);
}

ConfigEntry::Value value_from(const Json& json) {
  if (json.is_number_integer()) return json.get<std::int64_t>();
  if (json.is_number()) return json.get<double>();
  return json.get<std::string>();
}

Json to_json(const Counters& counters) {
  return {{"loss", counters.loss},
          {"count", counters.count},
          {"correct", counters.correct},
          {"true_positives", counters.true_positives},
          {"false_positives", counters.false_positives},
          {"false_negatives", counters.false_negatives},
          {"not_finite", counters.not_finite}};
}

Counters counters_from(const Json& json) {
  return {.loss = json.at("loss").get<std::int64_t>(),
          .count = json.at("count").get<std::int64_t>(),
          .correct = json.at("correct").get<std::int64_t>(),
          .true_positives = json.at("true_positives").get<std::int64_t>(),
          .false_positives = json.at("false_positives").get<std::int64_t>(),
          .false_negatives = json.at("false_negatives").get<std::int64_t>(),
          .not_finite = json.at("not_finite").get<std::int64_t>()};
}

Json to_json(const OpenInterval& interval) {
  return {{"first_step", interval.first_step},
          {"counters", to_json(interval.counters)},
          {"seconds", interval.seconds},
          {"exposed_seconds", interval.exposed_seconds}};
}

OpenInterval interval_from(const Json& json) {
  return {.first_step = json.at("first_step").get<std::int64_t>(),
          .counters = counters_from(json.at("counters")),
          .seconds = json.at("seconds").get<double>(),
          .exposed_seconds = json.at("exposed_seconds").get<double>()};
}

Json to_json(const EpochSummary& epoch) {
  return {{"epoch", epoch.epoch},
          {"train_loss", epoch.train_loss},
          {"train_score", epoch.train_score},
          {"test_loss", epoch.test_loss},
          {"test_score", epoch.test_score},
          {"seconds", epoch.seconds},
          {"samples_per_second", epoch.samples_per_second}};
}

/// JSON has no nan: null stands for it.
double number_or_nan(const Json& json) {
  return json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>();
}

EpochSummary epoch_from(const Json& json) {
  return {.epoch = json.at("epoch").get<std::int64_t>(),
          .train_loss = number_or_nan(json.at("train_loss")),
          .train_score = number_or_nan(json.at("train_score")),
          .test_loss = number_or_nan(json.at("test_loss")),
          .test_score = number_or_nan(json.at("test_score")),
          .seconds = number_or_nan(json.at("seconds")),
          .samples_per_second = number_or_nan(json.at("samples_per_second"))};
}

Json config_json(const RunConfig& config, bool identity) {
  Json json = Json::object();
  for (const ConfigEntry& entry : config) {
    if (entry.identity == identity) json[entry.name] = to_json(entry.value);
  }
  return json;
}

Json titles_json(const RunConfig& config) {
  Json json = Json::object();
  for (const ConfigEntry& entry : config) {
    if (!entry.title.empty()) json[entry.name] = entry.title;
  }
  return json;
}

void read_config(const Json& json, bool identity, const Json& titles, RunConfig& config) {
  for (const auto& [name, value] : json.items()) {
    config.push_back({.name = name,
                      .value = value_from(value),
                      .identity = identity,
                      .title = titles.value(name, "")});
  }
}

TrainingState state_from(const Json& json) {
  TrainingState state;
  json.at("run").get_to(state.origin.run);
  json.at("lineage").get_to(state.origin.lineage);
  json.at("sequence").get_to(state.sequence);
  json.at("best").get_to(state.best);
  json.at("step").get_to(state.step);
  json.at("epoch").get_to(state.epoch);
  json.at("block").get_to(state.block);
  const Json& optimizer = json.at("optimizer");
  optimizer.at("learning_rate").get_to(state.step_state.learning_rate);
  optimizer.at("updates").get_to(state.step_state.updates);
  optimizer.at("skipped").get_to(state.step_state.skipped);
  optimizer.at("loss_scale").get_to(state.step_state.scaler.scale);
  optimizer.at("good_steps").get_to(state.step_state.scaler.good_steps);
  state.step_state.stuck = optimizer.value("stuck", std::uint64_t{0});  // older ones have none
  state.epoch_counters = counters_from(json.at("epoch_counters"));
  // Older ones have none: it begins where the run goes on.
  state.interval = json.contains("interval") ? interval_from(json.at("interval"))
                                             : OpenInterval{.first_step = state.step};
  for (const Json& epoch : json.at("epochs")) state.epochs.push_back(epoch_from(epoch));
  // Older ones have none.
  for (const Json& epoch : json.value("cut_off", Json::array()))
    state.cut_off.push_back(
        {.step = epoch.at("step").get<std::int64_t>(), .summary = epoch_from(epoch)});
  json.at("best_score").get_to(state.best_so_far.score);
  state.best_so_far.metric = json.value("best_metric", "");  // older ones have neither
  state.best_so_far.is = json.value("best_is", "");
  json.at("epoch_seconds").get_to(state.epoch_seconds);
  json.at("seconds").get_to(state.seconds);
  json.at("world_size").get_to(state.origin.world_size);
  json.at("round").get_to(state.origin.round);
  json.at("restarts").get_to(state.origin.restarts);
  json.at("compute").get_to(state.origin.compute);
  const Json titles = json.value("titles", Json::object());  // older checkpoints have none
  read_config(json.at("config"), true, titles, state.config);
  read_config(json.at("settings"), false, titles, state.config);
  return state;
}

}  // namespace

std::string to_string(const ConfigEntry::Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  return json_text(to_json(value));
}

std::string config_hash(const RunConfig& config) {
  std::string text;
  for (const ConfigEntry& entry : config) {
    if (entry.identity) text += fmt::format("{}={}\n", entry.name, to_string(entry.value));
  }
  return fmt::format("{:08x}", checksum(text));
}

std::string to_json(const TrainingState& state, const std::vector<FileDigest>& files) {
  Json digests = Json::array();
  for (const FileDigest& file : files) {
    digests.push_back({{"name", file.name}, {"bytes", file.bytes}, {"crc32", file.crc32}});
  }
  Json epochs = Json::array();
  for (const EpochSummary& epoch : state.epochs) epochs.push_back(to_json(epoch));
  Json cut_off = Json::array();
  for (const CutOffEpoch& epoch : state.cut_off) {
    cut_off.push_back(to_json(epoch.summary));
    cut_off.back()["step"] = epoch.step;
  }
  const StepState& step_state = state.step_state;
  Json json = {
      {"format", kFormat},
      {"run", state.origin.run},
      {"lineage", state.origin.lineage},
      {"sequence", state.sequence},
      {"best", state.best},
      {"step", state.step},
      {"epoch", state.epoch},
      {"block", state.block},
      {"optimizer",
       {{"learning_rate", step_state.learning_rate},
        {"updates", step_state.updates},
        {"skipped", step_state.skipped},
        {"loss_scale", step_state.scaler.scale},
        {"good_steps", step_state.scaler.good_steps},
        {"stuck", step_state.stuck}}},
      {"epoch_counters", to_json(state.epoch_counters)},
      {"interval", to_json(state.interval)},
      {"epochs", epochs},
      {"cut_off", cut_off},
      {"best_score", state.best_so_far.score},
      {"best_metric", state.best_so_far.metric},
      {"best_is", state.best_so_far.is},
      {"epoch_seconds", state.epoch_seconds},
      {"seconds", state.seconds},
      {"world_size", state.origin.world_size},
      {"round", state.origin.round},
      {"restarts", state.origin.restarts},
      {"compute", state.origin.compute},
      {"config_hash", config_hash(state.config)},
      {"config", config_json(state.config, true)},
      {"settings", config_json(state.config, false)},
      {"titles", titles_json(state.config)},
      {"files", digests},
  };
  json["checksum"] = checksum(json_text(json));  // of all that stands before it
  return json_text(json, 2) + "\n";
}

std::pair<TrainingState, std::vector<FileDigest>> parse_state(const std::string& text,
                                                              const std::string& file) {
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) throw DataError(fmt::format("{}: not JSON (cut short?)", file));
  const std::string format = json.contains("format") && json["format"].is_string()
                                 ? json["format"].get<std::string>()
                                 : "";
  if (!format.starts_with(kFormatName))
    throw DataError(fmt::format("{}: not a checkpoint of this program ({})", file, kFormat));
  if (format != kFormat) {
    throw OtherFormat(
        fmt::format("{}: written by another version of train ({}; this one reads {}): "
                    "--init-from with its model.safetensors begins a new run from its "
                    "weights",
                    file, format, kFormat));
  }
  const Json stored = json.contains("checksum") ? json["checksum"] : Json();
  json.erase("checksum");
  if (!stored.is_number_unsigned() || stored.get<std::uint64_t>() != checksum(json_text(json))) {
    throw DataError(fmt::format("{}: damaged (its checksum does not match)", file));
  }
  try {
    std::vector<FileDigest> files;
    for (const Json& row : json.at("files")) {
      files.push_back({.name = row.at("name").get<std::string>(),
                       .bytes = row.at("bytes").get<std::uint64_t>(),
                       .crc32 = row.at("crc32").get<std::uint32_t>()});
    }
    return {state_from(json), std::move(files)};
  } catch (const Json::exception& error) {
    throw DataError(fmt::format("{}: {}", file, error.what()));
  }
}

std::vector<EntryDifference> differences_of(const RunConfig& there, const RunConfig& here) {
  std::vector<EntryDifference> differences;
  // Values are compared as the file has them: there, bytes that are not UTF-8 are replaced.
  const auto written = [](const ConfigEntry& entry) { return json_text(to_json(entry.value)); };
  const auto find = [](const RunConfig& config, const std::string& name) {
    return std::find_if(config.begin(), config.end(),
                        [&](const ConfigEntry& entry) { return entry.name == name; });
  };
  for (const ConfigEntry& entry : here) {
    const auto other = find(there, entry.name);
    if (other == there.end()) {
      differences.push_back({.there = std::nullopt, .here = entry});
    } else if (written(*other) != written(entry)) {
      differences.push_back({.there = *other, .here = entry});
    }
  }
  for (const ConfigEntry& entry : there) {
    if (find(here, entry.name) == here.end())
      differences.push_back({.there = entry, .here = std::nullopt});
  }
  return differences;
}

std::string shown(const ConfigEntry& entry) {
  const std::string value = to_string(entry.value);
  return entry.title.empty() ? value : fmt::format("{} ({})", entry.title, value);
}

ConfigDifference compare(const RunConfig& there, const RunConfig& here) {
  const auto side = [](const std::optional<ConfigEntry>& entry) {
    return entry ? shown(*entry) : "absent";
  };
  ConfigDifference difference;
  for (const EntryDifference& one : differences_of(there, here)) {
    const ConfigEntry& entry = one.entry();
    std::string& text = entry.identity ? difference.identity : difference.settings;
    text += fmt::format("{}{} {} there, {} here", text.empty() ? "" : ", ", entry.name,
                        side(one.there), side(one.here));
  }
  return difference;
}

}  // namespace ddprun::trainer
