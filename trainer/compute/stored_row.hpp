// Where a sample lies in memory that holds a whole set. Also included by kernels.
#pragma once

#include <cstdint>

namespace ddprun::trainer {

/// In bytes.
struct StoredRow {
  std::uint64_t begin = 0;
  std::uint64_t size = 0;
};

}  // namespace ddprun::trainer
