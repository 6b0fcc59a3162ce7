// What this node saw of one worker's end -> the strongest evidence about it. Pure; the
// membership core decides which worker is the culprit.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "proto/membership_messages.hpp"

namespace ddprun::agent {

/// All that was seen of one worker. Times are since the start of the round on this node.
struct WorkerObservation {
  std::optional<ExitStatus> exit;  ///< none: it has not ended
  std::chrono::nanoseconds ended_at{0};
  std::optional<std::chrono::nanoseconds> stopped_at;  ///< when we began to stop the round
  bool stopped_by_us = false;                          ///< it ended after that
  bool was_dying = false;                              ///< though it was ending already then
  bool killed_by_us = false;                           ///< it ended after our SIGKILL
  int stop_signal = 0;                                 ///< the signal with which we stop
  std::string not_started;   ///< why it could not be started; empty: it was
  bool memory_kill = false;  ///< the kernel killed something of the round for memory

  /// Its first line about the exception that it has not outlived.
  std::optional<std::chrono::nanoseconds> exception_at;
  std::string exception_message;
  bool exception_certain = true;     ///< false: the lines may be ordinary ones of its stdout
  bool exception_in_output = false;  ///< they came where its stdout and stderr are one stream
  std::optional<std::chrono::nanoseconds> error_file_at;  ///< when its error file was written
  std::string error_file_message;
  /// Its last progress, where it was found to hang.
  std::optional<std::chrono::nanoseconds> hung_at;
  std::string hang_message;
  bool suspended = false;   ///< a signal held it when we began to stop the round
  bool all_silent = false;  ///< it hung as all did: none printed anything
};

/// A worker that we stopped so long after its exception was still failing: Python tears down
/// slowly.
inline constexpr std::chrono::seconds kStillFailing{5};
/// One that hangs in its tear-down, until its peers' time-outs, is not forgotten sooner; against
/// a worker that failed by itself it does not count.
inline constexpr std::chrono::minutes kStuckFailing{35};

/// None: the worker did not fail; it succeeded, or did as it was told.
std::optional<proto::Evidence> evidence_of(const WorkerObservation& seen);

}  // namespace ddprun::agent
