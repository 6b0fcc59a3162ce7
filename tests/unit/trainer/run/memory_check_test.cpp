// What a run is going to take, from its options and data.
#include "trainer/run/memory_check.hpp"

#include <catch2/catch.hpp>

#include "tests/unit/trainer/data/placed_set.hpp"
#include "tests/unit/trainer/host/delegating_device.hpp"
#include "tests/unit/trainer/host/host_executor.hpp"
#include "tests/unit/trainer/host/samples.hpp"
#include "trainer/data/shapes.hpp"
#include "trainer/model/model.hpp"

namespace ddprun::trainer {
namespace {

constexpr ImageShape kShape{8, 8, 1};
constexpr std::size_t kMore = std::size_t{1} << 20;

/// As a library may choose: some number of samples takes a workspace that no other does.
class UnevenDevice final : public test::DelegatingDevice {
 public:
  UnevenDevice(int batch, std::size_t workspace)
      : DelegatingDevice(test::host()), batch_(batch), workspace_(workspace) {}
  std::unique_ptr<Operation> make_operation(const Layer& layer,
                                            const OperationShape& shape) override {
    auto operation = DelegatingDevice::make_operation(layer, shape);
    if (shape.batch != batch_) return operation;
    return std::make_unique<Wanting>(std::move(operation), workspace_);
  }

 private:
  class Wanting final : public Operation {
   public:
    Wanting(std::unique_ptr<Operation> inner, std::size_t workspace)
        : inner_(std::move(inner)), workspace_(workspace) {}
    [[nodiscard]] OperationMemory memory() const override {
      return {inner_->memory().saved, workspace_};
    }
    void forward(const Tensors& tensors, const Pass& pass) override {
      inner_->forward(tensors, pass);
    }
    void backward(const Tensors& tensors, const Pass& pass) override {
      inner_->backward(tensors, pass);
    }

   private:
    std::unique_ptr<Operation> inner_;
    std::size_t workspace_;
  };

  int batch_;
  std::size_t workspace_;
};

/// Bytes that an executor holds after shards of these numbers of samples and an evaluation.
std::uint64_t bytes_held(const Graph& graph, Device& device, int batch,
                         const std::vector<int>& counts) {
  GraphExecutor executor(graph, device, {.batch = batch});
  std::vector<float> parameters(graph.arena_size());
  const Weights weights{parameters.data(), parameters.data()};
  StepState state;
  for (const int count : counts) {
    const test::Samples samples = test::noise(count, kShape, 10, 1);
    executor.train(samples.batch(), weights, {.state = &state});
  }
  const test::Samples samples = test::noise(1, kShape, 10, 1);
  executor.evaluate(samples.batch(), weights);
  return executor.bytes();
}

TEST_CASE("the plan of a lane has room for the smaller shards at the end of an epoch") {
  Options options;
  options.batch = 8;
  options.lanes = 1;
  WorkerEnvironment environment;
  TrainAndTest sets;
  for (auto* set : {&sets.train, &sets.test})
    *set = std::make_unique<ByteImageSet>("shapes", make_shapes(1, 0, 21, kShape),
                                          shapes_normalization(1));
  const Graph graph = make_graph({.model = ModelName::lenet, .shape = kShape, .classes = 10});
  const TrainPlan plan =
      make_plan(options, environment, facts_of(*sets.train, *sets.test), std::nullopt);
  Report report({.quiet = true, .place = {}, .metrics = {}});
  const auto planned = [&](std::unique_ptr<Device> device) {
    ChosenDevice chosen;
    chosen.device = std::move(device);
    MemoryCheck check({.options = options,
                       .environment = environment,
                       .graph = graph,
                       .sets = sets,
                       .chosen = chosen,
                       .there = {}});
    return check.before_training(plan, false, report).lane;
  };
  // 21 samples are two shards of 8 and one of 5.
  const std::uint64_t even = planned(make_host_device());
  const std::uint64_t even_held = bytes_held(graph, test::host(), 8, {8, 8, 5});
  for (const int batch : {5, 8}) {
    UnevenDevice uneven(batch, kMore);
    const std::uint64_t held = bytes_held(graph, uneven, 8, {8, 8, 5});
    CHECK(held > even_held);
    CHECK(planned(std::make_unique<UnevenDevice>(batch, kMore)) - even == held - even_held);
  }
  CHECK(planned(std::make_unique<UnevenDevice>(3, kMore)) == even);
}

TEST_CASE("images that are decoded ahead are planned beside those in memory") {
  Options options;
  options.batch = 8;
  options.shards = 3;
  WorkerEnvironment environment;
  const Graph graph = make_graph({.model = ModelName::lenet, .shape = kShape, .classes = 10});
  Report report({.quiet = true, .place = {}, .metrics = {}});
  const auto planned = [&](bool train_in_memory, bool test_in_memory) {
    TrainAndTest sets;
    sets.train = std::make_unique<PlacedSet>(make_shapes(1, 0, 50, kShape), train_in_memory);
    sets.test = std::make_unique<PlacedSet>(make_shapes(1, 50, 7, kShape), test_in_memory);
    ChosenDevice chosen;
    chosen.device = make_host_device();
    const TrainPlan plan =
        make_plan(options, environment, facts_of(*sets.train, *sets.test), std::nullopt);
    MemoryCheck check({.options = options,
                       .environment = environment,
                       .graph = graph,
                       .sets = sets,
                       .chosen = chosen,
                       .there = {}});
    return check.before_training(plan, false, report).data;
  };
  const std::uint64_t sets = 57 * (64 + sizeof(ImageLabel));
  // Two steps of samples, and what each thread takes to make one (PlacedSet).
  const std::uint64_t ahead = 2 * 3 * 8 * 64 + static_cast<std::uint64_t>(usable_cores()) * 1000;
  CHECK(planned(true, true) == sets);
  CHECK(planned(false, true) == sets + ahead);
  CHECK(planned(false, false) == sets + 2 * ahead);
}

}  // namespace
}  // namespace ddprun::trainer
