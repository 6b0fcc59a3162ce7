#include "agent/control/save_requests.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "agent/progress/progress_page.hpp"
#include "agent/workers/worker_environment.hpp"
#include "base/describe.hpp"
#include "base/result.hpp"

namespace ddprun::agent {
namespace {

constexpr std::chrono::milliseconds kLookEvery{20};

const WorkerRecord& worker_of(const NodeMachine& machine, int local_rank) {
  return machine.workers()[static_cast<std::size_t>(local_rank)];
}

}  // namespace

std::string words_of(const SaveOutcome& outcome) {
  if (!outcome.problem.empty()) return "no checkpoint as asked for: " + outcome.problem;
  return fmt::format("{} worker{} saved, by step {} ({})", outcome.workers,
                     outcome.workers == 1 ? " has" : "s have", outcome.step,
                     describe(outcome.took));
}

SaveRequests::SaveRequests(boost::asio::io_context& context, const AgentConfig& config,
                           const NodeMachine& machine)
    : config_(config), machine_(machine), timer_(context) {}

bool SaveRequests::any_saves() const {
  if (machine_.state() != NodeState::running) return false;
  for (int i = 0; i < static_cast<int>(machine_.workers().size()); ++i) {
    const WorkerRecord& worker = worker_of(machine_, i);
    if (!worker.running()) continue;
    const auto page = read_progress_page(progress_file(config_, worker.start, i)).page;
    if (page && page->saved) return true;
  }
  return false;
}

void SaveRequests::ask(std::chrono::nanoseconds limit, Done done) {
  const Clock::time_point now = Clock::now();
  Request request{.number = number_ + 1,
                  .asked_at = now,
                  .deadline = now + limit,
                  .waits_for = {},
                  .outcome = {},
                  .done = std::move(done)};
  if (machine_.state() != NodeState::running) {
    request.outcome.problem = "no worker runs now";
    return request.done(request.outcome);
  }
  for (int i = 0; i < static_cast<int>(machine_.workers().size()); ++i) {
    const WorkerRecord& worker = worker_of(machine_, i);
    if (!worker.running()) continue;
    const std::string file = progress_file(config_, worker.start, i);
    const auto page = read_progress_page(file).page;
    if (!page || !page->saved) {
      ++request.outcome.others;
      continue;
    }
    write_save_request(file, request.number);
    request.waits_for.push_back(i);
  }
  if (request.waits_for.empty()) {
    request.outcome.problem =
        "no worker of this node says that it saves when asked (docs/progress.md, \"Save and go "
        "on\")";
    return request.done(request.outcome);
  }
  ++number_;
  requests_.push_back(std::move(request));
  if (requests_.size() == 1) look_later();
}

void SaveRequests::look_later() {
  timer_.expires_after(kLookEvery);
  timer_.async_wait([this](ErrorCode ec) {
    if (!ec) look();
  });
}

void SaveRequests::look() {
  const Clock::time_point now = Clock::now();
  for (auto request = requests_.begin(); request != requests_.end();) {
    if (!look(*request, now)) {
      ++request;
      continue;
    }
    const Request ended = std::move(*request);
    request = requests_.erase(request);
    ended.done(ended.outcome);
  }
  if (!requests_.empty()) look_later();
}

bool SaveRequests::look(Request& request, Clock::time_point now) const {
  SaveOutcome& outcome = request.outcome;
  std::vector<int> ended;
  std::erase_if(request.waits_for, [&](int i) {
    const WorkerRecord& worker = worker_of(machine_, i);
    const auto page = read_progress_page(progress_file(config_, worker.start, i)).page;
    if (page && page->saved.value_or(0) >= request.number) {
      outcome.step = outcome.workers == 0 ? page->step : std::min(outcome.step, page->step);
      ++outcome.workers;
      return true;
    }
    if (!worker.running()) ended.push_back(i);
    return !worker.running();
  });
  outcome.took = now - request.asked_at;
  if (!ended.empty()) {
    outcome.problem = names_of(ended) + " ended before it had saved";
    return true;
  }
  if (!request.waits_for.empty() && now >= request.deadline)
    outcome.problem = fmt::format(
        "{} not saved within {}; what was asked for stays asked for",
        names_of(request.waits_for) + (request.waits_for.size() == 1 ? " has" : " have"),
        describe(request.deadline - request.asked_at));
  return request.waits_for.empty() || !outcome.problem.empty();
}

void SaveRequests::stop() {
  timer_.cancel();
  for (Request& request : std::exchange(requests_, {})) {
    request.outcome.problem = fmt::format(
        "the workers were told to end before {} saved",
        names_of(request.waits_for) + (request.waits_for.size() == 1 ? " had" : " had"));
    request.done(request.outcome);
  }
}

/// `rank 3`, `ranks 3, 5`
std::string SaveRequests::names_of(const std::vector<int>& local_ranks) const {
  std::vector<int> ranks;
  const int first = machine_.round()->round.first_rank;
  for (const int i : local_ranks) ranks.push_back(first + i);
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

}  // namespace ddprun::agent
