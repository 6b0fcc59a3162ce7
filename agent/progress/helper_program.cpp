#include "agent/progress/helper_program.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <string_view>
#include <utility>

#include <boost/asio/post.hpp>

#include "agent/streams/stream_pair.hpp"

namespace ddprun::agent {
namespace {

constexpr auto kOutputReadable = boost::asio::posix::descriptor_base::wait_read;

// Would ask a server of the distribution for symbols, and wait for it.
constexpr std::string_view kDebugServer = "DEBUGINFOD_URLS=";

std::vector<std::string> helper_environment() {
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!std::string_view(*entry).starts_with(kDebugServer)) environment.emplace_back(*entry);
  }
  return environment;
}

}  // namespace

HelperProgram::HelperProgram(boost::asio::io_context& context, const machine::UserState& user)
    : context_(context), user_(user), output_(context), deadline_(context) {}

void HelperProgram::start(const std::vector<std::string>& argv, std::chrono::nanoseconds limit,
                          Done done, Read read) {
  stop();
  done_ = std::move(done);
  read_ = std::move(read);
  result_ = {};
  const UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  auto pipe = make_pipe();
  if (!pipe) return finish(false, pipe.error().message());
  machine::SpawnRequest request;
  request.file = argv.front();
  request.argv = argv;
  request.environment = helper_environment();
  request.stdin_fd = null.get();
  request.stdout_fd = request.stderr_fd = pipe->workers.get();
  ErrorCode failed;
  output_.assign(pipe->ours.get(), failed);
  if (failed) return finish(false, failed.message());
  static_cast<void>(pipe->ours.release());  // Asio closes it
  const auto process = machine::spawn(request, user_);
  if (!process) return finish(false, process.error().message());
  pid_ = process->pid;
  read_when_ready();
  deadline_.expires_after(limit);
  deadline_.async_wait([this, number = number_](ErrorCode ec) {
    if (ec || number != number_) return;
    read_all();
    kill_session();
    finish(false);
  });
}

void HelperProgram::stop() {
  ++number_;
  deadline_.cancel();
  ErrorCode ignored;
  if (output_.is_open()) output_.close(ignored);
  kill_session();
  done_ = nullptr;
  read_ = nullptr;
}

/// Its exit is then taken as that of any unknown child.
void HelperProgram::kill_session() {
  if (pid_ > 0) kill(-pid_, SIGKILL);
  pid_ = 0;
}

bool HelperProgram::child_ended(pid_t pid) {
  if (pid_ == 0 || pid != pid_) return false;
  kill(-pid, SIGKILL);  // what it has left; until it is reaped the number is its own
  const auto reaped = machine::reap(pid);
  pid_ = 0;
  if (reaped) result_.exit = reaped->exit;
  read_all();  // what has left its session may hold the pipe: not until the end of that
  finish(true);
  return true;
}

void HelperProgram::read_when_ready() {
  output_.async_wait(kOutputReadable, [this, number = number_](ErrorCode ec) {
    if (ec || number != number_ || !output_.is_open()) return;
    read_all();
    if (output_.is_open()) read_when_ready();
  });
}

void HelperProgram::read_all() {
  std::array<char, 16 * 1024> buffer;
  // A program that writes faster than we read does not keep us here.
  for (std::size_t i = 0; output_.is_open() && i < kHelperOutputMax / buffer.size(); ++i) {
    const ssize_t count = read(output_.native_handle(), buffer.data(), buffer.size());
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count <= 0) {
      ErrorCode ignored;
      output_.close(ignored);
      return;
    }
    if (read_) read_({buffer.data(), static_cast<std::size_t>(count)});
    const auto room = kHelperOutputMax - result_.output.size();
    result_.output.append(buffer.data(), std::min(room, static_cast<std::size_t>(count)));
  }
}

void HelperProgram::finish(bool in_time, std::string problem) {
  result_.in_time = in_time;
  result_.problem = std::move(problem);
  Done done = std::move(done_);
  HelperResult result = std::move(result_);
  stop();
  boost::asio::post(context_, [this, number = number_, done = std::move(done),
                               result = std::move(result)]() mutable {
    if (number == number_) done(std::move(result));
  });
}

}  // namespace ddprun::agent
