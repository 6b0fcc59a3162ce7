// rdzvd is killed at random instants, and again and again. DDPRUN_TEST_SEED repeats a run;
// DDPRUN_KILL_RUNS is the number of jobs.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <random>
#include <thread>

#include "tests/integration/launcher/marked_job.hpp"
#include "tests/integration/launcher/surviving_job.hpp"

using namespace ddprun::test;

namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

unsigned number_from(const char* name, unsigned otherwise) {
  const char* const given = std::getenv(name);
  return given != nullptr ? static_cast<unsigned>(std::strtoul(given, nullptr, 10)) : otherwise;
}

/// How long it takes without a kill.
Seconds undisturbed_job() {
  SurvivingJob job;
  job.start_rdzvd();
  const auto begin = Clock::now();
  job.start_nodes();
  job.check_outcome();
  return Clock::now() - begin;
}

}  // namespace

TEST_CASE("a job survives an rdzvd that is killed at any instant") {
  const unsigned seed = number_from("DDPRUN_TEST_SEED", std::random_device{}());
  const unsigned runs = number_from("DDPRUN_KILL_RUNS", 20);
  std::cout << "DDPRUN_TEST_SEED=" << seed << std::endl;
  std::mt19937 random(seed);
  std::uniform_real_distribution<> share(0, 1);
  const Seconds length = undisturbed_job();
  int killed = 0;
  for (unsigned run = 0; run < runs; ++run) {
    INFO("DDPRUN_TEST_SEED=" << seed << ", run " << run);
    SurvivingJob job;
    job.start_rdzvd();
    job.start_nodes();
    for (auto kills = 1 + random() % 3; kills > 0; --kills) {
      std::this_thread::sleep_for(share(random) * length / 2);
      job.kill_rdzvd();
      ++killed;
      job.start_rdzvd();
    }
    job.check_outcome();
  }
  std::cout << "rdzvd was killed " << killed << " times in " << runs << " jobs" << std::endl;
}
