// The bundled models, each a table of layers.
#pragma once

#include "trainer/model/graph.hpp"
#include "trainer/model/model_tables.hpp"

namespace ddprun::trainer {

enum class ModelName { lenet, alexnet, resnet18, unet16 };

struct ModelSettings {
  ModelName model = ModelName::lenet;
  ImageShape shape{};
  int classes = 0;                      ///< of labels
  double dropout = 0.5;                 ///< of AlexNet
  Stem stem = Stem::small;              ///< of a ResNet
  Decoder decoder = Decoder::bilinear;  ///< of a U-Net
  double positive_weight = 1;           ///< of a U-Net's loss
};

/// What the model learns.
inline Target target_of(ModelName model) {
  return model == ModelName::unet16 ? Target::mask : Target::label;
}

/// Throws DataError if the images are too small, or a U-Net's sides no multiples of 32.
Graph make_graph(const ModelSettings& settings);

}  // namespace ddprun::trainer
