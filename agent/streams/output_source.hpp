// What the thread that reads workers is told of one stream. Plain data.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/streams/line_prefix.hpp"
#include "agent/streams/log_file.hpp"
#include "base/unique_handle.hpp"
#include "proto/membership_messages.hpp"

namespace ddprun::agent {

/// How many streams of one worker are left unread because an output of ours is slow or stuck. The
/// worker may wait in a print meanwhile. Written by the thread that reads the streams.
struct UnreadStreams {
  std::atomic<int> now{0};               ///< so many of them
  std::atomic<std::uint64_t> pauses{0};  ///< how often that has begun
};

/// The round in which a worker was started, and its local rank.
using WorkerKey = std::pair<proto::RoundNumber, int>;
/// Workers that go on when their round is over.
using KeptWorkers = std::set<WorkerKey>;

/// Our end of a worker's stream.
struct OutputSource {
  UniqueFd fd;  ///< a pipe's reading end or a pseudo-terminal's master; non-blocking
  proto::RoundNumber round = 0;
  int local_rank = 0;
  int rank = 0;  ///< in that round
  bool standard_error = false;
  bool both = false;      ///< stderr, and stdout with it, in the order in which they were written
  bool terminal = false;  ///< a pseudo-terminal: unfinished lines are shown early
  bool reads_input = false;  ///< the worker has our stdin: an unfinished line may be a prompt
  LinePrefix prefix;
  bool coloured = false;          ///< the prefix, on the console
  bool to_console = true;         ///< shown
  std::optional<int> folds_as;    ///< its rank: lines that others print, too, are shown once
  bool verbatim = false;          ///< as it comes: no lines, no prefixes, every byte at once
  std::shared_ptr<LogFile> file;  ///< gets every byte as the worker wrote it; null: none
  /// Gets the lines with one of `filters`, with their prefix.
  std::shared_ptr<LogFile> filtered_file;
  std::shared_ptr<const std::vector<std::string>> filters;  ///< needed with filtered_file
  std::shared_ptr<std::atomic<std::uint64_t>> bytes_read;   ///< kept up to date; null: not counted
  std::shared_ptr<UnreadStreams> unread;  ///< as `bytes_read`, for all streams of its worker

  [[nodiscard]] WorkerKey worker() const { return {round, local_rank}; }
  [[nodiscard]] bool shows_lines() const { return to_console && !verbatim; }
};

}  // namespace ddprun::agent
