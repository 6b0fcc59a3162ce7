#include "rendezvous/daemon/daemon.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/boot_clock.hpp"
#include "base/describe.hpp"
#include "base/no_descriptor.hpp"
#include "base/result.hpp"
#include "base/signals.hpp"
#include "base/small_file.hpp"
#include "base/trimmed.hpp"
#include "base/unique_handle.hpp"
#include "base/version.hpp"
#include "rendezvous/daemon/line_queue.hpp"
#include "rendezvous/daemon/listen.hpp"
#include "rendezvous/service/journal_file.hpp"
#include "rendezvous/service/running_file.hpp"
#include "rendezvous/service/secret_folder.hpp"
#include "rendezvous/service/service_server.hpp"
#include "rendezvous/shared/shared_service.hpp"
#include "rendezvous/store/store_server.hpp"

namespace ddprun::rdzv {
namespace {

using Clock = std::chrono::steady_clock;

/// While stderr takes nothing, it is tried again so often.
constexpr int kFlushRetryMs = 100;

class DaemonLog {
 public:
  DaemonLog(LogLevel level, LineQueue& queue) : lines(queue), level_(level) {}
  /// From any thread.
  void say(LogLevel level, const std::string& line) {
    if (level < level_) return;
    lines.push(fmt::format("{} rdzvd: {}: {}", describe(std::chrono::system_clock::now()),
                           word_of(level), line));
  }
  LineQueue& lines;

 private:
  LogLevel level_;
};

Result<UniqueFd> stop_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    if (!signal_ignored(signal)) sigaddset(&signals, signal);  // nohup stays in force
  }
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  UniqueFd fd(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) return last_system_error();
  return fd;
}

/// There is no log yet that could print it.
int no_room(const char* what, const ErrorCode& error) {
  const std::string line =
      fmt::format("rdzvd: cannot wait for {}: {}\n", what, why_no_descriptor(error));
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
  return kExitListen;
}

/// Waits for a signal or for log lines, which it writes. True: a signal came. `shared`: follows
/// what becomes of it; null: there is none.
bool wait_for_signal(int signals, LineQueue& lines, std::chrono::milliseconds limit,
                     SharedService* shared = nullptr) {
  const auto deadline = Clock::now() + limit;
  while (true) {
    const bool flushed = lines.flush(STDERR_FILENO);
    const int changed = shared != nullptr ? shared->descriptor() : -1;
    std::array<pollfd, 3> ready{
        {{signals, POLLIN, 0}, {lines.descriptor(), POLLIN, 0}, {changed, POLLIN, 0}}};
    std::int64_t left = -1;
    if (limit.count() >= 0) {
      left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
      if (left <= 0) return false;
    }
    if (!flushed && (left < 0 || left > kFlushRetryMs)) left = kFlushRetryMs;
    const int wait = static_cast<int>(std::min<std::int64_t>(left, 1'000'000'000));
    if (poll(ready.data(), ready.size(), wait) <= 0) continue;
    if ((ready[0].revents & POLLIN) != 0) return true;
    if (shared != nullptr && (ready[2].revents & POLLIN) != 0) shared->follow();
  }
}

void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);  // where it fails, the store says when descriptors run out
}

/// The first line on stdout. A reader that is not there is no reason to stop.
void announce(const std::string& address) {
  const std::string line = address + "\n";
  [[maybe_unused]] const auto written = ::write(STDOUT_FILENO, line.data(), line.size());
}

/// False: the folder cannot be used, and the log says why.
bool open_secrets(const std::string& folder, std::optional<SecretFolder>& secrets, DaemonLog& log) {
  if (folder.empty()) return true;
  auto opened = SecretFolder::open(folder);
  if (opened) {
    secrets = std::move(*opened);
    return true;
  }
  log.lines.push("rdzvd: --secret-dir: " + opened.error());
  log.lines.flush(STDERR_FILENO);
  return false;
}

/// Empty: nothing is.
std::string open_to_others(const Endpoint& bound, bool serves_store, bool knows_agents) {
  const std::string where = "listening on " + to_string(bound) + ": ";
  if (!serves_store)
    return knows_agents ? ""
                        : where +
                              "without a secret (--secret-file) every process that can reach "
                              "this port can join and stop every job";
  return fmt::format(
      "{}the store's protocol has no authentication, so every process that can reach this port can "
      "read and change every key{}",
      where,
      knows_agents ? "" : "; without a secret (--secret-file) it can also join and stop every job");
}

/// False: it cannot be used, and the log says why.
bool open_journal(const std::string& folder, std::shared_ptr<Journal>& journal, DaemonLog& log) {
  if (folder.empty()) return true;
  const auto boot_id = read_small_file("/proc/sys/kernel/random/boot_id");
  auto opened =
      FileJournal::open(folder, std::string(trimmed(boot_id.value_or(""))), boot_clock_now());
  if (opened) {
    journal = std::move(*opened);
    return true;
  }
  log.lines.push("rdzvd: --state-dir: " + opened.error());
  log.lines.flush(STDERR_FILENO);
  return false;
}

ServiceServerSettings service_settings(const DaemonOptions& options, DaemonLog& log) {
  ServiceServerSettings settings;
  settings.running_folder = RunningFile::kFolder;
  settings.secret = options.secret;
  settings.encrypter = options.encrypter;
  settings.connections_max =
      std::min<std::uint64_t>(settings.connections_max, options.store.connections_max);
  settings.check_uid = options.store.check_uid;
  settings.allowed_uids = options.store.allowed_uids;
  settings.on_warning = [&log](const std::string& line) { log.say(LogLevel::warning, line); };
  settings.on_info = [&log](const std::string& line) { log.say(LogLevel::info, line); };
  return settings;
}

/// The rendezvous, alone or as one of several rdzvd.
class Service {
 public:
  /// Errors: the system's.
  ErrorCode start(const DaemonOptions& options, const Endpoint& bound,
                  ServiceServerSettings settings) {
    if (!options.etcd) {
      auto server = ServiceServer::start({{}, bound.host, *bound.port}, std::move(settings));
      if (!server) return server.error();
      alone_.emplace(std::move(*server));
      return {};
    }
    SharedService::Settings shared;
    shared.etcd = *options.etcd;
    shared.access = options.etcd_access;
    shared.bound = bound;
    shared.place = place_of_listener(options.listen, *bound.port);
    shared.on_warning = settings.on_warning;
    shared.on_info = settings.on_info;
    shared.service = std::move(settings);
    auto started = SharedService::start(std::move(shared));
    if (!started) return started.error();
    shared_ = std::move(*started);
    return {};
  }
  void adopt(UniqueFd fd) { alone_ ? alone_->adopt(std::move(fd)) : shared_->adopt(std::move(fd)); }
  [[nodiscard]] std::size_t agents() const { return alone_ ? alone_->agents() : shared_->agents(); }
  /// Null: it is alone.
  [[nodiscard]] SharedService* shared() { return shared_.get(); }

 private:
  std::optional<ServiceServer> alone_;
  std::unique_ptr<SharedService> shared_;
};

/// The store accepts all connections: most are its own, and thousands of them may come at once.
StoreSettings store_settings(const DaemonOptions& options, Service& service, DaemonLog& log) {
  StoreSettings settings = options.store;
  settings.clients_expected = std::min<std::uint64_t>(settings.connections_max, 65'536);
  settings.on_warning = [&log](const std::string& line) { log.say(LogLevel::warning, line); };
  settings.on_control_client = [&service](UniqueFd fd) { service.adopt(std::move(fd)); };
  return settings;
}

int cannot_serve(const ErrorCode& error, DaemonLog& log) {
  log.lines.push("rdzvd: cannot serve: " + StoreServer::why_not_started(error));
  log.lines.flush(STDERR_FILENO);
  return kExitListen;
}

void wait_for_end(const StoreServer& store, Service& service, const DaemonOptions& options,
                  DaemonLog& log, int signals) {
  const auto interval = options.stats_interval.count() > 0
                            ? std::chrono::milliseconds(options.stats_interval)
                            : std::chrono::milliseconds(-1);
  std::string said;
  while (!wait_for_signal(signals, log.lines, interval, service.shared())) {
    const StoreCounters now = store.counters();
    const std::string line =
        fmt::format("{} clients of the store now, {} since the start, {} refused; {} agents now",
                    now.open_clients, now.clients, now.refused_clients, service.agents());
    if (line != said)
      log.lines.push(fmt::format("{} rdzvd: {}", describe(std::chrono::system_clock::now()), line));
    said = line;
  }
}

}  // namespace

int run_daemon(const DaemonOptions& options) {
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);  // the journal cannot grow: that is an error of its write
  raise_descriptor_limit();
  const Result<UniqueFd> opened = stop_signals();
  if (!opened) return no_room("signals", opened.error());
  const UniqueFd& signals = *opened;
  const auto lines = LineQueue::make();
  if (!lines) return no_room("log lines", lines.error());
  DaemonLog log(options.log_level, **lines);
  std::optional<SecretFolder> secrets;
  if (!open_secrets(options.secret_dir, secrets, log)) return kExitUsage;
  std::shared_ptr<Journal> journal;
  if (!open_journal(options.state_dir, journal, log)) return kExitListen;
  ListenOutcome outcome = listen_at(
      options.listen, Clock::now() + options.listen_timeout,
      [&](const std::string& line) { log.say(LogLevel::warning, line); },
      [&](std::chrono::milliseconds limit) {
        return !wait_for_signal(signals.get(), log.lines, limit);
      });
  if (!outcome.listener) {
    if (outcome.failure.empty()) return 0;  // stopped before it began
    log.lines.push("rdzvd: " + outcome.failure);
    log.lines.flush(STDERR_FILENO);
    return kExitListen;
  }
  const Endpoint bound{outcome.listener->addr, outcome.listener->port};
  for (const std::string& warning : options.warnings) log.say(LogLevel::warning, warning);
  if (!is_loopback(bound.host)) {
    const bool knows_agents = secrets || !options.secret.empty() ||
                              (options.encrypter && options.encrypter->checks_clients());
    const std::string open = open_to_others(bound, options.store.serves_store, knows_agents);
    if (!open.empty()) log.say(LogLevel::warning, open);
  }
  {
    ServiceServerSettings settings = service_settings(options, log);
    settings.journal = std::move(journal);
    settings.secrets = std::move(secrets);
    if (settings.secrets) settings.service.tenant_limits = options.tenant_limits;
    Service service;
    if (const ErrorCode failed = service.start(options, bound, std::move(settings)))
      return cannot_serve(failed, log);
    auto store =
        StoreServer::start(std::move(*outcome.listener), store_settings(options, service, log));
    if (!store) return cannot_serve(store.error(), log);
    announce(to_string(bound));
    log.say(LogLevel::info, fmt::format("rdzvd {} listens on {}, pid {}", ddprun::version(),
                                        to_string(bound), getpid()));
    wait_for_end(*store, service, options, log, signals.get());
    log.say(LogLevel::info,
            fmt::format("stopped by a signal after {} clients", store->counters().clients));
  }
  log.lines.flush(STDERR_FILENO);
  return 0;
}

}  // namespace ddprun::rdzv
