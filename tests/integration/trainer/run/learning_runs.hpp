// Runs that are about what is learned: in builds that are fast enough, on data that may be absent.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/integration/trainer/run/worker_group.hpp"

namespace ddprun::test {

/// Skips the test in builds without optimization, where learning takes minutes.
void only_in_release();

/// DDPRUN_TEST_DATA, the folder of real data sets, or `name` in it. Skips the test where it is
/// absent.
std::filesystem::path test_data(const std::string& name = {});

/// Trains with these options of `train`, two workers, without checkpoints. Gives a number of the
/// final line, such as test_accuracy, and prints it with the seconds from the first step on.
double held_out(const std::string& figure, std::vector<std::string> arguments,
                std::chrono::minutes limit = std::chrono::minutes(5));

}  // namespace ddprun::test
