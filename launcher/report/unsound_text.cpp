#include "launcher/report/unsound_text.hpp"

#include <fmt/format.h>

#include "launcher/report/screen_text.hpp"

namespace ddprun::launcher {

std::string unsound_text(const std::vector<proto::UnsoundNode>& unsound) {
  std::string text;
  for (const proto::UnsoundNode& one : unsound)
    text += fmt::format("ddprun: {} {}{}\n", one.node, on_screen(one.reason, kTextBytesShown),
                        one.times > 1 ? fmt::format(" ({} times)", one.times) : "");
  return text;
}

}  // namespace ddprun::launcher
