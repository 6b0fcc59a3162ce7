#include "launcher/ssh/node.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <arpa/inet.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/bounded_write.hpp"
#include "base/endpoint.hpp"
#include "base/exit_codes.hpp"
#include "base/unique_handle.hpp"
#include "base/version.hpp"
#include "launcher/ssh/node_guard.hpp"

namespace ddprun::launcher {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kPlanLimit = 60s;
constexpr auto kWriteLimit = 10s;

/// Ends the first process, once it has begun: sshd leaves the socket behind.
[[noreturn]] void end_without_plan(int code, const std::string& socket) {
  unlink(socket.c_str());
  _exit(code);
}

[[noreturn]] void refuse(const std::string& why, const std::string& socket) {
  write_within(STDERR_FILENO, "ddprun: " + why + "\n", kWriteLimit);
  end_without_plan(kExitUsage, socket);
}

NodePlan read_plan(NodeInput& input, const std::string& socket) {
  const auto deadline = Clock::now() + kPlanLimit;
  std::optional<std::string> line;
  while (!(line = input.take_line())) {
    if (input.size() > kInputLineBytesMax) refuse("what came instead of a plan is none", socket);
    if (input.read_more(deadline)) continue;
    // A launcher that needs this host no more closes the connection.
    if (Clock::now() < deadline) end_without_plan(kExitSuccess, socket);
    refuse("no plan came from the launcher within 60 s", socket);
  }
  const auto bytes = plan_bytes(*line);
  if (!bytes) refuse("what came instead of a plan is none", socket);
  while (input.size() < *bytes) {
    if (!input.read_more(deadline)) refuse("the plan from the launcher is not whole", socket);
  }
  auto plan = decode_plan(input.take(*bytes));
  if (!plan) refuse("the plan from the launcher is wrong: " + plan.error(), socket);
  return std::move(*plan);
}

/// sshd makes it for our user alone. Another one would lead the secret's proof astray, no more.
void check_socket(const std::string& path) {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0 || !S_ISSOCK(status.st_mode))
    refuse(path + " is no socket: sshd has not forwarded the way to the launcher", path);
  if (status.st_uid != geteuid()) refuse(path + " belongs to another user", path);
}

/// The child's surroundings. Empty: all is as the plan has it.
std::string take_surroundings(const NodePlan& plan) {
  for (const std::string& entry : plan.environment) {
    const auto equals = entry.find('=');
    if (equals == 0 || equals == std::string::npos) continue;
    setenv(entry.substr(0, equals).c_str(), entry.c_str() + equals + 1, 1);
  }
  const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (null < 0 || dup2(null, STDIN_FILENO) < 0)
    return fmt::format("/dev/null cannot be opened: {}", std::strerror(errno));
  if (null != STDIN_FILENO) close(null);
  if (plan.folder.empty()) return "";
  if (chdir(plan.folder.c_str()) != 0)
    return fmt::format(
        "the folder {} in which the job was started: {}; start it in one that all "
        "hosts have",
        plan.folder, std::strerror(errno));
  setenv("PWD", plan.folder.c_str(), 1);
  return "";
}

}  // namespace

LaunchResult<NodePlan> become_node(const std::string& socket) {
  std::signal(SIGPIPE, SIG_IGN);
  write_within(STDERR_FILENO, greeting(version()), kWriteLimit);
  if (!write_within(STDOUT_FILENO, greeting(version()), kWriteLimit))
    end_without_plan(kExitOutput, socket);
  NodeInput input;
  NodePlan plan = read_plan(input, socket);
  check_socket(socket);
  plan.socket = socket;

  sigset_t caught;
  sigset_t before;
  sigemptyset(&caught);
  for (const int signal : {SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM}) sigaddset(&caught, signal);
  sigprocmask(SIG_BLOCK, &caught, &before);
  UniqueFd signals(signalfd(-1, &caught, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals)
    refuse(fmt::format("ddprun cannot wait for signals: {}", std::strerror(errno)), socket);
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // not inherited
  const pid_t first = getpid();
  const pid_t node = fork();
  if (node < 0)
    refuse(fmt::format("ddprun cannot start a process: {}", std::strerror(errno)), socket);
  if (node > 0) NodeGuard(node, std::move(input), socket, std::move(signals), plan.stop).run();

  signals.reset();
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != first) _exit(kExitInternal);
  std::signal(SIGPIPE, SIG_DFL);
  sigprocmask(SIG_SETMASK, &before, nullptr);
  if (const std::string problem = take_surroundings(plan); !problem.empty())
    return usage_error(problem);
  return plan;
}

std::string address_of_node(const std::optional<std::string>& ssh_connection) {
  constexpr const char* kLoopback = "127.0.0.1";
  // CLIENT PORT SERVER PORT
  std::string addr;
  if (ssh_connection) {
    const auto begin = ssh_connection->find(' ', ssh_connection->find(' ') + 1);
    const auto end = begin == std::string::npos ? begin : ssh_connection->find(' ', begin + 1);
    if (end != std::string::npos) addr = ssh_connection->substr(begin + 1, end - begin - 1);
    addr = addr.substr(0, addr.find('%'));
  }
  if (is_numeric_address(addr) && !is_loopback(addr)) return addr;
  // Nothing is sent: the kernel only tells which of our addresses it would take. This one is
  // nobody's (RFC 5737), so it is behind the default route.
  const UniqueFd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in other{};
  other.sin_family = AF_INET;
  other.sin_port = htons(9);
  inet_pton(AF_INET, "192.0.2.1", &other.sin_addr);
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  auto* const any = reinterpret_cast<sockaddr*>(&own);
  if (!fd || connect(fd.get(), reinterpret_cast<const sockaddr*>(&other), sizeof other) != 0 ||
      getsockname(fd.get(), any, &length) != 0)
    return kLoopback;
  const std::string found = numeric_host(any, length);
  return found.empty() ? kLoopback : found;
}

void send_end(const NodeEnd& end, const std::string& mark) {
  write_within(STDOUT_FILENO, encode(end, mark), kWriteLimit);
}

}  // namespace ddprun::launcher
