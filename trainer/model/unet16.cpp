// A U-Net over VGG16's convolutions: K. Simonyan and A. Zisserman, "Very deep convolutional
// networks", 2014; the two together are from "TernausNet" (V. Iglovikov, A. Shvets, 2018).
#include <string>
#include <vector>

#include "trainer/model/unet_parts.hpp"

namespace ddprun::trainer {
namespace {

constexpr int kUnet16Divisor = 32;  // five times halved, and doubled again

/// torchvision's VGG16: the last layer of each stage before its pooling. Numbers count its modules,
/// ReLUs and poolings included.
std::vector<int> vgg16_stages(Graph& graph) {
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

}  // namespace

Graph unet16(ImageShape image, Decoder decoder, double positive_weight) {
  check_unet_sides(image, kUnet16Divisor, "unet16");
  Graph graph(image);
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
  graph.finish();
  return graph;
}

}  // namespace ddprun::trainer
