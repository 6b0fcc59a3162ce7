// What an attention layer can be asked for on any device.
#pragma once

#include "trainer/model/layer.hpp"

namespace ddprun::trainer {

/// Throws DataError where a shard of `batch` texts has more attention probabilities than a dropout
/// mask has numbers (DropoutMask).
void check_attention_mask(const layer::Attention& kind, int batch);

}  // namespace ddprun::trainer
