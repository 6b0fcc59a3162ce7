#include "agent/job_signals.hpp"

#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <csignal>

#include "proto/result.hpp"

namespace ddprun::agent {

namespace asio = boost::asio;

namespace {

constexpr auto kPipeReadable = asio::posix::descriptor_base::wait_read;

std::int64_t monotonic_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

bool ignored(int signal) {
  struct sigaction action {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

JobSignals::JobSignals(asio::io_context& context, std::vector<int> signals, Handlers handlers)
    : signals_(std::move(signals)),
      handlers_(std::move(handlers)),
      signalfd_(context),
      pipe_(context),
      warden_(context) {}

void JobSignals::start(WardenLink& link) {
  sigset_t caught;
  sigemptyset(&caught);
  for (const int signal : signals_) {
    if (!ignored(signal)) sigaddset(&caught, signal);  // nohup: ignored stays ignored
  }
  sigaddset(&caught, SIGCHLD);
  sigaddset(&caught, warden_died_signal());
  signalfd_.assign(::signalfd(-1, &caught, SFD_CLOEXEC | SFD_NONBLOCK));
  watch_signalfd();

  // The parent-death signal can be lost to a warden that died before it was armed; a pidfd cannot.
  const long pidfd = syscall(SYS_pidfd_open, link.warden(), 0);
  if (pidfd >= 0) {
    warden_.assign(static_cast<int>(pidfd));
    warden_.async_wait(kPipeReadable, [this](ErrorCode ec) {
      if (!ec) handlers_.warden_died();
    });
  }
  if (getppid() != link.warden()) handlers_.warden_died();

  pipe_.assign(link.take_signals().release());
  watch_pipe();
}

void JobSignals::watch_signalfd() {
  signalfd_.async_wait(kPipeReadable, [this](ErrorCode ec) {
    if (ec) return;
    signalfd_siginfo info{};
    while (read(signalfd_.native_handle(), &info, sizeof info) == sizeof info) {
      const int signal = static_cast<int>(info.ssi_signo);
      if (signal == warden_died_signal()) {
        handlers_.warden_died();
      } else if (signal == SIGCHLD) {
        handlers_.child_ended();
      } else {
        handlers_.signal({signal, static_cast<std::int32_t>(info.ssi_pid), monotonic_ns()});
      }
    }
    watch_signalfd();
  });
}

void JobSignals::watch_pipe() {
  pipe_.async_wait(kPipeReadable, [this](ErrorCode ec) {
    if (ec) return;
    SignalRecord record;
    // Its end is the warden's, of which the pidfd tells.
    if (read(pipe_.native_handle(), &record, sizeof record) != sizeof record) return;
    handlers_.signal(record);
    watch_pipe();
  });
}

}  // namespace ddprun::agent
