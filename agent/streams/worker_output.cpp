#include "agent/streams/worker_output.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>

#include <algorithm>

#include "agent/streams/output_stream.hpp"

namespace ddprun::agent {

using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

namespace {

constexpr auto kLastReadLimit = 200ms;   // for what is left in the pipes of dead workers
constexpr auto kLastWriteLimit = 300ms;  // for files, after a console that was stuck to the end

constexpr LogWriterSettings file_settings(LogPolicy policy) {
  return {.kind = LogWriterSettings::Kind::files, .policy = policy, .patience = 2s};
}

bool same_file(int a, int b) {
  struct stat x {};
  struct stat y {};
  return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino &&
         x.st_rdev == y.st_rdev;
}

}  // namespace

WorkerOutput::WorkerOutput(OutputSettings settings)
    : one_console_(same_file(settings.stdout_fd, settings.stderr_fd)),
      stdout_writer_(LogWriterSettings{.policy = settings.policy}, [this] { wake(); }),
      stderr_writer_(LogWriterSettings{.policy = settings.policy}, [this] { wake(); }),
      file_writer_(file_settings(settings.policy), [this] { wake(); }),
      stdout_{stdout_writer_, std::make_shared<ConsoleOutput>(settings.stdout_fd), {}},
      stderr_{one_console_ ? stdout_writer_ : stderr_writer_,
              std::make_shared<ConsoleOutput>(settings.stderr_fd),
              {}},
      shared_console_(isatty(settings.stderr_fd) == 1),
      stdout_console_(isatty(settings.stdout_fd) == 1),
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
void WorkerOutput::start_thread() {
  if (!thread_.joinable()) thread_ = std::thread(&WorkerOutput::run, this);
}

void WorkerOutput::wake() const { eventfd_write(wake_.get(), 1); }

void WorkerOutput::add(std::vector<OutputSource> sources) {
  {
    const std::lock_guard lock(mutex_);
    open_ += sources.size();
    for (OutputSource& source : sources) {
      next_round_ = std::max(next_round_, source.round + 1);
      new_sources_.push_back(std::move(source));
    }
    start_thread();
  }
  wake();
}

void WorkerOutput::say(std::string line) {
  {
    const std::lock_guard lock(mutex_);
    new_lines_.push_back(std::move(line));
    start_thread();
  }
  wake();
}

void WorkerOutput::resize(const winsize& size) {
  {
    const std::lock_guard lock(mutex_);
    new_size_ = size;
  }
  wake();
}

void WorkerOutput::drain(Steady::time_point deadline) {
  std::unique_lock lock(mutex_);
  hurry_ = true;
  told_over_ = next_round_;
  wake();
  changed_.wait_until(lock, deadline, [this] { return open_ == 0 && new_lines_.empty(); });
  hurry_ = false;
}

void WorkerOutput::flush(Steady::time_point deadline) {
  {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, deadline, [this] { return new_lines_.empty(); });
  }
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
  unfinished_out_ = console_for(false).unfinished();
  unfinished_err_ = console_for(true).unfinished();
}

}  // namespace ddprun::agent
