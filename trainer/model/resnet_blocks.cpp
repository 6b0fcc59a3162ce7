#include "trainer/model/resnet_blocks.hpp"

#include <string>

namespace ddprun::trainer {
namespace {

constexpr int kExpansion = 4;  // of a bottleneck's channels

/// One residual block; `channels` is what it begins with.
class BlockBuilder {
 public:
  BlockBuilder(Graph& graph, std::string name) : graph_(graph), name_(std::move(name)) {}

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

  Graph& graph_;
  std::string name_;
};

}  // namespace

layer::Convolution residual_convolution(int size, int stride) {
  return {.window = {.size = size, .stride = stride, .padding = size / 2},
          .has_bias = false,
          .he_initial = true};
}

std::array<int, 4> residual_stages(Graph& graph, int from, ResidualBlock kind,
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

}  // namespace ddprun::trainer
