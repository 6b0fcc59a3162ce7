// A remedy names only what the run has, of the kinds that take much of the memory.
#include "trainer/run/memory_remedy.hpp"

#include <catch2/catch.hpp>

namespace ddprun::trainer {
namespace {

TEST_CASE("what makes the samples of a shard smaller depends on the model and the options") {
  RunMemory need{.arena = 1, .arenas = 4, .lane = 100, .lanes = 2};
  need.choices = {.batch = 8, .is_generated = true};
  CHECK(memory_remedy(need, 1) ==
        "use a smaller --batch, fewer --lanes, a smaller --image-shape or another --model");
  need.choices.is_generated = false;
  need.lanes = 1;
  CHECK(memory_remedy(need, 2) ==
        "use a smaller --batch, a smaller --image-shape, fewer workers on this machine or another "
        "--model");
  need.choices = {.batch = 1, .has_texts = true, .has_smaller_size = true, .has_two_moments = true};
  CHECK(memory_remedy(need, 1) == "use a smaller --max-tokens or another --model");
}

TEST_CASE("fewer replicas need fewer arenas and fewer places for samples") {
  RunMemory need{.arena = 1, .arenas = 4, .lane = 100, .lanes = 2};
  need.choices = {.batch = 8, .is_generated = true, .has_replicas = true};
  CHECK(memory_remedy(need, 1) ==
        "use a smaller --batch, fewer --replicas, a smaller --image-shape or another --model");
  need.arena = 1000;
  CHECK(memory_remedy(need, 1) == "use fewer --replicas or another --model");
}

TEST_CASE("arenas are made smaller by another size or optimizer") {
  RunMemory need{.arena = 100, .arenas = 4, .lane = 10, .lanes = 2};
  need.choices = {.batch = 8, .has_texts = true};
  CHECK(memory_remedy(need, 1) == "use another --model");
  need.choices.has_smaller_size = true;
  need.choices.has_two_moments = true;
  CHECK(memory_remedy(need, 1) == "use a smaller --size, --optimizer=sgd or another --model");
  need.start_arenas = 6;
  CHECK(memory_remedy(need, 4) ==
        "use a smaller --size, --optimizer=sgd, fewer workers on this machine or another --model");
}

TEST_CASE("data sets that are large are named, and no remedy twice") {
  RunMemory need{.data = 100, .arena = 1, .arenas = 4, .lane = 100};
  need.choices = {.batch = 8, .is_generated = true};
  CHECK(memory_remedy(need, 1) ==
        "use a smaller --batch, a smaller --image-shape or another --model");
  need.lane = 1;
  need.choices = {.batch = 8, .has_texts = true, .is_generated = true};
  CHECK(memory_remedy(need, 1) ==
        "use fewer --sentences, a smaller --max-tokens or another --model");
  need.choices.is_generated = false;
  CHECK(memory_remedy(need, 1) == "use fewer texts, a smaller --max-tokens or another --model");
  need.choices = {.batch = 8, .has_data_memory = true};
  CHECK(memory_remedy(need, 1) ==
        "use a smaller --data-memory, fewer images, a smaller --image-shape or another --model");
}

TEST_CASE("on a GPU the remedies are those that its run has") {
  RunMemory need{.arena = 1, .arenas = 4, .lane = 100};
  need.choices = {.batch = 8, .is_generated = true};
  CHECK(gpu_memory_remedy(need) ==
        "use a smaller --batch with a larger --accumulate, --precision bf16 or fp16, a smaller "
        "--image-shape, another --model or --device=cpu");
  need.choices = {.batch = 1, .has_texts = true, .has_smaller_size = true, .has_half_values = true};
  CHECK(gpu_memory_remedy(need) ==
        "use a smaller --max-tokens, a smaller --size, another --model or --device=cpu");
}

TEST_CASE("the choices of a run follow from its options") {
  Options options;
  options.model = ModelName::textclf;
  options.size = TextSize::large;
  options.optimizer = OptimizerKind::adamw;
  const MemoryChoices texts = memory_choices(options, 4);
  CHECK((texts.batch == 4 && texts.has_texts && texts.is_generated));
  CHECK((texts.has_smaller_size && texts.has_two_moments));
  CHECK_FALSE(texts.has_half_values);
  options.size = TextSize::tiny;
  options.precision = Precision::bf16;
  CHECK_FALSE(memory_choices(options, 4).has_smaller_size);
  CHECK(memory_choices(options, 4).has_half_values);
  options = {};
  options.data = "folder";
  const MemoryChoices images = memory_choices(options, 4);
  CHECK_FALSE((images.has_texts || images.is_generated || images.has_smaller_size ||
               images.has_two_moments));
}

}  // namespace
}  // namespace ddprun::trainer
