// What the leaders of a job's rendezvous have told its agents so far, as records: each later leader
// must know all of it, and nothing that was not written.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/service/service_core.hpp"
#include "tests/sim/world.hpp"

namespace ddprun::sim {

class SimTold {
 public:
  /// This is being written; nobody was told of it yet.
  void write(const rdzv::ServiceActions& actions);
  /// All that was written is told of, at that time of the service's clock.
  void tell(Clock::time_point at);
  /// A new leader has read this. It takes from now on for told what it found of what was written.
  /// The records of that, which have happened although nobody was told.
  std::vector<rdzv::JobRecord> read(const std::vector<rdzv::JobRecord>& past, Clock::time_point at);

  /// Empty: nothing.
  [[nodiscard]] const std::string& broken() const { return broken_; }

 private:
  struct Write {
    std::optional<std::string> instead;  // of all frames so far
    std::string frames;                  // behind these
    std::vector<rdzv::JobRecord> records;
  };

  static void apply(std::string& frames, const Write& write);

  std::string told_;           // frames of a journal
  std::deque<Write> written_;  // since then
  Clock::time_point clock_{};
  std::string broken_;
};

}  // namespace ddprun::sim
