// How a group over NCCL ends that cannot go on: with a value, in time, and with the GPU's streams
// free.
#include <catch2/catch.hpp>

#include "tests/unit/trainer/nccl/nccl_ranks.hpp"
#include "trainer/nccl/failures.hpp"

namespace ddprun::trainer {
namespace {

using namespace std::chrono_literals;
using test::FakeFaults;
using test::NcclRank;
using test::Problems;
using test::run_nccl_group;
using test::soon;

bool has(const CommResult& result, const std::string& text) {
  return result.detail.find(text) != std::string::npos;
}

TEST_CASE("an initialisation that never ends is given up at the deadline, with what to look at") {
  const FakeFaults faults("1:no_init");
  Problems problems;
  int failures = 0;
  std::mutex mutex;
  run_nccl_group(
      {.arena_floats = 64, .join_within = 4s}, problems, [](NcclRank&) {},
      [&](int rank, const CommSetup& setup) {
        const std::lock_guard lock(mutex);
        ++failures;
        if (setup.refused || setup.result.status != CommStatus::timed_out ||
            !has(setup.result, "NCCL_SOCKET_IFNAME"))
          problems.add(rank, setup.result.detail);
      });
  CHECK(failures == 2);
  CHECK(problems.all() == std::vector<std::string>{});
}

TEST_CASE("an initialisation that fails names the call and NCCL's own words") {
  const FakeFaults faults("1:init_error");
  Problems problems;
  int failures = 0;
  std::mutex mutex;
  run_nccl_group(
      {.arena_floats = 64, .join_within = 4s}, problems, [](NcclRank&) {},
      [&](int rank, const CommSetup& setup) {
        const std::lock_guard lock(mutex);
        ++failures;
        // The other one waits for it: in a process of its own it would see that one end.
        const bool is_right = rank == 1 ? setup.result.status == CommStatus::aborted &&
                                              has(setup.result, "ncclCommInitRankConfig") &&
                                              has(setup.result, "as the test has planned")
                                        : setup.result.status == CommStatus::timed_out &&
                                              has(setup.result, "NCCL has not connected all ranks");
        if (!is_right) problems.add(rank, setup.result.detail);
      });
  CHECK(failures == 2);
  CHECK(problems.all() == std::vector<std::string>{});
}

TEST_CASE("an error of NCCL in the middle of a sum is a result that names the bucket") {
  const FakeFaults faults("1:error=3");
  Problems problems;
  run_nccl_group({.arena_floats = 64, .timeout = 5s}, problems, [&](NcclRank& one) {
    one.write(std::vector<float>(64, 1.0F));
    CommResult result;
    for (int bucket = 0; bucket < 4 && result.ok(); ++bucket)
      result = one.communicator.finish(one.communicator.start(bucket, {0, 64}), soon());
    if (result.ok()) result = one.communicator.barrier(soon());
    problems.expect(!result.ok() && has(result, "bucket 1") && result.bucket == 1, one,
                    result.detail);
    if (one.communicator.rank() == 1) {
      problems.expect(result.status == CommStatus::aborted && has(result, "remote process exited"),
                      one, result.detail);
    }
    problems.expect(!one.communicator.barrier(soon()).ok(), one, "a later call was done");
  });
  CHECK(problems.all() == std::vector<std::string>{});
}

TEST_CASE("a call that fails within a group is named with its bucket, after the group has ended") {
  const FakeFaults faults("1:refuse=3");  // the first of the second group
  Problems problems;
  run_nccl_group({.arena_floats = 64, .timeout = 2s}, problems, [&](NcclRank& one) {
    one.write(std::vector<float>(64, 1.0F));
    CommResult result = one.communicator.finish(one.communicator.start(7, {0, 64}), soon());
    if (result.ok()) result = one.communicator.barrier(soon());
    if (one.communicator.rank() == 1) {
      problems.expect(result.status == CommStatus::aborted && result.bucket == 7 &&
                          has(result, "ncclSend failed in the sum of bucket 7"),
                      one, result.detail);
    } else {
      problems.expect(!result.ok(), one, "a sum was done though a rank had failed");
    }
  });
  CHECK(problems.all() == std::vector<std::string>{});
}

TEST_CASE(
    "a sum that hangs ends at the deadline, also while the host waits for the GPU elsewhere") {
  const FakeFaults faults("0:hang=5");
  const bool copies = GENERATE(false, true);
  Problems problems;
  run_nccl_group({.arena_floats = 64, .timeout = 4s}, problems, [&](NcclRank& one) {
    one.write(std::vector<float>(64, 1.0F));
    for (int bucket = 0; bucket < 3; ++bucket)
      static_cast<void>(one.communicator.finish(one.communicator.start(bucket, {0, 64}), soon()));
    // What comes out is garbage, but it comes.
    if (copies) static_cast<void>(one.read());
    const CommResult result = one.communicator.barrier(soon());
    problems.expect(
        result.status == CommStatus::timed_out && result.bucket == 2 && has(result, "bucket 2"),
        one, result.detail);
  });
  CHECK(problems.all() == std::vector<std::string>{});
}

TEST_CASE("a rank with a GPU that hangs before a sum or a meeting throws, and the other waited") {
  const bool in_meeting = GENERATE(false, true);
  Problems problems;
  run_nccl_group({.arena_floats = 64, .hangs_at = 1, .timeout = 2s}, problems, [&](NcclRank& one) {
    const DeviceMemory memory = one.device.allocate(64 * sizeof(float));
    one.device.add_into(memory.as<float>(), memory.as<float>().data());
    const bool is_guilty = one.communicator.rank() == 0;
    CommResult result;
    try {
      if (!in_meeting) result = one.communicator.finish(one.communicator.start(3, {0, 64}), soon());
      if (result.ok() && is_guilty && !in_meeting) static_cast<void>(one.read());
      if (result.ok()) result = one.communicator.barrier(Clock::now() + (in_meeting ? 2s : 20s));
      problems.expect(
          !is_guilty && has(result, "rank 1 has waited") && has(result, "until its deadline"), one,
          result.detail);
    } catch (const DeviceError& error) {
      result.detail = error.what();
      problems.expect(is_guilty && has(result, "the GPU has not finished its own work before") &&
                          !has(result, "deadline"),
                      one, result.detail);
    }
    problems.expect(has(result, in_meeting ? "the meeting of all ranks" : "the sum of bucket 3"),
                    one, result.detail);
    one.gpu.reset();  // a process would leave without waiting for it
  });
  CHECK(problems.all() == std::vector<std::string>{});
}

TEST_CASE("a rank with a GPU that hangs throws, also while it waits for no other rank") {
  Problems problems;
  run_nccl_group(
      {.arena_floats = 64, .hangs_at = 1, .timeout = 300ms}, problems, [&](NcclRank& one) {
        if (one.communicator.rank() != 0) return;
        const DeviceMemory memory = one.device.allocate(64 * sizeof(float));
        one.device.add_into(memory.as<float>(), memory.as<float>().data());
        try {
          static_cast<void>(one.read());
          problems.expect(false, one, "it came to an end");
        } catch (const DeviceError& error) {
          const std::string text = error.what();
          problems.expect(text.find("its own work: it hangs") != std::string::npos, one, text);
        }
        one.gpu.reset();  // a process would leave without waiting for it
      });
  CHECK(problems.all() == std::vector<std::string>{});
}

TEST_CASE("a sum that NCCL never begins is named, though another one was done before it") {
  const bool was_one_done = GENERATE(false, true);
  const FakeFaults faults(was_one_done ? "0:connecting=3" : "0:connecting=1");
  Problems problems;
  run_nccl_group({.arena_floats = 64, .order = SumOrder::chain, .timeout = 2s}, problems,
                 [&](NcclRank& one) {
                   one.write(std::vector<float>(64, 1.0F));
                   // An emulated GPU does nothing while nobody asks it.
                   one.gpu.synchronize(cuda::Stream::compute);
                   CommResult result;
                   if (was_one_done) {
                     static_cast<void>(one.communicator.start(1, {0, 64}));
                     result = one.communicator.barrier(soon());
                   }
                   if (result.ok())
                     result = one.communicator.finish(one.communicator.start(5, {0, 64}), soon());
                   if (result.ok()) result = one.communicator.barrier(soon());
                   problems.expect(result.status == CommStatus::timed_out && result.bucket == 5 &&
                                       has(result, "for the sum of bucket 5"),
                                   one, result.detail);
                 });
  CHECK(problems.all() == std::vector<std::string>{});
}

TEST_CASE("a rank with a GPU that hangs while NCCL begins a sum is not taken for one that waited") {
  const FakeFaults faults("0:connecting=2");  // the first is the meeting before
  Problems problems;
  run_nccl_group({.arena_floats = 64, .order = SumOrder::chain, .hangs_at = 1, .timeout = 2s},
                 problems, [&](NcclRank& one) {
                   const bool is_guilty = one.communicator.rank() == 0;
                   CommResult result = one.communicator.barrier(soon());
                   const DeviceMemory memory = one.device.allocate(64 * sizeof(float));
                   one.device.add_into(memory.as<float>(), memory.as<float>().data());
                   try {
                     if (result.ok())
                       result = one.communicator.finish(one.communicator.start(3, {0, 64}), soon());
                     if (result.ok()) result = one.communicator.barrier(soon());
                     problems.expect(!is_guilty && has(result, "rank 1 has waited"), one,
                                     result.detail);
                   } catch (const DeviceError& error) {
                     result.detail = error.what();
                     problems.expect(is_guilty, one, result.detail);
                   }
                   problems.expect(has(result, "the sum of bucket 3"), one, result.detail);
                   one.gpu.reset();  // a process would leave without waiting for it
                 });
  CHECK(problems.all() == std::vector<std::string>{});
}

TEST_CASE("an error of NCCL while nothing is awaited names neither a sum nor a meeting") {
  using Catch::Matchers::StartsWith;
  CHECK_THAT(nccl::nccl_failed("NCCL", {}, "H200 GPU-1", "cut", "it").detail,
             StartsWith("NCCL failed on H200 GPU-1: cut (it)"));
  CHECK_THAT(nccl::nccl_failed("NCCL", {.is_meeting = true}, "H200 GPU-1", "cut", "it").detail,
             StartsWith("NCCL failed in the meeting of all ranks on H200 GPU-1: cut (it)"));
  CHECK(nccl::peer_ended(1, 5, {}).detail == "rank 1 (pid 5) ended before it finished the run");
}

TEST_CASE("a meeting that one rank never comes to ends at its deadline") {
  Problems problems;
  std::atomic<bool> is_over{false};
  run_nccl_group({.arena_floats = 64}, problems, [&](NcclRank& one) {
    if (one.communicator.rank() == 1) {
      while (!is_over) std::this_thread::sleep_for(1ms);
      return;
    }
    const CommResult result = one.communicator.barrier(Clock::now() + 50ms);
    problems.expect(result.status == CommStatus::timed_out && result.bucket == -1, one,
                    result.detail);
    is_over = true;
  });
  CHECK(problems.all() == std::vector<std::string>{});
}

TEST_CASE("an abort ends this rank's calls with its reason") {
  Problems problems;
  run_nccl_group({.arena_floats = 64}, problems, [&](NcclRank& one) {
    one.communicator.abort("the test says so");
    std::byte byte{};
    for (const CommResult& result :
         {one.communicator.barrier(soon()), one.communicator.broadcast({&byte, 1}, 0, soon()),
          one.communicator.finish(one.communicator.start(0, {0, 64}), soon())}) {
      problems.expect(result.status == CommStatus::aborted && has(result, "the test says so"), one,
                      result.detail);
    }
  });
  CHECK(problems.all() == std::vector<std::string>{});
}

}  // namespace
}  // namespace ddprun::trainer
