#include "trainer/run/cli/environment.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <thread>

#include "base/number_in.hpp"
#include "proto/environment_names.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

namespace env = proto::env;

constexpr std::int64_t kWorldSizeMax = 1'000'000;

std::string text_of(const VariableLookup& lookup, const char* name) {
  const char* value = lookup(name);
  return value == nullptr ? "" : value;
}

std::optional<std::int64_t> number_of(const VariableLookup& lookup, const char* name,
                                      std::int64_t low, std::int64_t high) {
  const std::string text = text_of(lookup, name);
  if (text.empty()) return std::nullopt;
  const auto value = number_in<std::int64_t>(text);
  if (!value || *value < low || *value > high) {
    throw DataError(
        fmt::format("{}={}: must be a number from {} to {} (set by the launcher; unset RANK and "
                    "WORLD_SIZE to train alone)",
                    name, text, low, high));
  }
  return value;
}

}  // namespace

WorkerEnvironment read_environment(const VariableLookup& lookup) {
  WorkerEnvironment result;
  const auto world_size = number_of(lookup, env::kWorldSize, 1, kWorldSizeMax);
  result.world_size = static_cast<int>(world_size.value_or(1));
  const auto rank = number_of(lookup, env::kRank, 0, result.world_size - 1);
  if (result.world_size > 1 && !rank) {
    throw DataError(
        fmt::format("WORLD_SIZE={}, but RANK is not set: each worker needs its own, "
                    "from 0 to {}",
                    result.world_size, result.world_size - 1));
  }
  result.rank = static_cast<int>(rank.value_or(0));
  result.local_world_size = static_cast<int>(
      number_of(lookup, env::kLocalWorldSize, 1, result.world_size).value_or(result.world_size));
  result.local_rank = static_cast<int>(
      number_of(lookup, env::kLocalRank, 0, kWorldSizeMax)
          .value_or(result.local_world_size == result.world_size ? result.rank : 0));

  result.master_addr = text_of(lookup, env::kMasterAddr);
  result.master_port = static_cast<std::uint16_t>(
      number_of(lookup, env::kMasterPort, 1, std::numeric_limits<std::uint16_t>::max())
          .value_or(0));
  if (result.world_size > 1 && (result.master_addr.empty() || result.master_port == 0)) {
    throw DataError(
        fmt::format("WORLD_SIZE={}, but MASTER_ADDR or MASTER_PORT is not set: the workers would "
                    "not find each other (start them with ddprun, or set both)",
                    result.world_size));
  }
  result.agent_store = text_of(lookup, env::kUseAgentStore) == "True";
  result.max_world_size =
      static_cast<int>(number_of(lookup, env::kMaxWorldSize, 1, kWorldSizeMax).value_or(0));
  result.job_socket = text_of(lookup, env::kJobSocket);
  result.run_id = text_of(lookup, env::kRunId);
  if (result.run_id == "none") result.run_id.clear();
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  result.restart_count = number_of(lookup, env::kRestartCount, 0, most).value_or(0);
  result.may_restart = number_of(lookup, env::kMaxRestarts, 0, most).value_or(1) > 0;
  result.round = number_of(lookup, env::kRound, 0, most).value_or(result.restart_count);
  result.epoch = number_of(lookup, env::kEpoch, 0, most);
  if (const auto source = number_of(lookup, env::kSourceRank, 0, result.world_size - 1))
    result.source_rank = static_cast<int>(*source);
  if (const char* visible = lookup(env::kCudaVisibleDevices); visible != nullptr)
    result.visible_gpus = visible;
  result.forces_tf32 = text_of(lookup, kTf32Override) == "1";
  result.forbids_tf32 = text_of(lookup, kTf32Override) == "0";
  return result;
}

int usable_cores() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

}  // namespace ddprun::trainer
