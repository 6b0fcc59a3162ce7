// ResNet-18 in torchvision's names.
#include "trainer/model/model_tables.hpp"
#include "trainer/model/resnet_blocks.hpp"

namespace ddprun::trainer {

Graph resnet18(ImageShape image, int classes, Stem stem) {
  Graph graph(image);
  const bool is_small = stem == Stem::small;
  int at = graph.convolution("conv1", 0, 64,
                             is_small ? residual_convolution(3, 1) : residual_convolution(7, 2));
  at = graph.batch_norm("bn1", at, true);
  if (!is_small) at = graph.max_pool(at, {.size = 3, .stride = 2, .padding = 1});
  at = residual_stages(graph, at, ResidualBlock::basic, {2, 2, 2, 2}).back();
  at = graph.flatten(graph.adaptive_average_pool(at, 1, 1));
  graph.softmax_cross_entropy(graph.linear("fc", at, classes));
  graph.finish();
  return graph;
}

}  // namespace ddprun::trainer
