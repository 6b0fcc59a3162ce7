// Runs the same body on every rank of a group, over each kind of communicator: what a reducer test
// is told by one of them, the others must tell as well.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/trainer/comm/fake_communicator.hpp"
#include "tests/unit/trainer/comm/memory_exchange.hpp"
#include "trainer/comm/make_communicator.hpp"

namespace ddprun::trainer::test {

enum class GroupKind { fake, shared_memory };

struct GroupSettings {
  GroupKind kind = GroupKind::fake;
  int world_size = 1;
  int shards = 1;
  std::size_t arena_floats = 0;
  std::uint32_t seed = 1;  ///< of the fake's scheduler
};

/// Far more than a step takes: one of an emulated GPU under ASan can take 10 s on a loaded machine.
inline Clock::time_point soon() { return Clock::now() + std::chrono::seconds(60); }

/// Runs `body` once for each rank; over shared memory every rank is a thread and they run at the
/// same time. What goes wrong is returned in words: Catch2's checks are not for several threads.
inline std::vector<std::string> run_group(const GroupSettings& settings,
                                          const std::function<void(Communicator&)>& body) {
  if (settings.kind == GroupKind::fake) {
    FakeGroup group({settings.world_size, settings.shards, settings.arena_floats, settings.seed});
    group.run(body);
    return group.mistakes();
  }
  MemoryExchange exchange;
  std::vector<std::string> problems(static_cast<std::size_t>(settings.world_size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < settings.world_size; ++rank) {
    threads.emplace_back([&, rank] {
      CommOptions options;
      options.rank = rank;
      options.world_size = settings.world_size;
      options.shards = settings.shards;
      options.arena_floats = settings.arena_floats;
      CommSetup setup = make_communicator(options, &exchange, soon());
      if (setup.result.ok()) {
        body(*setup.communicator);
      } else {
        problems[static_cast<std::size_t>(rank)] = setup.result.detail;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::erase(problems, "");
  return problems;
}

}  // namespace ddprun::trainer::test
