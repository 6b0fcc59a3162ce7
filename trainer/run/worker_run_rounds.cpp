// How a worker comes from one round to the next with what it holds.
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>

#include "base/describe.hpp"
#include "proto/environment_names.hpp"
#include "trainer/run/plan/run_checkpoints.hpp"
#include "trainer/run/worker_run.hpp"

namespace ddprun::trainer {

/// Until a round is under way. False, after a line: there is none.
bool WorkerRun::go_on() {
  rounds_.held = {.is_there = true,
                  .step = state_.step,
                  .epochs = static_cast<std::int64_t>(state_.epochs.size())};
  // It ends here, and the others may be too few to go on.
  if (stop_.asked().load() != 0 && keeper_) keeper_->finish(state_, *learner_);
  while (true) {
    leave_round();
    if (const int signal = stop_.asked().load(); signal != 0) {
      report_->error(
          fmt::format("{} ends this worker, which waits for another round", signal_name(signal)));
      return false;
    }
    std::optional<std::uint64_t> steps;
    if (rounds_.held.is_there) steps = static_cast<std::uint64_t>(rounds_.held.step);
    if (const int error = rounds_.connection->next_round(steps); error != 0) {
      report_->error(
          fmt::format("ddprun ends this worker, which waited for another round ({}): its own lines "
                      "tell why",
                      std::strerror(error)));
      return false;
    }
    rounds_.has_lost_peer = false;
    rounds_.is_entering = true;
    try {
      enter_round();
      if (!environment_.source_rank) find_starting_point();
      if (agree_on_plan() && meet()) {
        rounds_.connection->watch(environment_.world_size > 1 ? ranks_.communicator.get()
                                                              : nullptr);
        if (begin()) {
          rounds_.is_entering = false;
          return true;
        }
      }
    } catch (const std::exception& error) {
      // What failed because the round is over is no error.
      if (!rounds_.connection || !rounds_.connection->is_interrupted()) throw;
      report_->warning(fmt::format("this round is left before it began: {}", error.what()));
      rounds_.has_lost_peer = true;
      if (ranks_.communicator) ranks_.communicator->abort("it leaves the round");
    }
    if (!rounds_.has_lost_peer) return false;
  }
}

/// Nothing of it is used any more, by others either, and no file of it is written.
void WorkerRun::leave_round() {
  rounds_.connection->unwatch();
  // Gives the write under way a moment. One that takes longer is refused its name: a later round
  // has claimed the directory by then.
  keeper_.reset();
  folder_.claim.reset();
  ranks_.rendezvous.reset();
}

/// Takes the variables of the round, and what belongs to the rank that this worker is now.
void WorkerRun::enter_round() {
  const bool was_first = is_first();
  environment_ = read_environment([this](const char* name) -> const char* {
    const char* const value = rounds_.connection->value(name);
    // The process still has those that the round does not name.
    return value != nullptr || std::strcmp(name, proto::env::kSourceRank) == 0 ? value
                                                                               : std::getenv(name);
  });
  loop_.reset();
  ranks_.communicator.reset();
  folder_.start = {};
  rounds_.handover = {};
  if (is_first() && !was_first) {
    find_folder();
  } else {
    if (!is_first()) folder_.lock.reset();
    make_report();
  }
  if (is_first() && keeps_checkpoints())
    folder_.claim = claim_directory(folder_.out, environment_, *report_);
  if (rounds_.held.is_there) rounds_.held.hash = learner_->hash_of_all();
}

}  // namespace ddprun::trainer
