#include "launcher/ctl/top.hpp"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/exit_codes.hpp"
#include "base/printable.hpp"
#include "base/unique_handle.hpp"
#include "launcher/ctl/asked_job.hpp"
#include "launcher/ctl/device_watch.hpp"
#include "launcher/ctl/terminal_screen.hpp"
#include "launcher/ctl/top_model.hpp"
#include "launcher/ctl/top_screen.hpp"
#include "proto/error.hpp"
#include "proto/json_document.hpp"

namespace ddprun::ctl {
namespace {

using namespace std::chrono_literals;
using Clock = JobConnection::Clock;

constexpr auto kDrawnAtLeast = 1s;  // so that a job that does not answer is seen
constexpr auto kEndLimit = 2s;      // for the exit code, once the connection is closed

/// All signals that would end or stop us come as bytes to read: the terminal is restored first.
class Signals {
 public:
  Signals() {
    sigemptyset(&set_);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH})
      sigaddset(&set_, signal);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
    fd_ = UniqueFd(signalfd(-1, &set_, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  [[nodiscard]] int descriptor() const { return fd_.get(); }
  /// None: no other one came.
  [[nodiscard]] std::optional<int> next() const {
    signalfd_siginfo info{};
    if (read(fd_.get(), &info, sizeof info) != sizeof info) return std::nullopt;
    return static_cast<int>(info.ssi_signo);
  }
  /// As Ctrl-Z stops other programs. Returns when the shell lets us go on. The kernel does not stop
  /// us where no shell could do that.
  static void stop_here() {
    sigset_t stop{};
    sigemptyset(&stop);
    sigaddset(&stop, SIGTSTP);
    raise(SIGTSTP);
    pthread_sigmask(SIG_UNBLOCK, &stop, nullptr);
    pthread_sigmask(SIG_BLOCK, &stop, nullptr);
  }

 private:
  sigset_t set_{};
  UniqueFd fd_;
};

/// Why the screen is left.
struct Leaving {
  int exit_code = kExitSuccess;
  std::string line;  ///< to print
};

class Top {
 public:
  struct Connections {
    JobConnection status;
    JobConnection end;
  };
  Top(JobSocketName job, std::chrono::nanoseconds interval, Connections connections,
      TerminalScreen screen, const Signals& signals)
      : job_(std::move(job)),
        interval_(interval),
        status_(std::move(connections.status)),
        end_(std::move(connections.end)),
        signals_(signals),
        screen_(std::move(screen)),
        model_(interval_) {
    // Without its answer the end is still seen, by the closed connection.
    static_cast<void>(end_->send(R"({"request":"wait"})", Clock::now() + kAnswerLimit));
  }

  Leaving run() {
    while (!leaving_) {
      const auto now = Clock::now();
      if (closed_at_ && now >= *closed_at_ + kEndLimit) fail();
      if (!asked_at_ && !closed_at_ && now >= ask_at_) ask(now);
      wait(now);
      read_signals();
      read_keys();
      if (end_) read_end();
      if (!closed_at_) read_status();
      if (Clock::now() >= drawn_at_ + kDrawnAtLeast) draw();
    }
    return *leaving_;
  }

 private:
  [[noreturn]] void fail() const {
    throw Failed{kExitNoRound, fmt::format("job {} does not answer any more: {}", job_.job,
                                           closed_why_.message())};
  }
  void close(Clock::time_point now, const ErrorCode& why) {
    closed_at_ = now;
    closed_why_ = why;
  }

  void ask(Clock::time_point now) {
    asked_at_ = now;
    const auto sent = status_.send(R"({"request":"status","last_lines":true})", now + kAnswerLimit);
    if (!sent) close(now, sent.error());
  }

  void wait(Clock::time_point now) {
    Clock::time_point until = drawn_at_ + kDrawnAtLeast;
    if (!asked_at_) until = std::min(until, ask_at_);
    const auto limit = std::chrono::ceil<std::chrono::milliseconds>(until - now);
    std::array<pollfd, 4> waited{{{STDIN_FILENO, POLLIN, 0},
                                  {signals_.descriptor(), POLLIN, 0},
                                  {closed_at_ ? -1 : status_.descriptor(), POLLIN, 0},
                                  {end_ ? end_->descriptor() : -1, POLLIN, 0}}};
    poll(waited.data(), waited.size(), static_cast<int>(std::max<std::int64_t>(0, limit.count())));
    if ((waited[0].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0)
      leaving_ = Leaving{kExitSignalBase + SIGHUP, ""};
  }

  void read_signals() {
    while (const auto signal = signals_.next()) {
      if (*signal == SIGTSTP) {
        screen_.suspend();
        Signals::stop_here();
      }
      if (*signal == SIGTSTP || *signal == SIGCONT) {
        screen_.resume();
        draw();
      } else if (*signal == SIGWINCH) {
        screen_.resize();
        draw();
      } else {  // Ctrl-C is a key to leave
        leaving_ = Leaving{*signal == SIGINT ? kExitSuccess : kExitSignalBase + *signal, ""};
      }
    }
  }

  void read_keys() {
    bool any = false;
    for (Key key = screen_.read_key(); key != Key::none; key = screen_.read_key()) {
      any = true;
      on_key(key);
    }
    if (any) draw();
  }

  void on_key(Key key) {
    std::size_t& first = choice_.first_row;
    const std::size_t page = std::max<std::size_t>(shown_rows_, 1);
    constexpr std::size_t kEnd = 1U << 30U;  // draw() takes the last one that there is
    switch (key) {
      case Key::quit:
        leaving_ = Leaving{};
        break;
      case Key::up:
        first -= std::min<std::size_t>(first, 1);
        break;
      case Key::down:
        ++first;
        break;
      case Key::page_up:
        first -= std::min(first, page);
        break;
      case Key::page_down:
        first += page;
        break;
      case Key::first:
        first = 0;
        break;
      case Key::last:
        first = kEnd;
        break;
      case Key::order:
        choice_.order = choice_.order == TopOrder::slowest ? TopOrder::rank : TopOrder::slowest;
        break;
      case Key::help:
        choice_.help = !choice_.help;
        break;
      case Key::none:
      case Key::other:
        break;
    }
  }

  void read_status() {
    const auto now = Clock::now();
    const auto answer = status_.receive(now);
    if (!answer) {
      if (answer.error() != make_error_code(proto::Errc::timed_out)) close(now, answer.error());
      return;
    }
    model_.take(*answer, now);
    devices_.ask(model_.devices());
    ask_at_ = std::max(now, asked_at_.value_or(now) + interval_);
    asked_at_.reset();
    draw();
  }

  void read_end() {
    const auto answer = end_->receive(Clock::now());
    if (!answer && answer.error() == make_error_code(proto::Errc::timed_out)) return;
    const auto document = answer ? proto::JsonDocument::parse(*answer) : std::nullopt;
    const auto code = document ? document->root().member("exit_code") : std::nullopt;
    const auto number = code ? code->signed_number() : std::nullopt;
    end_.reset();
    if (!number) return;  // too many wait for it, or the connection is closed
    leaving_ = Leaving{kExitSuccess,
                       *number == 0 ? fmt::format("job {} has succeeded\n", printable(job_.job))
                                    : fmt::format("job {} has ended with exit code {}\n",
                                                  printable(job_.job), *number)};
  }

  void draw() {
    drawn_at_ = Clock::now();
    model_.set_device_uses(devices_.newest());
    const TopPicture picture =
        top_picture(model_.view(drawn_at_, choice_.order), screen_.size(), choice_);
    choice_.first_row = picture.first_row;
    shown_rows_ = picture.rows;
    screen_.draw(picture.lines);
  }

  const JobSocketName job_;
  const std::chrono::nanoseconds interval_;
  JobConnection status_;
  std::optional<JobConnection> end_;  // none: it will not tell
  const Signals& signals_;
  TerminalScreen screen_;
  TopModel model_;
  DeviceWatch devices_;
  TopChoice choice_;
  std::size_t shown_rows_ = 0;
  Clock::time_point ask_at_ = Clock::now();
  std::optional<Clock::time_point> asked_at_;  // none: nothing is being answered
  Clock::time_point drawn_at_;
  std::optional<Clock::time_point> closed_at_;  // the connection for the status
  ErrorCode closed_why_;
  std::optional<Leaving> leaving_;
};

}  // namespace

int show_top(const CtlOptions& options) {
  const JobSocketName job = job_of(options);
  Top::Connections connections{connect(job), connect(job)};
  const Signals signals;
  Leaving leaving;
  {
    auto screen = TerminalScreen::open();
    if (!screen)
      throw Failed{kExitRefused,
                   fmt::format("top needs the whole terminal: {}; type instead: ddpctl status {}",
                               screen.error(), job.job)};
    Top top(job, options.interval, std::move(connections), std::move(*screen), signals);
    leaving = top.run();
  }
  std::fputs(leaving.line.c_str(), stdout);
  return leaving.exit_code;
}

}  // namespace ddprun::ctl
