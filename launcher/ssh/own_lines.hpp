// What ddprun on the hosts prints to stderr itself, for the one screen of the launcher. Pure.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

namespace ddprun::launcher {

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
