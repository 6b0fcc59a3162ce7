#include "trainer/checkpoint/initial_weights.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "trainer/checkpoint/safetensors_file.hpp"
#include "trainer/error.hpp"
#include "trainer/model/layout.hpp"

namespace ddprun::trainer {
namespace {

constexpr std::size_t kShownNamesMax = 5;
constexpr std::string_view kBatchCounter = "num_batches_tracked";

/// The first thing that does not match, and how many do not.
class Mismatches {
 public:
  void add(const std::string& name, std::string what) {
    if (count_++ > 0) return;
    first_ = std::move(what);
    // What belongs to one layer is left out together.
    prefix_ = name.substr(0, name.rfind('.') + 1);
    if (prefix_.empty()) prefix_ = name;
  }

  void refuse_any(const std::string& file) const {
    if (count_ == 0) return;
    const std::string more =
        count_ > 1 ? fmt::format(" ({} more do not match)", count_ - 1) : std::string();
    throw DataError(fmt::format(
        "--init-from={}: {}{}: give a file of this model, or --init-skip={} to leave that out",
        file, first_, more, shown_name(prefix_)));
  }

 private:
  std::size_t count_ = 0;
  std::string first_;
  std::string prefix_;
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

bool is_batch_counter(const TensorEntry& tensor) {
  const bool named =
      tensor.name == kBatchCounter || tensor.name.ends_with(fmt::format(".{}", kBatchCounter));
  return named && tensor.dtype == "I64" && tensor.shape.empty();
}

}  // namespace

WeightMatch match_weights(const SafetensorsTable& table, const std::vector<Parameter>& parameters,
                          const std::vector<std::string>& skip, const std::string& file) {
  const auto is_skipped = [&](const std::string& name) {
    return std::any_of(skip.begin(), skip.end(),
                       [&](const std::string& prefix) { return name.starts_with(prefix); });
  };
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
    if (!why.empty()) wrong.add(parameter.name, std::move(why));
    match.pairs.push_back({.parameter = &parameter, .tensor = tensor});
  }
  for (const TensorEntry& tensor : table.tensors) {
    if (!unclaimed.contains(tensor.name)) continue;
    if (is_skipped(tensor.name)) {
      match.unused.push_back(tensor.name);
    } else if (!is_batch_counter(tensor)) {
      wrong.add(tensor.name, fmt::format("{} {} is there, but not in the model",
                                         shown_name(tensor.name), shown_shape(tensor.shape)));
    }
  }
  wrong.refuse_any(file);
  if (match.pairs.empty()) {
    throw DataError(fmt::format(
        "--init-from={}: --init-skip leaves nothing of it: name fewer prefixes, or no file", file));
  }
  return match;
}

LeftOut load_weights(const std::filesystem::path& file, const std::vector<Parameter>& parameters,
                     const std::vector<std::string>& skip, std::span<float> arena) {
  const SafetensorsFile source(file);
  WeightMatch match = match_weights(source.table(), parameters, skip, file.string());
  std::vector<std::byte> bytes;
  std::vector<float> values;
  for (const auto& [parameter, tensor] : match.pairs) {
    bytes.resize(tensor->end - tensor->begin);
    source.read(*tensor, bytes);
    values.resize(parameter->count);
    to_floats(tensor->dtype, bytes, values);
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
