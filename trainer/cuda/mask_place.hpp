// Where a dropout's mask comes from.
#pragma once

#include "trainer/compute/operation.hpp"
#include "trainer/cuda/kernels/dropout_kernels.hpp"

namespace ddprun::trainer::cuda {

/// `number`: among the graph's dropouts. In training only.
inline MaskPlace mask_place(const DropoutRate& rate, int number, const Pass& pass) {
  return {.rate = rate,
          .place = {.seed = pass.seed,
                    .step = 0,
                    .layer = static_cast<std::uint16_t>(number),
                    .shard = 0},
          .state = pass.state,
          .shard = pass.shard};
}

}  // namespace ddprun::trainer::cuda
