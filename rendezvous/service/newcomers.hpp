// The connections that are no agent's yet: so many places, and which of them is given up for
// another connection. Pure.
//
// Anybody can make connections and leave them silent. So where all places are taken the oldest one
// goes: an agent gets through its hellos in milliseconds, and is never the oldest for long.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <string>

#include "rendezvous/service/job.hpp"

namespace ddprun::rdzv {

class Newcomers {
 public:
  struct Limits {
    std::size_t places = 1'024;
    /// One address may have so many of them while others need a place.
    std::size_t places_per_addr = 256;
    /// Each may stay for so long: many agents may come at one time, from one address or from many.
    std::chrono::milliseconds kept{250};
  };

  explicit Newcomers(Limits limits) : limits_(limits) {}

  /// Ids rise. Nothing happens where `remove` does not know one.
  void add(ConnectionId id, const std::string& addr, Clock::time_point now);
  void remove(ConnectionId id);
  /// Nobody was served for so long until now, so it does not count as their stay.
  void leave_out(std::chrono::nanoseconds span) { left_out_ += span; }
  [[nodiscard]] bool contains(ConnectionId id) const { return all_.contains(id); }
  [[nodiscard]] std::size_t size() const { return all_.size(); }
  [[nodiscard]] bool has_place() const { return all_.size() < limits_.places; }

  /// Which connection gives its place to one from `addr`: the oldest of an address that has more
  /// than its share, whatever its age; else the oldest of all that has had its time. None: that one
  /// waits.
  [[nodiscard]] std::optional<ConnectionId> to_close_for(const std::string& addr,
                                                         Clock::time_point now) const;
  /// The oldest that has had its time. None: there is none yet.
  [[nodiscard]] std::optional<ConnectionId> oldest(Clock::time_point now) const;

 private:
  struct Newcomer {
    std::string addr;
    Clock::time_point since;  // less what was left out by then
  };

  const Limits limits_;
  std::chrono::nanoseconds left_out_{0};
  std::map<ConnectionId, Newcomer> all_;  // the oldest first
  std::map<std::string, std::size_t> by_addr_;
};

}  // namespace ddprun::rdzv
