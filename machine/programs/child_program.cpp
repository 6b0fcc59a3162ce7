#include "machine/programs/child_program.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <memory>
#include <utility>

#include <boost/asio/post.hpp>

#include "base/open_file.hpp"
#include "base/unique_handle.hpp"

namespace ddprun::machine {

namespace asio = boost::asio;

namespace {

constexpr std::size_t kReadBytes = 64 * 1024;

ErrorCode take_over(asio::posix::stream_descriptor& stream, UniqueFd fd) {
  ErrorCode failed;
  stream.assign(fd.get(), failed);
  if (failed) return failed;
  static_cast<void>(fd.release());  // Asio closes it
  stream.non_blocking(true, failed);
  return failed;
}

}  // namespace

ChildProgram::ChildProgram(asio::io_context& context, const UserState& user, Settings settings,
                           Events events)
    : context_(context),
      user_(user),
      settings_(settings),
      events_(std::move(events)),
      input_(context),
      output_(context),
      errors_(context),
      late_(context) {}

ChildProgram::~ChildProgram() {
  kill();
  ++*number_;
}

ErrorCode ChildProgram::start(const std::string& file, const std::vector<std::string>& argv,
                              const std::vector<std::string>& environment) {
  SpawnRequest request;
  request.file = file;
  request.argv = argv;
  request.environment = environment;
  const ErrorCode failed = try_to_start(std::move(request));
  if (failed) close_all();
  return failed;
}

ErrorCode ChildProgram::try_to_start(SpawnRequest request) {
  UniqueFd stdin_end;
  if (settings_.has_input) {
    auto pipe = make_pipe();
    if (!pipe) return pipe.error();
    stdin_end = std::move(pipe->read);
    if (const ErrorCode failed = take_over(input_, std::move(pipe->write))) return failed;
  } else {
    stdin_end.reset(open("/dev/null", O_RDONLY | O_CLOEXEC));
  }
  auto output = make_pipe();
  if (!output) return output.error();
  if (const ErrorCode failed = take_over(output_, std::move(output->read))) return failed;
  Pipe errors;
  if (events_.errors) {
    auto pipe = make_pipe();
    if (!pipe) return pipe.error();
    errors = std::move(*pipe);
    if (const ErrorCode failed = take_over(errors_, std::move(errors.read))) return failed;
  }
  request.stdin_fd = stdin_end.get();
  request.stdout_fd = output->write.get();
  request.stderr_fd = events_.errors ? errors.write.get() : request.stdout_fd;
  const auto spawned = spawn(request, user_);
  if (!spawned) return spawned.error();
  ++*number_;
  pid_ = spawned->pid;
  exit_.reset();
  read_when_ready(output_, events_.output);
  if (events_.errors) read_when_ready(errors_, events_.errors);
  return {};
}

void ChildProgram::read_when_ready(Stream& stream, const Take& take) {
  stream.async_wait(Stream::wait_read,
                    [this, &stream, &take, is_current = is_current()](ErrorCode ec) {
                      if (ec || !is_current() || !stream.is_open()) return;
                      if (!exit_ && events_.is_full && events_.is_full()) {
                        (&stream == &output_ ? output_waits_ : errors_wait_) = true;
                        return;
                      }
                      read_once(stream, take);
                      if (!is_current()) return;  // stopped by what it printed
                      if (stream.is_open()) return read_when_ready(stream, take);
                      end_if_over();
                    });
}

bool ChildProgram::read_once(Stream& stream, const Take& take) {
  if (!stream.is_open()) return false;
  static thread_local const auto buffer = std::make_unique_for_overwrite<char[]>(kReadBytes);
  const ssize_t count = ::read(stream.native_handle(), buffer.get(), kReadBytes);
  if (count > 0) {
    take({buffer.get(), static_cast<std::size_t>(count)});
    return true;
  }
  ErrorCode ignored;
  if (count == 0 || (errno != EAGAIN && errno != EINTR)) stream.close(ignored);
  return false;
}

/// No more than a pipe holds, and a program that writes faster than it is read has no say.
void ChildProgram::read_rest() {
  for (int i = 0; i < 2 && read_once(output_, events_.output); ++i) {
  }
  for (int i = 0; i < 2 && read_once(errors_, events_.errors); ++i) {
  }
}

void ChildProgram::go_on() {
  if (std::exchange(output_waits_, false)) read_when_ready(output_, events_.output);
  if (std::exchange(errors_wait_, false)) read_when_ready(errors_, events_.errors);
}

void ChildProgram::send(std::string bytes) {
  if (!input_.is_open() || closing_input_) return;
  unsent_ += bytes;
  if (!writing_) write_when_ready();
}

void ChildProgram::close_input() {
  closing_input_ = true;
  ErrorCode ignored;
  if (!writing_ && input_.is_open()) input_.close(ignored);
}

void ChildProgram::write_when_ready() {
  writing_ = true;
  input_.async_wait(Stream::wait_write, [this, is_current = is_current()](ErrorCode ec) {
    if (ec || !is_current()) return;
    writing_ = false;
    const ssize_t count = ::write(input_.native_handle(), unsent_.data(), unsent_.size());
    if (count > 0) unsent_.erase(0, static_cast<std::size_t>(count));
    const bool is_broken = count < 0 && errno != EAGAIN && errno != EINTR;
    if (!unsent_.empty() && !is_broken) return write_when_ready();
    ErrorCode ignored;
    if (closing_input_ || is_broken) input_.close(ignored);
  });
}

void ChildProgram::kill() {
  if (pid_ > 0 && !exit_) ::kill(pid_, SIGKILL);
}

void ChildProgram::stop() {
  if (pid_ > 0) {
    read_rest();
    ::kill(-pid_, SIGKILL);
  }
  close_all();
}

void ChildProgram::forget() {
  read_rest();
  close_all();
}

void ChildProgram::close_all() {
  ++*number_;
  pid_ = 0;
  unsent_.clear();
  writing_ = closing_input_ = output_waits_ = errors_wait_ = false;
  late_.cancel();
  for (Stream* stream : {&input_, &output_, &errors_}) {
    ErrorCode ignored;
    if (stream->is_open()) stream->close(ignored);
  }
}

bool ChildProgram::look_for_exit() {
  if (pid_ <= 0 || exit_ || !exit_of(pid_)) return false;
  const bool ends_now = settings_.output_limit == std::chrono::nanoseconds(0);
  if (ends_now) ::kill(-pid_, SIGKILL);  // until it is reaped the number is its own
  const auto reaped = reap(pid_);
  exit_ = reaped ? reaped->exit : ExitStatus{};
  go_on();
  if (ends_now) {
    read_rest();
    ErrorCode ignored;
    output_.close(ignored);
    errors_.close(ignored);
  } else {
    late_.expires_after(settings_.output_limit);
    late_.async_wait([this, is_current = is_current()](ErrorCode ec) {
      if (ec || !is_current()) return;
      ErrorCode ignored;
      output_.close(ignored);
      errors_.close(ignored);
      end_if_over();
    });
  }
  end_if_over();
  return true;
}

void ChildProgram::end_if_over() {
  if (!exit_ || pid_ == 0 || output_.is_open() || errors_.is_open()) return;
  close_all();
  asio::post(context_, [this, is_current = is_current()] {
    if (is_current()) events_.ended(*exit_);
  });
}

}  // namespace ddprun::machine
