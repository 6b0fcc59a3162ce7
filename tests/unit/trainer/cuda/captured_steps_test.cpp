// Steps captured in graphs, beside the same steps without.
#include "tests/unit/trainer/cuda/captured_steps.hpp"

#include <catch2/catch.hpp>
#include <functional>
#include <memory>

#include "tests/support/repeats.hpp"
#include "tests/unit/trainer/host/delegating_device.hpp"
#include "trainer/comm/make_communicator.hpp"
#include "trainer/cuda/cuda_device.hpp"

namespace ddprun::trainer {
namespace {

using Catch::Contains;
using test::image_shards;
using test::Shards;
using test::StepsDone;
using test::StepsWanted;
using test::text_shards;

std::unique_ptr<Communicator> alone(const Graph& graph, Device& device, int shards) {
  return make_communicator({.shards = shards,
                            .order = SumOrder::chain,
                            .arena_floats = graph.arena_size(),
                            .device = &device},
                           nullptr, Clock::now())
      .communicator;
}

StepsDone run(const Shards& data, const StepsWanted& wanted, std::uint64_t seed = 1) {
  test::EmulatedGpu gpu({.seed = seed});
  const auto device = cuda::make_cuda_device(gpu);
  const auto communicator = alone(data.graph, *device, wanted.shards);
  return run_steps(gpu, *device, *communicator, data, wanted);
}

void check_same(const Shards& data, StepsWanted wanted, std::uint64_t seeds) {
  wanted.captures = false;
  const StepsDone without = run(data, wanted);
  REQUIRE(without.graphs == 0);
  wanted.captures = true;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    INFO("seed " << seed);
    const StepsDone with = run(data, wanted, seed);
    CHECK(with.failure.empty());
    CHECK(with.graphs > 2);
    CHECK(with == without);
  }
}

/// More of them, so that most are replayed.
Shards longer(Shards shards, int steps = 5) {
  shards.steps = steps;
  return shards;
}

TEST_CASE("captured steps have the bits of others, whatever the GPU does first") {
  const auto schedules =
      static_cast<std::uint64_t>(ddprun::test::repeats("DDPRUN_TEST_SCHEDULES", 1));
  check_same(longer(image_shards(ModelName::lenet, {28, 28, 1})), {.shards = 3}, schedules);
  check_same(longer(text_shards()), {.shards = 3}, schedules);
  check_same(longer(image_shards(ModelName::resnet18, {8, 8, 3}), 3), {.shards = 1}, 1);
  check_same(longer(image_shards(ModelName::unet16, {32, 32, 3}), 3), {.shards = 1}, 1);
}

TEST_CASE("captured steps in half precision skip one with an inf, and have the bits of others") {
  for (const Precision precision : {Precision::bf16, Precision::fp16}) {
    const StepsWanted wanted{.precision = precision,
                             .overflow_at = precision == Precision::fp16 ? 3 : -1};
    check_same(longer(image_shards(ModelName::lenet, {28, 28, 1}), 6), wanted, 1);
    check_same(longer(text_shards(), 6), wanted, 1);
  }
  const StepsDone done =
      run(longer(text_shards(), 6), {.precision = Precision::fp16, .overflow_at = 3});
  CHECK(done.skipped == 1);
}

TEST_CASE("texts of several widths have graphs for every width, and the bits of others") {
  const StepsWanted wanted{.shards = 1, .widths = 3};
  check_same(longer(text_shards(), 15), wanted, 1);
  const auto graphs = [&](int steps) { return run(longer(text_shards(), steps), wanted).graphs; };
  const std::size_t of_one = graphs(3) - 1;  // beside that of the update
  CHECK(of_one <= test::kBucketsMost);
  // A wider text needs more memory: graphs with the old addresses are gone.
  CHECK(graphs(6) == of_one + 1);
  CHECK(graphs(9) == of_one + 1);
  CHECK(graphs(12) == 2 * of_one + 1);
  CHECK(graphs(15) == 3 * of_one + 1);
  CHECK(graphs(24) == 3 * of_one + 1);
}

TEST_CASE("the host asks for a captured step with few calls, and one more for each bucket") {
  const Shards data = longer(image_shards(ModelName::resnet18, {8, 8, 3}), 4);
  const StepsWanted wanted{.shards = 1};
  const StepsDone with = run(data, wanted);
  CHECK(with.calls_first > 200);
  // Learning rate, inputs, their places, images; then the graphs.
  CHECK(with.calls_last <= 4 + test::kBucketsMost + 1);
}

/// Shards of 67 kinds, each computed three times.
struct ManyKinds {
  std::uint64_t hash = 0;  ///< of all gradients
  std::size_t graphs = 0;
  std::size_t nodes = 0;  ///< in them
  bool is_limited = false;
};
ManyKinds many_kinds(bool captures, std::size_t nodes_most = Capture::kNodesMost,
                     std::size_t kinds = GraphExecutor::kRepeatedMax + 3) {
  const Shards data = image_shards(ModelName::lenet, {28, 28, 1});
  test::EmulatedGpu gpu;
  const auto device = cuda::make_cuda_device(gpu);
  Capture capture(*device, captures, nodes_most);
  GraphExecutor executor(data.graph, *device, {.batch = test::kTrained, .capture = &capture});
  const std::size_t bytes = data.graph.arena_size() * sizeof(float);
  const DeviceMemory weights = device->allocate(bytes);
  const DeviceMemory gradients = device->allocate(bytes);
  const DeviceMemory counters = device->allocate(sizeof(Counters));
  const DeviceMemory state = device->allocate(sizeof(StepState));
  std::vector<float> host(data.graph.arena_size());
  initialize(data.graph.parameters(), host, 3);
  device->copy_in(std::as_bytes(std::span(host)), weights.data());
  ManyKinds done;
  for (std::uint64_t seed = 0; seed < kinds; ++seed) {
    for (int time = 0; time < 3; ++time)
      executor.compute(
          data.batch(0), {weights.as<float>().data(), weights.data()},
          {.seed = seed, .state = state.as<StepState>().data()}, counters.as<Counters>().front(),
          [&] { return GradientArena{gradients.as<float>()}; }, [](std::size_t) {});
    done.hash = done.hash * 31 + device->hash(gradients.as<float>());
  }
  done.graphs = gpu.graphs();
  done.nodes = gpu.graph_nodes();
  done.is_limited = capture.take_limit();
  CHECK_FALSE(capture.take_limit());  // it is told once
  return done;
}

TEST_CASE("shards of too many kinds are computed without graphs, and have the same bits") {
  const ManyKinds without = many_kinds(false);
  CHECK(without.graphs == 0);
  CHECK_FALSE(without.is_limited);
  const ManyKinds with = many_kinds(true);
  CHECK(with.is_limited);
  CHECK_FALSE(many_kinds(true, Capture::kNodesMost, GraphExecutor::kRepeatedMax).is_limited);
  CHECK(with.graphs == GraphExecutor::kRepeatedMax);
  CHECK(with.hash == without.hash);
  // As many kinds as reach the most nodes.
  const std::size_t nodes = with.nodes / with.graphs;
  CHECK(nodes > 20);
  CHECK(many_kinds(true, 2 * nodes).graphs == 2);
  const ManyKinds three = many_kinds(true, 2 * nodes + 1);
  CHECK(three.graphs == 3);
  CHECK(three.is_limited);
  CHECK(three.hash == without.hash);
}

/// A set of 19 samples, evaluated twice, four at a time.
struct Evaluated {
  Counters counters;
  std::size_t graphs = 0;
  std::uint64_t calls_last = 0;  ///< of the host, for the last four samples
};
Evaluated evaluate(const Shards& data, bool captures, std::uint64_t seed = 1) {
  test::EmulatedGpu gpu({.seed = seed});
  const auto device = cuda::make_cuda_device(gpu);
  Capture capture(*device, captures);
  GraphExecutor executor(data.graph, *device, {.batch = test::kTrained, .capture = &capture});
  const DeviceMemory weights = device->allocate(data.graph.arena_size() * sizeof(float));
  const DeviceMemory counters = device->allocate(sizeof(Counters));
  const Counters none;
  device->copy_in(std::as_bytes(std::span(&none, 1)), counters.data());
  std::vector<float> host(data.graph.arena_size());
  initialize(data.graph.parameters(), host, 3);
  device->copy_in(std::as_bytes(std::span(host)), weights.data());
  Evaluated done;
  for (int time = 0; time < 2; ++time) {
    for (int turn = 0; turn < 5; ++turn) {
      const std::uint64_t before = gpu.calls();
      // batch(steps - 1) has a sample less, as the last one of a set.
      executor.evaluate(data.batch(turn < 4 ? 0 : data.steps - 1),
                        {weights.as<float>().data(), weights.data()}, turn,
                        counters.as<Counters>().front());
      if (turn == 3) done.calls_last = gpu.calls() - before;
    }
  }
  device->copy_out(counters.data(), std::as_writable_bytes(std::span(&done.counters, 1)));
  CHECK(capture.take_failure().empty());
  done.graphs = gpu.graphs();
  return done;
}

TEST_CASE("captured evaluations have the bits of others, with one graph for each size of batch") {
  for (const Shards& data :
       {image_shards(ModelName::lenet, {28, 28, 1}), image_shards(ModelName::resnet18, {8, 8, 3}),
        image_shards(ModelName::unet16, {32, 32, 3}), text_shards()}) {
    const Evaluated without = evaluate(data, false);
    CHECK(without.graphs == 0);
    CHECK(without.counters.count == 38);
    for (const std::uint64_t seed : {1U, 2U, 3U}) {
      const Evaluated with = evaluate(data, true, seed);
      CHECK(with.counters == without.counters);
      CHECK(with.graphs == 2);
      // A copy of the samples, their places, images, masks; and the graph.
      CHECK(with.calls_last <= 5);
    }
  }
}

// ---- what a captured step must not do ----

/// Its first dense layer does something else, too, whenever it computes.
class PlantedDevice final : public test::DelegatingDevice {
 public:
  PlantedDevice(Device& device, std::function<void()> plant)
      : DelegatingDevice(device), plant_(std::move(plant)) {}

  std::unique_ptr<Operation> make_operation(const Layer& layer,
                                            const OperationShape& shape) override {
    auto made = DelegatingDevice::make_operation(layer, shape);
    if (!std::holds_alternative<layer::Linear>(layer.kind)) return made;
    return std::make_unique<Planted>(std::move(made), plant_);
  }

 private:
  class Planted final : public Operation {
   public:
    Planted(std::unique_ptr<Operation> inner, std::function<void()> plant)
        : inner_(std::move(inner)), plant_(std::move(plant)) {}
    [[nodiscard]] OperationMemory memory() const override { return inner_->memory(); }
    void forward(const Tensors& tensors, const Pass& pass) override {
      inner_->forward(tensors, pass);
    }
    void backward(const Tensors& tensors, const Pass& pass) override {
      plant_();
      inner_->backward(tensors, pass);
    }

   private:
    std::unique_ptr<Operation> inner_;
    std::function<void()> plant_;
  };

  std::function<void()> plant_;
};

TEST_CASE(
    "a host read, an allocation or a wait in a captured step is found, and the step is right") {
  const Shards data = longer(image_shards(ModelName::lenet, {28, 28, 1}));
  const StepsDone without = run(data, {.captures = false});
  struct Place {
    test::EmulatedGpu& gpu;
    Device& device;
    void* memory;  ///< of the device, one float
  };
  const auto with = [&](const std::function<void(const Place&)>& plant) {
    test::EmulatedGpu gpu;
    const auto device = cuda::make_cuda_device(gpu);
    const DeviceMemory memory = device->allocate(sizeof(float));
    PlantedDevice planted(*device, [&] { plant({gpu, *device, memory.data()}); });
    const auto communicator = alone(data.graph, *device, 2);
    const StepsDone done = run_steps(gpu, planted, *communicator, data, {});
    CHECK(done == without);
    CHECK_THAT(done.failure, Contains("layer ") && Contains(", backward: "));
    return done.failure;
  };
  float value = 0;
  const auto bytes = std::as_writable_bytes(std::span(&value, 1));
  CHECK_THAT(with([&](const Place& at) { at.device.copy_out(at.memory, bytes); }),
             Contains("a copy to the host's memory was asked for"));
  CHECK_THAT(with([&](const Place& at) { at.device.copy_in(bytes, at.memory); }),
             Contains("a copy from the host's memory was asked for"));
  CHECK_THAT(with([](const Place& at) { (void)at.device.allocate(4); }),
             Contains("memory was asked for"));
  CHECK_THAT(with([](const Place& at) { at.gpu.synchronize(cuda::Stream::compute); }),
             Contains("synchronize") && Contains("captured"));
}

TEST_CASE("where a later capture fails, the graphs of the earlier ones are freed") {
  const Shards data = longer(image_shards(ModelName::lenet, {28, 28, 1}));
  test::EmulatedGpu gpu;
  const auto device = cuda::make_cuda_device(gpu);
  std::size_t graphs_before = 0;
  int computed = 0;
  PlantedDevice planted(*device, [&] {
    // Three dense layers in two shards of the first step, then in the first shard of the second.
    if (++computed != 10) return;
    graphs_before = gpu.graphs();
    (void)device->allocate(4);
  });
  const auto communicator = alone(data.graph, *device, 2);
  const StepsDone done = run_steps(gpu, planted, *communicator, data, {});
  CHECK_THAT(done.failure, Contains("memory was asked for"));
  CHECK(graphs_before > 0);
  CHECK(done.graphs == 0);
  CHECK(done == run(data, {.captures = false}));
}

TEST_CASE("a GPU that cannot capture trains without graphs, and tells why once") {
  const Shards data = longer(image_shards(ModelName::lenet, {28, 28, 1}));
  test::EmulatedGpu gpu({.captures = false});
  const auto device = cuda::make_cuda_device(gpu);
  const auto communicator = alone(data.graph, *device, 2);
  const StepsDone done = run_steps(gpu, *device, *communicator, data, {});
  CHECK_THAT(done.failure, Contains("begin_capture failed"));
  CHECK(done == run(data, {.captures = false}));
}

}  // namespace
}  // namespace ddprun::trainer
