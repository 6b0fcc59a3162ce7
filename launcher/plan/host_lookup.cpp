#include "launcher/plan/host_lookup.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <thread>

#include "base/endpoint.hpp"
#include "base/open_file.hpp"
#include "base/printable.hpp"

namespace ddprun::launcher {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kAgainAfter = 1s;
constexpr auto kOneQuestion =
    10s;  // where there is no limit to wait for: a first server may be dead

/// What the child found: sent through a pipe as it is.
struct Answer {
  int failed = EAI_AGAIN;  ///< 0: `address` is there
  bool is_system_error = false;
  std::array<char, 128> address{};

  [[nodiscard]] ErrorCode error() const {
    return {failed, is_system_error ? boost::system::system_category() : resolver_category()};
  }
};

Answer ask(const std::string& host) {
  Answer answer;
  const auto found = look_up_addresses(host, 0);
  if (!found) {
    answer.failed = found.error().value();
    answer.is_system_error = found.error().category() != resolver_category();
    return answer;
  }
  const std::string numeric = numeric_host(**found);
  if (numeric.empty() || numeric.size() >= answer.address.size()) return answer;
  numeric.copy(answer.address.data(), numeric.size());
  answer.failed = 0;
  return answer;
}

/// True when there is something to read, or its end.
bool readable_by(int fd, Clock::time_point deadline) {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    if (left < 0ms) return false;
    pollfd entry{fd, POLLIN, 0};
    const int ready = ::poll(&entry, 1, static_cast<int>(std::min<long>(left.count(), 60'000)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

/// One look-up; EAI_AGAIN where the resolver did not answer by the deadline. Where no child can be
/// had, it takes as long as it takes.
Answer ask_within(const std::string& host, Clock::time_point deadline) {
  auto pipe = make_pipe();
  if (!pipe) return ask(host);
  const pid_t child = ::fork();
  if (child < 0) return ask(host);
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const Answer answer = ask(host);
    ::_exit(::write(pipe->write.get(), &answer, sizeof answer) == sizeof answer ? 0 : 1);
  }
  pipe->write.reset();
  Answer answer;
  if (!readable_by(pipe->read.get(), deadline) ||
      ::read(pipe->read.get(), &answer, sizeof answer) != sizeof answer) {
    answer = {};
    ::kill(child, SIGKILL);
  }
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return answer;
}

}  // namespace

std::optional<std::string> look_up_host(const std::string& host, std::chrono::milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  const auto least = limit == 0ms ? kOneQuestion : kAgainAfter;
  int printed = 0;
  while (true) {
    const Answer answer = ask_within(host, std::max(deadline, Clock::now() + least));
    if (answer.failed == 0) return std::string(answer.address.data());
    const auto left = deadline - Clock::now();
    if (left <= 0s) return std::nullopt;
    if (answer.failed != printed) {
      std::fprintf(
          stderr,
          "ddprun: waiting for the name %s (%s); giving up in %lld s (--rdzv-conf=read_timeout)\n",
          printable(host).c_str(), answer.error().message().c_str(),
          static_cast<long long>(std::chrono::ceil<std::chrono::seconds>(left).count()));
      printed = answer.failed;
    }
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(left, kAgainAfter));
  }
}

}  // namespace ddprun::launcher
