// Merges the lines of many workers into one output: whole lines, a prefix on each, progress bars
// kept sane. Pure.
#pragma once

#include <string_view>

#include "agent/streams/line_assembler.hpp"
#include "agent/streams/log_buffer.hpp"

namespace ddprun::agent {

/// One output of ours: a terminal, or a file or pipe. Where stdout and stderr are the same terminal
/// they share one.
class Console {
 public:
  explicit Console(bool terminal) : terminal_(terminal) {}

  /// Appends to `out` what showing this line takes. `source` tells whether an unfinished line is
  /// continued. On a terminal a progress bar overwrites itself; elsewhere only its last state is
  /// written.
  void add(int source, std::string_view prefix, std::string_view text, LineEnding ending,
           LogBuffer& out);

  /// The same for whole lines that end with newlines.
  void add_lines(int source, std::string_view prefix, std::string_view block, LogBuffer& out);

  /// Ends an unfinished line, so that something else can be written.
  void end_line(LogBuffer& out);

  [[nodiscard]] bool unfinished() const { return unfinished_by_ != kNobody; }

 private:
  static constexpr int kNobody = -2;

  bool terminal_;
  int unfinished_by_ = kNobody;  // whose unfinished line the cursor is in
  bool rewind_ = false;          // that line is a progress bar: the next text replaces it
};

}  // namespace ddprun::agent
