#include "launcher/warden.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>

#include "agent/containment/clearing.hpp"
#include "agent/containment/pid_namespace.hpp"
#include "launcher/exit_codes.hpp"
#include "launcher/launch_error.hpp"
#include "proto/words.hpp"

namespace ddprun::launcher {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kCgroupLimit = 1s;
constexpr auto kStuckMargin =
    5s;  // what an agent may take beyond the grace period before it counts as stuck

// Written with write(2): the warden must say its line even when nothing else works.
void say(const std::string& line) {
  const std::string whole = "ddprun: " + line + "\n";
  [[maybe_unused]] const auto written = write(STDERR_FILENO, whole.data(), whole.size());
}

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
      .count();
}

bool ignored(int signal) {
  struct sigaction action {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

bool contains(const std::vector<int>& signals, int signal) {
  return std::find(signals.begin(), signals.end(), signal) != signals.end();
}

// What the warden waits for. Signals that were ignored when we started stay so (nohup).
sigset_t watched_signals(const WardenSettings& settings) {
  sigset_t set;
  sigemptyset(&set);
  for (const auto* signals : {&settings.stop_signals, &settings.forward_signals}) {
    for (const int signal : *signals) {
      if (!ignored(signal)) sigaddset(&set, signal);
    }
  }
  if (!ignored(SIGTSTP)) sigaddset(&set, SIGTSTP);
  for (const int signal : {SIGCHLD, SIGCONT, SIGWINCH}) sigaddset(&set, signal);
  return set;
}

// Signals that usually end a program, and that --signals-to-handle leaves out, end the warden; the
// agent then kills everything.
void restore_others(const WardenSettings& settings) {
  sigset_t others;
  sigemptyset(&others);
  for (const int signal : {SIGINT, SIGTERM, SIGQUIT, SIGHUP}) {
    if (!contains(settings.stop_signals, signal) && !contains(settings.forward_signals, signal))
      sigaddset(&others, signal);
  }
  sigprocmask(SIG_UNBLOCK, &others, nullptr);
}

class Warden {
 public:
  Warden(const WardenSettings& settings, pid_t agent, UniqueFd link,
         std::optional<agent::GuardedCgroup> cgroup)
      : settings_(settings), agent_(agent), link_(std::move(link)), cgroup_(std::move(cgroup)) {}

  int run(const sigset_t& watched) {
    signals_.reset(signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
    while (true) {
      wait();
      take_signals();
      take_notes();
      if (const auto code = agent_exit()) return finish(*code);
      if (deadline_ && Clock::now() >= *deadline_) {
        say("the agent (pid " + std::to_string(agent_) +
            ") did not end the job in time: killing everything");
        kill(agent_, SIGKILL);
        return finish(kExitInternal);
      }
    }
  }

 private:
  void wait() const {
    pollfd ears[] = {{signals_.get(), POLLIN, 0}, {link_.get(), POLLIN, 0}};
    if (agent_said_all_) ears[1].fd = -1;
    timespec left{};
    if (deadline_) {
      const auto until = std::max<std::chrono::nanoseconds>(*deadline_ - Clock::now(), 0ns);
      const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(until);
      left = {seconds.count(), static_cast<long>((until - seconds).count())};
    }
    ppoll(ears, 2, deadline_ ? &left : nullptr, nullptr);
  }

  void take_signals() {
    signalfd_siginfo info{};
    while (read(signals_.get(), &info, sizeof info) == sizeof info) {
      const int signal = static_cast<int>(info.ssi_signo);
      if (signal == SIGCHLD) continue;
      if (contains(settings_.stop_signals, signal))
        end_by(Clock::now() + settings_.grace_period + settings_.kill_timeout + kStuckMargin);
      const agent::SignalRecord record{
          signal, info.ssi_code > 0 ? 0 : static_cast<std::int32_t>(info.ssi_pid), now_ns()};
      // A full socket means that the agent has not read for hundreds of signals; the deadline then
      // does its work.
      [[maybe_unused]] const auto sent =
          send(link_.get(), &record, sizeof record, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
  }

  void take_notes() {
    agent::WardenNote note;
    while (!agent_said_all_) {
      const ssize_t count = recv(link_.get(), &note, sizeof note, MSG_DONTWAIT);
      agent_said_all_ = count == 0;
      if (count != sizeof note) return;
      switch (note.kind) {
        case agent::WardenNote::Kind::workers_paused:
          // The shell sees us stop; the agent goes on guarding. `fg` sends SIGCONT.
          raise(SIGSTOP);
          break;
        case agent::WardenNote::Kind::ends_within:
          end_by(Clock::now() + std::chrono::milliseconds(note.milliseconds));
          break;
      }
    }
  }

  void end_by(Clock::time_point deadline) {
    if (!deadline_ || deadline < *deadline_) deadline_ = deadline;
  }

  // The agent's exit code once it is gone. Other children are what it left; they are reaped in
  // `finish`.
  std::optional<int> agent_exit() {
    siginfo_t info{};
    if (waitid(P_PID, static_cast<id_t>(agent_), &info, WEXITED | WNOHANG) != 0 ||
        info.si_pid != agent_) {
      return std::nullopt;
    }
    if (info.si_code == CLD_EXITED) return info.si_status;
    say("the agent (pid " + std::to_string(agent_) + ") was killed by " +
        proto::signal_name(info.si_status) + ": all workers are killed");
    return kExitInternal;
  }

  int finish(int code) {
    if (cgroup_) cgroup_->kill();
    // What the agent itself could not kill, and has reported, gets no second chance.
    const auto limit = code == kExitLeftovers ? 0ms : settings_.kill_timeout;
    const auto left = agent::kill_all_children(Clock::now() + limit);
    if (code != kExitLeftovers) {
      for (const agent::ProcessEntry& process : left)
        say("could not be killed: " + agent::describe_stuck(process));
      if (!left.empty()) code = kExitLeftovers;
    }
    if (cgroup_) remove_cgroup();
    std::error_code ignored_error;
    // Mostly empty, and then one system call does.
    if (!settings_.run_directory.empty() && rmdir(settings_.run_directory.c_str()) != 0)
      std::filesystem::remove_all(settings_.run_directory, ignored_error);
    return code;
  }

  // Processes that were reaped may be counted in it for a moment.
  void remove_cgroup() const {
    const auto limit = Clock::now() + kCgroupLimit;
    while (!cgroup_->cgroup().remove() && Clock::now() < limit) {
      const timespec pause{0, 1'000'000};
      nanosleep(&pause, nullptr);
    }
  }

  const WardenSettings& settings_;
  pid_t agent_;
  UniqueFd link_;
  std::optional<agent::GuardedCgroup> cgroup_;
  UniqueFd signals_;
  bool agent_said_all_ = false;
  std::optional<Clock::time_point> deadline_;
};

/// What has to be there before the agent is; false: it could not be made, which was said.
bool prepare(agent::ContainmentLevel level, std::optional<agent::GuardedCgroup>& cgroup) {
  switch (level) {
    case agent::ContainmentLevel::tree:
      return true;
    case agent::ContainmentLevel::pidns:
      if (const auto opened = agent::open_pid_namespace(); !opened) {
        say("cannot make a pid namespace: " + opened.error().message());
        say(agent::kPidNamespaceHint);
        return false;
      }
      return true;
    case agent::ContainmentLevel::cgroup:
      break;
  }
  auto made = agent::GuardedCgroup::make();
  if (made) {
    cgroup.emplace(std::move(*made));
    return true;
  }
  say("cannot make a cgroup for the workers: " + made.error().message());
  return false;
}

[[noreturn]] void become_agent(const WardenSettings& settings, pid_t warden, UniqueFd link,
                               const agent::JobCgroup* cgroup,
                               const std::function<void(agent::WardenLink)>& agent_main) {
  const bool init = settings.containment == agent::ContainmentLevel::pidns;
  prctl(PR_SET_PDEATHSIG, agent::warden_died_signal());
  // It may have died before the line above. From inside a pid namespace parents are not seen; there
  // the end of the link tells.
  if (!init && getppid() != warden) _exit(kExitInternal);
  if (init) {
    if (const auto mounted = agent::mount_own_proc(); !mounted) {
      say("cannot mount /proc in the pid namespace: " + mounted.error().message());
      say(agent::kPidNamespaceHint);
      _exit(kExitUsage);
    }
  }
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // not inherited
  setpgid(0, 0);                     // the terminal's signals are for the warden alone
  for (const int signal : {SIGPIPE, SIGTTOU, SIGTTIN}) std::signal(signal, SIG_IGN);
  agent_main(agent::WardenLink(std::move(link), cgroup));
  _exit(kExitInternal);  // never reached: the agent ends its process itself
}

}  // namespace

int run_warden(const WardenSettings& settings,
               const std::function<void(agent::WardenLink)>& agent_main) {
  // Before the fork, so that no signal is lost between it and the first wait.
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  const sigset_t watched = watched_signals(settings);

  prctl(PR_SET_CHILD_SUBREAPER, 1);
  std::optional<agent::GuardedCgroup> cgroup;
  if (!prepare(settings.containment, cgroup)) return kExitUsage;
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    say(std::string("cannot make a socket: ") + std::strerror(errno));
    return kExitInternal;
  }
  UniqueFd agents_end(ends[0]);
  UniqueFd wardens_end(ends[1]);
  const pid_t warden = getpid();
  const pid_t agent = fork();
  if (agent < 0) {
    say(std::string("cannot start the agent: ") + std::strerror(errno));
    return kExitInternal;
  }
  if (agent == 0) {
    wardens_end.reset();
    become_agent(settings, warden, std::move(agents_end), cgroup ? &cgroup->cgroup() : nullptr,
                 agent_main);
  }
  agents_end.reset();
  prctl(PR_SET_NAME, "warden");
  restore_others(settings);
  return Warden(settings, agent, std::move(wardens_end), std::move(cgroup)).run(watched);
}

}  // namespace ddprun::launcher
