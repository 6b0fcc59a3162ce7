// The bytes that come from a host's ddprun through ssh, taken apart into whole lines, the greeting
// and the record of the end. Pure.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/ssh/node_messages.hpp"

namespace ddprun::launcher {

/// Whole lines of one stream, so that those of several hosts can be merged.
class WholeLines {
 public:
  /// A line that is longer is passed on in pieces.
  static constexpr std::size_t kLineBytesMax = 1024 * 1024;

  /// The lines that are whole now, with their ends.
  std::string add(std::string_view bytes);
  /// What is left at the end of the stream, ended by a newline; empty: nothing.
  std::string rest();

 private:
  std::string begun_;
};

/// The host's stderr. The greeting comes there, too, because the two streams have no common order.
class NodeErrors {
 public:
  /// What is printed in front of the greeting is kept up to so much of its end.
  static constexpr std::size_t kBannerBytesMax = 8 * 1024;

  /// Lines that are whole now: of ddprun there and its workers.
  std::string add(std::string_view bytes);
  /// As WholeLines.
  std::string rest();
  /// The last bytes that were printed, behind the greeting where there is one.
  [[nodiscard]] const std::string& last() const { return last_; }

 private:
  bool is_greeted_ = false;
  std::string last_;
  WholeLines lines_;
};

/// The host's stdout.
class NodeOutput {
 public:
  /// More in front of the greeting is no login shell's banner.
  static constexpr std::size_t kBannerBytesMax = 1024 * 1024;

  /// `mark` is that of the plan.
  explicit NodeOutput(std::string mark) : mark_(kRecordByte + std::move(mark) + " ") {}

  struct Taken {
    std::string lines;                   ///< of the job, whole
    std::optional<std::string> version;  ///< the greeting has come, with the version there
    std::optional<NodeEnd> end;          ///< the record has come
    std::string problem;                 ///< not empty: no ddprun of ours is there
  };
  Taken add(std::string_view bytes);
  /// As WholeLines.
  std::string rest();
  [[nodiscard]] bool is_greeted() const { return is_greeted_; }
  /// What was printed in front of the greeting, while there is none.
  [[nodiscard]] const std::string& banner() const { return waiting_; }

 private:
  void take_greeting(Taken& taken);
  void take_output(Taken& taken);
  void take_record(Taken& taken);

  const std::string mark_;
  bool is_greeted_ = false;
  bool in_record_ = false;
  std::string waiting_;  // not taken apart yet
  WholeLines lines_;
};

/// A line of ddprun's gets the host's name. One that another host has printed already, word for
/// word, is left out: all hosts tell of a restart. Lines of workers stay as they are.
class OwnLines {
 public:
  /// More different lines are forgotten, and may then come again.
  static constexpr std::size_t kLinesMax = 1'000;

  /// Whole lines of one host, as they are to be shown.
  std::string take(const std::string& host, std::string_view lines);

 private:
  struct Line {
    std::size_t shown = 0;                  // times
    std::map<std::string, std::size_t> by;  // times each host printed it
  };
  std::map<std::string, Line, std::less<>> known_;
};

}  // namespace ddprun::launcher
