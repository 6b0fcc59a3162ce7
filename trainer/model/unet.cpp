// U-Nets: O. Ronneberger et al., "U-Net", 2015. One is over VGG16's convolutions (K. Simonyan and
// A. Zisserman, "Very deep convolutional networks", 2014), as in "TernausNet" (V. Iglovikov,
// A. Shvets, 2018), whose names the decoder's blocks have. Others are over the residual stages of
// ResNet-34 and ResNet-101: "UNetResNet" of neptune.ai's open solutions (2018), which crack
// segmentation took over.
#include <string>
#include <vector>

#include "base/rounded_up.hpp"
#include "trainer/model/model_tables.hpp"

namespace ddprun::trainer {
namespace {

constexpr int kUnet16Divisor = 32;  // five times halved, and doubled again

/// torchvision's VGG16: the last layer of each stage before its pooling. Numbers count its modules,
/// ReLUs and poolings included.
std::vector<int> vgg16_stages(GraphBuilder& graph) {
  struct Stage {
    int convolutions, channels;
  };
  const layer::Convolution he{.window = kUnetConvolution, .he_initial = true};
  std::vector<int> ends;
  int at = 0;
  int module = 0;
  for (const Stage& stage : {Stage{2, 64}, {2, 128}, {3, 256}, {3, 512}, {3, 512}}) {
    if (!ends.empty()) at = graph.max_pool(at, kUnetPool);
    for (int i = 0; i < stage.convolutions; ++i, module += 2) {
      const std::string name = "features." + std::to_string(module);
      at = graph.relu(graph.convolution(name, at, stage.channels, he));
    }
    ++module;  // the pooling
    ends.push_back(at);
  }
  return ends;
}

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

int unet_convolution(GraphBuilder& graph, const std::string& name, int from, int channels) {
  return graph.relu(graph.convolution(name, from, channels, kUnetConvolution));
}

int unet_block(GraphBuilder& graph, Decoder decoder, const std::string& name, int from, int middle,
               int channels) {
  if (decoder == Decoder::deconv) {
    const int at = unet_convolution(graph, name + ".block.0.conv", from, middle);
    return graph.relu(graph.transposed_convolution(
        name + ".block.1", at, channels, {.window = {.size = 4, .stride = 2, .padding = 1}}));
  }
  const int at = unet_convolution(graph, name + ".block.1.conv", graph.upsample(from), middle);
  return unet_convolution(graph, name + ".block.2.conv", at, channels);
}

void check_unet_sides(ImageShape image, int divisor, const std::string& model) {
  if (image.height % divisor == 0 && image.width % divisor == 0) return;
  const ImageShape fitting{rounded_up(image.height, divisor), rounded_up(image.width, divisor),
                           image.channels};
  throw DataError("images of " + to_string(image) + " do not fit " + model +
                  ", which needs sides that are multiples of " + std::to_string(divisor) +
                  ": use " + to_string(fitting) + ", or another --model");
}

Graph unet16(ImageShape image, Decoder decoder, double positive_weight) {
  check_unet_sides(image, kUnet16Divisor, "unet16");
  GraphBuilder graph(image);
  const std::vector<int> stages = vgg16_stages(graph);
  const auto block = [&](const char* name, int from, int middle, int channels) {
    return unet_block(graph, decoder, name, from, middle * kUnetFilters, channels * kUnetFilters);
  };
  int at = block("center", graph.max_pool(stages[4], kUnetPool), 16, 8);
  at = block("dec5", graph.concat(at, stages[4]), 16, 8);
  at = block("dec4", graph.concat(at, stages[3]), 16, 8);
  at = block("dec3", graph.concat(at, stages[2]), 8, 2);
  at = block("dec2", graph.concat(at, stages[1]), 4, 1);
  at = unet_convolution(graph, "dec1.conv", graph.concat(at, stages[0]), kUnetFilters);
  graph.binary_cross_entropy(graph.convolution("final", at, 1, Window{}), positive_weight);
  return graph.finish();
}

Graph unet_resnet(ImageShape image, ResnetDepth depth, Decoder decoder, double dropout,
                  double positive_weight) {
  const Encoder encoder = encoder_of(depth);
  check_unet_sides(image, kUnetResnetDivisor, encoder.model);
  GraphBuilder graph(image);
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
  return graph.finish();
}

}  // namespace ddprun::trainer
