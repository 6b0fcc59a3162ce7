// Jobs that a test starts, signals and watches: their processes are found by a mark in their
// environment.
#pragma once

#include <catch2/catch.hpp>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/child.hpp"
#include "tests/support/job.hpp"

namespace ddprun::test {

inline bool nothing_left(const std::string& mark) {
  return eventually([&] { return processes_with("TEST_MARK=" + mark).empty(); },
                    std::chrono::seconds(5));
}

inline int count(const std::string& text, const std::string& word) {
  int n = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++n;
  return n;
}

inline char state_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  const auto at = text.rfind(')');
  return at == std::string::npos ? 'X' : text[at + 2];
}

inline std::vector<pid_t> named(const std::string& name, const std::string& mark) {
  std::vector<pid_t> found;
  for (const pid_t pid : processes_with("TEST_MARK=" + mark)) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
    std::string actual;
    std::getline(file, actual);
    if (actual == name) found.push_back(pid);
  }
  return found;
}

}  // namespace ddprun::test
