// The bundled models, each a table of layers.
#pragma once

#include <optional>

#include "trainer/model/graph.hpp"
#include "trainer/model/model_tables.hpp"

namespace ddprun::trainer {

enum class ModelName { lenet, alexnet, resnet18, unet16, unet_resnet34, unet_resnet101, textclf };

/// The most tokens of a text that textclf can take, in all its sizes, as RoBERTa.
inline constexpr int kTextPositions = 512;

struct ModelSettings {
  ModelName model = ModelName::lenet;
  ImageShape shape{};
  int classes = 0;                      ///< outputs of a classifier's head
  std::optional<double> dropout = {};   ///< none: default_dropout()
  Stem stem = Stem::small;              ///< of a ResNet
  Decoder decoder = Decoder::bilinear;  ///< of a U-Net
  double positive_weight = 1;           ///< of a U-Net's loss
  int vocabulary = 0;                   ///< of the data, if it is texts
  TextSize size = TextSize::tiny;       ///< of the text classifier
  /// Deviation of initial weights, see Graph::begin_normal(); none: the model's own distributions.
  std::optional<double> normal_init = {};
};

constexpr bool is_unet_resnet(ModelName model) {
  return model == ModelName::unet_resnet34 || model == ModelName::unet_resnet101;
}

constexpr bool has_batch_norm(ModelName model) {
  return model == ModelName::resnet18 || is_unet_resnet(model);
}

/// What the model learns.
constexpr Target target_of(ModelName model) {
  return model == ModelName::unet16 || is_unet_resnet(model) ? Target::mask : Target::label;
}

/// Whether the model reads texts; otherwise images.
constexpr bool reads_texts(ModelName model) { return model == ModelName::textclf; }

/// The usual probability; 0 of models without a dropout.
constexpr double default_dropout(ModelName model) {
  if (is_unet_resnet(model)) return 0.2;
  if (model == ModelName::alexnet) return 0.5;
  return model == ModelName::textclf ? 0.1 : 0;
}

/// Throws DataError if the images are too small, or a U-Net's sides no multiples of 32 (over
/// ResNets: of 64).
Graph make_graph(const ModelSettings& settings);

}  // namespace ddprun::trainer
