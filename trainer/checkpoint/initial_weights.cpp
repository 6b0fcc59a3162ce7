#include "trainer/checkpoint/initial_weights.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "trainer/checkpoint/checkpoint_files.hpp"
#include "trainer/checkpoint/safetensors.hpp"
#include "trainer/error.hpp"
#include "trainer/model/layout.hpp"

namespace ddprun::trainer {
namespace {

constexpr std::size_t kShownNamesMax = 36;
/// Far more than a model has; a file may have any number.
constexpr std::size_t kListedMismatchesMax = 2'000;
/// How many tensors are listed of a file of another model, where nothing fits.
constexpr std::size_t kListedOfOtherMax = 8;
/// PyTorch's buffers that a model here has no use for.
constexpr std::string_view kBatchCounter = "num_batches_tracked";
constexpr std::string_view kPositions = "position_ids";

/// "conv1." of "conv1.weight"; the whole of a name without dots.
std::string layer_prefix(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string::npos ? name : name.substr(0, dot + 1);
}

/// The options of the run that wrote a file: " --model=resnet18 --stem=small"; empty: it does not
/// say.
std::string shown_options_of_writer(const SafetensorsTable& table) {
  const auto option = [&](const std::string& name) {
    const auto found = table.metadata.find(name);
    return found == table.metadata.end() ? ""
                                         : fmt::format(" --{}={}", name, shown_name(found->second));
  };
  const std::string model = option("model");
  if (model.find("unet") != std::string::npos) return model + option("decoder");
  if (model.find("resnet18") != std::string::npos) return model + option("stem");
  return model.empty() ? "" : model + option("size");
}

/// What does not match.
class Mismatches {
 public:
  void add(const std::string& name, std::string what) {
    if (count_++ == 0) name_ = name;
    if (all_.size() < kListedMismatchesMax) all_.push_back(std::move(what));
  }

  /// With the first one in the message, and of several all before it, but for an evaluation: what
  /// is listed there could not be left out. `parameters`: how many the model has.
  void refuse_any(const std::string& file, const SafetensorsTable& table, const WeightMatch& match,
                  std::size_t parameters, WeightsUse use) const {
    if (count_ == 0) return;
    if (use == WeightsUse::evaluation) refuse_evaluation(file, table);
    const bool is_alone = count_ == 1;
    const bool is_other = 2 * (match.pairs.size() + match.kept.size()) < parameters;
    std::vector<std::string> listed = is_alone ? std::vector<std::string>() : all_;
    if (is_other) listed.resize(std::min(listed.size(), kListedOfOtherMax));
    if (!is_alone && count_ > listed.size())
      listed.push_back(fmt::format("and {} more", count_ - listed.size()));
    const std::string wrong =
        fmt::format("{}: {}{}", file, all_.front(),
                    is_alone ? "" : fmt::format(" (and {} more, listed above)", count_ - 1));
    throw WeightMismatch(is_other ? wrong + remedy_for_other(file, table)
                                  : fmt::format("{}: give a file of this model, or --init-skip={} "
                                                "to leave that out",
                                                wrong, shown_name(prefix_to_skip(match))),
                         std::move(listed));
  }

 private:
  [[noreturn]] void refuse_evaluation(const std::string& file,
                                      const SafetensorsTable& table) const {
    throw WeightMismatch(fmt::format("{}: {}{}{}", file, all_.front(),
                                     count_ == 1 ? "" : fmt::format(" (and {} more)", count_ - 1),
                                     remedy_for_other(file, table)),
                         {});
  }

  static std::string remedy_for_other(const std::string& file, const SafetensorsTable& table) {
    if (std::filesystem::path(file).filename() == kOptimizerFile)
      return ": it holds what the optimizer keeps: give model.safetensors beside it";
    const std::string options = shown_options_of_writer(table);
    return options.empty() ? ": it is of another model: give a file of this one"
                           : fmt::format(
                                 ": it was written by a run with{}: give these options, or a file "
                                 "of this model",
                                 options);
  }

  /// What belongs to one layer is left out together, unless some of it does match.
  [[nodiscard]] std::string prefix_to_skip(const WeightMatch& match) const {
    std::string prefix = layer_prefix(name_);
    const bool loses = std::any_of(
        match.pairs.begin(), match.pairs.end(),
        [&](const WeightMatch::Pair& pair) { return pair.parameter->name.starts_with(prefix); });
    return loses ? name_ : prefix;
  }

  std::size_t count_ = 0;
  std::string name_;  // of the first
  std::vector<std::string> all_;
};

/// Why a tensor cannot give a parameter its values; empty: it can.
std::string mismatch(const Parameter& parameter, const TensorEntry& tensor) {
  const std::string name = shown_name(parameter.name);
  const std::string here = shown_shape(parameter.shape);
  const std::string there = shown_shape(tensor.shape);
  if (!converts_to_floats(tensor.dtype)) {
    return fmt::format("{} is {} {} there, which is none of F32, F16 and BF16, and {} in the model",
                       name, tensor.dtype, there, here);
  }
  if (tensor.shape == parameter.shape) return "";
  return fmt::format("{} is {} there, but {} in the model", name, there, here);
}

bool is_named(const TensorEntry& tensor, std::string_view name) {
  return tensor.name == name || tensor.name.ends_with(fmt::format(".{}", name));
}

bool is_unneeded_buffer(const TensorEntry& tensor) {
  if (tensor.dtype != "I64") return false;
  return is_named(tensor, kPositions) || (is_named(tensor, kBatchCounter) && tensor.shape.empty());
}

/// A typing mistake would go unnoticed, as a run that keeps too much of a file starts well.
void check_prefix(const std::string& prefix, const SafetensorsTable& table,
                  const std::vector<Parameter>& parameters, const std::string& file) {
  const auto begins = [&](const auto& named) { return named.name.starts_with(prefix); };
  if (std::any_of(parameters.begin(), parameters.end(), begins) ||
      std::any_of(table.tensors.begin(), table.tensors.end(), begins))
    return;
  throw DataError(
      fmt::format("--init-skip={}: no name begins with it, neither in {} nor in the model: correct "
                  "it, or leave "
                  "it out",
                  shown_name(prefix), file));
}

/// A model that was wrapped when it was saved: what all names begin with, and the model's do not;
/// else empty.
std::string wrapper_prefix(const SafetensorsTable& table,
                           const std::vector<Parameter>& parameters) {
  if (table.tensors.empty()) return "";
  const std::string& first = table.tensors.front().name;
  const std::string prefix = first.substr(0, first.find('.') + 1);
  if (prefix.empty()) return "";
  const auto begins = [&](const auto& named) { return named.name.starts_with(prefix); };
  const bool only_there = std::all_of(table.tensors.begin(), table.tensors.end(), begins) &&
                          std::none_of(parameters.begin(), parameters.end(), begins);
  const auto is_inside = [&](const TensorEntry& tensor) {
    const std::string_view name = std::string_view(tensor.name).substr(prefix.size());
    return std::any_of(parameters.begin(), parameters.end(),
                       [&](const Parameter& parameter) { return parameter.name == name; });
  };
  const bool fits =
      only_there && std::any_of(table.tensors.begin(), table.tensors.end(), is_inside);
  return fits ? prefix : "";
}

void refuse_wrapped(const SafetensorsTable& table, const std::vector<Parameter>& parameters,
                    const std::string& file) {
  const std::string prefix = wrapper_prefix(table, parameters);
  if (prefix.empty()) return;
  throw DataError(
      fmt::format("{}: all names there begin with {}, as a wrapper's such as "
                  "DistributedDataParallel do, but the model's do not: save the model inside, "
                  "model.{}state_dict()",
                  file, shown_name(prefix), shown_name(prefix)));
}

}  // namespace

WeightMatch match_weights(const SafetensorsTable& table, const std::vector<Parameter>& parameters,
                          const std::vector<std::string>& skip, const std::string& file,
                          WeightsUse use) {
  const auto is_skipped = [&](const std::string& name) {
    return std::any_of(skip.begin(), skip.end(),
                       [&](const std::string& prefix) { return name.starts_with(prefix); });
  };
  refuse_wrapped(table, parameters, file);
  for (const std::string& prefix : skip) check_prefix(prefix, table, parameters, file);
  std::unordered_map<std::string_view, const TensorEntry*> unclaimed;
  for (const TensorEntry& tensor : table.tensors) unclaimed.emplace(tensor.name, &tensor);

  WeightMatch match;
  Mismatches wrong;
  for (const Parameter& parameter : parameters) {
    if (is_skipped(parameter.name)) {
      match.kept.push_back(parameter.name);
      continue;
    }
    const auto found = unclaimed.find(parameter.name);
    if (found == unclaimed.end()) {
      wrong.add(parameter.name,
                fmt::format("no tensor {} there; it is {} in the model", shown_name(parameter.name),
                            shown_shape(parameter.shape)));
      continue;
    }
    const TensorEntry* tensor = found->second;
    unclaimed.erase(found);
    std::string why = mismatch(parameter, *tensor);
    if (!why.empty()) {
      wrong.add(parameter.name, std::move(why));
      continue;
    }
    match.pairs.push_back({.parameter = &parameter, .tensor = tensor});
  }
  for (const TensorEntry& tensor : table.tensors) {
    if (!unclaimed.contains(tensor.name)) continue;
    if (is_skipped(tensor.name)) {
      match.unused.push_back(tensor.name);
    } else if (!is_unneeded_buffer(tensor)) {
      wrong.add(tensor.name, fmt::format("{} {} is there, but not in the model",
                                         shown_name(tensor.name), shown_shape(tensor.shape)));
    }
  }
  wrong.refuse_any(file, table, match, parameters.size(), use);
  if (match.pairs.empty()) {
    throw DataError(
        fmt::format("{}: --init-skip leaves nothing of it: name fewer prefixes, or no file", file));
  }
  return match;
}

namespace {

SafetensorsFile open_weights(const std::filesystem::path& file, const std::string& option) {
  try {
    return SafetensorsFile(file);
  } catch (const DataError& error) {
    throw DataError(fmt::format("{}={}", option, error.what()));
  }
}

/// Training cannot begin with a nan, and would end blaming something else.
void check_finite(const TensorEntry& tensor, std::span<const float> values,
                  const std::string& source, WeightsUse use) {
  const auto bad = std::find_if_not(values.begin(), values.end(),
                                    [](float value) { return std::isfinite(value); });
  if (bad == values.end()) return;
  const std::string name = shown_name(tensor.name);
  throw DataError(fmt::format("{}: {} holds {} (element {} of {}): give a file of sound weights{}",
                              source, name, *bad, bad - values.begin(), values.size(),
                              use == WeightsUse::evaluation
                                  ? ""
                                  : fmt::format(", or --init-skip={} to leave that out", name)));
}

}  // namespace

LeftOut load_weights(const std::filesystem::path& file, const std::vector<Parameter>& parameters,
                     const std::vector<std::string>& skip, std::span<float> arena, WeightsUse use) {
  const char* const option = use == WeightsUse::evaluation ? "--resume-from" : "--init-from";
  const SafetensorsFile source = open_weights(file, option);
  const std::string shown = fmt::format("{}={}", option, file.string());
  WeightMatch match = match_weights(source.table(), parameters, skip, shown, use);
  std::vector<std::byte> bytes;
  std::vector<float> values;
  for (const auto& [parameter, tensor] : match.pairs) {
    bytes.resize(tensor->end - tensor->begin);
    source.read(*tensor, bytes);
    values.resize(parameter->count);
    to_floats(tensor->dtype, bytes, values);
    check_finite(*tensor, values, shown, use);
    import_parameter(*parameter, values, arena);
  }
  return {.kept = std::move(match.kept), .unused = std::move(match.unused)};
}

std::string shown_names(const std::vector<std::string>& names) {
  if (names.empty()) return "none";
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kShownNamesMax); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : ", ", shown_name(names[i]));
  }
  if (names.size() > kShownNamesMax) {
    text += fmt::format(" and {} more", names.size() - kShownNamesMax);
  }
  return text;
}

}  // namespace ddprun::trainer
