// What a run will need is known before it is allocated, and compared with what there is.
#include "trainer/run/run_memory.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/unit/trainer/host/host_executor.hpp"
#include "tests/unit/trainer/host/samples.hpp"
#include "trainer/compute/buffer.hpp"
#include "trainer/model/model.hpp"

namespace ddprun::trainer {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

MemoryQuestion question(int batch) {
  return {.executor = {.batch = batch}, .optimizer = {}, .train_batches = {batch}, .run = {0, 1}};
}

std::uint64_t largest_tensor(const Graph& graph) {
  std::uint64_t largest = 0;
  for (const Parameter& parameter : graph.parameters())
    largest = std::max<std::uint64_t>(largest, parameter.count * sizeof(float));
  return largest;
}

TEST_CASE(
    "the plan of a lane is what its executor comes to hold, and nothing is allocated for it") {
  const ImageShape shape{28, 28, 1};
  const Graph graph = make_graph({.model = ModelName::lenet, .shape = shape, .classes = 10});
  MemoryQuestion asked = question(8);
  // As the set has them, before a crop.
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
  CHECK(need.lane == executor.bytes() + beside);
  CHECK(need.inputs == 2 * need.host_lane);
  CHECK(least_memory(graph, asked, Storage::fp32).lane <= need.lane);

  GraphExecutor planned(graph, test::host(), {.batch = 8});
  planned.bytes_needed(8, 0);
  CHECK(planned.bytes() == 0);
}

TEST_CASE("the bytes of a batch that no machine holds are known at once") {
  const Graph graph = make_graph({.model = ModelName::unet16, .shape = {448, 448, 3}});
  const RunMemory need = least_memory(graph, question(1'000'000), Storage::fp32);
  // The first two stages alone: 2 x 448 x 448 x 64 + 2 x 224 x 224 x 128 floats a sample.
  CHECK(need.lane > std::uint64_t{1'000'000} * 4 * (2 * 448 * 448 * 64 + 2 * 224 * 224 * 128));
}

TEST_CASE("arenas are counted: moments, partial sums of several shards, copies for checkpoints") {
  const Graph graph = make_graph({.model = ModelName::lenet, .shape = {8, 8, 1}, .classes = 2});
  const auto arenas = [&](const MemoryQuestion& asked) {
    return least_memory(graph, asked, Storage::fp32).arenas;
  };
  MemoryQuestion asked = question(1);
  CHECK(arenas(asked) == 4);  // parameters, momentum, gradients; the values at the start
  asked.optimizer.momentum = 0;
  CHECK(arenas(asked) == 3);
  asked.optimizer.kind = OptimizerKind::adamw;
  CHECK(arenas(asked) == 5);
  asked.keeps_checkpoints = true;
  CHECK(arenas(asked) == 7);  // three copies instead
  // The writer has a tensor in PyTorch's order beside them.
  const RunMemory kept = least_memory(graph, asked, Storage::fp32);
  CHECK(kept.buffers == largest_tensor(graph));
  CHECK(kept.training() == 7 * kept.arena + kept.lane + kept.buffers);
  // --eval counts the classes of a batch in each lane.
  MemoryQuestion evaluated = question(3);
  const std::uint64_t lane = least_memory(graph, evaluated, Storage::fp32).lane;
  evaluated.counts_classes = true;
  CHECK(least_memory(graph, evaluated, Storage::fp32).lane == lane + 3 * 2 * sizeof(float));
  asked = question(1);
  asked.shards = 8;
  asked.run = {0, 8};
  CHECK(arenas(asked) == 7);  // one of the eight shards' sum, three partial sums below it
  asked.lanes = 2;
  CHECK(arenas(asked) == 8);
  asked.lanes = 1;
  asked.order = SumOrder::chain;
  CHECK(arenas(asked) == 4);  // all shards are added in one
  asked.run = {0, 1};
  CHECK(arenas(asked) == 4);
}

TEST_CASE(
    "weights that layers read in half precision take half of the parameters, in each replica") {
  const Graph graph = make_graph({.model = ModelName::lenet, .shape = {8, 8, 1}, .classes = 2});
  const std::uint64_t parameters = graph.arena_size() * sizeof(float);
  MemoryQuestion asked = question(1);
  asked.reads_checkpoint = true;
  const auto need = [&](Storage storage) { return least_memory(graph, asked, storage); };
  const auto beside_lanes = [&](Storage storage) {
    const RunMemory all = need(storage);
    return all.training() - all.lane * static_cast<std::uint64_t>(all.lanes) - all.gathered;
  };
  CHECK(beside_lanes(Storage::bf16) == beside_lanes(Storage::fp32) + parameters / 2);
  CHECK(beside_lanes(Storage::rounded_to_bf16) == beside_lanes(Storage::fp32) + parameters);
  CHECK(need(Storage::fp16).start() == need(Storage::fp32).start() + parameters / 2);
  asked.replicas = asked.lanes = 3;
  CHECK(beside_lanes(Storage::bf16) == beside_lanes(Storage::fp32) + 3 * parameters / 2);
  CHECK(need(Storage::bf16).start() == need(Storage::fp32).start() + parameters / 2);
}

TEST_CASE("what is read at the start counts where it is more than what training takes") {
  const Graph graph = make_graph({.model = ModelName::lenet, .shape = {8, 8, 1}, .classes = 2});
  const std::uint64_t largest = largest_tensor(graph);
  MemoryQuestion asked = question(1);
  asked.optimizer.kind = OptimizerKind::adamw;
  const auto need = [&] { return least_memory(graph, asked, Storage::fp32); };
  CHECK(need().start_arenas == 5);  // the learner's three, gradients, and the first values
  CHECK(need().start_buffers == 0);
  asked.reads_checkpoint = true;  // it, while the learner takes it over
  CHECK(need().start_arenas == 7);
  CHECK(need().arenas == 5);
  CHECK(need().total() == std::max(need().start(), need().training()));
  asked.shards = 4;  // of them three here: two nodes of the tree, with a sum of gradients each
  asked.run = {0, 3};
  CHECK(need().start_arenas == 8);
  asked = question(1);
  asked.optimizer.kind = OptimizerKind::adamw;
  asked.reads_checkpoint = true;
  asked.reads_weights = true;  // no more: the checkpoint takes their place
  CHECK(need().start_arenas == 7);
  CHECK(need().start_buffers == 0);
  asked.reads_checkpoint = false;  // a tensor as in the file, and as floats
  asked.optimizer = {};
  asked.optimizer.momentum = 0;
  const bool is_large = 2 * largest > 2 * need().arena;
  CHECK(need().start_arenas == (is_large ? 1 : 3));
  CHECK(need().start_buffers == (is_large ? 2 * largest : 0));
  CHECK(least_memory(graph, of_other_worker(asked), Storage::fp32).start_arenas == 3);
}

TEST_CASE("a need before training is refused with what it is for") {
  const RunMemory need{.arena = 100'000'000,
                       .arenas = 4,
                       .lane = 1'000'000,
                       .start_arenas = 6,
                       .start_buffers = 50'000'000};
  CHECK(need.total() == 650'000'000);
  CHECK(judge_memory(need, 0, 1, {.most = 500'000'000, .available = 500'000'000}).refusal ==
        "this run needs 650 MB of memory before training (6 arenas of 100 MB for parameters, "
        "gradients, moments and what is read of files, 50 MB for tensors on their way), but this "
        "machine has "
        "500 MB: use another --model");
  // The others hold less than rank 0.
  const MachineMemory there{.most = 1'000'000'000, .available = 1'000'000'000};
  CHECK(judge_memory(need, 100'000'000, 4, there).refusal.empty());
  CHECK_THAT(judge_memory(need, 120'000'000, 4, there).refusal,
             Contains("the 4 workers here need 1.01 GB of memory before training (this one: 6"));
}

TEST_CASE("a need beyond the machine is refused, one beyond what is free is warned of") {
  const RunMemory need{
      .arena = 100'000'000, .arenas = 4, .lane = 800'000'000, .lanes = 2, .choices = {.batch = 2}};
  CHECK(need.total() == 2'000'000'000);
  RunMemory half = need;
  half.rounded_weights = 50'000'000;
  CHECK(half.total() == 2'050'000'000);
  CHECK_THAT(judge_memory(half, 0, 1, {.most = 1, .available = 1}).refusal,
             Contains("of a shard, 50 MB for rounded weights), but"));
  const auto judge = [&](std::uint64_t most, std::uint64_t available, int workers = 1) {
    return judge_memory(need, need.total(), workers,
                        {.most = most, .available = available, .is_cgroup = false});
  };
  CHECK(judge(4'000'000'000, 2'000'000'000).refusal.empty());
  CHECK(judge(4'000'000'000, 2'000'000'000).warning.empty());
  CHECK(judge(4'000'000'000, 1'999'999'999).refusal.empty());
  CHECK(
      judge(4'000'000'000, 1'900'000'000).warning ==
      "this run needs 2.00 GB of memory (4 arenas of 100 MB for parameters and gradients, 2 lanes "
      "of 800 MB for the samples of a shard), but this machine has 4.00 GB, of which 1.90 GB are "
      "available now: use a smaller --batch, fewer --lanes, a smaller --image-shape or another "
      "--model");
  CHECK_THAT(
      judge(1'500'000'000, 1'500'000'000).refusal,
      Contains("needs 2.00 GB") && Contains("this machine has 1.50 GB: use a smaller --batch"));
  CHECK_THAT(judge(7'000'000'000, 7'000'000'000, 4).refusal,
             Contains("the 4 workers here need 8.00 GB of memory (this one: 4 arenas"));
  CHECK_THAT(judge_memory(need, 0, 1, {.most = 1, .available = 1, .is_cgroup = true}).refusal,
             Contains("the cgroup's limit is 0 kB"));
  CHECK(judge_memory(need, 0, 1, {}).refusal.empty());  // unknown
}

TEST_CASE("the data sets of all workers on a machine count") {
  const Graph graph = make_graph({.model = ModelName::lenet, .shape = {8, 8, 1}, .classes = 2});
  MemoryQuestion asked = question(1);
  const std::uint64_t without = least_memory(graph, asked, Storage::fp32).total();
  asked.data = 1'000'000'000;
  CHECK(least_memory(graph, asked, Storage::fp32).total() == without + 1'000'000'000);
  CHECK(least_memory(graph, of_other_worker(asked), Storage::fp32).data == 1'000'000'000);
  const RunMemory need{.data = 1'000'000'000, .arena = 100'000'000, .arenas = 1};
  const MachineMemory there{.most = 4'300'000'000, .available = 4'300'000'000, .is_cgroup = true};
  CHECK(judge_memory(need, need.total(), 3, there).refusal.empty());
  CHECK_THAT(judge_memory(need, need.total(), 4, there).refusal,
             Contains("the 4 workers here need 4.40 GB of memory (this one: 1 arena") &&
                 Contains(", 1.00 GB for the data sets), but the cgroup's limit is 4.30 GB: "));
}

TEST_CASE("data sets that never fit are refused with the bytes of each worker") {
  const MachineMemory cgroup{.most = 4'000'000'000, .available = 3'000'000'000, .is_cgroup = true};
  CHECK(why_data_too_large(1'000'000'000, 4, cgroup, {}).empty());
  CHECK(why_data_too_large(1'070'000'000, 4, cgroup, {.is_generated = true}) ==
        "the 4 workers here need 4.28 GB of memory for the data sets (1.07 GB each), but the "
        "cgroup's limit is 4.00 GB: use a smaller --image-shape or fewer workers on this machine");
  CHECK(why_data_too_large(5'000'000'000, 1, {.most = 4'000'000'000, .available = 1}, {}) ==
        "this run needs 5.00 GB of memory for the data sets, but this machine has 4.00 GB: use "
        "fewer images or a smaller --image-shape");
  CHECK_THAT(why_data_too_large(2'000'000, 1, {.address_space = 1'000'000},
                                {.has_texts = true, .is_generated = true}),
             Contains("but the limit of a process's address space (ulimit -v) is 1 MB: use fewer "
                      "--sentences or a smaller --max-tokens"));
  CHECK(why_data_too_large(2'000'000, 1, {}, {}).empty());  // unknown
}

TEST_CASE("a limit of the address space counts for each worker") {
  const RunMemory need{.arena = 100'000'000, .arenas = 4};
  MachineMemory there{.most = 4'000'000'000, .available = 4'000'000'000};
  there.address_space = 400'000'000;
  CHECK(judge_memory(need, need.total(), 4, there).refusal.empty());
  there.address_space = 399'999'999;
  CHECK_THAT(judge_memory(need, need.total(), 4, there).refusal,
             Contains("a worker needs 400 MB of memory (4 arenas of 100 MB") &&
                 Contains("), but the limit of a process's address space (ulimit -v) is 400 MB: "
                          "raise it, or use "));
}

TEST_CASE("memory that the system refuses is reported with what was asked for, and the plan") {
  const RunMemory need{.arena = 100'000'000, .arenas = 4, .lane = 1'000'000};
  CHECK_THAT(out_of_memory_text(need, OutOfMemory(151'000'000), "in training", {}),
             StartsWith("out of memory in training (151 MB were asked for); this worker needs 401 "
                        "MB (4 arenas of 100 MB") &&
                 Contains("), and the program itself some more: use "));
  CHECK_THAT(
      out_of_memory_text(need, std::bad_alloc(), "before training", {.address_space = 500'000'000}),
      StartsWith("out of memory before training; this worker needs 401 MB") &&
          Contains(", but the limit of a process's address space (ulimit -v) is 500 MB: raise it"));
  CHECK_THAT(out_of_memory_text({}, std::bad_alloc(), "while the data was loaded", {}),
             StartsWith("out of memory while the data was loaded: "));
}

}  // namespace
}  // namespace ddprun::trainer
