// Jobs with a shell script as their workers, and the report that they leave.
#pragma once

#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/support/job.hpp"

namespace ddprun::test {

struct ScriptResult {
  ChildResult job;
  std::string report;  ///< JSON
};

/// Runs `script` in a shell as every worker; $W is job_worker. A `path` takes PATH's place.
inline ScriptResult run_script(const std::vector<std::string>& options, const std::string& script,
                               const std::string& path = "") {
  const TempDir folder;
  const std::string file = (folder / "report.json").string();
  std::vector<std::string> words{program("ddprun"), "--report=" + file, "--grace-period=2"};
  words.insert(words.end(), options.begin(), options.end());
  words.insert(words.end(), {"/bin/sh", "-c", script});
  Job job;
  auto settings = job.settings();
  settings.environment.emplace_back("W", helper("job_worker"));
  if (!path.empty()) settings.environment.emplace_back("PATH", path);
  ScriptResult result{run(words, settings), {}};
  CHECK(processes_with(job.mark_entry()).empty());
  std::ifstream stream(file);
  result.report.assign(std::istreambuf_iterator<char>(stream), {});
  return result;
}

}  // namespace ddprun::test
