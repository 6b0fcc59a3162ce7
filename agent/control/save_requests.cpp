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

using namespace std::chrono_literals;

// Most programs save at their next step; a large checkpoint takes minutes.
constexpr auto kLookEvery = 20ms;
constexpr auto kLookLessOftenAfter = 2s;
constexpr auto kLookEveryLater = 250ms;

bool has_done_its_work(const WorkerRecord& worker) {
  return worker.exit && !worker.exit->by_signal && worker.exit->value == 0;
}

/// The word for one rank, or that for more.
const char* by_number(const std::vector<int>& ranks, const char* one, const char* more) {
  return ranks.size() == 1 ? one : more;
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

std::optional<ProgressPage> SaveRequests::page_of(int local_rank) const {
  return read_progress_page(file_of(local_rank)).page;
}

std::string SaveRequests::file_of(int local_rank) const {
  return progress_file(config_, worker(local_rank).start, local_rank);
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
    if (!worker(i).running()) continue;
    const auto page = page_of(i);
    if (page && page->saved) {
      write_save_request(file_of(i), request.number);
      request.waits_for.push_back(i);
    } else {
      ++request.outcome.others;
    }
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

bool SaveRequests::any_saves() const {
  if (machine_.state() != NodeState::running) return false;
  for (int i = 0; i < static_cast<int>(machine_.workers().size()); ++i) {
    const auto page = worker(i).running() ? page_of(i) : std::nullopt;
    if (page && page->saved) return true;
  }
  return false;
}

void SaveRequests::look_later() {
  const auto oldest = Clock::now() - requests_.front().asked_at;
  timer_.expires_after(oldest < kLookLessOftenAfter ? Clock::duration(kLookEvery)
                                                    : Clock::duration(kLookEveryLater));
  timer_.async_wait([this](ErrorCode ec) {
    if (ec) return;
    look();
    if (!requests_.empty()) look_later();
  });
}

/// Those of which all is known are told last: who hears it may ask again.
void SaveRequests::look() {
  const Clock::time_point now = Clock::now();
  std::vector<std::optional<ProgressPage>> pages;
  for (int i = 0; i < static_cast<int>(machine_.workers().size()); ++i) pages.push_back(page_of(i));
  std::list<Request> ended;
  for (auto next = requests_.begin(); next != requests_.end();) {
    const auto request = next++;
    if (look(*request, pages, now)) ended.splice(ended.end(), requests_, request);
  }
  for (const Request& request : ended) request.done(request.outcome);
}

bool SaveRequests::look(Request& request, const std::vector<std::optional<ProgressPage>>& pages,
                        Clock::time_point now) const {
  SaveOutcome& outcome = request.outcome;
  std::vector<int> failed;
  std::erase_if(request.waits_for, [&](int i) {
    const auto& page = pages[static_cast<std::size_t>(i)];
    if (page && page->saved.value_or(0) >= request.number) {
      outcome.step = outcome.workers == 0 ? page->step : std::min(outcome.step, page->step);
      ++outcome.workers;
      return true;
    }
    if (worker(i).running()) return false;
    if (has_done_its_work(worker(i))) {
      ++outcome.others;
    } else {
      failed.push_back(i);
    }
    return true;
  });
  outcome.took = now - request.asked_at;
  const std::vector<int>& left = request.waits_for;
  if (!failed.empty()) {
    outcome.problem = fmt::format("{} ended before it had saved", names_of(failed));
  } else if (left.empty() && outcome.workers == 0) {
    outcome.problem = "all workers ended before they had saved";
  } else if (!left.empty() && now >= request.deadline) {
    outcome.problem =
        fmt::format("{} {} not saved within {}; it stays asked for", names_of(left),
                    by_number(left, "has", "have"), describe(request.deadline - request.asked_at));
  }
  return left.empty() || !outcome.problem.empty();
}

void SaveRequests::stop() {
  timer_.cancel();
  look();
  for (Request& request : std::exchange(requests_, {})) {
    request.outcome.problem =
        fmt::format("the round ended before {} had saved", names_of(request.waits_for));
    request.done(request.outcome);
  }
}

const WorkerRecord& SaveRequests::worker(int local_rank) const {
  return machine_.workers()[static_cast<std::size_t>(local_rank)];
}

/// `rank 3`, `ranks 3, 5`
std::string SaveRequests::names_of(const std::vector<int>& local_ranks) const {
  std::vector<int> ranks;
  const int first = machine_.round()->round.first_rank;
  for (const int i : local_ranks) ranks.push_back(first + i);
  return fmt::format("{} {}", by_number(ranks, "rank", "ranks"), fmt::join(ranks, ", "));
}

}  // namespace ddprun::agent
