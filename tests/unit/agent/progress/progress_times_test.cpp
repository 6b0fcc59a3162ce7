// What a worker says its time goes into.
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "agent/progress/progress_page.hpp"
#include "tests/support/temp_dir.hpp"
#include "worker/ddprun_progress.h"

using namespace ddprun;
using namespace ddprun::agent;

namespace {

class Worker {
 public:
  explicit Worker(const char* reached = nullptr) {
    setenv("DDPRUN_PROGRESS_FILE", path().c_str(), 1);
    if (reached != nullptr) setenv("DDPRUN_REACHED_STEP", reached, 1);
    REQUIRE(ddprun_progress_open(&progress_) == 0);
  }
  ~Worker() {
    ddprun_progress_close(&progress_);
    unsetenv("DDPRUN_PROGRESS_FILE");
    unsetenv("DDPRUN_REACHED_STEP");
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Returns CLOCK_MONOTONIC in ns of this update.
  std::uint64_t at(std::uint64_t step, const char* phase = "forward") {
    ddprun_progress_update(&progress_, step, phase);
    return read_progress_page(path()).page->time_ns;
  }
  [[nodiscard]] PageTimes times() const { return read_progress_page(path()).page->times.value(); }
  [[nodiscard]] std::string path() const { return (folder_.path() / "page").string(); }

 private:
  test::TempDir folder_;
  ddprun_progress progress_;
};

}  // namespace

TEST_CASE("the first update is known, and in a first round no step is done again") {
  Worker worker;
  const auto first = worker.at(20);
  worker.at(21);
  CHECK(worker.times() == PageTimes{20, first, first, 0, 0});
}

TEST_CASE("a worker tells when it is where earlier rounds had been") {
  Worker worker("30");
  const auto first = worker.at(20);
  worker.at(29);
  CHECK(worker.times() == PageTimes{20, first, 0, 0, 0});
  const auto reached = worker.at(30);
  worker.at(31);
  CHECK(worker.times() == PageTimes{20, first, reached, 0, 0});
}

TEST_CASE("phases in which it saves, or waits for others, are summed") {
  Worker worker;
  worker.at(1);
  const auto saves = worker.at(1, "save");
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  const auto again = worker.at(1, "last checkpoint");
  CHECK(worker.times().saving_ns == again - saves);
  const auto ended = worker.at(2, "validate");
  CHECK(worker.times().saving_ns == ended - saves);
  const auto waits = worker.at(2, "all-reduce");
  const auto goes_on = worker.at(3, nullptr);
  worker.at(3, "forward");
  CHECK(worker.times().saving_ns == ended - saves);
  CHECK(worker.times().waiting_ns == goes_on - waits);
}

TEST_CASE("the kind of a phase is the same for the worker and for its reader") {
  for (const std::string phase :
       {"", "save", "saved", "checkpoint", "last checkpoint", "forward", "all-reduce", "all-gather",
        "all", "barrier", "share metrics", "wait", "wait for data", "evaluate"}) {
    INFO(phase);
    CHECK(static_cast<std::uint32_t>(kind_of_phase(phase)) == ddprun_phase_kind_of(phase.c_str()));
  }
}

TEST_CASE("a round that begins for a worker that goes on has times of its own") {
  Worker worker;
  worker.at(5);
  worker.at(5, "all-reduce");  // in which it is interrupted
  begin_round_in_page(worker.path(), 7);
  CHECK_FALSE(read_progress_page(worker.path()).page->times.has_value());
  const auto first = worker.at(6);
  CHECK(worker.times() == PageTimes{6, first, 0, 0, 0});
  const auto reached = worker.at(7);
  CHECK(worker.times() == PageTimes{6, first, reached, 0, 0});
}
