// What the warden does for a node of a job of several nodes: it fences workers where the agent
// does not, and the connection to the rendezvous ends in order only when nothing of the job is
// left.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cerrno>
#include <csignal>
#include <functional>
#include <string>

#include "base/boot_clock.hpp"
#include "base/exit_codes.hpp"
#include "rendezvous/store/store_server.hpp"
#include "warden/warden.hpp"

using namespace ddprun;
using namespace std::chrono_literals;

namespace {

/// Where the far end of a connection waits for the agent's, over loopback.
struct Rendezvous {
  Rendezvous() {
    auto made = rdzv::listen_store("127.0.0.1", 0);
    REQUIRE(made.has_value());
    listener = std::move(*made);
  }
  /// In the agent: no other process has it.
  [[nodiscard]] UniqueFd connect() const {
    UniqueFd near(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in addr{};
    addr.sin_family = AF_INET;
    addr.sin_port = htons(listener.port);
    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(near.get(), reinterpret_cast<sockaddr*>(&addr), sizeof addr) != 0) _exit(99);
    return near;
  }
  UniqueFd accept() {
    pollfd ear{listener.fd.get(), POLLIN, 0};
    REQUIRE(poll(&ear, 1, 20'000) == 1);
    UniqueFd far(::accept(listener.fd.get(), nullptr, nullptr));
    REQUIRE(far);
    return far;
  }
  rdzv::StoreListener listener;
};

enum class End { none, in_order, reset };

/// How the connection ends within so long.
End end_of(const UniqueFd& far, std::chrono::milliseconds within) {
  pollfd ear{far.get(), POLLIN, 0};
  if (poll(&ear, 1, static_cast<int>(within.count())) != 1) return End::none;
  char byte = 0;
  const ssize_t count = recv(far.get(), &byte, 1, MSG_DONTWAIT);
  if (count == 0) return End::in_order;
  return count < 0 && errno == ECONNRESET ? End::reset : End::none;
}

/// A process of the job that nothing ends but SIGKILL; its pid is shared with the test.
class Worker {
 public:
  Worker() {
    void* memory =
        mmap(nullptr, sizeof(pid_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    pid_ = static_cast<std::atomic<pid_t>*>(memory);
  }
  /// In the agent.
  void start() {
    const pid_t pid = fork();
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, 0);
      for (;;) pause();
    }
    pid_->store(pid);
  }
  /// In the agent, which is to be ended as one.
  void is_me() { pid_->store(getpid()); }
  void end() const { kill(pid_->load(), SIGKILL); }
  /// It was started, and nothing is left of it.
  [[nodiscard]] bool over() const {
    return pid_->load() > 0 && kill(pid_->load(), 0) != 0 && errno == ESRCH;
  }

 private:
  std::atomic<pid_t>* pid_;
};

/// A job of its own, in a process of its own.
pid_t start_job(const std::function<void(warden::WardenLink)>& agent,
                std::chrono::milliseconds grace_period = 1s, int error_output = STDERR_FILENO) {
  const pid_t job = fork();
  if (job != 0) return job;
  dup2(error_output, STDERR_FILENO);
  warden::WardenSettings settings;
  settings.has_lease = true;
  settings.stop.grace_period = grace_period;
  settings.stop.kill_timeout = 5s;
  settings.stop.signals = {SIGTERM};
  _exit(warden::run_warden(settings, agent));
}

int exit_code_of(pid_t job) {
  int status = 0;
  REQUIRE(waitpid(job, &status, 0) == job);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("a lease that is over ends the workers although the agent does nothing") {
  Rendezvous rendezvous;
  Worker worker;
  const bool stopped = GENERATE(true, false);
  const auto began = boot_clock_now();
  const pid_t job = start_job([&](warden::WardenLink link) {
    const UniqueFd near = rendezvous.connect();
    link.hold_connection(near.get());
    worker.start();
    link.lease(boot_clock_now() + 300ms);
    if (stopped) raise(SIGSTOP);
    for (;;) pause();
  });
  const UniqueFd far = rendezvous.accept();
  CHECK(end_of(far, 20s) == End::in_order);
  CHECK(worker.over());
  CHECK(boot_clock_now() - began >= 1300ms);  // the agent has a second for it
  CHECK(exit_code_of(job) == kExitNoRound);
}

TEST_CASE("the warning about an agent that is stopped counts down to the end of its lease") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  Worker agent;
  const pid_t job = start_job(
      [&](warden::WardenLink link) {
        agent.is_me();
        link.lease(boot_clock_now() + 60s);
        raise(SIGSTOP);
      },
      1h, writer.get());
  writer.reset();
  std::string line;
  char byte = 0;
  pollfd ear{reader.get(), POLLIN, 0};
  while (byte != '\n' && poll(&ear, 1, 20'000) == 1 && read(reader.get(), &byte, 1) == 1)
    line += byte;
  kill(job, SIGKILL);
  CHECK(exit_code_of(job) == -1);
  agent.end();  // stopped, it cannot see that its warden is gone
  INFO(line);
  const std::string before = "or it is killed in ";
  REQUIRE(line.find(before) != std::string::npos);
  // The second that the agent has after its lease, too; not the hour of the grace period.
  CHECK(std::stoi(line.substr(line.find(before) + before.size())) <= 61);
}

TEST_CASE("a lease that is renewed, or under which nothing runs, ends nothing") {
  Worker worker;
  const bool cleared = GENERATE(true, false);
  const pid_t job = start_job([&](warden::WardenLink link) {
    worker.start();
    link.lease(boot_clock_now() + 100ms);
    cleared ? link.lease(std::nullopt) : link.lease(boot_clock_now() + 1h);
    usleep(1'500'000);
    _exit(7);
  });
  CHECK(exit_code_of(job) == 7);
  CHECK(worker.over());
}

TEST_CASE("a connection outlives its agent, and ends in order when all are killed") {
  Rendezvous rendezvous;
  Worker worker;
  const pid_t job = start_job([&](warden::WardenLink link) {
    const UniqueFd near = rendezvous.connect();
    link.hold_connection(near.get());
    worker.start();
    char byte = 0;  // until there are unread bytes: a plain end would be a reset
    static_cast<void>(recv(near.get(), &byte, 1, MSG_PEEK));
    raise(SIGKILL);
  });
  const UniqueFd far = rendezvous.accept();
  REQUIRE(send(far.get(), "unread", 6, 0) == 6);
  CHECK(end_of(far, 20s) == End::in_order);
  CHECK(worker.over());
  CHECK(exit_code_of(job) == kExitInternal);
}

TEST_CASE("a connection that the agent gives up ends by a reset at once") {
  Rendezvous rendezvous;
  const bool another = GENERATE(true, false);
  const pid_t job = start_job([&](warden::WardenLink link) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    UniqueFd near = rendezvous.connect();
    link.hold_connection(near.get());
    const UniqueFd next = another ? rendezvous.connect() : UniqueFd();
    const linger hard{1, 0};
    setsockopt(near.get(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    link.hold_connection(next.get());
    near.reset();
    for (;;) pause();
  });
  const UniqueFd far = rendezvous.accept();
  CHECK(end_of(far, 20s) == End::reset);
  if (another) {
    const UniqueFd next = rendezvous.accept();
    CHECK(end_of(next, 50ms) == End::none);
  }
  kill(job, SIGKILL);
  CHECK(exit_code_of(job) == -1);
}
