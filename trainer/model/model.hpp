// The bundled models, each a table of layers.
#pragma once

#include "trainer/model/graph.hpp"
#include "trainer/model/model_tables.hpp"

namespace ddprun::trainer {

enum class ModelName { lenet, alexnet, resnet18 };

struct ModelSettings {
  ModelName model = ModelName::lenet;
  ImageShape shape{};
  int classes = 0;
  double dropout = 0.5;     ///< of AlexNet
  Stem stem = Stem::small;  ///< of a ResNet
};

/// Throws DataError if the images are too small.
Graph make_graph(const ModelSettings& settings);

}  // namespace ddprun::trainer
