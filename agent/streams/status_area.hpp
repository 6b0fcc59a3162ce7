// A few rows at the bottom of a terminal that are drawn again and again, while lines scroll by
// above them. Pure.
#pragma once

#include <string>
#include <vector>

#include "agent/streams/log_buffer.hpp"

namespace ddprun::agent {

/// The cursor rests at the start of the last row. Rows are no wider than the terminal.
class StatusArea {
 public:
  /// Draws the rows in the place of those before; only from the first that differs.
  void draw(const std::vector<std::string>& rows, int columns, LogBuffer& out);
  /// Takes the rows off the screen; the cursor is then at the start of a line.
  void erase(LogBuffer& out);
  /// The terminal has a new width, and has wrapped the rows that are longer.
  void resize(int columns);
  /// What was drawn is lost, or no longer at the cursor.
  void forget() { drawn_.clear(); }

  [[nodiscard]] bool empty() const { return drawn_.empty(); }

 private:
  /// Back to the start of row `first`.
  void go_to(std::size_t first, LogBuffer& out) const;

  std::vector<std::string> drawn_;
  std::vector<int> heights_;  // lines of the terminal that each row takes
};

}  // namespace ddprun::agent
