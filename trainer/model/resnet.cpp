// ResNet-18, and the residual blocks of ResNets, in torchvision's names and initial values: K. He
// et al., "Deep residual learning for image recognition", 2015.
#include "trainer/model/model_tables.hpp"

#include <string>

namespace ddprun::trainer {
namespace {

constexpr int kExpansion = 4;  // of a bottleneck's channels

/// One residual block; `channels` is what it begins with.
class BlockBuilder {
 public:
  BlockBuilder(GraphBuilder& graph, std::string name) : graph_(graph), name_(std::move(name)) {}

  int basic(int from, int channels, int stride) {
    int at = convolve("1", from, channels, 3, stride, true);
    at = convolve("2", at, channels, 3, 1, false);
    return add(at, from, stride);
  }

  int bottleneck(int from, int channels, int stride) {
    int at = convolve("1", from, channels, 1, 1, true);
    at = convolve("2", at, channels, 3, stride, true);
    at = convolve("3", at, kExpansion * channels, 1, 1, false);
    return add(at, from, stride);
  }

 private:
  int convolve(const std::string& number, int from, int channels, int size, int stride, bool relu) {
    const int at = graph_.convolution(name_ + ".conv" + number, from, channels,
                                      residual_convolution(size, stride));
    return graph_.batch_norm(name_ + ".bn" + number, at, relu);
  }

  int add(int at, int shortcut, int stride) {
    const int channels = graph_.layer(at).output.channels;
    if (stride != 1 || graph_.layer(shortcut).output.channels != channels) {
      shortcut = graph_.convolution(name_ + ".downsample.0", shortcut, channels,
                                    residual_convolution(1, stride));
      shortcut = graph_.batch_norm(name_ + ".downsample.1", shortcut, false);
    }
    return graph_.relu(graph_.add(at, shortcut));
  }

  GraphBuilder& graph_;
  std::string name_;
};

}  // namespace

layer::Convolution residual_convolution(int size, int stride) {
  return {.window = {.size = size, .stride = stride, .padding = size / 2},
          .has_bias = false,
          .he_initial = true};
}

std::array<int, 4> residual_stages(GraphBuilder& graph, int from, ResidualBlock kind,
                                   const std::array<int, 4>& blocks) {
  std::array<int, 4> ends{};
  int at = from;
  int channels = 64;
  for (std::size_t stage = 0; stage < blocks.size(); ++stage, channels *= 2) {
    for (int block = 0; block < blocks[stage]; ++block) {
      const int stride = stage > 0 && block == 0 ? 2 : 1;
      BlockBuilder builder(graph,
                           "layer" + std::to_string(stage + 1) + "." + std::to_string(block));
      at = kind == ResidualBlock::basic ? builder.basic(at, channels, stride)
                                        : builder.bottleneck(at, channels, stride);
    }
    ends[stage] = at;
  }
  return ends;
}

Graph resnet18(ImageShape image, int classes, Stem stem) {
  GraphBuilder graph(image);
  const bool is_small = stem == Stem::small;
  int at = graph.convolution("conv1", 0, 64,
                             is_small ? residual_convolution(3, 1) : residual_convolution(7, 2));
  at = graph.batch_norm("bn1", at, true);
  if (!is_small) at = graph.max_pool(at, {.size = 3, .stride = 2, .padding = 1});
  at = residual_stages(graph, at, ResidualBlock::basic, {2, 2, 2, 2}).back();
  at = graph.flatten(graph.adaptive_average_pool(at, 1, 1));
  graph.softmax_cross_entropy(graph.linear("fc", at, classes));
  return graph.finish();
}

}  // namespace ddprun::trainer
