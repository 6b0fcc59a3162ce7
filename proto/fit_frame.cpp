#include "proto/fit_frame.hpp"

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <vector>

#include "proto/frame.hpp"

namespace ddprun::proto {
namespace {

constexpr std::size_t kWorkersKept = 64;
constexpr std::size_t kTextBytesKept = 256;
constexpr int kSteps = 4;

void cut_text(std::string& text) { text.resize(std::min(text.size(), kTextBytesKept)); }

template <class Listed>
void keep_first(std::vector<Listed>& list) {
  if (list.size() > kWorkersKept) list.erase(list.begin() + kWorkersKept, list.end());
}

/// So that likely_suspect finds in them what it finds in all: those of which no step is known come
/// first, then those with the least step. They stay in the order of their ranks.
void keep_furthest_behind(std::vector<Suspect>& suspects) {
  if (suspects.size() <= kWorkersKept) return;
  const auto place = [](const Suspect& suspect) {
    const auto& progress = suspect.worker.progress;
    return std::tuple(progress.has_value(), progress ? progress->step : 0, suspect.rank);
  };
  std::sort(suspects.begin(), suspects.end(),
            [&](const Suspect& a, const Suspect& b) { return place(a) < place(b); });
  keep_first(suspects);
  std::sort(suspects.begin(), suspects.end(),
            [](const Suspect& a, const Suspect& b) { return a.rank < b.rank; });
}

void cut_lines(WorkerFailure& failure) {
  failure.last_lines.clear();
  failure.stacks.clear();
}

void cut_texts(WorkerFailure& failure) {
  cut_text(failure.error);
  cut_text(failure.evidence.text);
  cut_text(failure.evidence.victim_phrase);
}

void shrink(Stopped& stopped, int step) {
  for (std::size_t i = 0; i < stopped.failures.size(); ++i) {
    if (step == 0 && i > 0) cut_lines(stopped.failures[i]);
    if (step == 2) cut_texts(stopped.failures[i]);
    if (step == 3) cut_lines(stopped.failures[i]);
  }
  if (step == 1) keep_first(stopped.failures);
  if (step == 0)
    for (RunningWorker& worker : stopped.still_ran) worker.stacks.clear();
  if (step == 1) keep_first(stopped.still_ran);
  if (step == 1) keep_first(stopped.ended);
}

void shrink(Finished& finished, int step) {
  if (step == 0) keep_first(finished.nodes);
  if (!finished.verdict) return;
  Verdict& verdict = *finished.verdict;
  for (auto* workers : {&verdict.victims, &verdict.alike}) {
    for (FailedWorker& worker : *workers) {
      if (step == 0) cut_lines(worker.failure);
      if (step == 2) cut_texts(worker.failure);
    }
    if (step == 1) keep_first(*workers);
  }
  for (Suspect& suspect : verdict.suspects)
    if (step == 0) suspect.worker.stacks.clear();
  if (step == 1) keep_furthest_behind(verdict.suspects);
  if (step == 1) keep_first(verdict.ended);
  if (step == 2) cut_texts(verdict.culprit.failure);
  if (step == 3) cut_lines(verdict.culprit.failure);
}

/// Any other message stays whole: it is small, and a status is a page that fits.
template <class Message>
void shrink(Message&, int) {}

void shrink(AgentMessage& message, int step) {
  std::visit([&](auto& one) { shrink(one, step); }, message);
}
void shrink(Numbered& numbered, int step) { shrink(numbered.message, step); }
void shrink(MembershipMessage& message, int step) {
  std::visit([&](auto& one) { shrink(one, step); }, message);
}

template <class Message>
std::string encode_shrunk(Message message) {
  std::string body = encode(message);
  for (int step = 0; step < kSteps && body.size() > kMessageBytesMax; ++step) {
    std::visit([&](auto& one) { shrink(one, step); }, message);
    body = encode(message);
  }
  return body;
}

}  // namespace

std::string encode_to_fit(ClientMessage message) { return encode_shrunk(std::move(message)); }
std::string encode_to_fit(ServiceMessage message) { return encode_shrunk(std::move(message)); }

Finished fitted(Finished finished) {
  const auto bytes = [&] { return encode(ServiceMessage(MembershipMessage(finished))).size(); };
  for (int step = 0; step < kSteps && bytes() > kMessageBytesMax; ++step) shrink(finished, step);
  return finished;
}

}  // namespace ddprun::proto
