// Memory of sums that NCCL knows: on all ranks or on none, with the same sums, and never beyond its
// communicator.
#include "trainer/nccl/registration.hpp"

#include <catch2/catch.hpp>
#include <cstdlib>

#include "tests/unit/trainer/comm/tree_reference.hpp"
#include "tests/unit/trainer/nccl/nccl_ranks.hpp"

namespace ddprun::trainer {
namespace {

using namespace std::chrono_literals;
using nccl::BufferKind;
using test::FakeFaults;
using test::NcclGroupSettings;
using test::NcclRank;
using test::Problems;
using test::run_nccl_group;
using test::soon;

constexpr std::size_t kArenaFloats = 3000;

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// What one rank's steps of two buckets come to.
std::vector<float> sums_of(NcclRank& one, Problems& problems) {
  std::vector<float> all;
  for (int step = 0; step < 3; ++step) {
    one.write(test::rough_floats(kArenaFloats,
                                 static_cast<std::uint32_t>(step * 10 + one.communicator.rank())));
    static_cast<void>(one.communicator.start(0, {0, 1000}));
    const Ticket last = one.communicator.start(1, {1000, kArenaFloats});
    problems.expect(one.communicator.finish(last, soon()).ok(), one, "finish failed");
    const std::vector<float> sums = one.read();
    all.insert(all.end(), sums.begin(), sums.end());
  }
  problems.expect(one.communicator.barrier(soon()).ok(), one, "barrier failed");
  return all;
}

struct RunResult {
  std::vector<float> sums;  ///< rank 0's
  std::vector<std::string> how, warnings;
};

/// Every rank has those sums.
RunResult run(NcclGroupSettings settings) {
  settings.arena_floats = kArenaFloats;
  const auto ranks = static_cast<std::size_t>(settings.world_size);
  RunResult result{{}, std::vector<std::string>(ranks), std::vector<std::string>(ranks)};
  std::vector<std::vector<float>> sums(ranks);
  Problems problems;
  run_nccl_group(settings, problems, [&](NcclRank& one) {
    const auto rank = static_cast<std::size_t>(one.communicator.rank());
    sums[rank] = sums_of(one, problems);
    result.how[rank] = one.how;
    result.warnings[rank] = one.warning;
  });
  CHECK(problems.all() == std::vector<std::string>{});
  for (const auto& each : sums) CHECK(test::same_bits(each, sums[0]));
  result.sums = sums[0];
  return result;
}

std::vector<std::string> all_with(const std::string& kind, int ranks) {
  return std::vector(static_cast<std::size_t>(ranks), "NCCL 2.28.9 with " + kind + " buffers");
}

NcclGroupSettings chain(BufferKind buffers, int world_size = 2) {
  return {
      .world_size = world_size, .shards = world_size, .order = SumOrder::chain, .buffers = buffers};
}

TEST_CASE("sums are the same in memory that NCCL knows") {
  const int world = GENERATE(2, 4);
  const auto [order, grad_comm] = GENERATE(std::pair(SumOrder::tree, Precision::fp32),
                                           std::pair(SumOrder::chain, Precision::fp32),
                                           std::pair(SumOrder::chain, Precision::bf16));
  NcclGroupSettings settings{.world_size = world,
                             .shards = order == SumOrder::tree ? world + 1 : world,
                             .order = order,
                             .grad_comm = grad_comm,
                             .statistics = {{100, 200}}};
  if (grad_comm == Precision::fp32) settings.statistics.clear();
  const RunResult plain = run(settings);
  CHECK(plain.how == all_with("plain", world));
  settings.buffers = BufferKind::registered;
  const RunResult registered = run(settings);
  CHECK(registered.how == all_with("registered", world));
  CHECK(test::same_bits(registered.sums, plain.sums));
  if (order == SumOrder::tree) return;
  settings.buffers = BufferKind::windows;
  const RunResult windows = run(settings);
  CHECK(windows.how == all_with("window", world));
  CHECK(test::same_bits(windows.sums, plain.sums));
}

TEST_CASE("all ranks take what every one of them has functions for") {
  setenv("DDPRUN_FAKE_NCCL_VERSION", "22809", 1);
  NcclGroupSettings settings = chain(BufferKind::windows, 3);
  settings.library_of_last = "libnccl_fake_2_26.so";
  const RunResult with_windows = run(settings);
  settings.library_of_last = "libnccl_fake_2_18.so";
  const RunResult without = run(settings);
  unsetenv("DDPRUN_FAKE_NCCL_VERSION");
  CHECK(with_windows.how == all_with("registered", 3));
  CHECK(without.how == all_with("plain", 3));
  CHECK(test::same_bits(without.sums, with_windows.sums));
}

TEST_CASE("where NCCL gives no windows, all register their memory in the other way") {
  const FakeFaults faults("0:no_windows 1:no_windows 2:no_windows");
  const RunResult result = run(chain(BufferKind::windows, 3));
  CHECK(result.how == all_with("registered", 3));
  CHECK(result.warnings == std::vector<std::string>(3));
}

TEST_CASE("a rank without a handle, or without memory of NCCL, has all go on with plain buffers") {
  {
    const FakeFaults faults("1:no_register");
    const RunResult result = run(chain(BufferKind::registered, 3));
    CHECK(result.how == all_with("plain", 3));
    CHECK(result.warnings == std::vector<std::string>(3));
  }
  setenv("DDPRUN_FAKE_NCCL_MEMORY", "none", 1);
  const RunResult result = run(chain(BufferKind::windows));
  unsetenv("DDPRUN_FAKE_NCCL_MEMORY");
  CHECK(result.how == all_with("plain", 2));
}

TEST_CASE("where memory cannot be registered on one rank, that one warns and all go on without") {
  const SumOrder order = GENERATE(SumOrder::tree, SumOrder::chain);
  const FakeFaults faults("1:register_error");
  NcclGroupSettings settings = chain(BufferKind::registered, 3);
  settings.order = order;
  const RunResult result = run(settings);
  CHECK(result.how == all_with("plain", 3));
  CHECK(result.warnings[0].empty());
  CHECK(result.warnings[2].empty());
  CHECK_THAT(result.warnings[1], Catch::Contains("ncclCommRegister on rank 1 (emulated GPU GPU-") &&
                                     Catch::Contains("as the test has planned") &&
                                     Catch::Contains("all ranks go on with plain buffers") &&
                                     Catch::Contains("NCCL_LOCAL_REGISTER=0"));
}

/// The details of the ranks, none of which may have a communicator.
std::vector<CommResult> failures(const std::string& faults, const NcclGroupSettings& settings) {
  const FakeFaults planned(faults);
  std::vector<CommResult> results(static_cast<std::size_t>(settings.world_size));
  Problems problems;
  run_nccl_group(
      settings, problems, [&](NcclRank& one) { problems.expect(false, one, "it is set up"); },
      [&](int rank, const CommSetup& setup) {
        results[static_cast<std::size_t>(rank)] = setup.result;
      });
  CHECK(problems.all() == std::vector<std::string>{});
  return results;
}

TEST_CASE("a window that a rank never comes to is given up at the deadline, with what to do") {
  NcclGroupSettings settings = chain(BufferKind::windows);
  settings.arena_floats = kArenaFloats;
  settings.join_within = 2s;
  const auto results = failures("1:window_hangs 0:abort_hangs 1:abort_hangs", settings);
  for (std::size_t rank = 0; rank < results.size(); ++rank) {
    CHECK(results[rank].status == CommStatus::timed_out);
    CHECK_THAT(
        results[rank].detail,
        Catch::Contains("NCCL has not registered the gradients of all ranks by the deadline") &&
            Catch::Contains("ncclCommWindowRegister on rank " + std::to_string(rank)) &&
            Catch::Contains("emulated GPU GPU-") && Catch::Contains("NCCL_WIN_ENABLE=0"));
  }
}

TEST_CASE("a window that fails is an error with the call, the rank and what to do") {
  NcclGroupSettings settings = chain(BufferKind::windows);
  settings.arena_floats = kArenaFloats;
  settings.join_within = 2s;
  const auto results = failures("1:window_error", settings);
  CHECK(results[1].status == CommStatus::aborted);
  CHECK_THAT(results[1].detail,
             Catch::Contains("ncclCommWindowRegister on rank 1 (emulated GPU GPU-") &&
                 Catch::Contains("failed: ") && Catch::Contains("as the test has planned") &&
                 Catch::Contains("NCCL_WIN_ENABLE=0 on all ranks"));
  CHECK_FALSE(results[0].ok());
}

TEST_CASE("communicators one after the other each know their own memory, and leave none") {
  const BufferKind kind = GENERATE(BufferKind::registered, BufferKind::windows);
  NcclGroupSettings settings = chain(kind);
  settings.arena_floats = kArenaFloats;
  settings.rounds = 3;
  Problems problems;
  std::size_t at_first = 0;
  run_nccl_group(settings, problems, [&](NcclRank& one) {
    problems.expect(one.how != all_with("plain", 1).front(), one, "it has " + one.how);
    static_cast<void>(sums_of(one, problems));
    if (one.communicator.rank() != 0) return;
    if (at_first == 0) at_first = one.gpu.memory_used();
    problems.expect(one.gpu.memory_used() == at_first, one, "memory is left of another one");
  });
  CHECK(problems.all() == std::vector<std::string>{});
}

TEST_CASE("a sum that hangs ends in time in memory that NCCL knows, which is freed afterwards") {
  const BufferKind kind = GENERATE(BufferKind::registered, BufferKind::windows);
  const FakeFaults faults("0:hang=3");
  NcclGroupSettings settings = chain(kind);
  settings.arena_floats = 64;
  settings.timeout = 2s;
  Problems problems;
  run_nccl_group(settings, problems, [&](NcclRank& one) {
    one.write(std::vector<float>(64, 1.0F));
    for (int bucket = 0; bucket < 3; ++bucket)
      static_cast<void>(one.communicator.finish(one.communicator.start(bucket, {0, 64}), soon()));
    const CommResult result = one.communicator.barrier(soon());
    problems.expect(result.status == CommStatus::timed_out && result.bucket == 2, one,
                    result.detail);
  });
  CHECK(problems.all() == std::vector<std::string>{});
}

TEST_CASE("memory that NCCL knows is kept where a GPU hangs") {
  NcclGroupSettings settings = chain(BufferKind::windows);
  settings.arena_floats = 64;
  settings.hangs_at = 1;
  settings.timeout = 2s;
  Problems problems;
  run_nccl_group(settings, problems, [&](NcclRank& one) {
    const bool is_guilty = one.communicator.rank() == 0;
    const DeviceMemory memory = one.device.allocate(64 * sizeof(float));
    one.device.add_into(memory.as<float>(), memory.as<float>().data());
    CommResult result;
    try {
      result = one.communicator.finish(one.communicator.start(3, {0, 64}), soon());
      if (result.ok()) result = one.communicator.barrier(soon());
      problems.expect(!is_guilty && !result.ok(), one, result.detail);
    } catch (const DeviceError& error) {
      problems.expect(is_guilty && has(error.what(), "the sum of bucket 3"), one, error.what());
    }
    one.gpu.reset();  // a process would leave without waiting for it
  });
  CHECK(problems.all() == std::vector<std::string>{});
}

}  // namespace
}  // namespace ddprun::trainer
