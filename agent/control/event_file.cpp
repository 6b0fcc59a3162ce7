#include "agent/control/event_file.hpp"

#include <utility>

#include <fmt/format.h>

#include "agent/events/event_json.hpp"

namespace ddprun::agent {

Result<EventFile> EventFile::open(const std::string& path, std::string node) {
  auto file = LogFile::open(path, RotationSettings{});
  if (!file) return file.error();
  return EventFile(std::move(*file), std::move(node));
}

void EventFile::follow(const EventLog& log) {
  // The log keeps what has to wait a moment; what waits for longer is written to be counted as
  // lost.
  if (!writer_->accepts(std::chrono::steady_clock::now())) return;
  LogBuffer lines;
  while (const JobEvent* const event = log.from(next_event_)) {
    if (event->number > next_event_)
      lines.append(fmt::format("{{\"lost\":{}}}\n", event->number - next_event_));
    next_event_ = event->number + 1;
    lines.append(event_json(*event, node_) + "\n");
  }
  writer_->write(file_, std::move(lines));
}

std::uint64_t EventFile::finish(std::chrono::steady_clock::time_point deadline) {
  if (!writer_->finish(deadline)) writer_->give_up();
  return writer_->dropped_bytes();
}

}  // namespace ddprun::agent
