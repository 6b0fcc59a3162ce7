#include "launcher/ssh/ssh_job.hpp"

#include <algorithm>
#include <csignal>
#include <utility>

#include <fmt/format.h>

#include "base/exit_codes.hpp"
#include "launcher/ssh/why_not_started.hpp"

namespace ddprun::launcher {

namespace {

/// Whether the first process there has ended by itself, which it does when nothing of the node is
/// left. A signal has ended it, or one process of the node, where a shell tells of such an exit.
bool nothing_is_left(const ExitStatus& exit) {
  return !exit.by_signal && exit.value < kExitSignalBase && exit.value != kExitLeftovers;
}

}  // namespace

SshJob::SshJob(SshJobSettings settings)
    : settings_(std::move(settings)), hosts_(settings_.hosts.size()) {}

std::vector<SshAction> SshJob::on(const SshEvent& event, Clock::time_point now) {
  std::vector<SshAction> actions;
  if (is_over_) return actions;
  Context context{now, actions};
  std::visit([&](const auto& specific) { take(specific, context); }, event);
  conclude_if_over(context);
  return actions;
}

std::optional<SshJob::Clock::time_point> SshJob::deadline() const {
  if (is_over_) return std::nullopt;
  std::optional<Clock::time_point> first = ends_until_;
  for (const Host& host : hosts_) {
    if (host.state != State::connecting) continue;
    first = std::min(first.value_or(Clock::time_point::max()), host.answers_until);
  }
  return first;
}

void SshJob::take(const Begin&, Context& context) { start_more(context); }

void SshJob::take(const Greeted& greeted, Context& context) {
  Host& host = hosts_[greeted.host];
  if (host.state != State::connecting) return;
  if (greeted.version != settings_.version) {
    give_up(greeted.host,
            why_refused(settings_.hosts[greeted.host], greeted.version, settings_.version),
            context);
  } else if (is_ending_) {
    host.state = State::closing;
    context.actions.push_back(CloseHost{greeted.host});
  } else {
    host.state = State::running;
    context.actions.push_back(SendPlan{greeted.host});
  }
  start_more(context);
}

void SshJob::take(const Ended& ended, Context&) { hosts_[ended.host].end = ended.end; }

void SshJob::take(const Exited& exited, Context& context) {
  Host& host = hosts_[exited.host];
  const State state = std::exchange(host.state, State::ended);
  const std::string& name = settings_.hosts[exited.host];
  const bool is_silent = host.was_told || host.end.has_value() || signals_ > 0;
  if (state == State::connecting && !is_silent) {
    context.actions.push_back(
        Tell{why_not_started(name, settings_.ssh, exited.exit, exited.words, exited.banner)});
    // The first reason is the job's. Of ssh's own failures no exit code tells more.
    if (!code_) code_ = kExitNoRound;
  }
  if (state == State::running && !is_silent && !is_ending_) {
    context.actions.push_back(Tell{why_lost(name, exited.exit, exited.words)});
    const bool own_code =
        !exited.exit.by_signal && exited.exit.value != 0 && exited.exit.value < kExitSignalBase;
    if (!code_)
      code_ = own_code && exited.exit.value != kExitOfSsh ? exited.exit.value : kExitNoRound;
  }
  // One that knew its end has told the rendezvous itself.
  if (state == State::running && !host.end && !is_ending_ && nothing_is_left(exited.exit))
    context.actions.push_back(NodeIsGone{exited.host});
  look_at_numbers(context);
  start_more(context);
}

void SshJob::take(const Confused& confused, Context& context) {
  give_up(confused.host, fmt::format("{}: {}", settings_.hosts[confused.host], confused.problem),
          context);
}

void SshJob::take(const CannotStart& cannot, Context& context) {
  hosts_[cannot.host].state = State::ended;
  if (is_ending_) return;
  context.actions.push_back(Tell{cannot.problem});
  code_ = kExitUsage;
  end_all(SIGTERM, context);
}

/// The first one asks; after the second one the nodes kill; the third one waits for nobody.
void SshJob::take(const Signalled& signalled, Context& context) {
  last_signal_ = signalled.signal;
  const bool is_new = signals_ == 0 || context.now >= signalled_at_ + settings_.wish_gap;
  if (is_new) {
    ++signals_;
    signalled_at_ = context.now;
  }
  if (signals_ > 2) {
    if (is_new) close_all("was not awaited", context);
    return;
  }
  end_all(signalled.signal, context);
  ends_until_ = signalled_at_ + settings_.end_limit;
  if (signals_ == 2) *ends_until_ -= settings_.grace_period;
}

void SshJob::take(const Tick&, Context& context) {
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    Host& host = hosts_[i];
    if (host.state == State::connecting && context.now >= host.answers_until) {
      give_up(i,
              fmt::format("{}: no answer from ddprun there within {} s; try {} {} true",
                          settings_.hosts[i],
                          std::chrono::ceil<std::chrono::seconds>(settings_.answer_limit).count(),
                          settings_.ssh, settings_.hosts[i]),
              context);
    }
  }
  if (!ends_until_ || context.now < *ends_until_) return;
  close_all("has not ended in time", context);
}

void SshJob::close_all(const std::string& why, Context& context) {
  ends_until_.reset();
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    Host& host = hosts_[i];
    if (host.state == State::waiting || host.state == State::ended) continue;
    if (!std::exchange(host.was_told, true))
      context.actions.push_back(
          Tell{fmt::format("{} {}: its connection is closed, which ends what is left there",
                           settings_.hosts[i], why)});
    context.actions.push_back(KillHost{i});
  }
}

void SshJob::start_more(Context& context) {
  if (is_ending_) return;
  auto connecting = count(State::connecting);
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    if (connecting >= static_cast<std::size_t>(settings_.connecting_max)) return;
    if (hosts_[i].state != State::waiting) continue;
    hosts_[i].state = State::connecting;
    hosts_[i].answers_until = context.now + settings_.answer_limit;
    ++connecting;
    context.actions.push_back(StartHost{i});
  }
}

void SshJob::give_up(std::size_t host, const std::string& why, Context& context) {
  if (!std::exchange(hosts_[host].was_told, true)) context.actions.push_back(Tell{why});
  if (!code_) code_ = kExitNoRound;
  hosts_[host].state = State::closing;
  context.actions.push_back(KillHost{host});
  look_at_numbers(context);
}

/// None comes back: what is left is all that there will be. A job that is ending in order has its
/// ends come one by one.
void SshJob::look_at_numbers(Context& context) {
  if (is_ending_ || has_end() || hopeful() >= settings_.min_nodes) return;
  const auto all = static_cast<int>(hosts_.size());
  if (all > 1 && hopeful() > 0)
    context.actions.push_back(
        Tell{fmt::format("{} of {} hosts {} left, and the job needs {}: it ends", hopeful(), all,
                         hopeful() == 1 ? "is" : "are", settings_.min_nodes)});
  if (!code_) code_ = kExitNoRound;
  end_all(SIGTERM, context);
  ends_until_ = context.now + settings_.end_limit;
}

/// Connections that are being made may still tell why they fail, unless a person waits.
void SshJob::end_all(int signal, Context& context) {
  is_ending_ = true;
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    Host& host = hosts_[i];
    if (host.state == State::waiting) host.state = State::ended;
    if (host.state == State::running) context.actions.push_back(SendSignal{i, signal});
    if (host.state == State::connecting && signals_ > 0) {
      host.state = State::closing;
      context.actions.push_back(KillHost{i});
    }
  }
}

void SshJob::conclude_if_over(Context& context) {
  if (is_over_ || count(State::ended) < hosts_.size()) return;
  is_over_ = true;
  context.actions.push_back(conclusion());
}

/// The report is that of the culprit's node, else of the node that the rendezvous chose; the file
/// is that of the chosen one.
Conclude SshJob::conclusion() const {
  Conclude conclude;
  const NodeEnd* best = nullptr;
  const NodeEnd* chosen = nullptr;
  const auto weight = [](const NodeEnd& end) {
    return (end.has_culprit ? 2 : 0) + (end.reports ? 1 : 0);
  };
  // One that was only told to leave knows less than one that saw the job's end.
  const auto is_better = [&](const NodeEnd& one, const NodeEnd& other) {
    if (one.cancelled != other.cancelled) return other.cancelled;
    return weight(one) > weight(other);
  };
  for (const Host& host : hosts_) {
    if (!host.end) continue;
    if (best == nullptr || is_better(*host.end, *best)) best = &*host.end;
    const bool has_file = host.end->reports && !host.end->json.empty();
    if (has_file && (chosen == nullptr || is_better(*host.end, *chosen))) chosen = &*host.end;
  }
  if (best == nullptr) {
    conclude.exit_code =
        signals_ > 0 ? kExitSignalBase + last_signal_ : code_.value_or(kExitNoRound);
    return conclude;
  }
  if (chosen == nullptr) chosen = best;
  conclude.json = chosen->json;
  conclude.error_file = best->error_file;
  conclude.exit_code = best->exit_code;
  // The launcher ended what was left, and has told why.
  const bool ended_by_us = best->cancelled && signals_ == 0 && code_.has_value();
  if (ended_by_us) conclude.exit_code = *code_;
  if (!ended_by_us) conclude.report = *best;
  return conclude;
}

std::size_t SshJob::count(State state) const {
  return static_cast<std::size_t>(std::count_if(
      hosts_.begin(), hosts_.end(), [&](const Host& host) { return host.state == state; }));
}

int SshJob::hopeful() const {
  return static_cast<int>(count(State::waiting) + count(State::connecting) + count(State::running));
}

bool SshJob::has_end() const {
  return std::any_of(hosts_.begin(), hosts_.end(),
                     [](const Host& host) { return host.end && !host.end->cancelled; });
}

}  // namespace ddprun::launcher
