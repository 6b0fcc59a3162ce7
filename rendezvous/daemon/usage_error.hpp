// Wrong use of rdzvd that CLI11 knows nothing of.
#pragma once

#include <stdexcept>

namespace ddprun::rdzv {

/// Thrown and caught while the command line is read. The text is the whole line.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace ddprun::rdzv
