#include "trainer/checkpoint/checkpoint_keeper.hpp"

#include <fmt/format.h>

#include <ctime>
#include <utility>

#include "base/shell_word.hpp"
#include "trainer/host/host_loops.hpp"

namespace ddprun::trainer {
namespace {

constexpr auto kBusyWait = std::chrono::seconds(10);
constexpr auto kWantedEvery = std::chrono::seconds(1);
constexpr auto kFinishWait = std::chrono::minutes(5);
constexpr auto kAbandonWait = std::chrono::milliseconds(500);

/// By the local clock: `07:11`.
std::string time_of_day(std::chrono::system_clock::time_point time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm parts{};
  localtime_r(&seconds, &parts);
  char text[16];
  std::strftime(text, sizeof text, "%H:%M", &parts);
  return text;
}

/// `22 checkpoints could not be written since 07:11`
std::string counted(const CheckpointWriter::Failures& failures) {
  return fmt::format("{} checkpoint{} could not be written since {}", failures.count,
                     failures.count == 1 ? "" : "s", time_of_day(failures.since));
}

}  // namespace

CheckpointKeeper::CheckpointKeeper(Settings settings, Time now)
    : settings_(std::move(settings)),
      cadence_(settings_.every, now),
      step_taken_(settings_.step_on_disk),
      block_taken_(settings_.block_on_disk),
      step_on_disk_(settings_.step_on_disk),
      writer_(writer_settings()) {}

CheckpointWriter::Settings CheckpointKeeper::writer_settings() {
  CheckpointWriter::Settings& given = settings_.writer;
  return {.directory = given.directory,
          .keep = given.keep,
          .layout = given.layout,
          .claim = std::exchange(given.claim, std::nullopt),
          .on_failure = [this](const std::string& why) { warn_of_failure(why); }};
}

/// On the writer's thread.
void CheckpointKeeper::warn_of_failure(const std::string& why) {
  const std::string there = newest();
  settings_.warn(fmt::format(
      "cannot write a checkpoint: {}; training continues, {}; further failures "
      "are only counted",
      why,
      there.empty() ? "but there is no checkpoint yet" : "and the newest checkpoint is " + there));
}

void CheckpointKeeper::note_writes(const CheckpointWriter::Totals& totals) {
  if (failures_.count > 0 && totals.in_a_row.count == 0)
    settings_.warn(fmt::format("checkpoints are written again; {}", counted(failures_)));
  failures_ = totals.in_a_row;
  if (!totals.links || std::exchange(links_warned_, true)) return;
  const std::string out = settings_.writer.directory.string();
  settings_.warn(fmt::format(
      "{}: no links to the newest and the best checkpoint: {}; train --eval --resume-from={} finds "
      "the best one without them",
      out, totals.links.message(), shell_word(out)));
}

bool CheckpointKeeper::due_at(const TrainingState& state) const {
  using Kind = CheckpointEvery::Kind;
  if (settings_.every.kind == Kind::epoch) return state.block == 0;
  return settings_.every.kind == Kind::steps && state.step % settings_.every.steps == 0;
}

std::int64_t CheckpointKeeper::step_on_disk() {
  if (!writer_.idle()) return step_on_disk_;
  const std::int64_t written = writer_.totals().written;
  if (written > std::exchange(written_, written)) step_on_disk_ = step_taken_;
  return step_on_disk_;
}

bool CheckpointKeeper::is_due_for(std::int64_t wanted, Time now) {
  const bool is_due = writer_.idle() && step_on_disk() < wanted && now >= not_again_before_;
  if (is_due) not_again_before_ = now + kWantedEvery;
  return is_due;
}

std::string CheckpointKeeper::offer(const TrainingState& state, const Learner& learner, bool best,
                                    Time now, std::int64_t wanted) {
  if (settings_.every.kind == CheckpointEvery::Kind::off) return {};
  if (has_taken(state)) return {};
  if (!measured_ && writer_.idle()) measure();
  const bool must = best || due_at(state);
  if (!must && !is_due_for(wanted, now) && !cadence_.due(state.step, now)) return {};
  if (!writer_.idle()) {
    if (!must) return {};
    if (!writer_.wait_idle(now + kBusyWait)) {
      settings_.warn(fmt::format(
          "no checkpoint after step {}: the one before it is still being written after 10 s",
          state.step));
      return {};
    }
    measure();
  }
  return take(state, learner, best, now);
}

std::string CheckpointKeeper::take(const TrainingState& state, const Learner& learner, bool best,
                                   Time now) {
  static_cast<void>(step_on_disk());  // of the one before
  Snapshot& snapshot = writer_.snapshot();
  snapshot.state = state;
  snapshot.state.best = best;
  snapshot.state.sequence = settings_.sequence_next++;
  learner.copy_out(0, snapshot.parameters.span());
  for (std::size_t i = 0; i < snapshot.moments.size(); ++i) {
    learner.copy_out(1 + i, snapshot.moments[i].span());
  }
  if (std::string name = not_finite_in(snapshot); !name.empty()) return name;
  writer_.submit();
  step_taken_ = state.step;
  block_taken_ = state.block;
  measured_ = false;
  cadence_.taken(now);
  copy_time_ = std::chrono::steady_clock::now() - now;
  return {};
}

/// A moment is called "exp_avg of conv1.weight".
std::string CheckpointKeeper::not_finite_in(const Snapshot& snapshot) const {
  const CheckpointLayout& layout = settings_.writer.layout;
  const auto bad_parameter = [&](std::span<const float> arena) -> std::string {
    return any_non_finite(arena) ? non_finite_in(arena, layout.parameters) : std::string();
  };
  if (std::string name = bad_parameter(snapshot.parameters.span()); !name.empty()) return name;
  for (std::size_t i = 0; i < snapshot.moments.size(); ++i) {
    if (std::string name = bad_parameter(snapshot.moments[i].span()); !name.empty())
      return layout.moments[i] + " of " + name;
  }
  return {};
}

void CheckpointKeeper::measure() {
  const CheckpointWriter::Totals totals = writer_.totals();
  const auto processor_time = totals.processor_time - processor_time_seen_;
  processor_time_seen_ = totals.processor_time;
  note_writes(totals);
  cadence_.measured(copy_time_ + processor_time, totals.last_duration);
  measured_ = true;
}

bool CheckpointKeeper::finish(const TrainingState& state, const Learner& learner, bool best,
                              bool is_news) {
  if (settings_.every.kind == CheckpointEvery::Kind::off) return true;
  const auto deadline = std::chrono::steady_clock::now() + kFinishWait;
  bool written = writer_.wait_idle(deadline);
  if (written && (best || is_news || !has_taken(state))) {
    const std::string bad = take(state, learner, best, std::chrono::steady_clock::now());
    if (!bad.empty()) {
      settings_.fail(
          fmt::format("{} is not finite after step {}: no checkpoint of it; the newest "
                      "one is {}",
                      bad, state.step, newest().empty() ? "none" : newest()));
      return false;
    }
    written = writer_.wait_idle(deadline);
  }
  if (!written) {
    settings_.fail(fmt::format("the last checkpoint is still not on disk after {} s in {}",
                               std::chrono::seconds(kFinishWait).count(),
                               settings_.writer.directory.string()));
    return false;
  }
  note_writes(writer_.totals());
  if (newest().empty()) {
    settings_.fail(fmt::format("no checkpoint was ever written to {}: the result is lost; {}",
                               settings_.writer.directory.string(), counted(failures_)));
    return false;
  }
  if (failures_.count > 0) {
    settings_.fail(fmt::format("{}: the newest checkpoint is {}, not the final state",
                               counted(failures_), newest()));
    return false;
  }
  return true;
}

void CheckpointKeeper::abandon() {
  writer_.wait_idle(std::chrono::steady_clock::now() + kAbandonWait);
}

std::string CheckpointKeeper::newest() {
  const std::string path = writer_.totals().last_path;
  return path.empty() ? settings_.path_on_disk : path;
}

}  // namespace ddprun::trainer
