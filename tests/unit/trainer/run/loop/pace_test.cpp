// How long a run will still take.
#include "trainer/run/loop/pace.hpp"

#include <catch2/catch.hpp>

namespace ddprun::trainer {
namespace {

TEST_CASE("the time left is that of training and of the evaluations") {
  Pace pace(300);
  CHECK(pace.seconds_for(1000, 2) == 0);  // nothing is known yet
  pace.trained(500, 5);
  CHECK(pace.seconds_for(1000, 0) == Approx(10));
  CHECK(pace.seconds_for(1000, 2) == Approx(10 + 2));  // a third of 3 s, twice
  pace.evaluated(7);
  CHECK(pace.seconds_for(1000, 2) == Approx(10 + 14));
  pace.trained(100, 2);
  CHECK(pace.seconds_for(1000, 0) == Approx(20));
  pace.trained(0, 0);
  CHECK(pace.seconds_for(1000, 0) == Approx(20));
}

TEST_CASE("an evaluation under way tells how long one takes") {
  Pace pace(300);
  pace.trained(100, 1);
  pace.evaluated(2, 0.25);
  CHECK(pace.seconds_for(0, 1 - 0.25) == Approx(6));
  CHECK(pace.seconds_for(100, 3 - 0.25) == Approx(1 + 22));
}

TEST_CASE("an evaluation follows each epoch, and one that is cut off") {
  CHECK(evaluations_left(30, 10, 0) == 3);
  CHECK(evaluations_left(30, 10, 2) == 1);
  CHECK(evaluations_left(30, 10, 3) == 0);
  CHECK(evaluations_left(25, 10, 2) == 1);
  CHECK(evaluations_left(5, 10, 1) == 0);  // the run ended before
}

}  // namespace
}  // namespace ddprun::trainer
