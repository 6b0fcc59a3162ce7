// ResNet-18 in torchvision's names: K. He et al., "Deep residual learning for image recognition",
// 2015.
#include "trainer/model/model_tables.hpp"

namespace ddprun::trainer {
namespace {

layer::Convolution plain(int size, int stride) {
  return {.window = {.size = size, .stride = stride, .padding = size / 2},
          .has_bias = false,
          .he_initial = true};
}

/// torchvision's BasicBlock.
int basic_block(Graph& graph, const std::string& name, int from, int channels, int stride) {
  int at = graph.convolution(name + ".conv1", from, channels, plain(3, stride));
  at = graph.batch_norm(name + ".bn1", at, true);
  at = graph.convolution(name + ".conv2", at, channels, plain(3, 1));
  at = graph.batch_norm(name + ".bn2", at, false);
  int shortcut = from;
  if (stride != 1 || graph.layer(from).output.channels != channels) {
    shortcut = graph.convolution(name + ".downsample.0", from, channels, plain(1, stride));
    shortcut = graph.batch_norm(name + ".downsample.1", shortcut, false);
  }
  return graph.relu(graph.add(at, shortcut));
}

}  // namespace

Graph resnet18(ImageShape image, int classes, Stem stem) {
  Graph graph(image);
  const bool is_small = stem == Stem::small;
  int at = graph.convolution("conv1", 0, 64, is_small ? plain(3, 1) : plain(7, 2));
  at = graph.batch_norm("bn1", at, true);
  if (!is_small) at = graph.max_pool(at, {.size = 3, .stride = 2, .padding = 1});
  int channels = 64;
  for (int stage = 1; stage <= 4; ++stage, channels *= 2) {
    const std::string name = "layer" + std::to_string(stage);
    at = basic_block(graph, name + ".0", at, channels, stage == 1 ? 1 : 2);
    at = basic_block(graph, name + ".1", at, channels, 1);
  }
  at = graph.flatten(graph.adaptive_average_pool(at, 1, 1));
  graph.softmax_cross_entropy(graph.linear("fc", at, classes));
  graph.finish();
  return graph;
}

}  // namespace ddprun::trainer
