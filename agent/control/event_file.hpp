// The file of --event-log: a line of JSON for each event, the newest last.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "agent/events/event_log.hpp"
#include "agent/streams/log_file.hpp"
#include "agent/streams/log_writer.hpp"
#include "base/result.hpp"

namespace ddprun::agent {

class EventFile {
 public:
  /// Opens for appending. `node`: the name of this one. Errors: the system's.
  static Result<EventFile> open(const std::string& path, std::string node);

  /// What has happened since the last call. Never waits for the disk: a thread does, and what comes
  /// while 8 MiB wait for it is lost.
  void follow(const EventLog& log);
  /// Waits for the disk, but not beyond the deadline. Gives how many bytes are lost.
  std::uint64_t finish(std::chrono::steady_clock::time_point deadline);

 private:
  EventFile(std::shared_ptr<LogFile> file, std::string node)
      : file_(std::move(file)), node_(std::move(node)) {}

  std::shared_ptr<LogFile> file_;
  std::string node_;
  std::uint64_t next_event_ = 1;
  std::unique_ptr<LogWriter> writer_ = std::make_unique<LogWriter>(
      LogWriterSettings{.kind = LogWriterSettings::Kind::files, .policy = LogPolicy::drop});
};

}  // namespace ddprun::agent
