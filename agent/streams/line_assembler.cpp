#include "agent/streams/line_assembler.hpp"

namespace ddprun::agent {

void LineAssembler::feed(std::string_view bytes, const Sink& sink) {
  const auto give = [&](std::string_view text, LineEnding ending) {
    if (partial_.empty()) {
      sink(text, ending);
    } else {
      partial_.append(text);
      sink(partial_, ending);
      partial_.clear();
    }
  };
  while (!bytes.empty()) {
    if (after_carriage_return_) {
      // Whether "\r" ended a line or went back to its start shows only now.
      after_carriage_return_ = false;
      const bool newline = bytes.front() == '\n';
      if (newline) bytes.remove_prefix(1);
      give({}, newline ? LineEnding::newline : LineEnding::carriage_return);
      continue;
    }
    const std::size_t end = bytes.find_first_of("\n\r");
    if (end == std::string_view::npos || end > kLineBytesMax) {
      const std::size_t room = kLineBytesMax - partial_.size();
      if (end == std::string_view::npos && bytes.size() < room) {
        partial_.append(bytes);
        return;
      }
      give(bytes.substr(0, room), LineEnding::none);
      bytes.remove_prefix(room);
      continue;
    }
    if (partial_.size() + end > kLineBytesMax) {
      const std::size_t room = kLineBytesMax - partial_.size();
      give(bytes.substr(0, room), LineEnding::none);
      bytes.remove_prefix(room);
      continue;
    }
    if (bytes[end] == '\n') {
      give(bytes.substr(0, end), LineEnding::newline);
    } else {
      partial_.append(bytes.substr(0, end));
      after_carriage_return_ = true;
    }
    bytes.remove_prefix(end + 1);
  }
}

void LineAssembler::flush(const Sink& sink) {
  if (after_carriage_return_) {
    after_carriage_return_ = false;
    sink(partial_, LineEnding::carriage_return);
  } else if (!partial_.empty()) {
    sink(partial_, LineEnding::none);
  }
  partial_.clear();
}

}  // namespace ddprun::agent
