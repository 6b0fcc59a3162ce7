// When checkpoints are due, with a clock moved by hand.
#include "trainer/checkpoint/checkpoint_cadence.hpp"

#include <catch2/catch.hpp>

#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

using namespace std::chrono_literals;
using Kind = CheckpointEvery::Kind;

const CheckpointCadence::Time kStart{1000s};

TEST_CASE("the value of --checkpoint-every says what it means") {
  CHECK(parse_checkpoint_every("auto").kind == Kind::automatic);
  CHECK(parse_checkpoint_every("off").kind == Kind::off);
  CHECK(parse_checkpoint_every("epoch").kind == Kind::epoch);
  CHECK(parse_checkpoint_every("500").kind == Kind::steps);
  CHECK(parse_checkpoint_every("500").steps == 500);
  CHECK(parse_checkpoint_every("5s").duration == 5s);
  CHECK(parse_checkpoint_every("250ms").duration == 250ms);
  CHECK(parse_checkpoint_every("1.5m").duration == 90s);
  CHECK(parse_checkpoint_every("2h").duration == 2h);
  for (const char* wrong : {"", "0", "-5", "5x", "s", "0s", "1e300s", "nan", "1.5", "+5", "inf"}) {
    INFO(wrong);
    CHECK_THROWS_AS(parse_checkpoint_every(wrong), DataError);
  }
}

TEST_CASE("off is never due") {
  const CheckpointCadence cadence({.kind = Kind::off}, kStart);
  CHECK_FALSE(cadence.due(100, kStart + 1h));
}

TEST_CASE("a number of steps depends on the step alone") {
  const CheckpointCadence cadence({.kind = Kind::steps, .steps = 7}, kStart);
  CHECK(cadence.due(14, kStart));
  CHECK_FALSE(cadence.due(15, kStart + 1h));
}

TEST_CASE("a duration counts from the last one taken") {
  CheckpointCadence cadence({.kind = Kind::duration, .duration = 10s}, kStart);
  CHECK_FALSE(cadence.due(1, kStart + 9s));
  CHECK(cadence.due(1, kStart + 10s));
  cadence.taken(kStart + 10s);
  CHECK_FALSE(cadence.due(2, kStart + 19s));
  CHECK(cadence.due(2, kStart + 20s));
}

TEST_CASE("cheap checkpoints are taken often, at least twice below the allowed share") {
  CheckpointCadence cadence({}, kStart);
  CHECK(cadence.interval() == CheckpointCadence::kIntervalMin);
  cadence.measured(10ms, 20ms);
  CHECK(cadence.interval() == 1s);
}

TEST_CASE("a loss stays below five seconds as long as the share allows it, writing included") {
  CheckpointCadence cadence({}, kStart);
  cadence.measured(60ms, 1s);
  CHECK(cadence.interval() == 3500ms);
  CHECK(cadence.interval() + 1s < CheckpointCadence::kLossBound);
}

TEST_CASE("where both cannot be had the share wins") {
  CheckpointCadence cadence({}, kStart);
  cadence.measured(1s, 10s);
  CHECK(cadence.interval() == 50s);
}

}  // namespace
}  // namespace ddprun::trainer
