#include "launcher/ssh/host_process.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <memory>
#include <utility>

#include <boost/asio/post.hpp>

#include "base/unique_handle.hpp"

namespace ddprun::launcher {

namespace asio = boost::asio;

namespace {

constexpr std::size_t kReadBytes = 64 * 1024;
/// After its end: a ProxyCommand of the user's may hold its pipes.
constexpr std::chrono::seconds kPipesLimit{2};

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return last_system_error();
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

ErrorCode take_over(asio::posix::stream_descriptor& stream, UniqueFd fd) {
  ErrorCode failed;
  stream.assign(fd.get(), failed);
  if (failed) return failed;
  static_cast<void>(fd.release());
  stream.non_blocking(true, failed);
  return failed;
}

}  // namespace

HostProcess::HostProcess(asio::io_context& context, Events events)
    : context_(context),
      events_(std::move(events)),
      input_(context),
      output_(context),
      errors_(context),
      late_(context) {}

HostProcess::~HostProcess() { kill(); }

ErrorCode HostProcess::start(const std::string& file, const std::vector<std::string>& argv,
                             const std::vector<std::string>& environment,
                             const machine::UserState& user) {
  auto input = make_pipe();
  if (!input) return input.error();
  auto output = make_pipe();
  if (!output) return output.error();
  auto errors = make_pipe();
  if (!errors) return errors.error();
  machine::SpawnRequest request;
  request.file = file;
  request.argv = argv;
  request.environment = environment;
  request.stdin_fd = input->read.get();
  request.stdout_fd = output->write.get();
  request.stderr_fd = errors->write.get();
  auto spawned = machine::spawn(request, user);
  if (!spawned) return spawned.error();
  pid_ = spawned->pid;
  if (const ErrorCode failed = take_over(input_, std::move(input->write))) return failed;
  if (const ErrorCode failed = take_over(output_, std::move(output->read))) return failed;
  if (const ErrorCode failed = take_over(errors_, std::move(errors->read))) return failed;
  read_when_ready(output_, events_.output);
  read_when_ready(errors_, events_.errors);
  return {};
}

void HostProcess::read_when_ready(Stream& stream,
                                  const std::function<void(std::string_view)>& take) {
  stream.async_wait(Stream::wait_read, [this, &stream, &take](ErrorCode ec) {
    if (ec) return;
    if (!exit_ && events_.is_full()) {
      (&stream == &output_ ? output_waits_ : errors_wait_) = true;
      return;
    }
    static thread_local const auto buffer = std::make_unique_for_overwrite<char[]>(kReadBytes);
    const ssize_t count = ::read(stream.native_handle(), buffer.get(), kReadBytes);
    if (count > 0) take({buffer.get(), static_cast<std::size_t>(count)});
    if (count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR)))
      return read_when_ready(stream, take);
    ErrorCode ignored;
    stream.close(ignored);
    end_if_over();
  });
}

void HostProcess::go_on() {
  if (std::exchange(output_waits_, false)) read_when_ready(output_, events_.output);
  if (std::exchange(errors_wait_, false)) read_when_ready(errors_, events_.errors);
}

void HostProcess::send(std::string bytes) {
  if (!input_.is_open() || closing_input_) return;
  unsent_ += bytes;
  if (!writing_) write_when_ready();
}

void HostProcess::close_input() {
  closing_input_ = true;
  ErrorCode ignored;
  if (!writing_ && input_.is_open()) input_.close(ignored);
}

void HostProcess::write_when_ready() {
  writing_ = true;
  input_.async_wait(Stream::wait_write, [this](ErrorCode ec) {
    writing_ = false;
    if (ec) return;
    const ssize_t count = ::write(input_.native_handle(), unsent_.data(), unsent_.size());
    if (count > 0) unsent_.erase(0, static_cast<std::size_t>(count));
    const bool is_broken = count < 0 && errno != EAGAIN && errno != EINTR;
    if (!unsent_.empty() && !is_broken) return write_when_ready();
    ErrorCode ignored;
    if (closing_input_ || is_broken) input_.close(ignored);
  });
}

void HostProcess::kill() {
  if (pid_ > 0 && !exit_) ::kill(pid_, SIGKILL);
}

void HostProcess::look_for_exit() {
  if (pid_ <= 0 || exit_) return;
  const auto reaped = machine::reap(pid_);
  if (!reaped) return;
  exit_ = reaped->exit;
  go_on();
  late_.expires_after(kPipesLimit);
  late_.async_wait([this](ErrorCode ec) {
    if (ec) return;
    ErrorCode ignored;
    output_.close(ignored);
    errors_.close(ignored);
    end_if_over();
  });
  end_if_over();
}

void HostProcess::end_if_over() {
  if (!exit_ || output_.is_open() || errors_.is_open() || std::exchange(told_, true)) return;
  late_.cancel();
  ErrorCode ignored;
  input_.close(ignored);
  asio::post(context_, [this] { events_.ended(*exit_); });
}

}  // namespace ddprun::launcher
