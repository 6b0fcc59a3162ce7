#include "trainer/model/model_tables.hpp"

namespace ddprun::trainer {

/// The quick one: LeNet-5's five layers with wider convolutions (multiples of 16 channels suit
/// vector units), padding that keeps the size, max-pooling and ReLU: 212,542 parameters for 28x28x1
/// and 10 classes. ReLU follows the pooling, which gives the same values and gradients as before
/// it, at a quarter of the work. In PyTorch:
///   x = relu(max_pool2d(conv1(x), 2)); x = relu(max_pool2d(conv2(x), 2)); x = x.flatten(1)
///   x = relu(fc1(x)); x = relu(fc2(x)); x = fc3(x)
Graph lenet(ImageShape image, int classes) {
  const Window keep{.size = 5, .stride = 1, .padding = 2};
  const Window halve{.size = 2, .stride = 2, .padding = 0};
  GraphBuilder graph(image);
  int at = 0;
  at = graph.relu(graph.max_pool(graph.convolution("conv1", at, 16, keep), halve));
  at = graph.relu(graph.max_pool(graph.convolution("conv2", at, 32, keep), halve));
  at = graph.flatten(at);
  at = graph.relu(graph.linear("fc1", at, 120));
  at = graph.relu(graph.linear("fc2", at, 84));
  graph.softmax_cross_entropy(graph.linear("fc3", at, classes));
  return graph.finish();
}

}  // namespace ddprun::trainer
