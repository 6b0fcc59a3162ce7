#include "agent/streams/outlets.hpp"

#include <utility>

#include "agent/streams/log_buffer.hpp"

namespace ddprun::agent {

using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

namespace {

constexpr LogWriterSettings file_settings(LogPolicy policy) {
  const bool blocks = policy == LogPolicy::block;
  return {.kind = LogWriterSettings::Kind::files,
          .policy = blocks ? policy : LogPolicy::automatic,
          .patience = 2s};
}

LogWriterSettings console_writer_settings(LogPolicy policy, int fd) {
  if (policy == LogPolicy::drop)
    return {.policy = policy, .reason = "the reader was too slow for --log-policy=drop"};
  if (policy == LogPolicy::automatic && isatty(fd) == 1) {
    return {.policy = LogPolicy::drop,
            .reason = "the terminal was too slow; --log-policy=block waits for it"};
  }
  return {.policy = policy,
          .patience = kReaderStuckAfter,
          .reason = "the reader took nothing for 30 s; --log-policy=block waits for it"};
}

ConsoleSettings console_settings(int fd, int other, std::chrono::milliseconds bar_interval) {
  const TerminalSize size = is_ours_alone(fd, other) ? drawing_size(fd) : TerminalSize{};
  return {size.columns, size.rows, isatty(fd) == 1, bar_interval};
}

}  // namespace

void hand_over(LogWriter& writer, const std::shared_ptr<ByteOutput>& output, LogBuffer& bytes,
               LogOrigin origin) {
  if (bytes.empty()) return;
  if (bytes.size() < kSmallReadBytes) {
    writer.write(output, LogBuffer(bytes.view()), origin);
    bytes.clear();
  } else {
    writer.write(output, std::move(bytes), origin);
  }
}

Outlet::Outlet(int own_fd, int other_fd, const OutputSettings& settings,
               std::function<void()> room_made)
    : fd(own_fd),
      other(other_fd),
      writer(console_writer_settings(settings.policy, own_fd), std::move(room_made)),
      output(std::make_shared<ConsoleOutput>(own_fd)),
      console(console_settings(own_fd, other_fd, settings.bar_interval)) {}

void Outlet::put_out() {
  if (bytes.empty()) return;
  hand_over(writer, output, bytes);
  const std::uint64_t dropped_now = writer.dropped_bytes();
  if (dropped_now != dropped) console.forget_screen();
  dropped = dropped_now;
}

Outlets::Outlets(const OutputSettings& settings, const std::function<void()>& room_made)
    : one_console_(same_output(settings.stdout_fd, settings.stderr_fd)),
      stdout_(settings.stdout_fd, settings.stderr_fd, settings, room_made),
      stderr_(settings.stderr_fd, settings.stdout_fd, settings, room_made),
      files_(file_settings(settings.policy), room_made) {}

void Outlets::show_folded(Steady::time_point now) {
  for (Outlet* outlet : both()) {
    if (!folds_) outlet->fold.release_all();
    outlet->show_folded(now);
  }
}

void Outlets::end_folds() {
  folds_ = false;
  show_folded(Steady::now());
  put_out();
}

OutputSight Outlets::sight() {
  const Console& console = of(true).console;
  return {of(false).console.unfinished(), console.unfinished(), console.first_in_sight(),
          console.columns()};
}

bool Outlets::finish_consoles(Steady::time_point deadline) {
  const bool out = stdout_.writer.finish(deadline);
  return stderr_.writer.finish(deadline) && out;
}

void Outlets::give_up_consoles() {
  stdout_.writer.give_up();
  stderr_.writer.give_up();
}

}  // namespace ddprun::agent
