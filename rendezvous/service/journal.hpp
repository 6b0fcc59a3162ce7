// Where the rendezvous service keeps the events of its jobs, so that another process can go on with
// them: a journal of what happened, replayed into the same core.
// rendezvous/service/journal_file.hpp is the one in a folder.
#pragma once

#include <string>
#include <vector>

#include "rendezvous/service/service_core.hpp"

namespace ddprun::rdzv {

/// What an earlier process has left.
struct JournalPast {
  std::vector<JobRecord> records;  ///< those of one job in their order
  /// Whether that is all: no job of that time is missing. See ServiceSettings::remembers.
  bool is_complete = false;
  /// The service's clock is the boot clock and this: it goes on where the records end, also after
  /// the machine was started again.
  Clock::duration clock_shift{0};
  std::vector<std::string> warnings;  ///< lines for the people at the service
};

/// Used by one thread at a time.
class Journal {
 public:
  Journal() = default;
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;
  virtual ~Journal() = default;

  /// Once, before all else.
  virtual JournalPast take_past() = 0;
  /// Becomes durable with the next commit.
  virtual void append(const JobRecord& record) = 0;
  /// Takes the place of all records of its job so far with the next commit. Where it cannot, they
  /// stay.
  virtual void replace(const JobSnapshot& snapshot) = 0;
  /// Takes back all records of a job so far. It may have new ones afterwards.
  virtual void forget(const std::string& run_id) = 0;
  /// Makes all durable that is not. Never fails: where it cannot, that is in the lines that it
  /// returns, for the people at the service; the records are kept and tried again the next time.
  virtual std::vector<std::string> commit() = 0;
  /// Whether all that was committed is durable.
  [[nodiscard]] virtual bool is_durable() const = 0;
  /// Whether the service may tell anybody anything now. No: another process has its jobs, or may
  /// have them. Asked after what it answers was read from a socket, and before it is answered: this
  /// process may have been stopped in between. After a no it is always no, and the service resets
  /// its connections.
  [[nodiscard]] virtual bool may_answer() { return true; }
};

}  // namespace ddprun::rdzv
