// Tables of our documents, for tests that compare them with the code.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <string>
#include <vector>

namespace ddprun::test {

/// The cells of the Markdown table with a heading that begins with `heading`, row by row, heading
/// first.
inline std::vector<std::vector<std::string>> table_in(const std::string& document,
                                                      const std::string& heading) {
  std::ifstream file(document);
  REQUIRE(file.good());
  std::vector<std::vector<std::string>> rows;
  std::string line;
  while (std::getline(file, line)) {
    if (rows.empty() ? !line.starts_with(heading) : line.starts_with("| ---")) continue;
    if (!line.starts_with("| ")) break;
    std::vector<std::string> cells;
    for (std::size_t begin = 2; begin < line.size();) {
      const std::size_t end = std::min(line.find(" |", begin), line.size());
      cells.push_back(line.substr(begin, end - begin));
      begin = end + 3;
    }
    rows.push_back(std::move(cells));
  }
  REQUIRE_FALSE(rows.empty());
  return rows;
}

}  // namespace ddprun::test
