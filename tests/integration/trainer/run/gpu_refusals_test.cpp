// Why a GPU cannot be used, each reason in one line: train beside plugins, a driver and libraries
// that are fakes.
#include <dlfcn.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "tests/integration/trainer/run/worker_group.hpp"
#include "tests/support/child.hpp"
#include "tests/support/skip.hpp"
#include "tests/support/temp_dir.hpp"

using namespace ddprun::test;
namespace fs = std::filesystem;

namespace {

using Catch::Contains;
using Environment = std::vector<std::pair<std::string, std::string>>;

/// A copy of train in a folder of its own, with what a test puts beside it.
class Installation {
 public:
  Installation() {
    fs::create_directories(directory_ / "driver");
    fs::create_directories(directory_ / "libraries");
    fs::create_directories(directory_ / "empty");
    fs::copy_file(program("train"), directory_ / "train");
  }
  void add_plugin(const std::string& file) const {
    fs::copy_file(file, directory_ / "libtrain_cuda.so");
  }
  void add_driver() const {
    fs::copy_file(helper("libfake_cuda_driver.so"), directory_ / "driver/libcuda.so.1");
  }
  void add_library(const std::string& name) const {
    fs::copy_file(helper("libfake_cuda_library.so"), directory_ / ("libraries/" + name));
  }
  /// In place of one that is there.
  void add_damaged_library(const std::string& name) const {
    const fs::path file = directory_ / ("libraries/" + name);
    fs::remove(file);
    std::ofstream(file) << "no library";
  }
  [[nodiscard]] std::string libraries() const { return (directory_ / "libraries").string(); }

  [[nodiscard]] ChildResult run(std::vector<std::string> arguments, Environment more = {}) const {
    arguments.insert(arguments.begin(), (directory_ / "train").string());
    // Nothing of this machine. An empty value removes the name: it would hide the fake's GPUs, too.
    Environment environment{{"LD_LIBRARY_PATH", (directory_ / "driver").string()},
                            {"CUDA_VISIBLE_DEVICES", ""},
                            {"DDPRUN_CUDA_PATH", libraries()}};
    environment.insert(environment.end(), more.begin(), more.end());
    ChildOptions options;
    options.leave_stdin = true;
    options.environment = environment;
    options.directory = (directory_ / "empty").string();
    return ddprun::test::run(arguments, options);
  }

 private:
  TempDir directory_;
};

/// Exit code 2, one line with all the parts, nothing begun.
void check_refusal(const ChildResult& result, const std::vector<std::string>& parts) {
  CAPTURE(result.err);
  CHECK(result.status == 2);
  CHECK(result.out.empty());
  CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
  CHECK_THAT(result.err, Contains("--device cuda: "));
  for (const std::string& part : parts) CHECK_THAT(result.err, Contains(part));
}

std::string fake_plugin() { return helper("libfake_cuda_plugin.so"); }

Environment first_of_two_workers() {
  return {{"RANK", "0"},          {"LOCAL_RANK", "0"},
          {"WORLD_SIZE", "2"},    {"LOCAL_WORLD_SIZE", "2"},
          {"MASTER_PORT", "1"},   {"MASTER_ADDR", "127.0.0.1"},
          {"FAKE_CUDA_GPUS", "2"}};
}

/// Where the loader itself looks.
bool has_library(const char* name) {
  void* const library = dlopen(name, RTLD_LAZY);
  if (library != nullptr) dlclose(library);
  return library != nullptr;
}

}  // namespace

TEST_CASE("without the plugin, or with another build's, --device=cuda names the file") {
  const Installation none;
  check_refusal(none.run({"--device=cuda"}),
                {"libtrain_cuda.so is missing", "build train with CUDA", "or use --device=cpu"});
  const Installation other;
  other.add_plugin(fake_plugin());
  check_refusal(other.run({"--device=cuda"}, {{"FAKE_PLUGIN_OTHER", "1"}}),
                {"libtrain_cuda.so is of another build (0.0.1-other)", "together"});
  const Installation foreign;
  foreign.add_plugin(helper("libfake_cuda_library.so"));
  check_refusal(foreign.run({"--device=cuda"}), {"is no plugin of train", "ddprun_train_cuda"});
}

TEST_CASE("a driver that is missing, old or without a GPU is refused with its own line") {
  const Installation one;
  one.add_plugin(fake_plugin());
  if (fs::exists("/dev/nvidiactl") || fs::exists("/dev/dxg"))
    skip("this machine has a driver of its own");
  check_refusal(one.run({"--device=cuda"}),
                {"no NVIDIA driver was found (libcuda.so.1)", "install it, or use --device=cpu"});
  one.add_driver();
  check_refusal(one.run({"--device=cuda"}, {{"FAKE_CUDA_VERSION", "12040"}}),
                {"driver is too old", "up to 12.4", "needs 13.0"});
  check_refusal(one.run({"--device=cuda"}, {{"FAKE_CUDA_INIT", "100"}}),
                {"shows no GPU", "nvidia-smi", "CUDA_VISIBLE_DEVICES"});
  check_refusal(one.run({"--device=cuda"}, {{"FAKE_CUDA_INIT", "999"}}),
                {"cuInit", "fake trouble", "999", "nvidia-smi"});
}

TEST_CASE("workers and GPUs that do not fit together are refused before anything is begun") {
  const Installation one;
  one.add_plugin(fake_plugin());
  one.add_driver();
  const Environment third{{"RANK", "2"},          {"LOCAL_RANK", "2"},
                          {"WORLD_SIZE", "3"},    {"LOCAL_WORLD_SIZE", "3"},
                          {"MASTER_PORT", "1"},   {"MASTER_ADDR", "127.0.0.1"},
                          {"FAKE_CUDA_GPUS", "2"}};
  check_refusal(one.run({"--device=cuda"}, third), {"3 workers", "2 GPUs are visible"});
  check_refusal(one.run({"--device=cuda"}, {{"LOCAL_RANK", "1"}}),
                {"LOCAL_RANK=1 has no GPU", "--nproc-per-node=gpu"});
  check_refusal(one.run({"--device=cuda"}, {{"FAKE_CUDA_CAPABILITY", "75"}}),
                {"Fake GPU 0", "7.5", "-DCMAKE_CUDA_ARCHITECTURES=75"});
  check_refusal(one.run({"--device=cuda", "--precision=bf16"}, {{"FAKE_CUDA_CAPABILITY", "75"}}),
                {"bf16", "Fake GPU 0"});
  check_refusal(one.run({"--device=cuda"}, {{"CUDA_VISIBLE_DEVICES", "-1"}}),
                {"CUDA_VISIBLE_DEVICES=-1 hides all GPUs", "unset it"});
}

TEST_CASE("a GPU that fails as it is opened ends train with exit code 1 and the call") {
  const Installation one;
  one.add_plugin(fake_plugin());
  one.add_driver();
  const ChildResult result = one.run({"--device=cuda"});
  CHECK(result.status == 1);
  CHECK_THAT(result.err, Contains("cudaSetDevice failed on GPU 0"));
}

TEST_CASE("the real plugin refuses a library that is too old or incomplete") {
  const std::string plugin = program("libtrain_cuda.so");
  if (!fs::exists(plugin)) skip("built without CUDA");
  const Installation one;
  one.add_plugin(plugin);
  one.add_driver();
  for (const char* name : {"libcublasLt.so.12", "libcublasLt.so.13", "libcudnn.so.9"})
    one.add_library(name);
  check_refusal(one.run({"--device=cuda"}, {{"FAKE_CUBLASLT_VERSION", "110200"}}),
                {"cuBLASLt", one.libraries(), "is cuBLASLt 11.2.0", "the oldest"});
  check_refusal(one.run({"--device=cuda"}), {"cuBLASLt", "has no function cublasLtCreate"});
}

TEST_CASE("the real plugin refuses a cuDNN that is too old, incomplete or damaged") {
  const std::string plugin = program("libtrain_cuda.so");
  if (!fs::exists(plugin)) skip("built without CUDA");
  if (!fs::exists("/usr/local/cuda/lib64/libcublasLt.so.13")) skip("cuBLASLt comes first");
  const Installation one;
  one.add_plugin(plugin);
  one.add_driver();
  one.add_library("libcudnn.so.9");
  check_refusal(one.run({"--device=cuda"}, {{"FAKE_CUDNN_VERSION", "8907"}}),
                {"cuDNN 9 in DDPRUN_CUDA_PATH cannot be used", one.libraries(), "is cuDNN 8.9.7",
                 "9.0.0 is the oldest"});
  check_refusal(one.run({"--device=cuda"}), {"cuDNN 9", "has no function cudnnCreate"});
  one.add_damaged_library("libcudnn.so.9");
  check_refusal(one.run({"--device=cuda"}), {"cuDNN 9 in DDPRUN_CUDA_PATH", "libcudnn.so.9: "});
}

TEST_CASE("a library that is missing is refused with its file, its package and where to name it") {
  const std::string plugin = program("libtrain_cuda.so");
  if (!fs::exists(plugin)) skip("built without CUDA");
  for (const char* file : {"libcublasLt.so.13", "libcublasLt.so.12"})
    if (fs::exists(std::string("/usr/local/cuda/lib64/") + file)) skip("it is on this machine");
  const Installation one;
  one.add_plugin(plugin);
  one.add_driver();
  check_refusal(one.run({"--device=cuda"}, {{"PATH", "/nonexistent"}}),
                {"cuBLASLt", "was not found in DDPRUN_CUDA_PATH", "pip install nvidia-cublas"});
}

TEST_CASE(
    "several workers refuse an NCCL that is too old, incomplete or damaged, and one needs none") {
  const Installation one;
  one.add_plugin(fake_plugin());
  one.add_driver();
  one.add_library("libnccl.so.2");
  Environment two = first_of_two_workers();
  check_refusal(one.run({"--device=cuda"}, two), {"NCCL 2", "has no function ncclGetUniqueId"});
  two.emplace_back("FAKE_NCCL_VERSION", "21000");
  check_refusal(one.run({"--device=cuda"}, two),
                {"NCCL 2 in DDPRUN_CUDA_PATH cannot be used", one.libraries(), "is NCCL 2.10.0",
                 "2.18.0 is the oldest"});
  one.add_damaged_library("libnccl.so.2");
  check_refusal(one.run({"--device=cuda"}, two), {"NCCL 2 in DDPRUN_CUDA_PATH", "libnccl.so.2: "});
  const ChildResult alone = one.run({"--device=cuda"});
  CHECK(alone.status == 1);
  CHECK_THAT(alone.err, Contains("cudaSetDevice failed on GPU 0"));
}

TEST_CASE("an NCCL that is missing is refused with its package, and one worker needs none") {
  if (fs::exists("/usr/local/cuda/lib64/libnccl.so.2") || has_library("libnccl.so.2"))
    skip("this machine has NCCL");
  const Installation one;
  one.add_plugin(fake_plugin());
  one.add_driver();
  Environment two = first_of_two_workers();
  two.emplace_back("PATH", "/nonexistent");
  check_refusal(
      one.run({"--device=cuda"}, two),
      {"NCCL 2 (libnccl.so.2) was not found in DDPRUN_CUDA_PATH", "pip install nvidia-nccl-cu13"});
  const ChildResult alone = one.run({"--device=cuda"}, {{"PATH", "/nonexistent"}});
  CHECK(alone.status == 1);
  CHECK_THAT(alone.err, Contains("cudaSetDevice failed on GPU 0"));
}

TEST_CASE("under --device=auto two workers with an old NCCL train on the CPU, and one warns once") {
  const SmallData data;
  const std::string why = "is NCCL 2.10.0, and 2.18.0 is the oldest that this build can use";
  GroupOptions options{
      .world_size = 2,
      .arguments = {"--data", data.path(), "--batch=8", "--max-steps=1", "--checkpoint-every=off",
                    "--device=auto"},
      .environment = {{"CUDA_VISIBLE_DEVICES", ""}, {"DDPRUN_FAKE_NCCL_VERSION", "21000"}},
      .program = helper("train_emulated")};
  std::string warnings;
  for (const ChildResult& result : WorkerGroup(options).wait()) {
    CHECK(result.status == 0);
    warnings += result.err;
  }
  CHECK_THAT(warnings, Contains("--device auto: training on the CPU, as ") && Contains(why));
  CHECK(warnings.find("--device auto") == warnings.rfind("--device auto"));
  options.arguments.back() = "--device=cuda";
  for (const ChildResult& result : WorkerGroup(options).wait()) {
    CHECK(result.out.empty());
    check_refusal(result, {why});
  }
}

TEST_CASE("the option --version names the plugin and the libraries, or why GPUs are not used") {
  const Installation none;
  CHECK_THAT(none.run({"--version"}).out,
             Contains("GPUs: not used: ") && Contains("libtrain_cuda.so is missing"));
  const Installation one;
  one.add_plugin(fake_plugin());
  const ChildResult result = one.run({"--version"});
  CHECK(result.status == 0);
  CHECK_THAT(result.out, Contains("libtrain_cuda.so, CUDA 13.0, architectures 80-real,90") &&
                             Contains("cuDNN 9.9.9, /fake"));
}

TEST_CASE("the option --device=auto trains on the CPU where there is no driver") {
  if (fs::exists("/dev/nvidiactl") || fs::exists("/dev/dxg")) skip("this machine has a driver");
  const Installation one;
  one.add_plugin(fake_plugin());
  const ChildResult result = one.run({"--max-steps=1", "--checkpoint-every=off", "--batch=8"});
  CAPTURE(result.err);
  CHECK(result.status == 0);
  CHECK(result.err.empty());
  CHECK_THAT(result.out, Contains("1 worker on the CPU"));
}
