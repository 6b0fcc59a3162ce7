// The bundled models, each a table of layers.
#include <string>
#include <utility>

#include "trainer/compute/initialize.hpp"
#include "trainer/error.hpp"
#include "trainer/host/cpu_executor.hpp"
#include "trainer/model/graph.hpp"
#include "trainer/model/model.hpp"

namespace ddprun::trainer {
namespace {

/// The quick one: LeNet-5's five layers with wider convolutions (multiples of 16 channels suit
/// vector units), padding that keeps the size, max-pooling and ReLU: 212,542 parameters for 28x28x1
/// and 10 classes. ReLU follows the pooling, which gives the same values and gradients as before
/// it, at a quarter of the work. In PyTorch:
///   x = relu(max_pool2d(conv1(x), 2)); x = relu(max_pool2d(conv2(x), 2)); x = x.flatten(1)
///   x = relu(fc1(x)); x = relu(fc2(x)); x = fc3(x)
Graph lenet(ImageShape image, int classes) {
  const Window keep{.size = 5, .stride = 1, .padding = 2};
  const Window halve{.size = 2, .stride = 2, .padding = 0};
  Graph graph(image);
  int at = 0;
  at = graph.relu(graph.max_pool(graph.convolution("conv1", at, 16, keep), halve));
  at = graph.relu(graph.max_pool(graph.convolution("conv2", at, 32, keep), halve));
  at = graph.flatten(at);
  at = graph.relu(graph.linear("fc1", at, 120));
  at = graph.relu(graph.linear("fc2", at, 84));
  graph.linear("fc3", at, classes);
  graph.finish();
  return graph;
}

class TableModel final : public Model {
 public:
  TableModel(std::string name, Graph graph) : name_(std::move(name)), graph_(std::move(graph)) {}

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] const std::vector<Parameter>& parameters() const override {
    return graph_.parameters();
  }
  [[nodiscard]] std::size_t arena_size() const override { return graph_.arena_size(); }
  void initialize(std::span<float> parameters, std::uint64_t seed) const override {
    initialize_as_pytorch(graph_.parameters(), parameters, seed);
  }
  [[nodiscard]] std::unique_ptr<Executor> make_executor(int batch_size, Precision precision,
                                                        int threads) const override {
    return make_cpu_executor(graph_, batch_size, precision, threads);
  }

 private:
  std::string name_;
  Graph graph_;
};

}  // namespace

std::unique_ptr<Model> make_model(const std::string& name, ImageShape shape, int classes) {
  if (classes < 2) throw DataError("a classifier needs at least two classes");
  if (name == "lenet") return std::make_unique<TableModel>(name, lenet(shape, classes));
  throw DataError("--model=" + name + ": there is no such model; known: lenet");
}

}  // namespace ddprun::trainer
