// The lines of a store for people, of which those that repeat are held back.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "proto/c10d.hpp"
#include "rendezvous/store/warning_limiter.hpp"

namespace ddprun::rdzv {

class StoreWarnings {
 public:
  /// Kinds of warnings: the reasons to refuse a client, and one more.
  static constexpr std::size_t kKinds = proto::c10d::Refusal::kReasons + 1;

  explicit StoreWarnings(std::function<void(const std::string&)> write)
      : write_(std::move(write)), limiter_(kKinds) {}

  /// Unless there were too many of that kind: then they are counted, and reported later.
  template <class MakeLine>
  void warn(std::size_t kind, std::chrono::steady_clock::time_point now, MakeLine make_line) {
    if (!limiter_.admit(kind, now)) return;
    const std::string line = make_line();
    limiter_.remember(kind, line);
    write(line);
  }
  void write(const std::string& line) const;

  [[nodiscard]] bool holding() const { return limiter_.holding(); }
  [[nodiscard]] auto due() const { return limiter_.due(); }
  void report(std::chrono::steady_clock::time_point now) {
    for (const std::string& line : limiter_.reports(now)) write(line);
  }

 private:
  std::function<void(const std::string&)> write_;  // empty: to spdlog
  WarningLimiter limiter_;
};

}  // namespace ddprun::rdzv
