#include "trainer/cuda/choose_gpu.hpp"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/support/child.hpp"
#include "tests/support/temp_dir.hpp"

namespace ddprun::trainer::cuda {
namespace {

using Catch::Contains;

DriverFacts driver_with(int gpus, int capability = 90) {
  DriverFacts facts{.why_not = {}, .version = 13000, .gpus = {}};
  for (int k = 0; k < gpus; ++k)
    facts.gpus.push_back({.name = "NVIDIA H200", .capability = capability, .memory = 1000});
  return facts;
}

GpuRequest worker(int local_rank, int local_world_size,
                  std::optional<std::string> visible = std::nullopt) {
  return {.local_rank = local_rank,
          .local_world_size = local_world_size,
          .visible = std::move(visible)};
}

TEST_CASE("each worker has the GPU of its LOCAL_RANK") {
  CHECK(choose_gpu(driver_with(1), worker(0, 1)).why_not.empty());
  const GpuChoice choice = choose_gpu(driver_with(4), worker(2, 3));
  CHECK((choice.why_not.empty() && choice.number == 2));
}

TEST_CASE("a worker that alone sees its GPU has that one, whatever its LOCAL_RANK") {
  const GpuChoice choice = choose_gpu(driver_with(1), worker(3, 4, "3"));
  CHECK((choice.why_not.empty() && choice.number == 0));
}

TEST_CASE("more workers than visible GPUs are refused, and a LOCAL_RANK without a GPU") {
  CHECK_THAT(choose_gpu(driver_with(2), worker(0, 4, "0,1")).why_not,
             Contains("4 workers") && Contains("2 GPUs are visible") &&
                 Contains("CUDA_VISIBLE_DEVICES=0,1") && Contains("--nproc-per-node"));
  CHECK_THAT(choose_gpu(driver_with(1), worker(0, 2)).why_not, Contains("1 GPU is visible"));
  CHECK_THAT(choose_gpu(driver_with(2), worker(2, 1)).why_not,
             Contains("LOCAL_RANK=2 has no GPU") && Contains("2 are visible"));
}

TEST_CASE("workers that share GPUs are dealt out to them in turn") {
  const auto number_of = [](int gpus, int local_rank) {
    GpuRequest request = worker(local_rank, 4);
    request.shares = true;
    const GpuChoice choice = choose_gpu(driver_with(gpus), request);
    CHECK(choice.why_not.empty());
    return choice.number;
  };
  CHECK((number_of(1, 0) == 0 && number_of(1, 3) == 0));
  CHECK((number_of(3, 2) == 2 && number_of(3, 3) == 0));
  const auto workers_beside = [](int gpus, int local_rank) {
    GpuRequest request = worker(local_rank, 4);
    request.shares = true;
    return choose_gpu(driver_with(gpus), request).workers;
  };
  CHECK((workers_beside(1, 2) == 4 && workers_beside(2, 1) == 2));
  CHECK((workers_beside(3, 3) == 2 && workers_beside(3, 1) == 1));
  CHECK(workers_beside(8, 1) == 1);
  // Each worker sees one GPU, perhaps not the same.
  GpuRequest own = worker(1, 2);
  own.shares = true;
  own.visible = "3";
  CHECK(choose_gpu(driver_with(1), own).workers == 1);
  GpuRequest request = worker(0, 2);
  request.shares = true;
  CHECK_THAT(choose_gpu(driver_with(0), request).why_not, Contains("LOCAL_RANK=0 has no GPU"));
}

TEST_CASE("bf16 and tf32 are refused on a GPU without instructions for them, and no others") {
  GpuRequest request = worker(0, 1);
  for (const char* type : {"bf16", "tf32"}) {
    request.newer_type = type;
    CHECK(choose_gpu(driver_with(1, 80), request).why_not.empty());
    CHECK_THAT(choose_gpu(driver_with(1, 75), request).why_not,
               Contains(type) && Contains("7.5") && Contains("use fp16"));
  }
  request.newer_type.clear();
  CHECK(choose_gpu(driver_with(1, 75), request).why_not.empty());
}

TEST_CASE("what the driver says is passed on, with what makes GPUs visible") {
  DriverFacts facts;
  facts.why_not = "the NVIDIA driver shows no GPU to this process";
  CHECK(choose_gpu(facts, worker(0, 1, "7")).why_not ==
        "the NVIDIA driver shows no GPU to this process (CUDA_VISIBLE_DEVICES=7)");
}

std::string why_not_on(int capability, const char* architectures, int driver = 13000) {
  DriverFacts facts = driver_with(1, capability);
  facts.version = driver;
  return why_kernels_do_not_run(facts, facts.gpus.front(), 13000, architectures);
}

TEST_CASE("code runs on later GPUs of its major version, PTX on any later one") {
  for (const int capability : {80, 86, 89, 90, 100, 120}) {
    CAPTURE(capability);
    CHECK(why_not_on(capability, "80-real,90").empty());
  }
  CHECK_THAT(why_not_on(75, "80-real,90"), Contains("7.5") && Contains("8.0, 9.0 and newer") &&
                                               Contains("-DCMAKE_CUDA_ARCHITECTURES=75"));
  CHECK_THAT(why_not_on(90, "80-real"), Contains("are for 8.0:"));
  CHECK(why_not_on(90, "80-virtual").empty());
  CHECK_THAT(why_not_on(100, "90a"), Contains("are for 9.0:"));
  CHECK(why_not_on(90, "90a").empty());
  CHECK(why_not_on(75, "native").empty());  // nobody knows
}

TEST_CASE("a driver of an older major version than the build's CUDA is too old") {
  CHECK_THAT(why_not_on(90, "90", 12080),
             Contains("too old") && Contains("up to 12.8") && Contains("needs 13.0"));
  CHECK(why_not_on(90, "90", 13020).empty());
}

TEST_CASE("a driver is likely where one of its device files is") {
  const ddprun::test::TempDir dev;
  CHECK(!driver_likely(dev.path().string()));
  std::ofstream(dev / "nvidiactl") << "";
  CHECK(driver_likely(dev.path().string()));
}

TEST_CASE("on WSL, where GPUs of any maker have one device file, the driver's library tells") {
  const ddprun::test::TempDir dev;
  std::ofstream(dev / "dxg") << "";
  CHECK(!driver_likely(dev.path().string(), "libddprun_no_such_driver.so.1"));
  CHECK(driver_likely(dev.path().string(), "libc.so.6"));
}

TEST_CASE("GPUs are hidden by an empty CUDA_VISIBLE_DEVICES and by minus one") {
  for (const char* none : {"", "-1", "-1,0"}) CHECK(hides_all(std::string(none)));
  for (const char* some : {"0", "0,-1", "-10", "GPU-5a"}) CHECK(!hides_all(std::string(some)));
  CHECK(!hides_all(std::nullopt));
}

TEST_CASE("a driver that never answers is given up at a limit, with a warning before it") {
  const std::string driver = ddprun::test::helper("libfake_cuda_driver.so");
  CHECK(ask_driver(driver, {.warn = [](const std::string& text) { FAIL(text); }}).gpus.size() == 1);
  // It stays set: the driver's thread, which nobody joins, may read the environment at any time.
  setenv("FAKE_CUDA_HANGS", "1", 1);
  std::string warning;
  const DriverFacts facts =
      ask_driver(driver, {.limit = std::chrono::milliseconds(40),
                          .warn_after = std::chrono::milliseconds(10),
                          .warn = [&](const std::string& text) { warning += text; }});
  CHECK_THAT(facts.why_not, Contains("has not answered within 0.04 s (cuInit)") &&
                                Contains("nvidia-smi") && Contains("--device=cpu"));
  CHECK_THAT(warning, Contains("for 0.01 s (cuInit)") && Contains("up to 0.04 s"));
}

TEST_CASE("a missing driver and a file that is none are told apart") {
  CHECK_THAT(ask_driver("libddprun_no_such_driver.so.1").why_not,
             Contains("no NVIDIA driver was found"));
  const ddprun::test::TempDir directory;
  const std::string file = (directory / "libcuda.so.1").string();
  std::ofstream(file) << "text";
  CHECK_THAT(ask_driver(file).why_not, Contains("cannot be opened"));
  CHECK_THAT(ask_driver("libc.so.6").why_not,
             Contains("libc.so.6 is no NVIDIA driver: it has no cuInit"));
}

}  // namespace
}  // namespace ddprun::trainer::cuda
