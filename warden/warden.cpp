#include "warden/warden.hpp"

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
#include <cstring>
#include <filesystem>
#include <optional>

#include "base/boot_clock.hpp"
#include "base/describe.hpp"
#include "base/exit_codes.hpp"
#include "base/signals.hpp"
#include "machine/processes/boot_timer.hpp"
#include "machine/processes/kill_children.hpp"
#include "machine/processes/pid_namespace.hpp"
#include "machine/processes/shared_memory.hpp"
#include "warden/agent_deadline.hpp"
#include "warden/background_input.hpp"
#include "warden/own_process.hpp"
#include "warden/prepare_containment.hpp"
#include "warden/supervised_child.hpp"
#include "warden/warden_signals.hpp"
#include "warden/work_beside.hpp"

namespace ddprun::warden {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kCgroupLimit = 1s;
constexpr auto kLastKillLimit = 1s;  // after a deadline that has passed
constexpr auto kStuckMargin =
    5s;  // what an agent may take beyond the grace period before it counts as stuck

class Warden {
 public:
  Warden(const WardenSettings& settings, pid_t agent, UniqueFd signals, UniqueFd link,
         std::optional<machine::GuardedCgroup> cgroup, std::optional<LeasePage> lease,
         std::optional<BackgroundInput> input, std::chrono::system_clock::time_point started_at,
         WorkBeside beside)
      : settings_(settings),
        agent_(agent, std::move(signals),
               settings.stop.grace_period + settings.stop.kill_timeout + kStuckMargin),
        link_(std::move(link)),
        cgroup_(std::move(cgroup)),
        lease_(std::move(lease)),
        input_(std::move(input)),
        started_at_(started_at),
        beside_(beside) {}

  int run() {
    while (true) {
      wait();
      take_signals();
      take_notes();
      if (input_ && !input_->pass_on()) input_.reset();
      if (const auto code = agent_exit()) return *code;
      // A stopped agent can neither stop nor restart workers. The kernel tells us of it, so a
      // healthy job needs no heartbeat.
      agent_.look_at_state();
      reap_strangers();
      if (fence_.is_due(lease_end(), {.boot = boot_clock_now(), .steady = Clock::now()})) {
        kill(agent_.pid(), SIGKILL);
        return finish(kExitNoRound, settings_.stop.kill_timeout,
                      agent_name() +
                          " did not kill the workers, although the rendezvous has not answered: "
                          "killing everything");
      }
      switch (agent_.deadline.due(Clock::now())) {
        case AgentDeadline::Due::nothing:
          break;
        case AgentDeadline::Due::say_stopped:
          say_stopped();
          break;
        case AgentDeadline::Due::end_job:
          kill(agent_.pid(), SIGKILL);
          // One that was told to end has had the time to kill already.
          return finish(kExitInternal,
                        agent_.deadline.ending() ? kLastKillLimit : settings_.stop.kill_timeout,
                        agent_name() +
                            (agent_.deadline.ending() ? " did not end the job in time"
                                                      : " was stopped and not continued") +
                            ": killing everything");
      }
    }
  }

 private:
  void wait() {
    fence_timer_.set(fence_.wake_until() ? std::nullopt : fence_.at(lease_end()));
    pollfd others[] = {{agent_said_all_ ? -1 : link_.get(), POLLIN, 0},
                       {fence_timer_.descriptor(), POLLIN, 0},
                       input_ ? input_->ready() : pollfd{-1, 0, 0}};
    agent_.wait(others, {fence_.wake_until(), fence_timer_.missed_at()});
  }

  std::optional<Clock::time_point> lease_end() const {
    return lease_ ? lease_->until() : std::nullopt;
  }

  void take_signals() {
    for (const int signal : agent_.take_signals()) {
      if (signal == SIGTSTP) pausing_ = true;
      if (signal == SIGCONT) pausing_ = false;
      if (ends_job(settings_.stop, signal)) agent_.deadline.stop_requested(Clock::now());
      pass_on(signal);
    }
  }

  void pass_on(int signal) const {
    const SignalRecord record{signal, monotonic_ns()};
    // A full socket means that the agent has not read for hundreds of signals; the deadline then
    // does its work.
    [[maybe_unused]] const auto sent =
        send(link_.get(), &record, sizeof record, MSG_NOSIGNAL | MSG_DONTWAIT);
  }

  // The shell sees us stop; the agent goes on guarding. `fg` sends SIGCONT. Where no process could
  // continue us (an orphaned process group, the init of a namespace) the kernel does not stop us,
  // and the workers go on.
  void pause() {
    if (!pausing_) return;  // continued in the meantime
    pausing_ = false;
    stop_by(SIGTSTP);
    pass_on(SIGCONT);
  }

  // What the kernel does to a process that reads the terminal from the background.
  void wait_for_front() {
    if (!is_in_background()) return;  // `fg` in the meantime
    pass_on(stop_by(SIGTTIN) ? SIGCONT : SIGTTIN);
  }

  // Processes that a container hands to its init, and what the agent has left: no zombie stays.
  void reap_strangers() {
    siginfo_t info{};
    while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0) {
      if (info.si_pid == agent_.pid()) return;
      waitpid(info.si_pid, nullptr, WNOHANG);
      if (cgroup_ && info.si_pid == cgroup_->guard()) replace_guard();
      info.si_pid = 0;
    }
  }

  void replace_guard() {
    print_line("the guard (pid " + std::to_string(cgroup_->guard()) + ") was killed; " +
               (cgroup_->replace_guard()
                    ? "another one took its place"
                    : "no other can be started: do not kill ddprun and its agent together"));
  }

  void take_notes() {
    while (!agent_said_all_) {
      auto received = receive_note(link_.get(), agent_said_all_);
      if (!received) return;
      switch (received->note.kind) {
        case WardenNote::Kind::workers_paused:
          pause();
          break;
        case WardenNote::Kind::reads_terminal:
          wait_for_front();
          break;
        case WardenNote::Kind::ends_within:
          agent_.deadline.ends_within(std::chrono::milliseconds(received->note.milliseconds),
                                      Clock::now());
          break;
        case WardenNote::Kind::lease_began:
          break;  // the next wait looks at it
        case WardenNote::Kind::connection:
          connection_.hold(std::move(received->descriptor));
          break;
      }
    }
  }

  void say_stopped() const {
    auto until_killed = agent_.deadline.left(Clock::now());
    if (const auto at = FenceDeadline::at(lease_end()))
      until_killed = std::clamp<Clock::duration>(*at - boot_clock_now(), 0ns, until_killed);
    const auto left = std::chrono::ceil<std::chrono::seconds>(until_killed);
    print_line(agent_name() + " is stopped (SIGSTOP); run `kill -CONT " +
               std::to_string(agent_.pid()) + "` to resume the job, or it is killed in " +
               std::to_string(left.count()) + " s");
  }

  std::string agent_name() const { return "the agent (pid " + std::to_string(agent_.pid()) + ")"; }

  // Our exit code once the agent is gone. Other children are what it left; they end in `finish`.
  std::optional<int> agent_exit() {
    const auto exit = agent_.take_exit();
    if (!exit) return std::nullopt;
    if (!exit->by_signal) {
      beside_.wait();
      return finish(exit->value, settings_.stop.kill_timeout, "");
    }
    return finish(
        kExitInternal, settings_.stop.kill_timeout,
        agent_name() + " was killed by " + signal_name(exit->value) + ": all workers are killed");
  }

  // Kills first and prints then: a slow reader of ours shall not lengthen a process's life.
  int finish(int code, std::chrono::milliseconds kill_limit, const std::string& words) {
    if (cgroup_) cgroup_->kill();
    // What the agent itself could not kill, and has reported, gets no second chance.
    const auto limit = code == kExitLeftovers ? 0ms : kill_limit;
    machine::ChildrenKiller killer(Clock::now() + limit);
    killer.go_on(Clock::time_point::max());
    const auto& left = killer.left();
    left.empty() ? connection_.end_in_order() : connection_.reset();
    machine::remove_shared_memory_of({killer.reaped(), started_at_});
    if (!words.empty()) print_line(words);
    if (code != kExitLeftovers) {
      for (const machine::ProcessEntry& process : left)
        print_line("could not be killed: " + machine::describe_stuck(process));
      if (!left.empty()) code = kExitLeftovers;
    }
    if (cgroup_) remove_cgroup();
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
  SupervisedChild agent_;
  UniqueFd link_;
  std::optional<machine::GuardedCgroup> cgroup_;
  std::optional<LeasePage> lease_;
  FenceDeadline fence_;
  machine::BootTimer fence_timer_;
  HeldConnection connection_;
  std::optional<BackgroundInput> input_;  // none: workers have the job's, or it has ended
  const std::chrono::system_clock::time_point started_at_;  // before any process of the job
  const WorkBeside beside_;
  bool agent_said_all_ = false;
  bool pausing_ = false;  // SIGTSTP came, and no SIGCONT after it
};

[[noreturn]] void become_agent(const WardenSettings& settings, pid_t warden, UniqueFd link,
                               const machine::JobCgroup* cgroup, std::optional<LeasePage> lease,
                               const std::function<void(WardenLink)>& agent_main) {
  // Without `ddprun` in it: pkill takes a part of a name for the name.
  prctl(PR_SET_NAME, "ddp-agent");
  set_process_title(settings.title_room, "ddprun: agent of " + std::to_string(warden));
  const bool init = settings.containment == machine::ContainmentLevel::pidns;
  prctl(PR_SET_PDEATHSIG, warden_died_signal());
  // It may have died before the line above. From inside a pid namespace parents are not seen; there
  // the end of the link tells.
  if (!init && getppid() != warden) _exit(kExitInternal);
  if (init) {
    if (const auto mounted = machine::mount_own_proc(); !mounted) {
      print_line("cannot mount /proc in the pid namespace: " + mounted.error().message());
      print_line(machine::kPidNamespaceHint);
      _exit(kExitUsage);
    }
  }
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // not inherited
  setpgid(0, 0);                     // the terminal's signals are for the warden alone
  for (const int signal : {SIGPIPE, SIGTTOU, SIGTTIN}) std::signal(signal, SIG_IGN);
  agent_main(WardenLink(std::move(link), cgroup, std::move(lease)));
  _exit(kExitInternal);  // never reached: the agent ends its process itself
}

int guard_agent(const WardenSettings& settings, const std::function<void(WardenLink)>& agent_main) {
  // The process that started us may ignore it, and then no child could be waited for; workers get
  // their disposition back.
  std::signal(SIGCHLD, SIG_DFL);
  // Before the fork, so that no signal is lost between it and the first wait.
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  const sigset_t watched = watched_signals(settings.stop);

  prctl(PR_SET_CHILD_SUBREAPER, 1);
  std::optional<machine::GuardedCgroup> cgroup;
  if (!prepare_containment(settings.containment, settings.cgroup_optional, cgroup))
    return kExitUsage;
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    print_line(std::string("cannot make a socket: ") + std::strerror(errno) +
               "; look at the limit of open files (ulimit -n)");
    return kExitInternal;
  }
  std::optional<LeasePage> lease;
  if (settings.has_lease) {
    auto page = LeasePage::make();
    if (!page) {
      print_line("cannot share memory with the agent: " + page.error().message());
      return kExitInternal;
    }
    lease.emplace(std::move(*page));
  }
  UniqueFd agents_end(ends[0]);
  UniqueFd wardens_end(ends[1]);
  auto input = settings.reads_input ? BackgroundInput::replace_stdin() : std::nullopt;
  const pid_t warden = getpid();
  const auto started_at = std::chrono::system_clock::now();
  const pid_t agent = fork();
  if (agent < 0) {
    print_line(std::string("cannot start the agent: ") + std::strerror(errno) +
               "; look at the limits of processes and memory (ulimit -u, the container's pids and "
               "memory)");
    return kExitInternal;
  }
  if (agent == 0) {
    wardens_end.reset();
    input.reset();
    become_agent(settings, warden, std::move(agents_end), cgroup ? &cgroup->cgroup() : nullptr,
                 std::move(lease), agent_main);
  }
  agents_end.reset();
  const bool has_work = settings.has_work_beside && settings.has_work_beside();
  const WorkBeside beside = has_work ? WorkBeside(settings.work_beside) : WorkBeside();
  if (settings.has_lease) protect_from_starving();
  restore_others(settings.stop);
  UniqueFd signals(signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
  return Warden(settings, agent, std::move(signals), std::move(wardens_end), std::move(cgroup),
                std::move(lease), std::move(input), started_at, beside)
      .run();
}

}  // namespace

int run_warden(const WardenSettings& settings, const std::function<void(WardenLink)>& agent_main) {
  const int code = guard_agent(settings, agent_main);
  std::error_code ignored_error;
  // Mostly empty, and then one system call does.
  if (!settings.run_directory.empty() && rmdir(settings.run_directory.c_str()) != 0)
    std::filesystem::remove_all(settings.run_directory, ignored_error);
  return code;
}

}  // namespace ddprun::warden
