// GPUs that nothing uses, claimed among all ddprun of the machine; the driver is a stub.
#include "machine/devices/gpu_claims.hpp"

#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <thread>

#include "tests/support/temp_dir.hpp"
#include "tests/unit/machine/devices/stub_nvml.hpp"

using namespace ddprun;
using namespace ddprun::machine;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using Words = std::vector<std::string>;

namespace {

/// Claims are the machine's, and tests run side by side.
std::string own_uuid(int gpu) {
  return "GPU-" + std::to_string(::getpid()) + "-" + std::to_string(gpu);
}

std::vector<GpuCandidate> candidates(int count) {
  std::vector<GpuCandidate> gpus;
  for (int i = 0; i < count; ++i) gpus.push_back({std::to_string(i), own_uuid(i)});
  return gpus;
}

std::string nothing_uses_it(const std::string&) { return ""; }

Words entries(const GpuClaims& claims) {
  Words words;
  for (const GpuClaim& claim : claims.claimed) words.push_back(claim.gpu.entry);
  return words;
}

/// What the stub's driver says of GPU 0 with these lines in its file.
GpuUse use_with(const std::string& lines, const char* failing_call = "") {
  const test::TempDir dir;
  std::ofstream(dir / "used") << lines;
  ::setenv("STUB_NVML_GPUS", "2", 1);
  ::setenv("STUB_NVML_FAILS", failing_call, 1);
  ::setenv("STUB_NVML_USED", (dir / "used").c_str(), 1);
  const auto nvml = Nvml::open(test::stub_nvml());
  REQUIRE(nvml.has_value());
  GpuUse use = nvml->use_of("GPU-0");
  for (const char* name : {"STUB_NVML_GPUS", "STUB_NVML_FAILS", "STUB_NVML_USED"}) ::unsetenv(name);
  return use;
}

}  // namespace

TEST_CASE("a GPU that no process uses is free, whatever the driver itself keeps there") {
  CHECK(why_not_free(use_with("")).empty());
  CHECK(why_not_free(use_with("1 4242 1000000000\n")).empty());  // the other GPU
  CHECK(why_not_free({.processes = {}, .used_bytes = 64ULL << 20U, .problem = ""}).empty());
}

TEST_CASE("who uses a GPU is named by pid, name and user") {
  const std::string self = std::to_string(::getpid());
  const std::string why = why_not_free(use_with("0 " + self + " 13207024435\n0 999999999 0\n"));
  CHECK_THAT(why, Contains("pid " + self + " (test_machine, uid " + std::to_string(::getuid()) +
                           ") uses 12.3 GiB, pid 999999999 uses it"));
}

TEST_CASE("more processes than one call of the driver lists are all named") {
  std::string lines;
  for (int i = 0; i < 100; ++i) lines += "0 " + std::to_string(900'000'000 + i) + " 1000\n";
  CHECK(use_with(lines).processes.size() == 100);
}

TEST_CASE("memory of a process that is not seen from a container makes a GPU used") {
  CHECK(why_not_free(use_with("0 0 2147483648\n")) ==
        "a process that cannot be seen from here uses 2.0 GiB");
}

TEST_CASE("a screen's programs do not use a GPU") {
  CHECK(why_not_free(use_with("0 -77 2147483648\n")).empty());
}

TEST_CASE("a GPU of which the driver tells only one thing is judged by that one") {
  CHECK_THAT(why_not_free(use_with("0 4242 2147483648\n", "memory")), Contains("pid 4242"));
  CHECK_THAT(why_not_free(use_with("0 4242 2147483648\n", "processes")),
             Contains("cannot be seen from here uses 2.0 GiB"));
}

TEST_CASE("a GPU of which the driver tells nothing is not free") {
  const auto nvml = Nvml::open(test::stub_nvml());
  REQUIRE(nvml.has_value());
  CHECK(why_not_free(nvml->use_of("GPU-unknown")) == "NVML does not find it by its UUID");
  CHECK(why_not_free({.processes = {}, .used_bytes = {}, .problem = "NVML does not tell"}) ==
        "NVML does not tell");
}

TEST_CASE("how busy a GPU is has what the driver tells of it") {
  ::setenv("STUB_NVML_GPUS", "2", 1);
  const auto nvml = Nvml::open(test::stub_nvml());
  REQUIRE(nvml.has_value());
  CHECK(nvml->load_of("GPU-1").percent == 51U);
  CHECK(nvml->load_of("GPU-1").used_bytes == 1ULL << 20U);
  CHECK(nvml->load_of("GPU-1").total_bytes == 1ULL << 34U);
  ::setenv("STUB_NVML_FAILS", "utilization", 1);
  CHECK_FALSE(nvml->load_of("GPU-1").percent.has_value());
  CHECK(nvml->load_of("GPU-1").used_bytes.has_value());
  CHECK_FALSE(nvml->load_of("MIG-unknown").used_bytes.has_value());
  for (const char* name : {"STUB_NVML_GPUS", "STUB_NVML_FAILS"}) ::unsetenv(name);
}

TEST_CASE("the first free GPUs are claimed, and those in use are told with the reason") {
  const auto look = [](const std::string& uuid) {
    return uuid == own_uuid(1) ? std::string("pid 7 uses it") : std::string();
  };
  const GpuClaims claims = claim_free_gpus(candidates(4), 2, look);
  CHECK(entries(claims) == Words{"0", "2"});
  REQUIRE(claims.busy.size() == 1);
  CHECK(claims.busy[0].entry == "1");
  CHECK(claims.busy[0].why == "pid 7 uses it");
}

TEST_CASE("a claimed GPU is not free until the claim is closed, and its holder is named") {
  std::optional<GpuClaims> first = claim_free_gpus(candidates(2), 1, nothing_uses_it);
  REQUIRE(entries(*first) == Words{"0"});
  const GpuClaims second = claim_free_gpus(candidates(2), 0, nothing_uses_it);
  CHECK(entries(second) == Words{"1"});
  REQUIRE(second.busy.size() == 1);
  CHECK(second.busy[0].why == "claimed by pid " + std::to_string(::getpid()) +
                                  " (test_machine, uid " + std::to_string(::getuid()) + ")");
  first.reset();
  CHECK(entries(claim_free_gpus(candidates(1), 0, nothing_uses_it)) == Words{"0"});
}

TEST_CASE("where fewer are free than wanted none stays claimed") {
  CHECK(entries(claim_free_gpus(candidates(2), 3, nothing_uses_it)).empty());
  CHECK(entries(claim_free_gpus(candidates(2), 2, nothing_uses_it)).size() == 2);
}

TEST_CASE(
    "those who choose at the same time never get the same GPU, and never half of what is there") {
  constexpr int kThreads = 32;
  std::atomic<int> owners[4] = {};
  std::atomic<int> twice = 0;
  std::atomic<int> served = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      while (true) {
        const GpuClaims claims = claim_free_gpus(candidates(4), 2, nothing_uses_it);
        for (const GpuClaim& claim : claims.claimed)
          if (owners[std::stoi(claim.gpu.entry)]++ != 0) ++twice;
        std::this_thread::sleep_for(1ms);
        for (const GpuClaim& claim : claims.claimed) --owners[std::stoi(claim.gpu.entry)];
        if (!claims.claimed.empty()) break;
      }
      ++served;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(twice == 0);
  CHECK(served == kThreads);
}

TEST_CASE("GPUs that become free are waited for, and who uses them is told after a second") {
  const auto begin = std::chrono::steady_clock::now();
  const auto look = [&](const std::string&) {
    return std::chrono::steady_clock::now() - begin < 1200ms ? std::string("pid 7 uses 3 GiB")
                                                             : std::string();
  };
  Words said;
  CHECK(await_free_gpus(candidates(1), 30s, look, [&](const auto& line) { said.push_back(line); }));
  CHECK(said == Words{"waiting at most 30 s for GPUs that are in use: GPU 0: pid 7 uses 3 GiB"});
}

TEST_CASE("the wait for free GPUs has a limit, behind which the workers start") {
  Words said;
  const auto look = [](const std::string&) { return std::string("pid 7 uses 3 GiB"); };
  CHECK_FALSE(
      await_free_gpus(candidates(2), 10ms, look, [&](const auto& line) { said.push_back(line); }));
  CHECK(said == Words{"the workers start although GPUs are still in use after 0.01 s: GPU 0: pid 7 "
                      "uses 3 GiB; GPU 1: pid 7 uses 3 GiB"});
}
