#include "agent/control/job_answers.hpp"

#include <csignal>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/describe.hpp"
#include "base/overloaded.hpp"
#include "base/process_stat.hpp"
#include "proto/json_document.hpp"

namespace ddprun::agent {
namespace {

constexpr std::size_t kLineBytesMax = 1024;
/// An equal one that came sooner would count as the same.
constexpr std::chrono::seconds kSecondSignal{1};

std::string stacks_json(const std::vector<std::string>& lines) {
  std::string json = "{\"stacks\":[";
  for (const std::string& line : lines) {
    if (json.back() != '[') json += ',';
    proto::append_json_text(json, line, kLineBytesMax);
  }
  return json + "]}";
}

/// As ddpctl's own.
constexpr std::chrono::minutes kUnaskedLimit{10};

std::string save_json(const SaveOutcome& outcome) {
  if (!outcome.problem.empty()) return error_json(outcome.problem);
  return fmt::format(R"({{"done":true,"workers":{},"others":{},"step":{},"took_seconds":{:.3f}}})",
                     outcome.workers, outcome.others, outcome.step, in_seconds(outcome.took));
}

/// `ddpctl (pid 77)`
std::string describe_asker(pid_t asker) {
  if (asker == 0) return "a process outside of this job's pid namespace";
  const auto stat = read_process_stat(asker);
  return fmt::format("{} (pid {})", stat ? stat->name : "a process that has ended", asker);
}

}  // namespace

JobAnswers::JobAnswers(boost::asio::io_context& context, const AgentConfig& config,
                       const machine::UserState& user, const NodeMachine& machine, Events events)
    : config_(config),
      machine_(machine),
      events_(std::move(events)),
      stacks_(context, user),
      saves_(context, config, machine) {}

void JobAnswers::answer(const JobRequest& request, pid_t asker, JobSocket::Reply reply) {
  const Overloaded table{
      [&](const StatusWanted& wanted) {
        reply(job_status(config_, machine_, started_,
                         events_.ledger ? events_.ledger() : LedgerEntries(),
                         events_.slow ? events_.slow() : std::map<int, double>(),
                         wanted.last_lines ? events_.last_line : LastLine()));
      },
      [&](const StacksWanted& wanted) { take_stacks(wanted.rank, std::move(reply)); },
      [&](const StopWanted& wanted) {
        events_.notice(fmt::format("{} asks this job to end{}", describe_asker(asker),
                                   wanted.now ? " at once" : ""));
        reply("{\"done\":true}");
        events_.signalled(SIGTERM, {});
        if (wanted.now) events_.signalled(SIGTERM, kSecondSignal);
      },
      [&](const RestartWanted&) {
        if (machine_.state() != NodeState::running)
          return reply(error_json("no round runs here now: there is nothing to restart"));
        if (!events_.restart())
          return reply(
              error_json("the rendezvous (rdzvd) of this job is older than its ddprun, and "
                         "knows no restart that is asked for"));
        events_.notice(describe_asker(asker) + " asks for a restart of all workers");
        reply("{\"done\":true}");
      },
      [&](const SaveWanted& wanted) {
        events_.notice(fmt::format("{} asks for a checkpoint", describe_asker(asker)));
        save(wanted.limit, [reply](const SaveOutcome& outcome) { reply(save_json(outcome)); });
      },
      [&](const SignalWanted& wanted) {
        events_.notice(fmt::format("{} sends {} to {}", describe_asker(asker),
                                   signal_name(wanted.signal),
                                   wanted.rank ? fmt::format("rank {}", *wanted.rank)
                                               : std::string("the workers of this node")));
        reply(send_signal(wanted));
      },
      [&](const auto&) { reply(error_json("the socket answers this")); },
  };
  std::visit(table, request);
}

const WorkerRecord* JobAnswers::running_worker(int rank) const {
  const NodeRound* const round = machine_.round();
  if (round == nullptr) return nullptr;
  const int local_rank = rank - round->round.first_rank;
  if (local_rank < 0 || local_rank >= static_cast<int>(machine_.workers().size())) return nullptr;
  const WorkerRecord& worker = machine_.workers()[static_cast<std::size_t>(local_rank)];
  return worker.running() ? &worker : nullptr;
}

void JobAnswers::take_stacks(int rank, JobSocket::Reply reply) {
  const WorkerRecord* const worker = running_worker(rank);
  const bool is_in_round = machine_.state() == NodeState::running && worker != nullptr;
  if (!is_in_round || worker->waits())
    return reply(error_json(fmt::format("no worker of this node has the rank {} and runs", rank)));
  if (waits_for_stacks_)
    return reply(error_json("the stacks of another worker are being read: ask again"));
  waits_for_stacks_ = std::move(reply);
  stacks_.take(worker->pid, [this](const std::vector<std::string>& lines) {
    std::exchange(waits_for_stacks_, nullptr)(stacks_json(lines));
  });
}

void JobAnswers::save(std::chrono::seconds limit, const SaveRequests::Done& done) {
  saves_.ask(limit, [this, done](const SaveOutcome& outcome) {
    events_.saved(outcome);
    events_.notice(words_of(outcome));
    done(outcome);
  });
}

void JobAnswers::save_unasked(const std::string& why) {
  events_.notice(why);
  const bool waits = unasked_ != Unasked::none;
  unasked_ = waits ? Unasked::saves_again : Unasked::saves;
  if (!waits) save_for_nobody();
}

void JobAnswers::save_for_nobody() {
  save(kUnaskedLimit, [this](const SaveOutcome&) {
    if (std::exchange(unasked_, Unasked::none) != Unasked::saves_again) return;
    unasked_ = Unasked::saves;
    save_for_nobody();
  });
}

void JobAnswers::stop() {
  stacks_.stop();
  saves_.stop();
  if (const auto reply = std::exchange(waits_for_stacks_, nullptr))
    reply(error_json("the round has ended meanwhile"));
}

std::string JobAnswers::send_signal(const SignalWanted& wanted) const {
  int sent = 0;
  const auto send = [&](const WorkerRecord& worker) {
    if (worker.running() && kill(-worker.pid, wanted.signal) == 0) ++sent;
  };
  if (!wanted.rank) {
    for (const WorkerRecord& worker : machine_.workers()) send(worker);
  } else if (const WorkerRecord* const worker = running_worker(*wanted.rank)) {
    send(*worker);
  }
  if (sent > 0) return fmt::format("{{\"done\":true,\"workers\":{}}}", sent);
  return error_json(
      wanted.rank ? fmt::format("no worker of this node has the rank {} and runs", *wanted.rank)
                  : std::string("no worker runs now"));
}

}  // namespace ddprun::agent
