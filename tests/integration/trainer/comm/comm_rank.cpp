// One rank of a fault test: sums, or broadcasts and meets in a barrier, step after step, until
// something fails or until it is itself the victim and kills or stops itself in the asked phase of
// the asked bucket.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "rendezvous/client/store_client.hpp"
#include "trainer/comm/make_communicator.hpp"

using namespace std::chrono_literals;
namespace trainer = ddprun::trainer;
using trainer::Clock;
using trainer::CommResult;

namespace {

constexpr int kBuckets = 4;
constexpr std::size_t kBucketFloats = 200'000;
constexpr int kWarmUpSteps =
    2;  // with a generous deadline, so that slow starts are not taken for faults
constexpr int kStepsMax = 20'000;  // the victim's phase comes long before

bool has_memory_descriptor() {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", ignored)) {
    const std::string target = std::filesystem::read_symlink(entry.path(), ignored).string();
    if (target.find("ddprun-gradients") != std::string::npos) return true;
  }
  return false;
}

/// Sums four buckets; `bucket_sum` is what every float must be afterwards.
CommResult sum(trainer::Communicator& communicator, float bucket_sum, Clock::duration limit) {
  trainer::Ticket last = 0;
  for (float& value : communicator.arena(0)) value = static_cast<float>(communicator.rank() + 1);
  for (int bucket = 0; bucket < kBuckets; ++bucket) {
    const std::size_t begin = static_cast<std::size_t>(bucket) * kBucketFloats;
    last = communicator.start(bucket, {begin, begin + kBucketFloats});
    communicator.progress();
  }
  if (CommResult result = communicator.finish(last, Clock::now() + limit); !result.ok())
    return result;
  for (const float value : communicator.arena(0)) {
    if (value != bucket_sum) return {trainer::CommStatus::done, -2, -2, "a sum is wrong"};
  }
  return {};
}

CommResult meet(trainer::Communicator& communicator, Clock::duration limit) {
  static std::vector<std::byte> news(1'500'000);  // several rounds of staging memory
  if (CommResult result = communicator.broadcast(news, 0, Clock::now() + limit); !result.ok())
    return result;
  return communicator.barrier(Clock::now() + limit);
}

const char* name(trainer::CommStatus status) {
  switch (status) {
    case trainer::CommStatus::done:
      return "done";
    case trainer::CommStatus::aborted:
      return "aborted";
    case trainer::CommStatus::timed_out:
      return "timed_out";
  }
  return "?";
}

}  // namespace

// comm_rank RANK WORLD PORT LIMIT_MS sum|meet [PHASE BUCKET SIGNAL]
int main(int argc, char** argv) {
  if (argc != 6 && argc != 9) return 2;
  trainer::CommOptions options;
  options.rank = std::atoi(argv[1]);
  options.world_size = std::atoi(argv[2]);
  options.shards = options.world_size;
  options.arena_floats = kBuckets * kBucketFloats;
  const std::chrono::milliseconds limit(std::atoi(argv[4]));
  const std::string what = argv[5];
  int steps = 0;
  if (argc == 9) {
    options.on_phase = [&steps, phase = std::atoi(argv[6]), bucket = std::atoi(argv[7]),
                        signal = std::atoi(argv[8])](trainer::CommPhase at, int in_bucket) {
      if (steps >= kWarmUpSteps && static_cast<int>(at) == phase && in_bucket == bucket)
        std::raise(signal);
    };
  }

  auto client = ddprun::rdzv::StoreClient::connect(
      "127.0.0.1", static_cast<std::uint16_t>(std::atoi(argv[3])), Clock::now() + 30s);
  if (!client) return 3;
  trainer::StoreExchange exchange(*client);
  trainer::CommSetup setup = trainer::make_communicator(options, &exchange, Clock::now() + 30s);
  if (!setup.result.ok()) {
    std::printf("setup: %s\n", setup.result.detail.c_str());
    return 4;
  }
  if (has_memory_descriptor()) return 5;

  const auto bucket_sum = static_cast<float>(options.world_size * (options.world_size + 1) / 2);
  for (; steps < kStepsMax; ++steps) {
    const auto began = Clock::now();
    const Clock::duration step_limit = steps < kWarmUpSteps ? Clock::duration(30s) : limit;
    const CommResult result = what == "sum" ? sum(*setup.communicator, bucket_sum, step_limit)
                                            : meet(*setup.communicator, step_limit);
    if (result.ok() && result.rank == -1) continue;
    const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - began);
    std::printf("%s rank=%d bucket=%d took_ms=%d detail=%s\n", name(result.status), result.rank,
                result.bucket, static_cast<int>(took.count()), result.detail.c_str());
    return 0;
  }
  return 6;
}
