// What stands before a worker's lines: a template with the worker's numbers, the time, a colour.
#pragma once

#include <array>
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::agent {

/// What `${...}` may name. `role` and `host` are short for the names that torchrun has.
inline constexpr std::array<std::string_view, 8> kPrefixNames = {
    "rank", "local_rank", "role_name", "role", "hostname", "host", "round", "time"};

/// The usual template.
inline constexpr std::string_view kRankPrefix = "[rank${rank}] ";

/// That of a line which several ranks have printed, in the colour of the first. Ranks in their
/// order.
std::string ranks_prefix(const std::vector<int>& ranks, bool coloured);

/// What a template's fields stand for, for one worker in one round.
struct PrefixValues {
  int rank = 0;
  int local_rank = 0;
  int round = 0;
  std::string role = {};
  std::string host = {};
};

class LinePrefix {
 public:
  LinePrefix() = default;
  LinePrefix(std::string text, PrefixValues values);

  /// Without a colour. `now` counts where the template has `${time}`, which is HH:MM:SS.mmm of the
  /// local clock. The view is valid until the next call.
  std::string_view plain(std::chrono::system_clock::time_point now) { return at(now), plain_; }
  /// In the colour of the rank, which ends with the prefix.
  std::string_view coloured(std::chrono::system_clock::time_point now) {
    return at(now), coloured_;
  }
  [[nodiscard]] bool has_time() const { return has_time_; }

 private:
  void at(std::chrono::system_clock::time_point now);
  [[nodiscard]] std::string filled(std::string_view time) const;
  void set(std::string text);

  std::string template_;
  PrefixValues values_;
  bool has_time_ = false;
  std::chrono::milliseconds shown_{-1};
  std::string plain_;
  std::string coloured_;
};

}  // namespace ddprun::agent
