// What this node saw of one worker's end -> the strongest evidence about it. Pure; who the culprit
// of the job is, the membership core decides.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "proto/membership_messages.hpp"

namespace ddprun::agent {

/// All that was seen of one worker. Times are since the start of the round on this node.
struct WorkerObservation {
  std::optional<proto::WorkerExit> exit;  ///< none: it has not ended
  std::chrono::nanoseconds ended_at{0};
  bool stopped_by_us = false;  ///< it ended after we had begun to stop the round
  int stop_signal = 0;         ///< the signal with which we stop
  std::string not_started;     ///< why it could not be started; empty: it was
  bool memory_kill = false;    ///< the kernel killed something of the round for memory

  std::optional<std::chrono::nanoseconds> exception_at;  ///< its first line about an exception
  std::string exception_message;
  std::optional<std::chrono::nanoseconds> error_file_at;  ///< when its error file was written
  std::string error_file_message;
  std::optional<std::chrono::nanoseconds> hung_at;  ///< its last progress, where it was found to
                                                    ///< hang
  std::string hang_message;
};

/// None: the worker did not fail; it succeeded, or did as it was told.
std::optional<proto::Evidence> evidence_of(const WorkerObservation& seen);

}  // namespace ddprun::agent
