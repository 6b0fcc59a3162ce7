#include "agent/streams/status_area.hpp"

#include <algorithm>
#include <cstddef>

#include "agent/streams/terminal_text.hpp"

namespace ddprun::agent {

void StatusArea::draw(const std::vector<std::string>& rows, int columns, LogBuffer& out) {
  if (rows.size() != drawn_.size()) erase(out);
  std::size_t first = 0;
  while (first < drawn_.size() && drawn_[first] == rows[first]) ++first;
  if (first == rows.size()) return;
  if (!drawn_.empty()) go_to(first, out);
  const bool wrapped =
      std::any_of(heights_.begin(), heights_.end(), [](int height) { return height > 1; });
  if (wrapped) out.append("\x1b[J");
  for (std::size_t i = first; i < rows.size(); ++i) {
    if (i > first) out.append("\r\n");
    out.append(rows[i]);
    // Behind the last column it would erase the character there.
    if (text_columns(rows[i]) < columns) out.append("\x1b[K");
  }
  // Behind a full row what the user types (^C, ^Z) would wrap.
  out.append("\r");
  drawn_ = rows;
  heights_.assign(rows.size(), 1);
}

void StatusArea::erase(LogBuffer& out) {
  if (drawn_.empty()) return;
  go_to(0, out);
  out.append("\x1b[J");
  drawn_.clear();
}

void StatusArea::resize(int columns) {
  for (std::size_t i = 0; i < drawn_.size(); ++i)
    heights_[i] = std::max(1, (text_columns(drawn_[i]) + columns - 1) / columns);
}

void StatusArea::go_to(std::size_t first, LogBuffer& out) const {
  int up = 0;
  for (std::size_t i = first; i + 1 < drawn_.size(); ++i) up += heights_[i];
  out.append("\r");
  if (up > 0) out.append("\x1b[" + std::to_string(up) + "A");
}

}  // namespace ddprun::agent
