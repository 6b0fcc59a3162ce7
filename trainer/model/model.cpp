#include "trainer/model/model.hpp"

#include <algorithm>
#include <string>

#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

constexpr int kLargestImage = 1 << 14;

Graph build(const ModelSettings& settings) {
  const double dropout = settings.dropout.value_or(default_dropout(settings.model));
  const auto over_resnet = [&](ResnetDepth depth) {
    return unet_resnet(settings.shape, depth, settings.decoder, dropout, settings.positive_weight);
  };
  switch (settings.model) {
    case ModelName::lenet:
      break;
    case ModelName::alexnet:
      return alexnet(settings.shape, settings.classes, dropout);
    case ModelName::resnet18:
      return resnet18(settings.shape, settings.classes, settings.stem);
    case ModelName::unet16:
      return unet16(settings.shape, settings.decoder, settings.positive_weight);
    case ModelName::unet_resnet34:
      return over_resnet(ResnetDepth::layers34);
    case ModelName::unet_resnet101:
      return over_resnet(ResnetDepth::layers101);
    case ModelName::textclf:
      return textclf(settings.size, settings.vocabulary, settings.classes, dropout);
  }
  return lenet(settings.shape, settings.classes);
}

/// The message names the least size that fits.
DataError too_small(ModelSettings settings) {
  const ImageShape given = settings.shape;
  for (int side = std::min(given.height, given.width) + 1; side <= kLargestImage; ++side) {
    settings.shape.height = settings.shape.width = side;
    try {
      static_cast<void>(build(settings));
    } catch (const ImagesTooSmall&) {
      continue;
    }
    return DataError("images of " + to_string(given) +
                     " are too small for this model, which needs at least " +
                     to_string(settings.shape) + "; use larger images or another --model");
  }
  return DataError("no size of images fits this model");
}

}  // namespace

Graph make_graph(const ModelSettings& settings) {
  if (target_of(settings.model) == Target::label && settings.classes < 2)
    throw DataError("a classifier needs at least two classes");
  try {
    Graph graph = build(settings);
    if (settings.normal_init) graph.begin_normal(*settings.normal_init);
    return graph;
  } catch (const ImagesTooSmall&) {
    throw too_small(settings);
  }
}

}  // namespace ddprun::trainer
