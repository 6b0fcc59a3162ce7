// How rank 0 gives the state and the weights to the others.
#include <catch2/catch.hpp>
#include <vector>

#include "tests/unit/trainer/host/host_executor.hpp"
#include "tests/unit/trainer/run/plan/small_plan.hpp"
#include "trainer/run/plan/start.hpp"

namespace ddprun::trainer {
namespace {

constexpr std::chrono::seconds kTimeout(30);

/// Rank 0 of two, beside a rank that takes all at once. Knows until when each call waits.
class RecordingCommunicator final : public Communicator {
 public:
  std::vector<Clock::time_point> deadlines;

  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int world_size() const override { return 2; }
  CommResult broadcast(std::span<std::byte> /*bytes*/, int /*root*/,
                       Clock::time_point deadline) override {
    deadlines.push_back(deadline);
    const auto now = Clock::now();
    while (Clock::now() == now) {  // a clock may be coarse
    }
    return {};
  }
  std::span<float> arena(int /*slot*/) override { return {}; }
  Ticket start(int /*bucket*/, Range /*range*/) override { return 0; }
  void progress() override {}
  CommResult finish(Ticket /*ticket*/, Clock::time_point /*deadline*/) override { return {}; }
  CommResult all_gather(std::span<const std::byte> /*mine*/, std::span<std::byte> /*all*/,
                        Clock::time_point /*deadline*/) override {
    return {};
  }
  CommResult barrier(Clock::time_point /*deadline*/) override { return {}; }
  void abort(const std::string& /*reason*/) override {}
};

TEST_CASE("ranks that have met wait anew for each arena that rank 0 gives to all") {
  const Graph graph = test::small_graph();
  const TrainPlan plan = test::small_plan(2);
  Learner learner(graph, test::host(), {.optimizer = {.kind = OptimizerKind::adamw}});
  TrainingState state = fresh_state(plan);
  RecordingCommunicator communicator;
  CHECK(distribute(communicator, plan, state, learner, kTimeout).ok());
  REQUIRE(communicator.deadlines.size() == 2 + learner.arenas());
  for (std::size_t i = 1; i < communicator.deadlines.size(); ++i)
    CHECK(communicator.deadlines[i] > communicator.deadlines[i - 1]);
}

}  // namespace
}  // namespace ddprun::trainer
