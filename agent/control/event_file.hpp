// The file of --event-log: a line of JSON for each event, the newest last.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "agent/events/event_log.hpp"
#include "agent/streams/log_writer.hpp"
#include "base/byte_output.hpp"
#include "base/result.hpp"

namespace ddprun::agent {

class EventFile {
 public:
  /// Opens a regular file for appending, and makes it where there is none. `node`: the name of this
  /// one. Errors: as open_named_file's.
  static Result<EventFile> open(const std::string& path, std::string node);

  /// What has happened since the last call. Never waits for the disk: a thread does, and what comes
  /// while 8 MiB wait for it is lost.
  void follow(const EventLog& log);
  /// Waits for the disk, but not beyond the deadline. Gives how many bytes are lost.
  std::uint64_t finish(std::chrono::steady_clock::time_point deadline);

 private:
  EventFile(std::shared_ptr<ByteOutput> file, std::string node);

  std::shared_ptr<ByteOutput> file_;
  std::string node_;
  std::uint64_t next_event_ = 1;
  std::unique_ptr<LogWriter> writer_;
};

}  // namespace ddprun::agent
