#include "base/time_stamp.hpp"

#include <catch2/catch.hpp>

using namespace ddprun;

TEST_CASE("a time stamp is local date and time, in an order that ls keeps") {
  const auto now = std::chrono::system_clock::now();
  const std::string stamp = time_stamp(now);
  CHECK(stamp.size() == 19);
  CHECK(begins_with_time_stamp(stamp));
  CHECK(time_stamp(now + std::chrono::hours(24 * 40)) > stamp);
}

TEST_CASE("a name begins with a time stamp or does not") {
  CHECK(begins_with_time_stamp("2026-11-28_17-15-33"));
  CHECK(begins_with_time_stamp("2026-11-28_17-15-33_job7"));
  for (const auto* name : {"", "2026-11-28", "2026-11-28 17-15-33", "2026-11-28_17:15:33",
                           "run-2026-11-28_17-15-33", "job_7-11-28_17-15-33"})
    CHECK_FALSE(begins_with_time_stamp(name));
}
