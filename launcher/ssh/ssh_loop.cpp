#include "launcher/ssh/launch_from_here.hpp"

#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <deque>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/bounded_write.hpp"
#include "base/byte_output.hpp"
#include "base/exit_codes.hpp"
#include "base/no_descriptor.hpp"
#include "base/printable.hpp"
#include "base/signals.hpp"
#include "base/version.hpp"
#include "launcher/report/report_file.hpp"
#include "launcher/ssh/node_output.hpp"
#include "launcher/ssh/output_thread.hpp"
#include "launcher/ssh/ssh_job.hpp"
#include "launcher/ssh/why_not_started.hpp"
#include "machine/programs/child_program.hpp"
#include "rendezvous/service/service_server.hpp"

namespace ddprun::launcher {

namespace asio = boost::asio;
using namespace std::chrono_literals;

namespace {

using Stream = asio::posix::stream_descriptor;

constexpr auto kTerminalStuckAfter = 5s;  // as for kReaderStuckAfter, at the end
constexpr auto kEndMargin = 5s;
/// A ProxyCommand of the user's may hold the pipes of an ssh that has ended.
constexpr machine::ChildProgram::Settings kSsh{.has_input = true, .output_limit = 2s};

SshJobSettings job_settings(const SshLaunch& launch) {
  SshJobSettings settings;
  for (const SshHost& host : launch.hosts) settings.hosts.push_back(host.name);
  settings.ssh = launch.command.typed;
  settings.version = version();
  settings.min_nodes = launch.plan.min_nodes;
  settings.grace_period = launch.stop.grace_period;
  // The hosts end by themselves sooner; those that cannot be heard, at the end of the lease.
  settings.end_limit = launch.stop.grace_period + 2 * launch.stop.kill_timeout + kNodeEndMargin +
                       launch.lease + kEndMargin;
  return settings;
}

/// Only the job's own agents come, through ssh, from this machine's loopback address.
Result<rdzv::ServiceServer> start_service(const SshLaunch& launch,
                                          std::function<void(const std::string&)> warn) {
  auto listener = rdzv::listen_store("127.0.0.1", 0);
  if (!listener) return listener.error();
  rdzv::ServiceServerSettings settings;
  settings.service.only_run_id = launch.plan.run_id;
  settings.service.lease = launch.lease;
  // As one with a journal does: the secret is new, so there was no service of this job before.
  settings.service.remembers = true;
  settings.secret = launch.plan.secret;
  settings.newcomers.places_per_addr = settings.newcomers.places;
  settings.on_warning = std::move(warn);
  settings.on_info = [](const std::string&) {};
  return rdzv::ServiceServer::start(std::move(*listener), std::move(settings));
}

std::vector<std::string> own_environment() {
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry) entries.emplace_back(*entry);
  return entries;
}

/// The file that a shell would execute for this name: a path as it is, else the first in PATH.
/// Empty: none.
std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return access(name.c_str(), X_OK) == 0 ? name : "";
  const char* const path = std::getenv("PATH");
  std::string_view folders = path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin";
  while (!folders.empty()) {
    const auto end = std::min(folders.find(':'), folders.size());
    const std::string file = std::string(folders.substr(0, end)) + "/" + name;
    folders.remove_prefix(std::min(end + 1, folders.size()));
    if (file.front() == '/' && access(file.c_str(), X_OK) == 0) return file;
  }
  return "";
}

/// What is known of one host besides its state in SshJob.
struct HostLink {
  explicit HostLink(std::string mark) : output(std::move(mark)) {}

  std::unique_ptr<machine::ChildProgram> process;
  NodeOutput output;
  NodeErrors errors;
};

class SshLoop {
 public:
  SshLoop(SshLaunch launch, const machine::UserState& user)
      : launch_(std::move(launch)),
        user_(user),
        job_(job_settings(launch_)),
        signals_(context_),
        timer_(context_),
        environment_(own_environment()),
        out_(STDOUT_FILENO, room()),
        err_(STDERR_FILENO, room()),
        is_one_(same_output(STDOUT_FILENO, STDERR_FILENO)) {
    for (std::size_t i = 0; i < launch_.hosts.size(); ++i) links_.emplace_back(launch_.plan.mark);
  }

  int run() {
    if (const std::string problem = prepare(); !problem.empty()) {
      tell(problem);
      drain(err_);
      return kExitInternal;
    }
    on(Begin{});
    context_.run();
    links_.clear();
    return finish();
  }

 private:
  std::function<void()> room() {
    return [this] {
      asio::post(context_, [this] {
        for (HostLink& link : links_) {
          if (link.process) link.process->go_on();
        }
      });
    };
  }

  /// Empty: the job can begin.
  std::string prepare() {
    rlimit files{};
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
      files.rlim_cur = files.rlim_max;
      setrlimit(RLIMIT_NOFILE, &files);  // the hosts' ssh get the user's own limit
    }
    std::signal(SIGPIPE, SIG_IGN);
    std::signal(SIGCHLD, SIG_DFL);
    if (const ErrorCode failed = watch_signals())
      return "ddprun cannot wait for signals: " + why_no_descriptor(failed);
    for (OutputThread* output : {&out_, &err_}) {
      if (const ErrorCode failed = output->start())
        return "ddprun cannot write its output: " + failed.message();
    }
    auto service = start_service(launch_, [this](const std::string& line) {
      asio::post(context_, [this, line] { warn(line); });
    });
    if (!service) return "the rendezvous cannot be served: " + why_no_descriptor(service.error());
    service_.emplace(std::move(*service));
    launch_.plan.launcher = fmt::format("{}:{}", host_name(), service_->port());
    ssh_file_ = find_program(launch_.command.ssh.front());
    return "";
  }

  static std::string host_name() {
    char name[256] = {};
    return gethostname(name, sizeof name - 1) == 0 ? name : "launcher";
  }

  ErrorCode watch_signals() {
    sigset_t caught;
    sigemptyset(&caught);
    const auto add = [&caught](int signal) {
      if (!signal_ignored(signal)) sigaddset(&caught, signal);  // nohup stays in force
    };
    for (const int signal : launch_.stop.signals) add(signal);
    for (const int signal : launch_.stop.forward_signals) add(signal);
    add(SIGTSTP);
    sigaddset(&caught, SIGCHLD);
    sigprocmask(SIG_BLOCK, &caught, nullptr);
    UniqueFd fd(signalfd(-1, &caught, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!fd) return last_system_error();
    ErrorCode failed;
    signals_.assign(fd.get(), failed);
    if (failed) return failed;
    static_cast<void>(fd.release());
    await_signal();
    return {};
  }

  void await_signal() {
    signals_.async_wait(Stream::wait_read, [this](ErrorCode ec) {
      if (ec) return;
      signalfd_siginfo info{};
      while (read(signals_.native_handle(), &info, sizeof info) == sizeof info)
        on_signal(static_cast<int>(info.ssi_signo));
      await_signal();
    });
  }

  void on_signal(int signal) {
    const auto& forward = launch_.stop.forward_signals;
    if (signal == SIGCHLD) {
      for (HostLink& link : links_) {
        if (link.process) link.process->look_for_exit();
      }
    } else if (std::find(forward.begin(), forward.end(), signal) != forward.end()) {
      for (HostLink& link : links_) {
        if (link.process && link.output.is_greeted()) link.process->send(signal_line(signal));
      }
    } else if (signal == SIGTSTP) {
      tell(
          "Ctrl-Z does not pause a job on other hosts, because its leases would end; Ctrl-C stops "
          "it");
    } else {
      on(Signalled{signal});
    }
  }

  // Actions.

  void on(const SshEvent& event) {
    events_.push_back(event);
    if (events_.size() > 1) return;
    for (; !events_.empty(); events_.pop_front()) {
      for (SshAction& action : job_.on(events_.front(), SshJob::Clock::now()))
        std::visit([this](auto& specific) { obey(specific); }, action);
    }
    follow_deadline();
  }

  void follow_deadline() {
    const auto deadline = job_.deadline();
    if (!deadline) {
      timer_.cancel();
      return;
    }
    timer_.expires_at(*deadline);
    timer_.async_wait([this](ErrorCode ec) {
      if (!ec) on(Tick{});
    });
  }

  void obey(const StartHost& action) {
    const std::size_t host = action.host;
    if (ssh_file_.empty()) {
      return on(CannotStart{
          host, fmt::format("{} was not found; install it, or name another one with --ssh=COMMAND",
                            launch_.command.ssh.front())});
    }
    HostLink& link = links_[host];
    link.process = std::make_unique<machine::ChildProgram>(context_, user_, kSsh, events_of(host));
    const NodePlan plan = plan_for(launch_, host);
    const ErrorCode failed = link.process->start(
        ssh_file_,
        ssh_arguments(launch_.command, launch_.hosts[host].name, plan.socket, service_->port()),
        environment_);
    if (!failed) return;
    link.process.reset();
    on(CannotStart{host, fmt::format("{} cannot be started: {}", ssh_file_, failed.message())});
  }

  machine::ChildProgram::Events events_of(std::size_t host) {
    machine::ChildProgram::Events events;
    events.output = [this, host](std::string_view bytes) { take_output(host, bytes); };
    events.errors = [this, host](std::string_view bytes) { take_errors(host, bytes); };
    events.is_full = [this] { return out_.is_full() || err_.is_full(); };
    events.ended = [this, host](const ExitStatus& exit) {
      HostLink& link = links_[host];
      screen_out(link.output.rest());
      err_.add(lines_.take(launch_.hosts[host].name, link.errors.rest()));
      on(Exited{host, exit, last_words(link.errors.last()), link.output.banner()});
    };
    return events;
  }

  void take_output(std::size_t host, std::string_view bytes) {
    NodeOutput::Taken taken = links_[host].output.add(bytes);
    screen_out(taken.lines);
    if (taken.version) on(Greeted{host, printable(*taken.version)});
    if (taken.end) on(Ended{host, std::move(*taken.end)});
    if (!taken.problem.empty()) on(Confused{host, taken.problem});
  }

  void take_errors(std::size_t host, std::string_view bytes) {
    err_.add(lines_.take(launch_.hosts[host].name, links_[host].errors.add(bytes)));
  }

  void screen_out(std::string_view lines) { (is_one_ ? err_ : out_).add(lines); }

  void obey(const SendPlan& action) {
    links_[action.host].process->send(encode(plan_for(launch_, action.host)));
  }
  void obey(const SendSignal& action) {
    links_[action.host].process->send(signal_line(action.signal));
  }
  void obey(const CloseHost& action) { links_[action.host].process->close_input(); }
  void obey(const KillHost& action) { links_[action.host].process->kill(); }
  void obey(const NodeIsGone& action) {
    service_->node_gone(launch_.plan.run_id, launch_.hosts[action.host].name);
  }
  void obey(const Tell& action) { tell(action.line); }
  void obey(Conclude& action) {
    conclusion_ = std::move(action);
    context_.stop();
  }

  void tell(const std::string& line) { err_.add("ddprun: " + printable(line) + "\n"); }
  void warn(const std::string& line) {
    if (launch_.log_level <= LogLevel::warning) tell("warning: " + line);
  }

  /// For a reader that is slow. A signal that ends jobs ends the wait, too.
  void drain(OutputThread& output) {
    const bool terminal = isatty(&output == &out_ ? STDOUT_FILENO : STDERR_FILENO) == 1;
    output.drain(terminal ? kTerminalStuckAfter : kReaderStuckAfter, [this] {
      const std::vector<int>& ending = launch_.stop.signals;
      signalfd_siginfo info{};
      while (!interrupted_ && signals_.is_open() &&
             read(signals_.native_handle(), &info, sizeof info) == sizeof info)
        interrupted_ = std::find(ending.begin(), ending.end(), static_cast<int>(info.ssi_signo)) !=
                       ending.end();
      return interrupted_;
    });
  }

  /// All lines are whole, so that the report begins one.
  int finish() {
    drain(out_);
    if (!launch_.report_file.empty()) {
      const auto written = write_report_file(launch_.report_file, conclusion_.json, {false, false});
      if (written.error != 0)
        warn("cannot write report " + launch_.report_file + ": " + why_not_written(written.error));
    }
    if (conclusion_.report) err_.add(conclusion_.report->text);
    if (!launch_.error_file.empty() && !conclusion_.error_file.empty()) {
      const auto problem = write_error_file_copy(launch_.error_file, conclusion_.error_file);
      if (!problem.empty()) warn(problem);
    }
    drain(err_);
    return conclusion_.exit_code;
  }

  SshLaunch launch_;
  const machine::UserState& user_;
  asio::io_context context_{1};
  SshJob job_;
  std::deque<SshEvent> events_;  // the first is being handled
  Stream signals_;
  asio::steady_timer timer_;
  const std::vector<std::string> environment_;
  std::string ssh_file_;      // empty: not found
  bool interrupted_ = false;  // while the last output was written
  OutputThread out_;
  OutputThread err_;
  const bool is_one_;  // stdout and stderr lead to the same place: one thread keeps their order
  OwnLines lines_;
  std::deque<HostLink> links_;
  std::optional<rdzv::ServiceServer> service_;
  Conclude conclusion_;
};

}  // namespace

int run_ssh_job(SshLaunch launch, const machine::UserState& user) {
  return SshLoop(std::move(launch), user).run();
}

}  // namespace ddprun::launcher
