#include "launcher/warden.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "launcher/exit_codes.hpp"
#include "proto/words.hpp"

namespace ddprun::launcher {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kKillLimit = 2s;  // for SIGKILL to take effect on all that the agent left
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
  for (const int signal :
       {SIGCHLD, SIGCONT, SIGWINCH, agent::workers_paused_signal(), agent::ends_within_signal()}) {
    sigaddset(&set, signal);
  }
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
  Warden(const WardenSettings& settings, pid_t agent, UniqueFd signals)
      : settings_(settings), agent_(agent), signals_(std::move(signals)) {}

  int run(const sigset_t& watched) {
    while (true) {
      siginfo_t info{};
      if (wait(watched, info) > 0) handle(info);
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
  int wait(const sigset_t& watched, siginfo_t& info) const {
    if (!deadline_) return sigwaitinfo(&watched, &info);
    const auto left = std::max<std::chrono::nanoseconds>(*deadline_ - Clock::now(), 0ns);
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
    const timespec limit{seconds.count(), static_cast<long>((left - seconds).count())};
    return sigtimedwait(&watched, &info, &limit);
  }

  void handle(const siginfo_t& info) {
    if (info.si_signo == SIGCHLD) return;
    if (info.si_signo == agent::workers_paused_signal()) {
      // The shell sees us stop; the agent goes on guarding. `fg` sends SIGCONT.
      if (info.si_pid == agent_) raise(SIGSTOP);
      return;
    }
    if (info.si_signo == agent::ends_within_signal()) {
      if (info.si_pid == agent_) end_by(Clock::now() + std::chrono::milliseconds(info.si_int));
      return;
    }
    if (contains(settings_.stop_signals, info.si_signo)) {
      end_by(Clock::now() + settings_.grace_period + kStuckMargin);
    }
    const agent::SignalRecord record{info.si_signo, info.si_code > 0 ? 0 : info.si_pid, now_ns()};
    // A full pipe means that the agent has not read for thousands of signals; the deadline then
    // does its work.
    [[maybe_unused]] const auto written = write(signals_.get(), &record, sizeof record);
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
    if (!agent::kill_all_children(Clock::now() + kKillLimit)) {
      say("processes of the job could not be killed");
      code = kExitInternal;
    }
    std::error_code ignored_error;
    // Mostly empty, and then one system call does.
    if (!settings_.run_directory.empty() && rmdir(settings_.run_directory.c_str()) != 0)
      std::filesystem::remove_all(settings_.run_directory, ignored_error);
    return code;
  }

  const WardenSettings& settings_;
  pid_t agent_;
  UniqueFd signals_;
  std::optional<Clock::time_point> deadline_;
};

}  // namespace

int run_warden(const WardenSettings& settings,
               const std::function<void(agent::WardenLink)>& agent_main) {
  // Before the fork, so that no signal is lost between it and the first wait.
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  const sigset_t watched = watched_signals(settings);

  int pipe_ends[2];
  if (pipe2(pipe_ends, O_CLOEXEC) != 0) {
    say(std::string("cannot make a pipe: ") + std::strerror(errno));
    return kExitInternal;
  }
  UniqueFd agent_end(pipe_ends[0]);
  UniqueFd warden_end(pipe_ends[1]);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t warden = getpid();
  const pid_t agent = fork();
  if (agent < 0) {
    say(std::string("cannot start the agent: ") + std::strerror(errno));
    return kExitInternal;
  }
  if (agent == 0) {
    warden_end.reset();
    prctl(PR_SET_PDEATHSIG, agent::warden_died_signal());
    if (getppid() != warden) _exit(kExitInternal);  // it died before the line above
    prctl(PR_SET_CHILD_SUBREAPER, 1);               // not inherited
    setpgid(0, 0);  // the terminal's signals are for the warden alone
    for (const int signal : {SIGPIPE, SIGTTOU, SIGTTIN}) std::signal(signal, SIG_IGN);
    agent_main(agent::WardenLink(warden, std::move(agent_end)));
    _exit(kExitInternal);  // never reached: the agent ends its process itself
  }
  agent_end.reset();
  fcntl(warden_end.get(), F_SETFL, O_NONBLOCK);  // never blocked by a stuck agent
  prctl(PR_SET_NAME, "warden");
  restore_others(settings);
  return Warden(settings, agent, std::move(warden_end)).run(watched);
}

}  // namespace ddprun::launcher
