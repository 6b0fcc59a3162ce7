#include "trainer/run/plan/other_run.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "trainer/run/plan/plan.hpp"

namespace ddprun::trainer {
namespace {

using Differences = std::vector<EntryDifference>;

bool differs(const Differences& differences, std::string_view name) {
  return std::any_of(differences.begin(), differences.end(),
                     [&](const EntryDifference& one) { return one.entry().name == name; });
}

/// What makes another run, or what is only another setting.
void keep_those_of(Differences& differences, bool identity) {
  std::erase_if(differences,
                [&](const EntryDifference& one) { return one.entry().identity != identity; });
}

void leave_out(Differences& differences, std::initializer_list<std::string_view> names) {
  std::erase_if(differences, [&](const EntryDifference& one) {
    return std::find(names.begin(), names.end(), one.entry().name) != names.end();
  });
}

/// Keeps what decides: an option that was given, not what was computed from it.
void leave_out_consequences(Differences& differences) {
  if (differs(differences, "model"))
    std::erase_if(differences,
                  [](const EntryDifference& one) { return one.entry().name != "model"; });
  for (const char* const of_samples : {"tokens", "image_shape", "seed"})
    if (differs(differences, of_samples))
      leave_out(differences, {"data", "test_data", "samples", "vocabulary"});
  if (differs(differences, "data"))
    leave_out(differences, {"test_data", "samples", "vocabulary", "classes", "positive_weight"});
  if (differs(differences, "schedule"))
    leave_out(differences, {"step_epochs", "step_factor", "epochs", "plateau_on",
                            "plateau_patience", "plateau_factor"});
}

bool is_flag(std::string_view name) { return name == "flip" || name == "nesterov"; }

std::string option_of(const std::string& name) {
  if (name == "positive_weight") return "--pos-weight";
  if (name == "test_data") return "the held-out samples of --data";
  std::string option = "--" + name;
  std::replace(option.begin(), option.end(), '_', '-');
  return option;
}

/// What a configuration that has no such entry was made with.
std::optional<ConfigEntry> usual_entry(const std::string& name) {
  const RunConfig usual = later_entries({});
  const auto found = std::find_if(usual.begin(), usual.end(),
                                  [&](const ConfigEntry& entry) { return entry.name == name; });
  return found == usual.end() ? std::nullopt : std::optional(*found);
}

/// As a user types it; empty: not at all.
std::string typed(const std::optional<ConfigEntry>& given, const std::string& name) {
  const std::optional<ConfigEntry> entry = given ? given : usual_entry(name);
  if (!entry) return "";
  if (!entry->title.empty()) return entry->title;
  if (entry->value == ConfigEntry::Value(0.0)) return name == "loss_scale" ? "none" : "0";
  return to_string(entry->value);
}

std::string value_text(const std::optional<ConfigEntry>& entry, const std::string& name) {
  if (entry && !entry->title.empty()) return shown(*entry);
  const std::string value = typed(entry, name);
  return value.empty() ? "none" : value;
}

/// "--batch 64 there, 32 here".
std::string text_of(const EntryDifference& one) {
  const std::string& name = one.entry().name;
  if (is_flag(name))
    return fmt::format("{} {}", option_of(name), one.there ? "there, not here" : "here, not there");
  if (name == "replicas" && !(one.there && one.here)) {
    const std::string dp = fmt::format("dp with {} replicas", to_string(one.entry().value));
    return fmt::format("--parallel {} there, {} here", one.there ? dp : "ddp",
                       one.here ? dp : "ddp");
  }
  return fmt::format("{} {} there, {} here", option_of(name), value_text(one.there, name),
                     value_text(one.here, name));
}

/// What to give instead, to have what is there: "--batch=64".
std::string remedy_of(const EntryDifference& one) {
  const std::string& name = one.entry().name;
  if (name == "data" || name == "test_data")
    return "the same --data, with the same options of samples";
  if (name == "replicas" && !one.there) return "--parallel=ddp";
  const std::string option = option_of(name);
  if (is_flag(name)) return one.there ? option : "no " + option;
  const std::string value = typed(one.there, name);
  if (value.empty()) return "no " + option;
  const std::string setting = fmt::format("{}={}", option, value);
  return name == "replicas" && !one.here ? "--parallel=dp " + setting : setting;
}

std::string joined(const Differences& differences, std::string (*text)(const EntryDifference&)) {
  std::vector<std::string> parts;
  for (const EntryDifference& one : differences) parts.push_back(text(one));
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

std::string why_another_run(std::vector<EntryDifference> differences) {
  keep_those_of(differences, /*identity=*/true);
  if (differences.empty()) return "";
  leave_out_consequences(differences);
  return fmt::format("it belongs to another run: {}: give {} to go on with it",
                     joined(differences, text_of), joined(differences, remedy_of));
}

std::string other_settings_text(std::vector<EntryDifference> differences) {
  keep_those_of(differences, /*identity=*/false);
  if (differences.empty()) return "";
  leave_out_consequences(differences);
  return fmt::format(
      " was written with other settings ({}): the result is not that of one undisturbed run: give "
      "{} to have that",
      joined(differences, text_of), joined(differences, remedy_of));
}

}  // namespace ddprun::trainer
