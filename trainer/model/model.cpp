#include "trainer/model/model.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {

Graph make_graph(const ModelSettings& settings) {
  if (settings.classes < 2) throw DataError("a classifier needs at least two classes");
  switch (settings.model) {
    case ModelName::lenet:
      break;
    case ModelName::alexnet:
      return alexnet(settings.shape, settings.classes, settings.dropout);
    case ModelName::resnet18:
      return resnet18(settings.shape, settings.classes, settings.stem);
  }
  return lenet(settings.shape, settings.classes);
}

}  // namespace ddprun::trainer
