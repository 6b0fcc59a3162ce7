#include "trainer/run/failure_line.hpp"

#include <cstdio>

#include "base/printable.hpp"
#include "trainer/checkpoint/initial_weights.hpp"
#include "trainer/error.hpp"
#include "trainer/run/exit_codes.hpp"

namespace ddprun::trainer {

int report_failure(const std::exception& error) {
  if (const auto* const mismatch = dynamic_cast<const WeightMismatch*>(&error))
    for (const std::string& one : mismatch->all())
      std::fprintf(stderr, "train:   %s\n", printable(one).c_str());
  const bool is_usage = dynamic_cast<const DataError*>(&error) != nullptr;
  std::fprintf(stderr, "train: %s%s\n", is_usage ? "" : "error: ", printable(error.what()).c_str());
  return is_usage ? kExitUsage : kExitFailure;
}

}  // namespace ddprun::trainer
