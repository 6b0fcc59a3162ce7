#include "trainer/run/cli/evaluation_arguments.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/latest_link.hpp"
#include "base/lower_case.hpp"
#include "base/printable.hpp"
#include "trainer/checkpoint/checkpoint_directory.hpp"
#include "trainer/checkpoint/checkpoint_files.hpp"
#include "trainer/checkpoint/safetensors.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

using Arguments = std::vector<std::string>;

constexpr std::string_view kResumeFrom = "--resume-from";
constexpr std::size_t kShownClasses = 10;

/// The name in an argument, with dashes: "--resume-from" where it is "--resume_from=x".
std::string name_of(const std::string& argument) {
  if (!argument.starts_with("--")) return "";
  std::string name = argument.substr(0, argument.find('='));
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

/// Where an option's value stands: "--data=x" in an argument behind the sign, "--data x" in the
/// next one.
struct ValuePlace {
  std::size_t argument = 0;
  std::size_t offset = 0;
};

bool is_given(const Arguments& arguments, std::string_view name) {
  return std::any_of(arguments.begin(), arguments.end(),
                     [&](const std::string& argument) { return name_of(argument) == name; });
}

std::optional<ValuePlace> find_value(const Arguments& arguments, std::string_view name) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (name_of(arguments[i]) != name) continue;
    const std::size_t equals = arguments[i].find('=');
    if (equals != std::string::npos) return ValuePlace{i, equals + 1};
    if (i + 1 < arguments.size()) return ValuePlace{i + 1, 0};
  }
  return std::nullopt;
}

std::optional<std::string> value_of(const Arguments& arguments, std::string_view name) {
  const auto place = find_value(arguments, name);
  return place ? std::optional(arguments[place->argument].substr(place->offset)) : std::nullopt;
}

/// Bytes that are no UTF-8 are written as in C, `\xe9`: the metadata of a file is UTF-8.
std::string as_utf8(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t bytes = utf8_character_bytes(text);
    if (bytes == 0)
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(text.front()));
    else
      result += text.substr(0, bytes);
    text.remove_prefix(std::max<std::size_t>(bytes, 1));
  }
  return result;
}

/// Two lists of class names, which differ, for one line: whole where they are short, else the first
/// class that differs, counted from 0 as labels are.
std::pair<std::string, std::string> shown_classes(const std::string& there,
                                                  const std::string& here) {
  const auto split = [](const std::string& joined) {
    std::vector<std::string> names(1);
    for (const char c : joined) {
      if (c == '/')
        names.emplace_back();
      else
        names.back().push_back(c);
    }
    return names;
  };
  const std::vector<std::string> names = split(there), other_names = split(here);
  const auto place =
      std::mismatch(names.begin(), names.end(), other_names.begin(), other_names.end());
  const auto differing = static_cast<std::size_t>(place.first - names.begin());
  const auto shown = [&](const std::string& joined, const std::vector<std::string>& all) {
    if (all.size() <= kShownClasses) return joined;
    if (differing >= all.size()) return fmt::format("{} classes", all.size());
    return fmt::format("{} as class {} of {}", all[differing], differing, all.size());
  };
  return {shown(there, names), shown(here, other_names)};
}

/// The newest one of the runs in ddprun-out or a folder like it; empty: it holds none.
std::filesystem::path run_in(const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  if (find_best(folder / kLatestName)) return folder / kLatestName;
  fs::path last;
  std::error_code ignored;
  for (fs::directory_iterator it(folder, ignored), end; it != end; it.increment(ignored))
    if (it->path() > last && find_best(it->path())) last = it->path();
  return last;
}

}  // namespace

std::vector<std::string> options_of_writer(const std::map<std::string, std::string>& metadata,
                                           const std::vector<std::string>& arguments) {
  const auto value = [&](const char* key) {
    const auto found = metadata.find(key);
    return found == metadata.end() ? std::string() : found->second;
  };
  std::vector<std::string> options;
  const auto add = [&](std::string_view option, const char* key) {
    if (!value(key).empty() && !is_given(arguments, option))
      options.push_back(fmt::format("{}={}", option, value(key)));
  };
  const std::string model = value("model");
  if (model.empty()) return {};
  add("--model", "model");
  add("--seed", "seed");
  // Batches of that size fitted into memory in training.
  if (!is_given(arguments, "--global-batch")) add("--batch", "batch");
  add("--data", "generated");
  if (model == "resnet18") add("--stem", "stem");
  const bool learns_masks = model.find("unet") != std::string::npos;
  if (learns_masks) {
    add("--decoder", "decoder");
    add("--pos-weight", "pos_weight");
    if (is_given(arguments, "--data")) add("--mask-threshold", "mask_threshold");
  } else {
    add("--classes", "classes");
  }
  if (model == "textclf") {
    add("--size", "size");
    add("--max-tokens", "max_tokens");
    if (is_given(arguments, "--data")) add("--tokens", "tokens");
  } else {
    const bool is_cropped = !value("crop").empty();
    add("--image-shape", is_cropped ? "picture_shape" : "image_shape");
    add("--crop", "crop");
    if (!value("mean").empty() && !value("deviation").empty() &&
        !is_given(arguments, "--normalize"))
      options.push_back(fmt::format("--normalize={}:{}", value("mean"), value("deviation")));
  }
  return options;
}

void check_given_model(const std::map<std::string, std::string>& metadata,
                       const std::vector<std::string>& arguments, const std::string& file) {
  // Where the model is another one, the others may not be its options.
  for (const char* const key : {"model", "stem", "decoder", "size", "classes"}) {
    const auto there = metadata.find(key);
    const std::optional<std::string> here = value_of(arguments, fmt::format("--{}", key));
    if (there == metadata.end() || !here || lower_case(*here) == there->second) continue;
    throw DataError(fmt::format(
        "{}={}: it was trained with --{}={}, but --{}={} is given: leave out --{}, or give weights "
        "that were trained with it",
        kResumeFrom, file, key, printable(there->second), key, *here, key));
  }
}

std::filesystem::path weights_file_of(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return path;
  const auto has_model = [&](const fs::path& folder) {
    return fs::exists(folder / kModelFile, ignored);
  };
  if (has_model(path)) return path / kModelFile;
  const std::array links{path / kBestLink, path / kLatestLink};
  for (const fs::path& link : links)
    if (fs::is_symlink(link, ignored) && has_model(link)) return link / kModelFile;
  if (const auto found = find_best(path)) return *found / kModelFile;
  // Links that were copied as folders: a run that went on has left them behind.
  for (const fs::path& folder : links)
    if (has_model(folder)) return folder / kModelFile;
  if (const fs::path run = run_in(path); !run.empty())
    throw DataError(fmt::format("{0}={1} holds runs: give one of them, such as {0}={2}",
                                kResumeFrom, path.string(), run.string()));
  throw DataError(
      fmt::format("{}={}: neither {}, nor a checkpoint (step-N/, best/, latest/) is there",
                  kResumeFrom, path.string(), kModelFile));
}

std::vector<std::string> evaluation_arguments(std::vector<std::string> arguments) {
  if (!is_given(arguments, "--eval")) return arguments;
  const auto place = find_value(arguments, kResumeFrom);
  if (!place) return arguments;
  std::string& argument = arguments[place->argument];
  const std::string path = argument.substr(place->offset);
  if (path.empty()) return arguments;
  const std::filesystem::path file = weights_file_of(path);
  argument.replace(place->offset, std::string::npos, file.string());
  const auto metadata = metadata_of_weights(file, false);
  check_given_model(metadata, arguments, file.string());
  for (std::string& added : options_of_writer(metadata, arguments))
    arguments.push_back(std::move(added));
  return arguments;
}

std::map<std::string, std::string> metadata_of_weights(const std::filesystem::path& file,
                                                       bool verifies) {
  std::error_code unreadable;
  const std::filesystem::path directory = file.parent_path();
  if (verifies && file.filename() == kModelFile &&
      std::filesystem::exists(directory / kStateFile, unreadable)) {
    try {
      verify_model(directory);
    } catch (const DataError& error) {
      throw DataError(fmt::format("{}={}: copy the checkpoint again, or give another one",
                                  kResumeFrom, error.what()));
    }
  }
  try {
    return SafetensorsFile(file).table().metadata;
  } catch (const DataError& error) {
    throw DataError(fmt::format("{}={}", kResumeFrom, error.what()));
  }
}

std::string joined_class_names(const std::vector<std::string>& names) {
  std::vector<std::string> texts;
  for (const std::string& name : names) texts.push_back(as_utf8(name));
  return fmt::format("{}", fmt::join(texts, "/"));
}

void check_classes_of_writer(const std::map<std::string, std::string>& metadata,
                             const std::vector<std::string>& names, const std::string& file) {
  const auto there = metadata.find(kClassNamesEntry);
  const std::string here = joined_class_names(names);
  if (names.empty() || there == metadata.end() || there->second == here) return;
  const auto [of_writer, of_data] = shown_classes(there->second, here);
  throw DataError(
      fmt::format("{}={}: it was trained on other classes: {} there, {} here: give the data of its "
                  "run, or weights that were trained on these classes",
                  kResumeFrom, file, printable(of_writer), printable(of_data)));
}

}  // namespace ddprun::trainer
