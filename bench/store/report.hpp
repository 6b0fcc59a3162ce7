// Where results go: a table for people, or one JSON object per line.
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace ddprun::bench {

class Report {
 public:
  using Value = std::variant<std::string, double>;
  using Row = std::vector<std::pair<std::string, Value>>;

  explicit Report(bool json) : json_(json) {}
  /// Begins the rows of one scenario; `title` is one line for people.
  void begin(const std::string& scenario, const std::string& title);
  /// Rows with the same names share one line of headings.
  void row(const Row& row);
  /// A line for people, and a "note" in JSON.
  void note(const std::string& text);

 private:
  bool json_;
  std::string scenario_;
  std::vector<std::string> names_;
};

}  // namespace ddprun::bench
