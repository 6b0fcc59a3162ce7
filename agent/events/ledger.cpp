#include "agent/events/ledger.hpp"

#include <algorithm>

namespace ddprun::agent {
namespace {

using std::chrono::nanoseconds;
using TimePoint = Ledger::TimePoint;

constexpr std::array<std::string_view, kSpentKinds> kSpentNames{
    "training", "saving", "waiting", "starting", "again", "hung", "stopping", "paused"};

std::size_t index_of(Spent kind) { return static_cast<std::size_t>(kind); }

bool is_loss(Spent kind) {
  return kind != Spent::training && kind != Spent::saving && kind != Spent::paused;
}

/// So much of the run lies between the two.
nanoseconds overlap(const std::pair<TimePoint, TimePoint>& run, TimePoint begin, TimePoint end) {
  begin = std::clamp(begin, run.first, run.second);
  return std::clamp(end, begin, run.second) - begin;
}

}  // namespace

std::string_view name_of(Spent kind) { return kSpentNames.at(index_of(kind)); }

void Ledger::book_without_loss(Spent kind, nanoseconds time) {
  entries_.spent[index_of(kind)] += time;
}

void Ledger::book(Spent kind, nanoseconds time) {
  book_without_loss(kind, time);
  if ((rounds_ > 0 || kind == Spent::hung) && is_loss(kind)) entries_.lost[index_of(kind)] += time;
}

void Ledger::enter(Stage stage, TimePoint now, const std::optional<RoundClock>& workers) {
  if (stage == stage_) return;
  leave_stage(now);
  stage_ = stage;
  if (stage != Stage::running && stage != Stage::paused && !runs_.empty()) end_round(workers);
}

void Ledger::leave_stage(TimePoint now) {
  now = std::max(now, since_);
  const auto time = now - since_;
  switch (stage_) {
    case Stage::waiting:
      book(Spent::waiting, time);
      break;
    case Stage::starting:
      book(Spent::starting, time);
      break;
    case Stage::running:
      runs_.emplace_back(since_, now);
      break;
    case Stage::paused:
      book(Spent::paused, time);
      break;
    case Stage::stopping:
      book(Spent::stopping, time);
      break;
    case Stage::done:
      book_without_loss(Spent::waiting, time);
      break;
    case Stage::finishing:
      book_without_loss(Spent::stopping, time);
      break;
  }
  since_ = now;
}

void Ledger::end_round(const std::optional<RoundClock>& workers) {
  nanoseconds training{0};
  nanoseconds again{0};
  for (const auto& run : std::exchange(runs_, {})) {
    if (!workers) {
      training += run.second - run.first;
      continue;
    }
    // In this order, so that nothing is booked twice whatever a worker says.
    const TimePoint first = workers->first_at;
    const TimePoint hung = std::max(first, workers->hung_since.value_or(TimePoint::max()));
    const TimePoint reached =
        std::clamp(workers->reached_at.value_or(TimePoint::max()), first, hung);
    book(Spent::starting, overlap(run, TimePoint::min(), first));
    again += overlap(run, first, reached);
    training += overlap(run, reached, hung);
    book(Spent::hung, overlap(run, hung, TimePoint::max()));
  }
  if (workers) {
    const nanoseconds saving = std::clamp(workers->saving, nanoseconds(0), training + again);
    book(Spent::saving, saving);
    const nanoseconds of_training = std::min(saving, training);
    training -= of_training;
    again -= saving - of_training;
    entries_.has_steps = true;
    const std::uint64_t repeated_to = std::min(workers->step, reached_step_);
    if (workers->first_step < repeated_to)
      entries_.steps_again += repeated_to - workers->first_step;
    reached_step_ = std::max(reached_step_, workers->step);
  }
  book(Spent::training, training);
  book(Spent::again, again);
  ++rounds_;
}

LedgerEntries Ledger::entries(TimePoint now, const std::optional<RoundClock>& workers) const {
  Ledger closed = *this;
  closed.leave_stage(now);
  if (!closed.runs_.empty()) closed.end_round(workers);
  return closed.entries_;
}

}  // namespace ddprun::agent
