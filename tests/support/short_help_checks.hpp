// What holds of each program's -h.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <sstream>
#include <string>

#include "texts/misplaced_option.hpp"

namespace ddprun::test {

/// About 25 lines of at most 80 columns, with options of `program` only, those of ddprun before it.
inline void check_short_help(const std::string& program, const std::string& text) {
  std::istringstream lines(text);
  int count = 0;
  int options = 0;
  const auto known = options_of(program);
  for (std::string line; std::getline(lines, line); ++count) {
    INFO(line);
    CHECK(line.size() <= 80);
    if (!line.starts_with("  --")) continue;
    ++options;
    const std::string name = line.substr(4, line.find_first_of("= ", 4) - 4);
    CHECK(std::find(known.begin(), known.end(), name) != known.end());
  }
  CHECK(count <= 26);
  CHECK(options >= 9);
  CHECK(text.find(program + " --help lists all options") != std::string::npos);
}

}  // namespace ddprun::test
