// One shard's gradients must have the same bits whatever surrounds the run: threads elsewhere, CPU
// mask, environment.
#include <sched.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/skip.hpp"
#include "tests/unit/trainer/host/host_executor.hpp"
#include "tests/unit/trainer/host/samples.hpp"
#include "trainer/compute/buffer.hpp"
#include "trainer/compute/initialize.hpp"
#include "trainer/error.hpp"
#include "trainer/model/model.hpp"

namespace ddprun::trainer {
namespace {

/// Hash of the gradients of three batches of lenet in a row, computed by `threads` threads.
std::string gradient_hash(int threads, Precision precision = Precision::fp32) {
  const ImageShape shape{28, 28, 1};
  const Graph graph = make_graph({ModelName::lenet, shape, 10});
  std::vector<float> parameters(graph.arena_size());
  initialize(graph.parameters(), parameters, 3);
  test::HostExecutor executor(graph, 16, precision, threads);
  std::vector<float> gradients(graph.arena_size());
  std::string hashes;
  for (std::uint32_t step = 0; step < 3; ++step) {
    const test::Samples samples = test::noise(16, shape, 10, step);
    executor.train(samples.batch(), parameters, 1024, 2, gradients);
    hashes += hash_text(hash_floats(gradients));
    for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i] -= 1e-4F * gradients[i];
  }
  return hashes;
}

/// What this very program prints for the hidden case below, in a child with `environment` before
/// its command.
std::string hash_in_child(const std::string& environment, const std::string& name) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string command = environment + " '" + self + "' '" + name + "' 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string output;
  std::array<char, 512> chunk{};
  while (std::fgets(chunk.data(), chunk.size(), pipe) != nullptr) output += chunk.data();
  INFO(output);
  REQUIRE(pclose(pipe) == 0);
  const std::size_t at = output.find("hash=");
  REQUIRE(at != std::string::npos);
  return output.substr(at + 5, output.find('\n', at) - at - 5);
}

TEST_CASE("child: one thread", "[.]") { std::printf("hash=%s\n", gradient_hash(1).c_str()); }
TEST_CASE("child: bf16", "[.]") {
  std::printf("hash=%s %s\n", gradient_hash(1, Precision::bf16).c_str(),
              test::host().description(Precision::bf16).c_str());
}
TEST_CASE("child: two threads", "[.]") { std::printf("hash=%s\n", gradient_hash(2).c_str()); }
TEST_CASE("child: one core", "[.]") {
  cpu_set_t one;
  CPU_ZERO(&one);
  REQUIRE(sched_getaffinity(0, sizeof one, &one) == 0);
  for (int cpu = CPU_SETSIZE - 1; cpu >= 0 && CPU_COUNT(&one) > 1; --cpu) CPU_CLR(cpu, &one);
  REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
  std::printf("hash=%s\n", gradient_hash(1).c_str());
}

TEST_CASE("gradients have the same bits whatever OMP variables say and on one core") {
  const std::string want = gradient_hash(1);
  REQUIRE(gradient_hash(1) == want);
  REQUIRE(hash_in_child("env -u OMP_NUM_THREADS", "child: one thread") == want);
  REQUIRE(hash_in_child("env OMP_NUM_THREADS=1", "child: one thread") == want);
  REQUIRE(hash_in_child("env OMP_NUM_THREADS=4", "child: one thread") == want);
  REQUIRE(hash_in_child("env OMP_NUM_THREADS=3 OMP_DYNAMIC=true", "child: one thread") == want);
  REQUIRE(hash_in_child("env ONEDNN_DEFAULT_FPMATH_MODE=BF16", "child: one thread") == want);
  REQUIRE(hash_in_child("env -u OMP_NUM_THREADS", "child: one core") == want);
}

TEST_CASE("a shard of two threads has the same bits whatever OMP variables say") {
#ifdef __SANITIZE_THREAD__
  ddprun::test::skip("ThreadSanitizer cannot see the barriers of the OpenMP runtime");
#endif
  const std::string want = gradient_hash(2);
  REQUIRE(hash_in_child("env OMP_NUM_THREADS=1", "child: two threads") == want);
  REQUIRE(hash_in_child("env OMP_NUM_THREADS=4 OMP_DYNAMIC=true", "child: two threads") == want);
}

TEST_CASE("bf16, stored or rounded, has the same bits whatever OMP variables say") {
  const std::string child = "child: bf16";
  for (const std::string isa : {"", "ONEDNN_MAX_CPU_ISA=AVX512_CORE "}) {
    INFO(isa);
    const std::string want = hash_in_child("env " + isa, child);
    REQUIRE(hash_in_child("env " + isa + "OMP_NUM_THREADS=4", child) == want);
    REQUIRE(hash_in_child("env " + isa + "OMP_NUM_THREADS=3 OMP_DYNAMIC=true", child) == want);
    if (!isa.empty()) REQUIRE_THAT(want, Catch::Matchers::Contains("bf16 rounded"));
  }
}

TEST_CASE("a thread limit that forbids the run's threads is refused, not obeyed in silence") {
#ifdef DDPRUN_OWN_THREADS
  ddprun::test::skip("this build has threads of its own in place of OpenMP's");
#endif
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string command = "env OMP_THREAD_LIMIT=1 '" + self +
                              "' 'child: two threads' 2>&1 | grep -q 'OMP_THREAD_LIMIT=1 forbids'";
  REQUIRE(std::system(command.c_str()) == 0);
}

TEST_CASE("gradients have the same bits in executors that run side by side") {
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    const std::string want = gradient_hash(1, precision);
    std::vector<std::string> hashes(3);
    std::vector<std::thread> threads;
    for (std::string& hash : hashes) {
      threads.emplace_back([&hash, precision] { hash = gradient_hash(1, precision); });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::string& hash : hashes) REQUIRE(hash == want);
  }
}

TEST_CASE("an executor made by one thread computes the same bits in another") {
  const ImageShape shape{28, 28, 1};
  const Graph graph = make_graph({ModelName::lenet, shape, 10});
  std::vector<float> parameters(graph.arena_size());
  initialize(graph.parameters(), parameters, 3);
  test::HostExecutor executor(graph, 16);
  const test::Samples samples = test::noise(16, shape, 10, 0);
  const auto train = [&] {
    std::vector<float> gradients(graph.arena_size());
    executor.train(samples.batch(), parameters, 1, 1, gradients);
    return hash_floats(gradients);
  };
  const std::uint64_t here = train();
  std::uint64_t there = 0;
  std::thread([&] { there = train(); }).join();
  REQUIRE(there == here);
}

}  // namespace
}  // namespace ddprun::trainer
