// What a run will need is known before it is allocated, and compared with what there is.
#include "trainer/run/plan/run_memory.hpp"

#include <catch2/catch.hpp>
#include <fstream>

#include "tests/support/temp_dir.hpp"
#include "tests/unit/trainer/data/placed_set.hpp"
#include "tests/unit/trainer/host/delegating_device.hpp"
#include "tests/unit/trainer/host/host_executor.hpp"
#include "tests/unit/trainer/host/samples.hpp"
#include "trainer/data/shapes.hpp"
#include "trainer/error.hpp"
#include "trainer/host/host_device.hpp"
#include "trainer/model/model.hpp"

namespace ddprun::trainer {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;

MemoryQuestion question(int batch) {
  return {.executor = {.batch = batch}, .optimizer = {}, .train_batches = {batch}, .run = {0, 1}};
}

TEST_CASE(
    "the plan of a lane is what its executor comes to hold, and nothing is allocated for it") {
  const ImageShape shape{28, 28, 1};
  const Graph graph = make_graph({.model = ModelName::lenet, .shape = shape, .classes = 10});
  MemoryQuestion asked = question(8);
  // Their size in the set, before a crop.
  asked.stored = {.height = 30, .width = 31, .channels = 1};
  const RunMemory need = planned_memory(graph, test::host(), asked);
  test::HostExecutor executor(graph, 8);
  std::vector<float> parameters(graph.arena_size());
  std::vector<float> gradients(graph.arena_size());
  const test::Samples samples = test::noise(8, shape, 10, 1);
  executor.train(samples.batch(), parameters, 1, 1, gradients);
  executor.evaluate(samples.batch(), parameters);
  // Labels, the number of the shard, and samples with their windows on the host.
  const std::uint64_t beside = 9 * sizeof(std::int32_t) + 8 * (30 * 31 + 4 + sizeof(ImageWindow));
  CHECK(need.lane + need.samples == executor.bytes() + beside);

  GraphExecutor planned(graph, test::host(), {.batch = 8});
  planned.bytes_needed(8, 0);
  CHECK(planned.bytes() == 0);
}

TEST_CASE("arenas are counted: moments, partial sums of several shards, copies for checkpoints") {
  const Graph graph = make_graph({.model = ModelName::lenet, .shape = {8, 8, 1}, .classes = 2});
  const auto need = [&](const MemoryQuestion& asked) {
    return planned_memory(graph, test::host(), asked);
  };
  MemoryQuestion asked = question(1);
  CHECK(need(asked).arenas == 3);  // parameters, momentum, gradients
  CHECK(need(asked).copies == 1);  // the values at the start
  asked.optimizer.kind = OptimizerKind::adamw;
  asked.has_copies = true;
  CHECK(need(asked).arenas == 4);
  CHECK(need(asked).copies == 3);
  const RunMemory kept = need(asked);
  CHECK(kept.total() == 7 * kept.arena + kept.lane + kept.samples);
  asked = question(1);
  asked.shards = 8;
  asked.run = {0, 8};
  CHECK(need(asked).arenas == 6);  // one of the eight shards' sum, three partial sums below it
  asked.lanes = 2;
  CHECK(need(asked).arenas == 7);
  asked.lanes = 1;
  asked.order = SumOrder::chain;
  CHECK(need(asked).arenas == 3);  // all shards are added in one
}

TEST_CASE("weights that layers read in half precision are planned, in each replica") {
  const Graph graph = make_graph({.model = ModelName::lenet, .shape = {8, 8, 1}, .classes = 2});
  MemoryQuestion asked = question(1);
  const auto others = [&] { return planned_memory(graph, test::host(), asked).others; };
  CHECK(others() == 0);
  asked.executor.precision = Precision::fp16;
  const std::uint64_t once = others();
  CHECK(once == graph.arena_size() * bytes_of(test::host().storage(Precision::fp16)));
  asked.replicas = asked.lanes = 3;
  CHECK(others() > 3 * once);  // with gathered outputs
}

TEST_CASE("a need beyond the machine is refused with both numbers and one remedy") {
  const RunMemory need{
      .arena = 100'000'000, .arenas = 3, .copies = 1, .lane = 800'000'000, .lanes = 2, .batch = 4};
  CHECK(need.total() == 2'000'000'000);
  CHECK(why_too_large(need, 1, {.most = 2'000'000'000}).empty());
  CHECK(why_too_large(need, 1, MachineMemory{}).empty());  // unknown
  CHECK(why_too_large(need, 1, {.most = 1'500'000'000}) ==
        "this run needs 2.00 GB of memory, but this machine has 1.50 GB: use a smaller --batch");
  CHECK(why_too_large(need, 4, {.most = 7'000'000'000, .is_cgroup = true}) ==
        "the 4 workers here need 8.00 GB of memory, but the cgroup's limit is 7.00 GB: use a "
        "smaller --batch");
  const RunMemory large{.arena = 100'000'000, .arenas = 3, .copies = 2};
  CHECK_THAT(why_too_large(large, 1, {.most = 1}), Contains("use a smaller --model"));
  // The others have no copies for checkpoints.
  CHECK(why_too_large(large, 2, {.most = 900'000'000}).empty());
  CHECK_FALSE(why_too_large(large, 2, {.most = 899'999'999}).empty());
}

TEST_CASE("a remedy can be followed: no batch below 1, and on a GPU no data of the host") {
  RunMemory need{.arena = 1'000'000, .arenas = 3, .lane = 8'000'000, .batch = 2};
  CHECK_THAT(why_too_large(need, 1, {.most = 1}), EndsWith(": use a smaller --batch"));
  need.batch = 1;
  CHECK_THAT(why_too_large(need, 1, {.most = 1}), EndsWith(": use a smaller --model"));
  need.batch = 2;
  need.data = 20'000'000;
  const cuda::GpuFacts gpu{.name = "GPU", .uuid = {}, .memory = 1, .libraries = {}};
  CHECK_THAT(why_too_large(need, 1, {.most = 1}),
             EndsWith(": use fewer samples, or less memory for them (--image-shape, --max-tokens, "
                      "--data-memory)"));
  CHECK_THAT(why_too_large(need, 1, gpu), EndsWith(": use a smaller --batch"));
  // What the host holds beside a GPU: the data sets and copies for checkpoints.
  need.copies = 2;
  CHECK(need.beside_gpu().total() == 22'000'000);
}

TEST_CASE("data sets that never fit are refused before they are loaded") {
  CHECK(why_too_large({.data = 1'070'000'000}, 4, {.most = 4'000'000'000},
                      "memory for the data sets") ==
        "the 4 workers here need 4.28 GB of memory for the data sets, but this machine has 4.00 "
        "GB: use fewer samples, or less memory for them (--image-shape, --max-tokens, "
        "--data-memory)");
}

TEST_CASE("a limit of the address space counts for each worker") {
  const RunMemory need{.arena = 100'000'000, .arenas = 4};
  MachineMemory there{.most = 4'000'000'000};
  there.address_space = 400'000'000;
  CHECK(why_too_large(need, 4, there).empty());
  there.address_space = 399'999'999;
  CHECK(why_too_large(need, 4, there) ==
        "a worker needs 400 MB of memory, but the limit of a process's address space (ulimit -v) "
        "is 400 MB: raise it, or use a smaller --model");
}

TEST_CASE("a plan is compared with the GPU's memory, without what is the host's") {
  const RunMemory need{.arena = 1'000'000,
                       .arenas = 3,
                       .copies = 2,
                       .lane = 4'000'000,
                       .samples = 250'000,
                       .others = 500'000};
  CHECK(need.on_gpu().total() == 8'000'000);  // the two buffers in which samples arrive
  cuda::GpuFacts gpu{.name = "NVIDIA H200", .uuid = {}, .memory = 8'000'000, .libraries = {}};
  CHECK(why_too_large(need, 1, gpu).empty());
  CHECK(why_too_large(need, 2, gpu) ==
        "the 2 workers on this GPU need 16 MB of GPU memory, but NVIDIA H200 has 8 MB: use a "
        "smaller --model");
}

TEST_CASE("memory that is refused is reported with what is planned, as far as that is known") {
  const RunMemory need{.arena = 100'000'000, .arenas = 4, .lane = 1'000'000};
  CHECK(out_of_memory_text("out of memory in training", need) ==
        "out of memory in training; this worker needs 401 MB, and the program and its libraries "
        "some more: use a smaller --model");
  // While data sets are loaded nothing is planned yet.
  CHECK(out_of_memory_text("out of memory", {}, {.address_space = 500'000'000}) ==
        "out of memory, but the limit of a process's address space (ulimit -v) is 500 MB: raise "
        "it, or use fewer samples, or less memory for them (--image-shape, --max-tokens, "
        "--data-memory)");
}

/// Wants a larger workspace for passes over `batch` samples.
class UnevenDevice final : public test::DelegatingDevice {
 public:
  explicit UnevenDevice(int batch) : DelegatingDevice(test::host()), batch_(batch) {}
  std::unique_ptr<Operation> make_operation(const Layer& layer,
                                            const OperationShape& shape) override {
    ++made;
    auto operation = DelegatingDevice::make_operation(layer, shape);
    if (shape.batch != batch_) return operation;
    return std::make_unique<Wanting>(std::move(operation));
  }

  int made = 0;

 private:
  class Wanting final : public Operation {
   public:
    explicit Wanting(std::unique_ptr<Operation> inner) : inner_(std::move(inner)) {}
    [[nodiscard]] OperationMemory memory() const override {
      return {inner_->memory().saved, std::size_t{1} << 20};
    }
    void forward(const Tensors& tensors, const Pass& pass) override {
      inner_->forward(tensors, pass);
    }
    void backward(const Tensors& tensors, const Pass& pass) override {
      inner_->backward(tensors, pass);
    }

   private:
    std::unique_ptr<Operation> inner_;
  };

  int batch_;
};

TEST_CASE("the plan of a lane has room for the smaller shard at the end of an epoch") {
  constexpr ImageShape kShape{8, 8, 1};
  Options options;
  options.batches.batch = 8;
  options.device.lanes = 1;
  const WorkerEnvironment environment;
  const Graph graph = make_graph({.model = ModelName::lenet, .shape = kShape, .classes = 10});
  TrainAndTest sets;
  for (auto* set : {&sets.train, &sets.test})  // two shards of 8 and one of 5
    *set = std::make_unique<PlacedSet>(make_shapes(1, 0, 21, kShape), true);
  const TrainPlan plan =
      make_plan(options, environment, facts_of(*sets.train, *sets.test), std::nullopt);
  const auto planned = [&](int batch) {
    ChosenDevice chosen;
    auto device = std::make_unique<UnevenDevice>(batch);
    const int& made = device->made;
    chosen.device = std::move(device);
    std::map<int, std::uint64_t> lanes;
    const MemoryParts parts{.options = options,
                            .environment = environment,
                            .graph = graph,
                            .sets = sets,
                            .chosen = chosen,
                            .there = {},
                            .lanes = lanes};
    const std::uint64_t lane = checked_memory(parts, plan, false).lane;
    const int once = made;
    CHECK(checked_memory(parts, plan, true).lane == lane);
    CHECK(made == once);  // what a lane takes is known
    return lane;
  };
  const std::uint64_t even = planned(3);
  CHECK(planned(5) > even);
  CHECK(planned(8) > even);
}

TEST_CASE("a device's peak is what was allocated at one time, with memory given back since") {
  const auto device = make_host_device();
  CHECK(device->peak_bytes() == 0);
  {
    const DeviceMemory first = device->allocate(3000);
    const DeviceMemory second = device->allocate(1000);
  }
  const DeviceMemory later = device->allocate(2000);
  CHECK(device->peak_bytes() == 4000);
}

TEST_CASE("a run is refused by its options and data, with images that are decoded ahead") {
  constexpr ImageShape kShape{8, 8, 1};
  Options options;
  options.batches.batch = 8;
  options.batches.shards = 3;
  WorkerEnvironment environment;
  const Graph graph = make_graph({.model = ModelName::lenet, .shape = kShape, .classes = 10});
  const auto planned = [&](bool in_memory, const MachineMemory& there) {
    TrainAndTest sets;
    sets.train = std::make_unique<PlacedSet>(make_shapes(1, 0, 50, kShape), in_memory);
    sets.test = std::make_unique<PlacedSet>(make_shapes(1, 50, 7, kShape), in_memory);
    ChosenDevice chosen;
    chosen.device = make_host_device();
    const TrainPlan plan =
        make_plan(options, environment, facts_of(*sets.train, *sets.test), std::nullopt);
    std::map<int, std::uint64_t> lanes;
    return checked_memory({.options = options,
                           .environment = environment,
                           .graph = graph,
                           .sets = sets,
                           .chosen = chosen,
                           .there = there,
                           .lanes = lanes},
                          plan, false);
  };
  const std::uint64_t sets = 57 * (64 + sizeof(ImageLabel));
  // Two steps of samples, and what each thread takes to make one (PlacedSet).
  const std::uint64_t ahead = 2 * 3 * 8 * 64 + static_cast<std::uint64_t>(usable_cores()) * 1000;
  const RunMemory need = planned(true, {});
  CHECK(need.data == sets);
  CHECK(planned(false, {}).data == sets + 2 * ahead);
  CHECK_NOTHROW(planned(true, {.most = need.total()}));
  CHECK_THROWS_AS(planned(true, {.most = need.total() - 1}), DataError);
}

struct FakeMachine {
  ddprun::test::TempDir root;
  FakeMachine() {
    write("proc/meminfo", "MemTotal:  1000 kB\nMemFree:  1 kB\nSwapTotal:  50 kB\n");
    write("proc/self/mountinfo",
          "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n"
          "36 30 0:33 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  }
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((root / name).parent_path());
    std::ofstream(root / name) << text;
  }
  [[nodiscard]] MachineMemory read() const { return machine_memory(root.path()); }
};

TEST_CASE("without a cgroup the machine's memory and swap count") {
  const MachineMemory memory = FakeMachine().read();
  CHECK(memory.most == 1050 * 1024);
  CHECK_FALSE(memory.is_cgroup);
  const ddprun::test::TempDir nothing;
  CHECK(machine_memory(nothing.path()).most == 0);
}

TEST_CASE("the least limit of our cgroups counts") {
  const FakeMachine machine;
  const std::string top = "sys/fs/cgroup/";
  SECTION("version 2") {
    machine.write("proc/self/cgroup", "0::/job/worker\n");
    machine.write(top + "job/memory.max", "500000\n");
    machine.write(top + "job/worker/memory.max", "max\n");
  }
  SECTION("version 1") {
    machine.write("proc/self/cgroup", "3:cpu,cpuacct:/other\n5:memory:/job/worker\n0::/x\n");
    machine.write(top + "memory/job/memory.limit_in_bytes", "500000\n");
    machine.write(top + "memory/memory.limit_in_bytes", "9223372036854771712\n");
  }
  SECTION("version 1 beside version 2, where a container shows its own cgroup at the top") {
    machine.write("proc/self/mountinfo",
                  "31 23 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup rw\n"
                  "36 30 0:33 /docker/1 /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
    machine.write("proc/self/cgroup", "5:memory:/docker/1\n0::/docker/1\n");
    machine.write(top + "memory/memory.limit_in_bytes", "500000\n");
  }
  SECTION("in a container that sees the host's path, but only its own top") {
    machine.write("proc/self/cgroup", "0::/host/docker/123\n");
    machine.write(top + "memory.max", "500000\n");
  }
  const MachineMemory memory = machine.read();
  CHECK(memory.most == 500000);
  CHECK(memory.is_cgroup);
}

}  // namespace
}  // namespace ddprun::trainer
