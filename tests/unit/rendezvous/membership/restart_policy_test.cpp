// Whether a failed round is tried again: the policy's table, and what --explain-policy says of it.
#include "rendezvous/membership/restart_policy.hpp"

#include <catch2/catch.hpp>
#include <csignal>

using namespace std::chrono_literals;
using namespace ddprun;
using Catch::Matchers::Contains;
using proto::RestartSettings;
using rdzv::RestartPolicy;

namespace {

const RestartPolicy::Clock::time_point kStart{1h};

proto::WorkerFailure exits(int code, std::chrono::nanoseconds ran_for = 10s) {
  proto::WorkerFailure failure;
  failure.exit = {false, code, false};
  failure.ran_for = ran_for;
  return failure;
}

proto::WorkerFailure dies_of(int signal) {
  proto::WorkerFailure failure;
  failure.exit = {true, signal, false};
  failure.ran_for = 10s;
  return failure;
}

RestartSettings at_most(int restarts) {
  RestartSettings settings;
  settings.max_restarts = restarts;
  return settings;
}

}  // namespace

TEST_CASE("without restarts nothing is restarted and nothing has to be explained") {
  RestartPolicy policy(at_most(0));
  CHECK_FALSE(policy.budget_left(kStart));
  const auto decision = policy.decide(exits(1), {}, kStart);
  CHECK_FALSE(decision.restart);
  CHECK(decision.reason.empty());
}

TEST_CASE("the budget counts restarts of the whole job and its end is reported") {
  RestartPolicy policy(at_most(2));
  CHECK(policy.decide(exits(1), {}, kStart).restart);
  CHECK(policy.decide(dies_of(SIGKILL), {}, kStart + 1s).restart);
  CHECK(policy.restart_count() == 2);
  CHECK_FALSE(policy.budget_left(kStart + 1h));
  const auto decision = policy.decide(exits(1), {}, kStart + 1h);
  CHECK_FALSE(decision.restart);
  CHECK(decision.reason == "2 of 2 restarts used");
}

TEST_CASE("with a window old restarts are forgiven") {
  RestartSettings settings = at_most(1);
  settings.window = 60s;
  RestartPolicy policy(settings);
  CHECK(policy.decide(exits(1), {}, kStart).restart);
  CHECK_FALSE(policy.decide(exits(1), {}, kStart + 59s).restart);
  CHECK(policy.budget_left(kStart + 60s));
  CHECK(policy.decide(exits(1), {}, kStart + 60s).restart);
  CHECK(policy.restart_count() == 2);
  CHECK_THAT(policy.decide(exits(1), {}, kStart + 61s).reason, Contains("within 1 min 0 s"));
}

TEST_CASE("causes that cannot heal are never retried") {
  RestartSettings settings = at_most(9);
  settings.no_restart_codes = {40, 41};
  for (const int code : {2, 126, 127, rdzv::kExitNeverRestart, 40, 41}) {
    INFO(code);
    RestartPolicy policy(settings);
    const auto decision = policy.decide(exits(code), {}, kStart);
    CHECK_FALSE(decision.restart);
    CHECK_THAT(decision.reason, Contains(std::to_string(code)));
    CHECK(policy.restart_count() == 0);
  }
  RestartPolicy policy(settings);
  CHECK(policy.decide(exits(42), {}, kStart).restart);
  // The number of a signal is no exit code.
  CHECK(policy.decide(dies_of(2), {}, kStart).restart);
  proto::WorkerFailure absent = exits(1);
  absent.error = "No such file or directory";
  CHECK_THAT(policy.decide(absent, {}, kStart).reason, Contains("cannot be started"));
}

TEST_CASE("the first restart comes at once and later ones in a row after a doubling back-off") {
  RestartSettings settings = at_most(20);
  settings.back_off = 4s;
  settings.back_off_max = 10s;
  RestartPolicy policy(settings);
  CHECK(policy.decide(exits(1), {}, kStart).delay == 0s);
  const auto within = [&](std::chrono::nanoseconds most) {
    const auto delay = policy.decide(exits(1), {}, kStart).delay;
    CHECK(delay <= most);
    CHECK(delay >= most * 3 / 4);
  };
  within(4s);
  within(8s);
  within(10s);
  within(10s);
  // A round that lasted ends the row.
  CHECK(policy.decide(exits(1, 30s), {}, kStart).delay == 0s);
  CHECK(policy.decide(exits(1, 29s), {}, kStart).delay > 0s);
}

TEST_CASE("the automatic back-off makes a program that dies at once wait, and no other") {
  RestartSettings settings = at_most(40);
  settings.back_off = rdzv::kAutoBackOff;
  settings.back_off_max = rdzv::kAutoBackOffMax;
  RestartPolicy policy(settings);
  const auto delay = [&](std::chrono::nanoseconds ran_for,
                         std::optional<std::uint64_t> furthest_step) {
    return policy.decide(exits(1, ran_for), furthest_step, kStart).delay;
  };
  std::chrono::nanoseconds together{0};
  for (int i = 0; i < 5; ++i) together += delay(3ms, {});
  CHECK(together >= 3s);
  for (int i = 5; i < 20; ++i) CHECK(delay(3ms, {}) <= 30s);
  CHECK(delay(3ms, {}) >= 22s);
  CHECK(delay(1h, {}) == 0s);
  // A round that got further was a healthy one, however short it was.
  CHECK(delay(3ms, {}) > 0s);
  CHECK(delay(3ms, 7) == 0s);
  CHECK(delay(3ms, 7) > 0s);
  CHECK(delay(3ms, 8) == 0s);
}

TEST_CASE("rounds that end before the minimum uptime are a crash loop after some") {
  RestartSettings settings = at_most(20);
  settings.minimum_uptime = 5s;
  RestartPolicy policy(settings);
  CHECK(policy.decide(exits(1, 1s), {}, kStart).restart);
  CHECK(policy.decide(exits(1, 1s), {}, kStart).restart);
  SECTION("the third in a row ends the job") {
    const auto decision = policy.decide(exits(1, 1s), {}, kStart);
    CHECK_FALSE(decision.restart);
    CHECK_THAT(decision.reason, Contains("crash loop: 3 rounds in a row ended within 5.0 s"));
  }
  SECTION("one that lasted begins a new row") {
    CHECK(policy.decide(exits(1, 6s), {}, kStart).restart);
    CHECK(policy.decide(exits(1, 1s), {}, kStart).restart);
    CHECK(policy.decide(exits(1, 1s), {}, kStart).restart);
  }
}

namespace {

struct FailedRound {
  proto::WorkerFailure culprit;
  std::optional<std::uint64_t> furthest_step;
};

/// Decides about rounds one after the other; gives the reason after the last one.
std::string reason_after(const std::vector<FailedRound>& rounds) {
  RestartPolicy policy(at_most(20));
  std::string reason;
  for (const FailedRound& round : rounds) {
    CHECK(reason.empty());
    reason = policy.decide(round.culprit, round.furthest_step, kStart).reason;
  }
  return reason;
}

proto::WorkerFailure killed_for_memory() {
  proto::WorkerFailure failure = dies_of(SIGKILL);
  failure.evidence.kind = proto::EvidenceKind::memory_kill;
  return failure;
}

}  // namespace

TEST_CASE("rounds that get no further than those before are a crash loop after some") {
  const auto again = exits(1);
  const auto is_loop = Contains("crash loop: no progress in 3 rounds: none got beyond step 50");
  CHECK_THAT(reason_after({{again, 50}, {again, 50}, {again, 50}}), is_loop);
  CHECK_THAT(reason_after({{again, 50}, {again, 40}, {again, 45}}), is_loop);
  CHECK_THAT(reason_after({{again, 10}, {again, 50}, {again, 50}, {again, 20}}), is_loop);
  CHECK_THAT(reason_after({{killed_for_memory(), 50}, {again, 50}, {killed_for_memory(), 50}}),
             is_loop);
  CHECK_THAT(reason_after({{again, 0}, {again, 0}, {again, 0}}), Contains("beyond step 0"));
}

TEST_CASE("rounds with progress or without reports of workers are no crash loop") {
  const auto again = exits(1);
  CHECK(reason_after({{again, {}}, {again, {}}, {again, {}}, {again, {}}}).empty());
  CHECK(reason_after({{again, 1}, {again, 2}, {again, 3}, {again, 4}}).empty());
  CHECK(reason_after({{again, 5}, {again, 5}, {again, 6}, {again, 6}}).empty());
  CHECK(reason_after({{again, 5}, {again, 5}, {again, {}}, {again, 5}, {again, 5}}).empty());
}

TEST_CASE("kills from outside do not make a crash loop and do not end one") {
  const auto killed = dies_of(SIGKILL);
  const auto again = exits(1);
  CHECK(reason_after({{killed, 5}, {killed, 5}, {killed, 5}, {killed, 5}}).empty());
  CHECK_THAT(reason_after({{again, 5}, {killed, 3}, {again, 5}, {killed, 5}, {again, 4}}),
             Contains("no progress in 3 rounds"));
}

TEST_CASE("the policy explains itself for every cause") {
  RestartSettings settings = at_most(3);
  settings.window = 1h;
  settings.back_off = 2s;
  settings.minimum_uptime = 10s;
  settings.no_restart_codes = {77};
  const std::string text = rdzv::explain(settings);
  for (const std::string part :
       {"killed by a signal", "at most 3 times within any 1 h 0 min", "but with code 2 ",
        "but with code 126", "but with code 127", "but with code 113", "but with code 77",
        "--no-restart-on", "2.0 s, doubled each time", "lasted 10.0 s or reached a new step",
        "less than 10.0 s", "a stop signal comes", "SIGTERM to one of several nodes",
        "a worker hangs", "3 rounds in a row, no new step"}) {
    CHECK_THAT(text, Contains(part));
  }
  CHECK_THAT(rdzv::explain({}), Contains("no restarts are allowed"));
}
