// How much of a machine's memory data sets may take, and how far images are decoded ahead.
#include "trainer/run/plan/run_data.hpp"

#include <catch2/catch.hpp>
#include <limits>

#include "trainer/data/shapes.hpp"

namespace ddprun::trainer {
namespace {

TEST_CASE("image files may take half of a worker's share of the memory, or what is asked for") {
  Options options;
  const MachineMemory machine{.most = 16'000};
  CHECK(data_memory(options, 1, machine) == 8'000);
  CHECK(data_memory(options, 4, machine) == 2'000);
  CHECK(data_memory(options, 1, {.most = 16'000, .address_space = 6'000}) == 3'000);
  CHECK(data_memory(options, 2, {}) == std::numeric_limits<std::uint64_t>::max());
  options.data.memory = 77;
  CHECK(data_memory(options, 4, machine) == 77);
}

TEST_CASE("a worker decodes ahead for the shards that it computes") {
  Options options;
  options.batches.batch = 6;
  options.batches.shards = 5;
  WorkerEnvironment environment;
  environment.world_size = 2;
  TrainAndTest sets;
  for (auto* set : {&sets.train, &sets.test})
    *set = std::make_unique<ByteImageSet>("shapes", make_shapes(1, 0, 21, {8, 8, 1}),
                                          shapes_normalization(1));
  const TrainPlan plan =
      make_plan(options, environment, facts_of(*sets.train, *sets.test), std::nullopt);
  CHECK(reader_settings(plan, environment).samples_of_step == 3 * 6);
  environment.rank = 1;
  CHECK(reader_settings(plan, environment).samples_of_step == 2 * 6);
  CHECK(reader_settings(plan, environment).threads >= 1);
  CHECK(reader_bytes(sets, reader_settings(plan, environment)) == 0);
}

}  // namespace
}  // namespace ddprun::trainer
