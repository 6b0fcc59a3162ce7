// Ranks over the fake NCCL without a launcher: one is killed in each phase of a run, and the other
// finds out by itself which one it has lost and what it waited for.
#include <catch2/catch.hpp>
#include <csignal>

#include "tests/integration/trainer/run/gpu_runs.hpp"
#include "trainer/run/exit_codes.hpp"

using namespace ddprun::test;

namespace {

using Arguments = std::vector<std::string>;
using Catch::Contains;

struct Loss {
  std::string survivor;  ///< what rank 0 wrote to stderr
  std::string victim;    ///< "rank 1 (pid 123)"
};

/// Rank 1 has the fault, or is killed before its program begins. Rank 0 must leave as a victim.
Loss lose_rank_1(const Arguments& arguments, const std::string& fault,
                 const Arguments& prefix = {}) {
  GroupOptions options = on_gpus(arguments, 2);
  options.prefix = prefix;
  options.environment.emplace_back("DDPRUN_FAKE_NCCL", fault);
  WorkerGroup group(options);
  const std::string victim = "rank 1 (pid " + std::to_string(group.rank(1).pid()) + ")";
  const std::vector<ChildResult> results = group.wait();
  INFO(results[0].err << results[1].err);
  CHECK_FALSE(results[0].timed_out);
  CHECK(results[0].status == ddprun::trainer::kExitPeerLost);
  CHECK(results[1].status == 128 + SIGKILL);
  return {results[0].err, victim};
}

/// So long that no deadline is the cause.
Arguments patient(const SmallData& data, const Arguments& more = {}) {
  Arguments arguments = short_run(data, {"--comm-timeout=200s", "--rendezvous-timeout=200s"});
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

}  // namespace

TEST_CASE("a rank that is killed before the ranks meet is missed by its key, until the deadline") {
  const SmallData data;
  const Loss loss =
      lose_rank_1(short_run(data, {"--checkpoint-every=off", "--rendezvous-timeout=10s"}), "",
                  {"/bin/sh", "-c", "test \"$RANK\" = 0 || kill -9 $$; exec \"$@\"", "sh"});
  CHECK_THAT(loss.survivor, Contains("waiting for rank 1 (key "));
}

TEST_CASE("a rank that is killed while NCCL connects the ranks is named at once") {
  const SmallData data;
  const Loss loss = lose_rank_1(patient(data, {"--checkpoint-every=off"}), "1:init_kill");
  CHECK_THAT(loss.survivor, Contains("rank 1 ended while NCCL connected the ranks"));
}

TEST_CASE("a rank that is killed in its first sum is named with its process and the bucket") {
  const SmallData data;
  for (const Arguments& more : {Arguments{}, Arguments{"--exact"}}) {
    INFO(more.size());
    Arguments arguments{"--checkpoint-every=off"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    // The first four operations are meetings at the start.
    const Loss loss = lose_rank_1(patient(data, arguments), "1:kill=5");
    CHECK_THAT(loss.survivor, Contains("train: error: rank 0: gave up in step 1: " + loss.victim +
                                       " ended before it finished the sum of bucket 0"));
  }
}

TEST_CASE("a rank that is killed as the first weights are given to all is named at the start") {
  const SmallData data;
  const Loss loss = lose_rank_1(patient(data, {"--checkpoint-every=off"}), "1:kill=1");
  CHECK_THAT(loss.survivor, Contains("rank 0: lost another rank at the start: " + loss.victim +
                                     " ended before it finished the meeting of all ranks"));
}

TEST_CASE("a rank that is killed in the middle, or where checkpoints are written, is named") {
  const SmallData data;
  for (const char* operation : {"11", "12", "13"}) {  // sums and meetings
    for (const bool writes : {false, true}) {
      INFO("operation " << operation << ", checkpoints " << writes);
      const TempDir directory;
      const Arguments more = writes ? Arguments{"--out", directory / "out", "--checkpoint-every=1"}
                                    : Arguments{"--checkpoint-every=off"};
      const Loss loss = lose_rank_1(patient(data, more), std::string("1:kill=") + operation);
      CHECK_THAT(loss.survivor,
                 Contains("train: error: rank 0: gave up in step ") &&
                     Contains(": " + loss.victim + " ended before it finished the "));
    }
  }
}

TEST_CASE("where NCCL cannot be ended after a rank was lost, the line names both and the seconds") {
  const SmallData data;
  const Arguments arguments =
      short_run(data, {"--comm-timeout=1s", "--rendezvous-timeout=200s", "--checkpoint-every=off"});
  for (const auto& [faults, why] :
       {std::pair("1:kill=11 0:abort_hangs", " ended before it finished the "),
        std::pair("1:init_kill 0:abort_hangs", "rank 1 ended while NCCL connected the ranks")}) {
    INFO(faults);
    const Loss loss = lose_rank_1(arguments, faults);
    CHECK_THAT(loss.survivor, Contains("train: error: rank 0: ") && Contains(why) &&
                                  Contains("; then the end of NCCL has not returned for 10."));
  }
}
