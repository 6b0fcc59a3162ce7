#include "agent/streams/console.hpp"

#include <cstring>

namespace ddprun::agent {

void Console::end_line(LogBuffer& out) {
  if (unfinished_by_ != kNobody) out.push_back('\n');
  unfinished_by_ = kNobody;
  rewind_ = false;
}

void Console::add(int source, std::string_view prefix, std::string_view text, LineEnding ending,
                  LogBuffer& out) {
  if (ending == LineEnding::carriage_return && !terminal_)
    return;  // a state that the next one replaces
  if (unfinished_by_ != source) end_line(out);
  const bool replaces = unfinished_by_ == source && rewind_;
  // "\r" at the very start of a bar, and "\n" behind its last state, bring no text of their own.
  if (!text.empty() || (ending == LineEnding::newline && unfinished_by_ != source)) {
    if (replaces) out.append("\r");
    if (replaces || unfinished_by_ != source) out.append(prefix);
    out.append(text);
    if (replaces) out.append("\x1b[K");  // a shorter state must not leave the end of a longer one
    rewind_ = false;
  }
  switch (ending) {
    case LineEnding::newline:
      out.push_back('\n');
      unfinished_by_ = kNobody;
      rewind_ = false;
      break;
    case LineEnding::carriage_return:
      if (!text.empty() || unfinished_by_ == source) {
        unfinished_by_ = source;
        rewind_ = true;
      }
      break;
    case LineEnding::none:
      if (!text.empty()) unfinished_by_ = source;
      break;
  }
}

void Console::add_lines(int source, std::string_view prefix, std::string_view block,
                        LogBuffer& out) {
  if (unfinished_by_ != kNobody) {
    const std::size_t end = block.find('\n');
    add(source, prefix, block.substr(0, end), LineEnding::newline, out);
    block.remove_prefix(end + 1);
  }
  if (prefix.empty()) {
    out.append(block);
    return;
  }
  while (!block.empty()) {
    const std::size_t line = block.find('\n') + 1;
    char* to = out.room(prefix.size() + line);
    std::memcpy(to, prefix.data(), prefix.size());
    std::memcpy(to + prefix.size(), block.data(), line);
    out.grow(prefix.size() + line);
    block.remove_prefix(line);
  }
}

}  // namespace ddprun::agent
