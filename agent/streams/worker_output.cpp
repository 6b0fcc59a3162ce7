#include "agent/streams/worker_output.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>

#include "proto/assert.hpp"

namespace ddprun::agent {
namespace {

constexpr std::size_t kReadBytes = 64 * 1024;
constexpr int kShowUnfinishedAfterMs = 100;  // a prompt, or the last state of a progress bar
constexpr int kOurSource = -1;               // lines of ddprun itself

bool same_file(int a, int b) {
  struct stat x {};
  struct stat y {};
  return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino &&
         x.st_rdev == y.st_rdev;
}

}  // namespace

struct WorkerOutput::Stream {
  OutputSource source;
  LineAssembler lines;
  int id = 0;  // tells streams apart on the console
};

WorkerOutput::WorkerOutput()
    : shared_console_(isatty(STDERR_FILENO) == 1),
      stdout_console_(isatty(STDOUT_FILENO) == 1),
      one_console_(same_file(STDOUT_FILENO, STDERR_FILENO)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = wake_.get();
  DDPRUN_ASSERT(epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event) == 0,
                "eventfd goes into epoll");
  thread_ = std::thread(&WorkerOutput::run, this);
}

WorkerOutput::~WorkerOutput() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  eventfd_write(wake_.get(), 1);
  thread_.join();
}

void WorkerOutput::add(std::vector<OutputSource> sources) {
  {
    const std::lock_guard lock(mutex_);
    open_ += sources.size();
    for (OutputSource& source : sources) new_sources_.push_back(std::move(source));
  }
  eventfd_write(wake_.get(), 1);
}

void WorkerOutput::say(std::string line) {
  {
    const std::lock_guard lock(mutex_);
    new_lines_.push_back(std::move(line));
  }
  eventfd_write(wake_.get(), 1);
}

void WorkerOutput::resize(const winsize& size) {
  {
    const std::lock_guard lock(mutex_);
    new_size_ = size;
  }
  eventfd_write(wake_.get(), 1);
}

void WorkerOutput::drain(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, deadline, [this] { return open_ == 0 && new_lines_.empty(); });
}

void WorkerOutput::flush(std::chrono::steady_clock::time_point deadline) {
  {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, deadline, [this] { return new_lines_.empty(); });
  }
  console_writer_.finish(deadline);
  file_writer_.finish(deadline);
}

std::vector<std::string> WorkerOutput::last_lines(proto::RoundNumber round, int local_rank) const {
  const std::lock_guard lock(mutex_);
  const auto found = tails_.find({round, local_rank});
  if (found == tails_.end()) return {};
  return {found->second.lines.begin(), found->second.lines.end()};
}

LineSigns WorkerOutput::signs(proto::RoundNumber round, int local_rank) const {
  const std::lock_guard lock(mutex_);
  const auto found = tails_.find({round, local_rank});
  return found == tails_.end() ? LineSigns() : found->second.signs;
}

void WorkerOutput::run() {
  pthread_setname_np(pthread_self(), "log");
  std::array<epoll_event, 64> events{};
  while (true) {
    bool unfinished = false;
    for (const auto& [fd, stream] : streams_) {
      unfinished = unfinished || (stream->source.terminal && stream->lines.has_partial());
    }
    const int ready = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                 unfinished ? kShowUnfinishedAfterMs : -1);
    if (ready == 0) {
      for (const auto& [fd, stream] : streams_) {
        if (!stream->source.terminal) continue;
        std::string out;
        stream->lines.flush(
            [&](std::string_view text, LineEnding ending) { show(*stream, text, ending, out); });
        write_console(stream->source.standard_error, std::move(out));
      }
    }
    for (int i = 0; i < ready; ++i) {
      const int fd = events[static_cast<std::size_t>(i)].data.fd;
      if (fd == wake_.get()) {
        eventfd_t ignored = 0;
        eventfd_read(fd, &ignored);
      } else {
        read(*streams_.at(fd));
      }
    }
    take_new();
    const std::lock_guard lock(mutex_);
    if (stop_) return;
  }
}

void WorkerOutput::take_new() {
  std::vector<OutputSource> sources;
  std::vector<std::string> lines;
  std::optional<winsize> size;
  {
    const std::lock_guard lock(mutex_);
    sources.swap(new_sources_);
    size.swap(new_size_);
    lines = new_lines_;
    // A report is about the newest round, or the one before it.
    if (!sources.empty() && sources.front().round > 0) {
      tails_.erase(tails_.begin(), tails_.lower_bound({sources.front().round - 1, 0}));
    }
  }
  for (OutputSource& source : sources) {
    const int fd = source.fd.get();
    auto stream = std::make_unique<Stream>();
    stream->source = std::move(source);
    stream->id = next_id_++;
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    DDPRUN_ASSERT(epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0,
                  "a stream goes into epoll");
    streams_[fd] = std::move(stream);
  }
  if (size) {
    for (const auto& [fd, stream] : streams_) {
      if (stream->source.terminal) ioctl(fd, TIOCSWINSZ, &*size);
    }
  }
  for (const std::string& line : lines) {
    std::string out;
    console_for(true).add(kOurSource, {}, line, LineEnding::newline, out);
    write_console(true, std::move(out));
  }
  if (lines.empty()) return;
  const std::lock_guard lock(mutex_);
  new_lines_.erase(new_lines_.begin(),
                   new_lines_.begin() + static_cast<std::ptrdiff_t>(lines.size()));
  changed_.notify_all();
}

void WorkerOutput::show(Stream& stream, std::string_view text, LineEnding ending,
                        std::string& out) {
  if (stream.source.to_console)
    console_for(stream.source.standard_error)
        .add(stream.id, stream.source.prefix, text, ending, out);
  if (stream.source.filtered_file) filter(stream, text);
  if (!stream.source.standard_error || ending == LineEnding::carriage_return || text.empty())
    return;
  const std::lock_guard lock(mutex_);
  Tail& tail = tails_[{stream.source.round, stream.source.local_rank}];
  tail.signs.line(text.substr(0, kTailLineBytesMax), LineSigns::Clock::now);
  if (tail.lines.size() == kTailLines) tail.lines.pop_front();
  tail.lines.emplace_back(text.substr(0, kTailLineBytesMax));
}

void WorkerOutput::filter(const Stream& stream, std::string_view text) {
  for (const std::string& wanted : *stream.source.filters) {
    if (text.find(wanted) == std::string_view::npos) continue;
    std::string line = stream.source.prefix;
    line += text;
    line += '\n';
    file_writer_.write(stream.source.filtered_file, std::move(line));
    return;
  }
}

void WorkerOutput::write_console(bool standard_error, std::string text) {
  if (text.empty()) return;
  console_writer_.write({standard_error ? STDERR_FILENO : STDOUT_FILENO, nullptr}, std::move(text));
}

void WorkerOutput::read(Stream& stream) {
  static thread_local std::array<char, kReadBytes> buffer;
  std::string out;
  const auto sink = [&](std::string_view text, LineEnding ending) {
    show(stream, text, ending, out);
  };
  const ssize_t n = ::read(stream.source.fd.get(), buffer.data(), buffer.size());
  // A pseudo-terminal whose last user is gone says EIO instead of 0.
  const bool ended = n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
  if (n > 0) {
    const std::string_view bytes(buffer.data(), static_cast<std::size_t>(n));
    if (stream.source.bytes_read) *stream.source.bytes_read += bytes.size();
    if (stream.source.file) file_writer_.write(stream.source.file, std::string(bytes));
    stream.lines.feed(bytes, sink);
  }
  if (ended) stream.lines.flush(sink);
  write_console(stream.source.standard_error, std::move(out));
  if (ended) end(stream.source.fd.get());
}

void WorkerOutput::end(int fd) {
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  streams_.erase(fd);
  const std::lock_guard lock(mutex_);
  if (--open_ == 0) changed_.notify_all();  // who waits, waits for the last one
}

Result<StreamPair> make_pipe() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return ErrorCode(errno, boost::system::system_category());
  StreamPair pair{UniqueFd(fds[0]), UniqueFd(fds[1])};
  fcntl(pair.ours.get(), F_SETFL,
        O_NONBLOCK);  // of our end only: the worker's end has a description of its own
  return pair;
}

Result<StreamPair> make_pseudo_terminal(int like) {
  const auto error = [] { return ErrorCode(errno, boost::system::system_category()); };
  StreamPair pair;
  pair.ours.reset(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!pair.ours || grantpt(pair.ours.get()) != 0 || unlockpt(pair.ours.get()) != 0) return error();
  char name[64];
  if (ptsname_r(pair.ours.get(), name, sizeof name) != 0) return error();
  pair.workers.reset(open(name, O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!pair.workers) return error();
  termios settings{};
  if (tcgetattr(like, &settings) == 0 || tcgetattr(pair.workers.get(), &settings) == 0) {
    // Newlines reach us as the worker wrote them; the real terminal does its own translation.
    settings.c_oflag &= ~static_cast<tcflag_t>(OPOST);
    settings.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    tcsetattr(pair.workers.get(), TCSANOW, &settings);
  }
  winsize size{};
  if (ioctl(like, TIOCGWINSZ, &size) == 0) ioctl(pair.workers.get(), TIOCSWINSZ, &size);
  fcntl(pair.ours.get(), F_SETFL, O_NONBLOCK);
  return pair;
}

}  // namespace ddprun::agent
