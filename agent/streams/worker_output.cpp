#include "agent/streams/worker_output.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>

#include "agent/streams/output_stream.hpp"
#include "agent/streams/terminal_size.hpp"
#include "base/start_thread.hpp"

namespace ddprun::agent {

using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

namespace {

constexpr auto kLastReadLimit = 200ms;   // for what is left in the pipes of dead workers
constexpr auto kLastWriteLimit = 300ms;  // for files, after a console that was stuck to the end

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

WorkerOutput::WorkerOutput(OutputSettings settings)
    : one_console_(same_output(settings.stdout_fd, settings.stderr_fd)),
      bar_interval_(settings.bar_interval),
      caught_up_(std::move(settings.caught_up)),
      stdout_writer_(console_writer_settings(settings.policy, settings.stdout_fd),
                     [this] { wake(); }),
      stderr_writer_(console_writer_settings(settings.policy, settings.stderr_fd),
                     [this] { wake(); }),
      file_writer_(file_settings(settings.policy), [this] { wake(); }),
      stdout_{
          settings.stdout_fd, stdout_writer_, std::make_shared<ConsoleOutput>(settings.stdout_fd),
          Console(console_settings(settings.stdout_fd, settings.stderr_fd, settings.bar_interval))},
      stderr_{
          settings.stderr_fd, stderr_writer_, std::make_shared<ConsoleOutput>(settings.stderr_fd),
          Console(console_settings(settings.stderr_fd, settings.stdout_fd, settings.bar_interval))},
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = wake_.get();
  usable_ = wake_ && epoll_ && epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event) == 0;
}

WorkerOutput::~WorkerOutput() {
  for (LogWriter* writer : {&stdout_writer_, &stderr_writer_, &file_writer_}) writer->give_up();
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake();
  thread_.join();
}

/// Called under the lock.
ErrorCode WorkerOutput::start() {
  if (thread_.joinable()) return {};
  auto thread = start_thread("log", [this] { run(); });
  if (!thread) return thread.error();
  thread_ = std::move(*thread);
  return {};
}

void WorkerOutput::wake() const { eventfd_write(wake_.get(), 1); }

ErrorCode WorkerOutput::add(std::vector<OutputSource> sources) {
  {
    const std::lock_guard lock(mutex_);
    if (const ErrorCode refused = start()) return refused;
    if (const ErrorCode refused = listen_to_all(sources)) return refused;
    open_ += sources.size();
    for (OutputSource& source : sources) {
      next_round_ = std::max(next_round_, source.round + 1);
      new_sources_.push_back(std::move(source));
    }
  }
  wake();
  return {};
}

/// All or none. Called under the lock: the thread takes the sources when it is woken.
ErrorCode WorkerOutput::listen_to_all(const std::vector<OutputSource>& sources) const {
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const ErrorCode refused = listen_to(sources[i].fd.get());
    if (!refused) continue;
    // Explicitly, because a worker that is being forked at this moment holds the streams, too.
    for (std::size_t watched = 0; watched < i; ++watched)
      epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, sources[watched].fd.get(), nullptr);
    return refused;
  }
  return {};
}

bool WorkerOutput::say(std::string line) {
  {
    const std::lock_guard lock(mutex_);
    if (start()) return false;
    new_lines_.push_back(std::move(line));
  }
  wake();
  return true;
}

void WorkerOutput::resize(Steady::time_point deadline) {
  std::unique_lock lock(mutex_);
  if (!thread_.joinable()) return;
  const std::uint64_t wanted = ++resizes_wanted_;
  wake();
  changed_.wait_until(lock, deadline, [&] { return resizes_done_ >= wanted; });
}

void WorkerOutput::pause(Steady::time_point deadline) {
  std::unique_lock lock(mutex_);
  if (!paused_drawing_) screen_left_ = !thread_.joinable();
  paused_drawing_ = true;
  wake();
  changed_.wait_until(lock, deadline, [this] { return screen_left_; });
}

void WorkerOutput::resume() {
  {
    const std::lock_guard lock(mutex_);
    paused_drawing_ = false;
  }
  wake();
}

bool WorkerOutput::catch_up(Steady::time_point deadline) {
  const std::uint64_t wanted = begin_catch_up();
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, deadline, [&] { return catch_ups_done_ >= wanted; });
}

std::uint64_t WorkerOutput::begin_catch_up() {
  const std::lock_guard lock(mutex_);
  if (!thread_.joinable()) return 0;
  wake();
  return ++catch_ups_wanted_;
}

bool WorkerOutput::has_caught_up(std::uint64_t number) const {
  const std::lock_guard lock(mutex_);
  return catch_ups_done_ >= number;
}

void WorkerOutput::drain(Steady::time_point deadline) {
  std::unique_lock lock(mutex_);
  end_requested_ = true;
  over_next_ = next_round_;
  wake();
  changed_.wait_until(lock, deadline, [this] { return open_ == 0 && new_lines_.empty(); });
  end_requested_ = false;
}

bool WorkerOutput::shown_by(Steady::time_point deadline) {
  return stdout_writer_.finish(deadline) && stderr_writer_.finish(deadline);
}

void WorkerOutput::flush(Steady::time_point deadline) {
  bool drawn = false;
  {
    std::unique_lock lock(mutex_);
    flush_begun_ = true;
    wake();
    changed_.wait_until(lock, deadline, [this] {
      return !thread_.joinable() || (new_lines_.empty() && fold_over_);
    });
    drawn = unfinished_out_ || unfinished_err_;
  }
  if (drawn) pause(deadline);  // no bar stays behind
  bool shown = true;
  for (LogWriter* writer : {&stdout_writer_, &stderr_writer_})
    shown = writer->finish(deadline) && shown;
  for (LogWriter* writer : {&stdout_writer_, &stderr_writer_}) writer->give_up();
  if (!shown) {
    drain(Steady::now() + kLastReadLimit);
    deadline = std::max(deadline, Steady::now() + kLastWriteLimit);
  }
  if (!file_writer_.finish(deadline)) {
    file_writer_.give_up();
    drain(Steady::now() + kLastReadLimit);
  }
  file_writer_.give_up();
}

std::vector<std::string> WorkerOutput::last_lines(proto::RoundNumber round, int local_rank) const {
  const std::lock_guard lock(mutex_);
  const auto found = tails_.find({round, local_rank});
  return found == tails_.end() ? std::vector<std::string>() : found->second.lines();
}

bool WorkerOutput::last_lines_in_sight(proto::RoundNumber round, int local_rank) const {
  const std::lock_guard lock(mutex_);
  const auto found = tails_.find({round, local_rank});
  if (found == tails_.end() || dropped_bytes() > 0) return false;
  if (found->second.passed_on) return true;
  if (!found->second.shown_at) return false;
  const StreamTail& tail = found->second;
  std::uint64_t rows = 0;
  for (const std::string& line : tail.lines()) {
    const int columns = tail.prefix_columns + text_columns(line);
    const bool wraps = screen_columns_ > 0 && columns > screen_columns_;
    rows +=
        wraps ? static_cast<std::uint64_t>((columns + screen_columns_ - 1) / screen_columns_) : 1;
  }
  return first_in_sight_ + rows <= *tail.shown_at;
}

LineSigns WorkerOutput::signs(proto::RoundNumber round, int local_rank) const {
  const std::lock_guard lock(mutex_);
  const auto found = tails_.find({round, local_rank});
  return found == tails_.end() ? LineSigns() : found->second.signs();
}

bool WorkerOutput::unfinished_line(bool standard_error) const {
  const std::lock_guard lock(mutex_);
  return standard_error ? unfinished_err_ : unfinished_out_;
}

/// For other threads; called under the lock.
void WorkerOutput::note_unfinished() {
  unfinished_out_ = outlet_for(false).console.unfinished();
  unfinished_err_ = outlet_for(true).console.unfinished();
  const Console& console = outlet_for(true).console;
  first_in_sight_ = console.first_in_sight();
  screen_columns_ = console.columns();
}

}  // namespace ddprun::agent
