// torch's file timers: requests, and what expires when.
#include "agent/progress/file_timers.hpp"

#include <catch2/catch.hpp>

using namespace std::chrono_literals;
using ddprun::agent::ExpiredTimer;
using ddprun::agent::FileTimers;
using ddprun::agent::kTimerLineBytesMax;
using ddprun::agent::kTimersMax;
using ddprun::agent::parse_timer_request;

namespace {

constexpr FileTimers::Time kNow{1'764'000'000s};

/// As torch's FileTimerRequest.to_json() writes it, `in` seconds from now.
std::string request(int pid, const std::string& scope, int in, int signal = 9) {
  return "{\"version\": 1, \"pid\": " + std::to_string(pid) + ", \"scope_id\": \"" + scope +
         "\", \"expiration_time\": " + std::to_string(1'764'000'000 + in) +
         ".5, \"signal\": " + std::to_string(signal) + "}\n";
}

std::string release(int pid, const std::string& scope) {
  return "{\"version\": 1, \"pid\": " + std::to_string(pid) + ", \"scope_id\": \"" + scope +
         "\", \"expiration_time\": -1, \"signal\": 0}\n";
}

}  // namespace

TEST_CASE("a timer expires at its time and is then gone") {
  FileTimers timers;
  CHECK_FALSE(timers.next());
  CHECK(timers.feed(request(7, "step", 10), kNow));
  CHECK(timers.next() == kNow + 10500ms);
  CHECK(timers.expired(kNow + 10s).empty());
  CHECK(timers.expired(kNow + 11s) == std::vector<ExpiredTimer>{{7, "step", 9, 11s}});
  CHECK_FALSE(timers.next());
}

TEST_CASE("a scope that ends in time does not expire, and may begin again") {
  FileTimers timers;
  CHECK(timers.feed(request(7, "step", 10) + release(7, "step") + release(7, "other"), kNow));
  CHECK_FALSE(timers.next());
  CHECK(timers.feed(request(7, "step", 10), kNow));
  CHECK(timers.feed(request(7, "step", 20), kNow + 5s));
  CHECK(timers.next() == kNow + 20500ms);
}

TEST_CASE("of a process's expired timers the first with a signal counts, and all of its end") {
  FileTimers timers;
  CHECK(timers.feed(request(7, "c", 3) + request(7, "b", 2, 15) + request(7, "a", 1, 0) +
                        request(7, "later", 99) + request(8, "silent", 1, -1),
                    kNow));
  CHECK(timers.expired(kNow + 5s) == std::vector<ExpiredTimer>{{7, "b", 15, 5s}});
  CHECK_FALSE(timers.next());
}

TEST_CASE("a process that has ended has no timers, and a pause postpones all") {
  FileTimers timers;
  CHECK(timers.feed(request(7, "a", 1) + request(8, "b", 2), kNow));
  timers.forget(7);
  CHECK(timers.next() == kNow + 2500ms);
  timers.postpone(1h);
  CHECK(timers.next() == kNow + 1h + 2500ms);
}

TEST_CASE("lines may come in pieces, and an invalid request is skipped") {
  FileTimers timers;
  const std::string text = request(7, "a", 1);
  CHECK(timers.feed(text.substr(0, 20), kNow));
  CHECK(timers.feed(text.substr(20), kNow));
  CHECK(timers.next() == kNow + 1500ms);
  CHECK_FALSE(timers.feed("garbage\n" + release(7, "a"), kNow));
  CHECK_FALSE(timers.next());
  const std::string long_line(kTimerLineBytesMax + 1, 'x');
  CHECK_FALSE(timers.feed(long_line + "\n" + request(7, "a", 1), kNow));
  CHECK(timers.next().has_value());
}

TEST_CASE("a worker's requests are checked") {
  CHECK(parse_timer_request(request(7, "a", 1)).has_value());
  for (const std::string bad :
       {"", "[]", "{}", R"({"pid": 0, "scope_id": "a", "expiration_time": 1, "signal": 9})",
        R"({"pid": -5, "scope_id": "a", "expiration_time": 1, "signal": 9})",
        R"({"pid": 7, "scope_id": 1, "expiration_time": 1, "signal": 9})",
        R"({"pid": 7, "scope_id": "a", "expiration_time": null, "signal": 9})",
        R"({"pid": 7, "scope_id": "a", "expiration_time": NaN, "signal": 9})",
        R"({"pid": 7, "scope_id": "a", "expiration_time": 1, "signal": 99})",
        R"({"pid": 7.5, "scope_id": "a", "expiration_time": 1, "signal": 9})"}) {
    INFO(bad);
    CHECK_FALSE(parse_timer_request(bad));
  }
  // For ever, in effect.
  const auto far =
      parse_timer_request(R"({"pid": 7, "scope_id": "a", "expiration_time": 1e300, "signal": 9})");
  REQUIRE(far.has_value());
  CHECK(*far->expires > kNow + 24h * 365 * 100);
}

TEST_CASE("there is a limit to how many timers are kept") {
  FileTimers timers;
  for (int pid = 1; pid <= static_cast<int>(kTimersMax); ++pid)
    REQUIRE(timers.feed(request(pid, "a", 1), kNow));
  CHECK_FALSE(timers.feed(request(1, "b", 1), kNow));
  CHECK(timers.feed(request(1, "a", 2), kNow));
}
