// The last line of a worker that fails.
#pragma once

#include <exception>

namespace ddprun::trainer {

/// Prints "train: ..." to stderr, with "error: " where a run has begun, as a launcher's report
/// looks for it. Gives the exit code.
int report_failure(const std::exception& error);

}  // namespace ddprun::trainer
