#include "trainer/model/model.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "tests/unit/trainer/host/host_executor.hpp"
#include "tests/unit/trainer/host/samples.hpp"
#include "trainer/compute/initialize.hpp"
#include "trainer/error.hpp"
#include "trainer/model/layout.hpp"
#include "trainer/optim/learner.hpp"

namespace ddprun::trainer {
namespace {

TEST_CASE("lenet has the parameters of the PyTorch module that its source describes") {
  const Graph graph = make_graph({ModelName::lenet, {28, 28, 1}, 10});
  std::map<std::string, std::vector<std::int64_t>> shapes;
  std::size_t count = 0;
  for (const Parameter& parameter : graph.parameters()) {
    shapes[parameter.name] = parameter.shape;
    count += parameter.count;
    REQUIRE(parameter.decay == parameter.name.ends_with(".weight"));
  }
  const std::map<std::string, std::vector<std::int64_t>> want{
      {"conv1.weight", {16, 1, 5, 5}},  {"conv1.bias", {16}},
      {"conv2.weight", {32, 16, 5, 5}}, {"conv2.bias", {32}},
      {"fc1.weight", {120, 1568}},      {"fc1.bias", {120}},
      {"fc2.weight", {84, 120}},        {"fc2.bias", {84}},
      {"fc3.weight", {10, 84}},         {"fc3.bias", {10}}};
  REQUIRE(shapes == want);
  REQUIRE(count == 212542);
}

TEST_CASE("no classes and tiny images are refused with the remedy") {
  REQUIRE_THROWS_AS(make_graph({ModelName::lenet, {28, 28, 1}, 1}), DataError);
  REQUIRE_THROWS_AS(make_graph({ModelName::lenet, {1, 28, 1}, 10}), DataError);
  REQUIRE_NOTHROW(make_graph({ModelName::lenet, {4, 4, 1}, 2}));
}

TEST_CASE("initialisation is PyTorch's distribution, and a pure function of the seed") {
  const Graph graph = make_graph({ModelName::lenet, {32, 32, 3}, 10});
  std::vector<float> arena(graph.arena_size());
  initialize(graph.parameters(), arena, 1);
  std::vector<float> again(arena.size(), 9.0F);
  initialize(graph.parameters(), again, 1);
  REQUIRE(again == arena);
  initialize(graph.parameters(), again, 2);
  REQUIRE(again != arena);
  const std::map<std::string, int> fan_in{
      {"conv1", 75}, {"conv2", 400}, {"fc1", 2048}, {"fc2", 120}, {"fc3", 84}};
  for (const Parameter& parameter : graph.parameters()) {
    INFO(parameter.name);
    const double bound =
        1 / std::sqrt(fan_in.at(parameter.name.substr(0, parameter.name.find('.'))));
    double sum = 0;
    double squares = 0;
    double largest = 0;
    for (std::size_t i = 0; i < parameter.count; ++i) {
      const auto value = static_cast<double>(arena[parameter.offset + i]);
      sum += value;
      squares += value * value;
      largest = std::max(largest, std::abs(value));
    }
    const auto count = static_cast<double>(parameter.count);
    REQUIRE(largest <= bound);
    if (parameter.count < 1000) continue;
    // A uniform distribution's deviation is bound / sqrt(3); five standard errors of mean and
    // variance.
    REQUIRE(std::abs(sum / count) < 5 * bound / std::sqrt(3 * count));
    REQUIRE(squares / count == Approx(bound * bound / 3).epsilon(5 * 0.9 / std::sqrt(count)));
    REQUIRE(largest > 0.99 * bound);
  }
}

TEST_CASE("a parameter's initial values do not depend on the arena's layout") {
  // conv2.weight's first PyTorch element is the first of Philox for that name, wherever it lies.
  const Graph grey = make_graph({ModelName::lenet, {28, 28, 1}, 10});
  const Graph large = make_graph({ModelName::lenet, {64, 64, 1}, 3});
  const auto exported = [](const Graph& graph) {
    std::vector<float> arena(graph.arena_size());
    initialize(graph.parameters(), arena, 7);
    const auto& table = graph.parameters();
    const auto parameter = std::find_if(
        table.begin(), table.end(), [](const Parameter& p) { return p.name == "conv2.weight"; });
    std::vector<float> values(parameter->count);
    export_parameter(*parameter, arena, values);
    return values;
  };
  REQUIRE(exported(grey) == exported(large));
}

struct Recorded {
  std::string name;
  double norm;
  double ordered;  // sum of gradient[i] * ((5 i) mod 11 - 5), i in PyTorch's order
};

TEST_CASE("lenet's loss and gradients are PyTorch's") {
  // Recorded from PyTorch 2.15 in double precision: our initial parameters of seed 42 exported and
  // loaded with load_state_dict, eight images of `noise` with seed 5, mean cross-entropy.
  struct Case {
    ImageShape shape;
    double loss_sum;
    std::vector<Recorded> gradients;
  };
  const std::vector<Case> cases{{{28, 28, 1},
                                 18.499106220309347,
                                 {{"fc3.weight", 0.0869565451, 0.0812224278},
                                  {"fc3.bias", 0.163690532, -0.127135211},
                                  {"fc2.weight", 0.088335076, -0.0427700574},
                                  {"fc2.bias", 0.080251864, 0.146236321},
                                  {"fc1.weight", 0.323259361, -0.463293763},
                                  {"fc1.bias", 0.0373688112, -0.0575153792},
                                  {"conv2.weight", 0.188903676, 0.0246166751},
                                  {"conv2.bias", 0.0253454379, -0.0280993894},
                                  {"conv1.weight", 0.0391581497, -0.0157013323},
                                  {"conv1.bias", 0.0102944311, -0.0463708511}}},
                                {{32, 32, 3},
                                 18.59194734813949,
                                 {{"fc3.weight", 0.0711143277, -0.181261622},
                                  {"fc3.bias", 0.170136293, -0.149918142},
                                  {"fc2.weight", 0.0814047287, 0.0955488079},
                                  {"fc2.bias", 0.097686886, -0.0349517924},
                                  {"fc1.weight", 0.403761081, -0.229190491},
                                  {"fc1.bias", 0.0404017385, -0.00458562489},
                                  {"conv2.weight", 0.197103689, 0.111188003},
                                  {"conv2.bias", 0.0262195401, 0.0461612872},
                                  {"conv1.weight", 0.0730260709, 0.242529418},
                                  {"conv1.bias", 0.014155185, -0.0158493045}}}};
  for (const Case& c : cases) {
    const Graph graph = make_graph({ModelName::lenet, c.shape, 10});
    std::vector<float> parameters(graph.arena_size());
    std::vector<float> gradients(graph.arena_size());
    initialize(graph.parameters(), parameters, 42);
    const test::Samples samples = test::noise(8, c.shape, 10, 5);
    const Counters counters =
        test::HostExecutor(graph, 8).train(samples.batch(), parameters, 1, 1, gradients);
    REQUIRE(test::loss_of(counters) == Approx(c.loss_sum).epsilon(1e-6));
    REQUIRE(counters.correct == 1);
    REQUIRE(counters.count == 8);
    for (std::size_t p = 0; p < c.gradients.size(); ++p) {
      const Parameter& parameter = graph.parameters()[p];
      const Recorded& want = c.gradients[p];
      REQUIRE(parameter.name == want.name);
      std::vector<float> values(parameter.count);
      export_parameter(parameter, gradients, values);
      double squares = 0;
      double ordered = 0;
      for (std::size_t i = 0; i < values.size(); ++i) {
        const auto value = static_cast<double>(values[i]);
        squares += value * value;
        ordered += value * (static_cast<double>((i * 5) % 11) - 5);
      }
      INFO(want.name);
      REQUIRE(std::sqrt(squares) == Approx(want.norm).epsilon(2e-6));
      REQUIRE(ordered == Approx(want.ordered).margin(2e-5 * want.norm * std::sqrt(values.size())));
    }
  }
}

TEST_CASE("lenet learns an easy set in every precision, with SGD and with AdamW") {
  const ImageShape shape{16, 16, 1};
  const Graph graph = make_graph({ModelName::lenet, shape, 10});
  const test::Samples train = test::squares(640, shape, 10, 1);
  const test::Samples held_out = test::squares(160, shape, 10, 2);
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    for (const OptimizerKind kind : {OptimizerKind::sgd, OptimizerKind::adamw}) {
      GraphExecutor executor(graph, test::host(), {.batch = 32, .precision = precision});
      Learner learner(graph, test::host(),
                      {.optimizer = {.kind = kind},
                       .scaler = {.enabled = precision == Precision::fp16},
                       .precision = precision});
      learner.set_learning_rate(kind == OptimizerKind::sgd ? 0.05F : 0.003F);
      std::vector<float> parameters(graph.arena_size());
      std::vector<float> gradients(graph.arena_size());
      initialize(graph.parameters(), parameters, 1);
      learner.copy_in(0, parameters);
      double first = 0;
      double last = 0;
      for (int epoch = 0; epoch < 8; ++epoch) {
        Counters counters;
        for (std::size_t at = 0; at < 640; at += 32) {
          const Batch batch{std::span(train.images).subspan(at * 256, 32 * 256),
                            std::span(train.labels).subspan(at, 32)};
          executor.train(batch, learner.weights(), {.state = learner.state()});
          executor.loss(counters);
          executor.backward({.floats = gradients}, [](std::size_t) {});
          learner.begin_update(gradients);
          learner.update(0, gradients.size(), gradients);
          learner.finish_update();
        }
        last = test::loss_of(counters);
        if (epoch == 0) first = last;
      }
      Counters result;
      for (std::size_t at = 0; at < 160; at += 32) {
        const Batch batch{std::span(held_out.images).subspan(at * 256, 32 * 256),
                          std::span(held_out.labels).subspan(at, 32)};
        executor.evaluate(batch, learner.weights());
        executor.loss(result);
      }
      INFO("precision " << static_cast<int>(precision) << ", optimizer " << static_cast<int>(kind));
      REQUIRE(last < 0.2 * first);
      REQUIRE(result.correct >= 152);  // 95 %
    }
  }
}

TEST_CASE("the description names library, version and instruction set") {
  const std::string text = test::host().description(Precision::fp32);
  REQUIRE(text.starts_with("oneDNN "));
  REQUIRE(text.find_last_of(' ') > 8);
}

}  // namespace
}  // namespace ddprun::trainer
