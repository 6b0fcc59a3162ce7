#include "agent/control/event_file.hpp"

#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "agent/events/event_json.hpp"
#include "base/open_file.hpp"
#include "base/unique_handle.hpp"

namespace ddprun::agent {
namespace {

/// What the disk refuses is lost.
class AppendedFile final : public ByteOutput {
 public:
  explicit AppendedFile(UniqueFd fd) : fd_(std::move(fd)) {}

  Taken take(std::string_view bytes) override {
    ssize_t count = 0;
    do {
      count = write(fd_.get(), bytes.data(), bytes.size());
    } while (count < 0 && errno == EINTR);
    if (count < 0) return {.lost = bytes.size()};
    return {.written = static_cast<std::size_t>(count)};
  }
  void wait() override {}

 private:
  const UniqueFd fd_;
};

}  // namespace

Result<EventFile> EventFile::open(const std::string& path, std::string node) {
  auto fd = open_named_file(path, O_WRONLY | O_APPEND | O_CREAT, 0666);
  if (!fd) return fd.error();
  return EventFile(std::make_shared<AppendedFile>(std::move(*fd)), std::move(node));
}

EventFile::EventFile(std::shared_ptr<ByteOutput> file, std::string node)
    : file_(std::move(file)),
      node_(std::move(node)),
      writer_(std::make_unique<LogWriter>(
          LogWriterSettings{.kind = LogWriterSettings::Kind::files, .policy = LogPolicy::drop})) {}

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
