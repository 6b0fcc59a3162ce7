// U-Nets over the residual stages of ResNet-34 and ResNet-101: "UNetResNet" of neptune.ai's open
// solutions (2018), which crack segmentation took over.
#include "trainer/model/resnet_blocks.hpp"
#include "trainer/model/unet_parts.hpp"

namespace ddprun::trainer {
namespace {

constexpr int kUnetResnetDivisor = 64;  // six times halved, and doubled again

struct Encoder {
  ResidualBlock kind;
  std::array<int, 4> blocks;
  const char* model;
};

Encoder encoder_of(ResnetDepth depth) {
  if (depth == ResnetDepth::layers101)
    return {ResidualBlock::bottleneck, {3, 4, 23, 3}, "unet-resnet101"};
  return {ResidualBlock::basic, {3, 4, 6, 3}, "unet-resnet34"};
}

}  // namespace

Graph unet_resnet(ImageShape image, ResnetDepth depth, Decoder decoder, double dropout,
                  double positive_weight) {
  const Encoder encoder = encoder_of(depth);
  check_unet_sides(image, kUnetResnetDivisor, encoder.model);
  Graph graph(image);
  int at = graph.convolution("conv1", 0, 64, residual_convolution(7, 2));
  at = graph.max_pool(graph.batch_norm("bn1", at, true), kUnetPool);
  const std::array<int, 4> stages = residual_stages(graph, at, encoder.kind, encoder.blocks);
  const auto block = [&](const char* name, int from, int middle, int channels) {
    return unet_block(graph, decoder, name, from, middle * kUnetFilters, channels * kUnetFilters);
  };
  at = block("center", graph.max_pool(stages[3], kUnetPool), 16, 8);
  at = block("dec5", graph.concat(at, stages[3]), 16, 8);
  at = block("dec4", graph.concat(at, stages[2]), 16, 8);
  at = block("dec3", graph.concat(at, stages[1]), 8, 2);
  at = block("dec2", graph.concat(at, stages[0]), 4, 4);
  at = block("dec1", at, 4, 1);
  at = unet_convolution(graph, "dec0.conv", at, kUnetFilters);
  at = graph.dropout(at, dropout, true);
  graph.binary_cross_entropy(graph.convolution("final", at, 1, Window{}), positive_weight);
  graph.finish();
  return graph;
}

}  // namespace ddprun::trainer
