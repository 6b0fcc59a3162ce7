#include "agent/control/job_signals.hpp"

#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "base/signals.hpp"

namespace ddprun::agent {

namespace asio = boost::asio;

namespace {

constexpr auto kSignalReadable = asio::posix::descriptor_base::wait_read;

}  // namespace

JobSignals::JobSignals(asio::io_context& context, std::vector<int> signals,
                       std::optional<machine::Ancestor> scheduler, Handlers handlers)
    : signals_(std::move(signals)),
      handlers_(std::move(handlers)),
      signalfd_(context),
      warden_(context),
      scheduler_(std::move(scheduler)),
      scheduler_end_(context) {}

JobSignals::~JobSignals() {
  if (warden_.is_open()) warden_.release();
}

ErrorCode JobSignals::start(const warden::WardenLink& link) {
  sigset_t caught;
  sigemptyset(&caught);
  for (const int signal : signals_) {
    if (!signal_ignored(signal)) sigaddset(&caught, signal);  // nohup: ignored stays ignored
  }
  sigaddset(&caught, SIGCHLD);
  sigaddset(&caught, warden::warden_died_signal());
  UniqueFd fd(::signalfd(-1, &caught, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) return last_system_error();
  ErrorCode failed;
  signalfd_.assign(fd.get(), failed);
  if (failed) return failed;
  static_cast<void>(fd.release());  // Asio closes it

  // The parent-death signal can be lost to a warden that died before it was armed; the end of its
  // socket cannot.
  warden_.assign(link.socket(), failed);
  if (failed) return failed;
  watch_signalfd();
  watch_warden();
  if (!scheduler_) return {};
  scheduler_end_.assign(scheduler_->pidfd.get(), failed);
  if (failed) return failed;
  static_cast<void>(scheduler_->pidfd.release());  // Asio closes it
  watch_scheduler();
  return {};
}

void JobSignals::watch_signalfd() {
  signalfd_.async_wait(kSignalReadable, [this](ErrorCode ec) {
    if (ec) return;
    signalfd_siginfo info{};
    while (read(signalfd_.native_handle(), &info, sizeof info) == sizeof info) {
      const int signal = static_cast<int>(info.ssi_signo);
      if (signal == warden::warden_died_signal()) {
        handlers_.warden_died();
      } else if (signal == SIGCHLD) {
        handlers_.child_ended();
      } else {
        handlers_.signal({signal, monotonic_ns()});
      }
    }
    watch_signalfd();
  });
}

void JobSignals::watch_warden() {
  warden_.async_wait(kSignalReadable, [this](ErrorCode ec) {
    if (ec) return;
    warden::SignalRecord record;
    const ssize_t count = recv(warden_.native_handle(), &record, sizeof record, MSG_DONTWAIT);
    if (count == sizeof record) {
      handlers_.signal(record);
    } else if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
      handlers_.warden_died();
    }
    watch_warden();
  });
}

void JobSignals::watch_scheduler() {
  scheduler_end_.async_wait(kSignalReadable, [this](ErrorCode ec) {
    if (!ec) handlers_.scheduler_ended(*scheduler_);
  });
}

}  // namespace ddprun::agent
