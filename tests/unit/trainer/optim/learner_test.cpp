#include "trainer/optim/learner.hpp"

#include <catch2/catch.hpp>
#include <limits>
#include <vector>

#include "tests/unit/trainer/host/host_executor.hpp"
#include "trainer/compute/buffer.hpp"
#include "trainer/compute/numeric.hpp"
#include "trainer/model/graph_builder.hpp"

namespace ddprun::trainer {
namespace {

Graph one_layer() {
  GraphBuilder graph({1, 1, 2});
  graph.softmax_cross_entropy(graph.linear("a", 0, 3));
  return graph.finish();
}

struct LearnerFixture {
  Graph graph = one_layer();
  std::vector<float> parameters = std::vector<float>(graph.arena_size(), 1.0F);
  std::vector<float> gradients = std::vector<float>(graph.arena_size(), 0.5F);

  void step(Learner& learner) const {
    learner.begin_update(gradients);
    learner.update(0, gradients.size(), gradients);
    learner.finish_update();
  }
  std::vector<float> arena(const Learner& learner, std::size_t index) const {
    std::vector<float> values(graph.arena_size());
    learner.copy_out(index, values);
    return values;
  }
};

TEST_CASE("a step moves the parameters and counts") {
  LearnerFixture fixture;
  Learner learner(fixture.graph, test::host(), {.optimizer = {.momentum = 0}});
  CHECK(learner.arenas() == 1);
  learner.copy_in(0, fixture.parameters);
  CHECK(learner.hash() == hash_floats(fixture.parameters));
  learner.set_learning_rate(0.5F);
  fixture.step(learner);
  CHECK(fixture.arena(learner, 0).front() == 0.75F);
  CHECK(learner.step_state().updates == 1);
  CHECK(learner.step_state().learning_rate == 0.5F);
}

TEST_CASE("a learner that is given another one's arenas and state goes on as that one") {
  LearnerFixture fixture;
  const Learner::Settings settings{.optimizer = {.kind = OptimizerKind::adamw}};
  Learner first(fixture.graph, test::host(), settings);
  first.copy_in(0, fixture.parameters);
  first.set_learning_rate(0.01F);
  fixture.step(first);
  Learner second(fixture.graph, test::host(), settings);
  REQUIRE(second.arenas() == 3);
  for (std::size_t i = 0; i < first.arenas(); ++i) second.copy_in(i, fixture.arena(first, i));
  second.set_step_state(first.step_state());
  fixture.step(first);
  fixture.step(second);
  CHECK(first.hash() == second.hash());
  CHECK(second.step_state().updates == 2);
}

TEST_CASE("a parameter or moment that is an inf or nan is named, without a mark on the step") {
  LearnerFixture fixture;
  Learner learner(fixture.graph, test::host(), {});
  learner.copy_in(0, fixture.parameters);
  CHECK(learner.non_finite().empty());
  fixture.parameters[5] = std::numeric_limits<float>::quiet_NaN();
  learner.copy_in(0, fixture.parameters);
  CHECK(learner.non_finite() == "a.weight");
  CHECK(learner.step_state().found_inf == 0);
  fixture.parameters[5] = 0;
  learner.copy_in(0, fixture.parameters);
  CHECK(learner.non_finite().empty());
  std::vector<float> moment(fixture.graph.arena_size());
  moment[fixture.graph.parameters()[1].offset] = std::numeric_limits<float>::infinity();
  learner.copy_in(1, moment);
  CHECK(learner.non_finite() == "momentum_buffer of a.bias");
}

TEST_CASE("an overflow skips the step and halves the scale") {
  LearnerFixture fixture;
  Learner learner(fixture.graph, test::host(),
                  {.optimizer = {}, .scaler = {.enabled = true}, .precision = Precision::fp16});
  learner.copy_in(0, fixture.parameters);
  learner.set_learning_rate(1);
  fixture.gradients[3] = std::numeric_limits<float>::infinity();
  fixture.step(learner);
  CHECK(fixture.arena(learner, 0) == fixture.parameters);
  CHECK(learner.step_state().skipped == 1);
  CHECK(learner.step_state().scaler.scale == 32768.0F);
}

TEST_CASE("layers read the parameters in the storage type, and the new ones after each step") {
  LearnerFixture fixture;
  for (float& parameter : fixture.parameters) parameter = 1.0F + 1.0F / 1024;  // no bf16
  Learner learner(fixture.graph, test::rounding_host(),
                  {.optimizer = {.momentum = 0}, .scaler = {}, .precision = Precision::bf16});
  learner.copy_in(0, fixture.parameters);
  const auto stored = [&] { return *static_cast<const float*>(learner.weights().stored); };
  CHECK(stored() == 1.0F);
  CHECK(*learner.weights().master == fixture.parameters.front());
  learner.set_learning_rate(1);
  fixture.step(learner);
  CHECK(stored() == 0.5F);
  if (test::host().storage(Precision::bf16) == Storage::bf16) {
    Learner half(fixture.graph, test::host(),
                 {.optimizer = {.momentum = 0}, .scaler = {}, .precision = Precision::bf16});
    half.copy_in(0, fixture.parameters);
    const std::span<const BFloat16> two(static_cast<const BFloat16*>(half.weights().stored), 2);
    CHECK(load(two[0]) == 1.0F);
    CHECK(load(two[1]) == 1.0F);
  }
  Learner exact(fixture.graph, test::host(), {});
  CHECK(exact.weights().stored == exact.weights().master);
}

}  // namespace
}  // namespace ddprun::trainer
