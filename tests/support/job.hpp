// Jobs of `ddprun` with job_worker's actions as workers.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/child.hpp"
#include "tests/support/temp_dir.hpp"

namespace ddprun::test {

/// Runs `ddprun OPTIONS job_worker ACTIONS` with a temporary directory of its own and a mark in the
/// environment.
class Job {
 public:
  ChildResult run(std::vector<std::string> options, const std::vector<std::string>& actions,
                  const std::string& input = "") {
    ChildResult result = test::run(command(std::move(options), actions), settings(input));
    CHECK(processes_with(mark_entry()).empty());          // nothing runs on
    CHECK(std::filesystem::is_empty(directory_.path()));  // and no file is left
    return result;
  }
  static std::vector<std::string> command(std::vector<std::string> options,
                                          const std::vector<std::string>& actions) {
    std::vector<std::string> words{test::program("ddprun")};
    words.insert(words.end(), options.begin(), options.end());
    words.push_back(test::helper("job_worker"));
    words.insert(words.end(), actions.begin(), actions.end());
    return words;
  }
  ChildOptions settings(const std::string& input = "") {
    ChildOptions settings;
    settings.environment = {
        {"TMPDIR", directory_.path().string()}, {"TEST_MARK", mark_}, {"OMP_NUM_THREADS", "1"}};
    settings.input = input;
    return settings;
  }
  [[nodiscard]] std::string mark_entry() const { return "TEST_MARK=" + mark_; }

 private:
  TempDir directory_;
  std::string mark_ = unique_mark();
};

inline std::vector<std::string> sorted_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  std::sort(lines.begin(), lines.end());
  return lines;
}

}  // namespace ddprun::test
