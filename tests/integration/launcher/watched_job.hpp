// Jobs with a watch on their workers' progress, and stand-ins for debuggers.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "tests/integration/launcher/script_job.hpp"

namespace ddprun::test {

/// With its report. A template, so that only the tests need the whole of JSON.
template <class Json = nlohmann::json>
struct WatchedJob {
  ChildResult job;
  Json report;
};

template <class Json = nlohmann::json>
WatchedJob<Json> run_watched(const std::vector<std::string>& options, const std::string& script,
                             const std::string& path = "") {
  auto [job, report] = run_script(options, script, path);
  return {std::move(job), Json::parse(report)};
}

/// The culprit's stacks as one text.
template <class Json>
std::string all_stacks(const Json& report) {
  std::string text;
  for (const auto& line : report["culprit"]["stacks"])
    text += line.template get<std::string>() + "\n";
  return text;
}

/// A program that takes the place of a debugger, in a folder of its own.
inline std::string stand_in(const TempDir& folder, const std::string& name,
                            const std::string& script) {
  const auto path = folder / name;
  std::ofstream(path) << "#!/bin/sh\n" << script << "\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return folder.path().string();
}

}  // namespace ddprun::test
