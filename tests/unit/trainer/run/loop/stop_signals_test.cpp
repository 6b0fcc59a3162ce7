// What a signal does that asks a run to end.
#include "trainer/run/loop/stop_signals.hpp"

#include <catch2/catch.hpp>

#include "worker/ddprun_progress.h"

namespace ddprun::trainer {
namespace {

using namespace std::chrono_literals;

constexpr StopSituation::Time kInstant{1h};

TEST_CASE("in training the first signal asks, and a later one ends the run at once") {
  StopSituation situation{.is_training = true, .now = kInstant};
  situation.reason = GENERATE(as<std::uint64_t>(), DDPRUN_STOP_UNKNOWN, DDPRUN_STOP_SAVE, 77);
  CHECK(answer_to_signal(situation) == StopAnswer::ask);
  situation.asked_at = kInstant - 199ms;
  CHECK(answer_to_signal(situation) == StopAnswer::ignore);
  situation.asked_at = kInstant - 200ms;
  situation.has_ddprun_asked = situation.reason == DDPRUN_STOP_SAVE;
  CHECK(answer_to_signal(situation) == StopAnswer::end_now);
}

TEST_CASE("a signal that ddprun passes on late is the request of the one before") {
  StopSituation situation{.is_training = true, .reason = DDPRUN_STOP_SAVE, .now = kInstant};
  situation.asked_at = kInstant - 5s;
  CHECK(answer_to_signal(situation) == StopAnswer::ignore);
}

TEST_CASE("before training a signal ends the run at once") {
  const StopSituation situation{.reason = DDPRUN_STOP_SAVE, .now = kInstant};
  CHECK(answer_to_signal(situation) == StopAnswer::end_now);
}

TEST_CASE("a run that is stopped for a failure ends at once, also if it was asked before") {
  StopSituation situation{.is_training = true, .reason = DDPRUN_STOP_NOW, .now = kInstant};
  CHECK(answer_to_signal(situation) == StopAnswer::end_now);
  situation.asked_at = kInstant - 1ms;
  CHECK(answer_to_signal(situation) == StopAnswer::end_now);
}

}  // namespace
}  // namespace ddprun::trainer
