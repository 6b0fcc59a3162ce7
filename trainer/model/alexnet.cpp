// AlexNet in torchvision's names: A. Krizhevsky, "One weird trick for parallelizing convolutional
// neural networks", 2014.
#include "trainer/model/model_tables.hpp"

namespace ddprun::trainer {

Graph alexnet(ImageShape image, int classes, double dropout) {
  const Window pool{.size = 3, .stride = 2};
  const Window same{.size = 3, .stride = 1, .padding = 1};
  GraphBuilder graph(image);
  int at = 0;
  const auto convolution = [&](const char* name, int channels, const Window& window) {
    at = graph.relu(graph.convolution(name, at, channels, window));
  };
  convolution("features.0", 64, {.size = 11, .stride = 4, .padding = 2});
  at = graph.max_pool(at, pool);
  convolution("features.3", 192, {.size = 5, .stride = 1, .padding = 2});
  at = graph.max_pool(at, pool);
  convolution("features.6", 384, same);
  convolution("features.8", 256, same);
  convolution("features.10", 256, same);
  at = graph.max_pool(at, pool);
  at = graph.flatten(graph.adaptive_average_pool(at, 6, 6));
  at = graph.relu(graph.linear("classifier.1", graph.dropout(at, dropout), 4096));
  at = graph.relu(graph.linear("classifier.4", graph.dropout(at, dropout), 4096));
  graph.softmax_cross_entropy(graph.linear("classifier.6", at, classes));
  return graph.finish();
}

}  // namespace ddprun::trainer
