// A model of three outputs, and the plan of a run that trains it.
#pragma once

#include <optional>

#include "trainer/model/graph_builder.hpp"
#include "trainer/run/plan/plan.hpp"

namespace ddprun::trainer::test {

inline Graph small_graph() {
  GraphBuilder builder({1, 1, 2});
  builder.softmax_cross_entropy(builder.linear("a", 0, 3));
  return builder.finish();
}

inline TrainPlan small_plan(int world_size, int rank = 0) {
  WorkerEnvironment environment;
  environment.rank = rank;
  environment.world_size = world_size;
  return make_plan({}, environment,
                   {.name = "shapes",
                    .content = "0123456789abcdef",
                    .test_content = "fedcba9876543210",
                    .samples = 1000,
                    .shape = {.height = 1, .width = 1, .channels = 2},
                    .classes = 3},
                   std::nullopt);
}

}  // namespace ddprun::trainer::test
