#include "launcher/report/unsound_text.hpp"

#include <fmt/format.h>

#include "launcher/report/screen_text.hpp"

namespace ddprun::launcher {

namespace {

/// Where several nodes have one name, the line has the longer names of their agents:
/// `node3-4711-c8991ace`.
bool is_named_in(std::string_view line, const proto::UnsoundNode& node) {
  if (!line.starts_with(node.node)) return false;
  line.remove_prefix(node.node.size());
  return line.starts_with('-') ? line.find(" " + node.reason) != std::string_view::npos
                               : line.starts_with(" " + node.reason);
}

}  // namespace

std::string unsound_text(const std::vector<proto::UnsoundNode>& unsound,
                         std::string_view next_line) {
  std::string text;
  for (const proto::UnsoundNode& one : unsound) {
    if (one.times == 1 && is_named_in(next_line, one)) continue;
    text += fmt::format("ddprun: {} {}{}\n", one.node, on_screen(one.reason, kTextBytesShown),
                        one.times > 1 ? fmt::format(" ({} times)", one.times) : "");
  }
  return text;
}

}  // namespace ddprun::launcher
