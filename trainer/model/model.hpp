// The bundled models, each a table of layers.
#pragma once

#include <string>

#include "trainer/model/graph.hpp"

namespace ddprun::trainer {

struct Model {
  std::string name;
  Graph graph;
};

/// Makes a bundled model by name ("lenet"). Throws DataError naming the known ones.
Model make_model(const std::string& name, ImageShape shape, int classes);

}  // namespace ddprun::trainer
