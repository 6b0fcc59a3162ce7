// --gpus=free: real ddprun processes on a machine whose GPUs a stub of the driver's library shows.
#include <unistd.h>

#include <csignal>
#include <deque>
#include <fstream>
#include <iterator>

#include "base/exit_codes.hpp"
#include "tests/support/job.hpp"

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;
namespace fs = std::filesystem;

namespace {

class EmulatedGpus {
 public:
  explicit EmulatedGpus(int count) : count_(count) {
    fs::create_directory(folder_ / "driver");
    fs::create_directory(folder_ / "shared");
    fs::create_symlink(fs::absolute(helper("libstub_nvml.so.1")),
                       folder_ / "driver/libnvidia-ml.so.1");
  }

  /// What the driver tells; see stub_nvml.cpp.
  void used(const std::string& lines) const { std::ofstream(used_file()) << lines; }

  [[nodiscard]] ChildOptions settings() {
    ChildOptions settings = job_.settings();
    const auto add = [&](const std::string& name, const std::string& value) {
      settings.environment.emplace_back(name, value);
    };
    add("LD_LIBRARY_PATH", (folder_ / "driver").string());
    add("STUB_NVML_GPUS", std::to_string(count_));
    add("STUB_NVML_NAME", job_.mark_entry());  // claims are the machine's
    add("STUB_NVML_USED", used_file());
    add("SHARED", shared().string());
    add("CUDA_VISIBLE_DEVICES", "");  // none
    return settings;
  }
  static std::vector<std::string> command(const std::vector<std::string>& options,
                                          const std::string& script) {
    std::vector<std::string> words{program("ddprun")};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), {"/bin/sh", "-c", script});
    return words;
  }
  ChildResult run(const std::vector<std::string>& options, const std::string& script) {
    return test::run(command(options, script), settings());
  }
  /// For what workers leave there.
  [[nodiscard]] fs::path shared() const { return folder_ / "shared"; }
  [[nodiscard]] std::string used_file() const { return (folder_ / "used").string(); }

 private:
  const int count_;
  TempDir folder_;
  Job job_;
};

std::size_t entries_in(const fs::path& folder) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

constexpr auto kShow = "echo gpus=$CUDA_VISIBLE_DEVICES order=$CUDA_DEVICE_ORDER";

}  // namespace

TEST_CASE("option --gpus=free gives a worker to each GPU that no process uses") {
  EmulatedGpus gpus(4);
  gpus.used("1 " + std::to_string(::getpid()) + " 2147483648\n");
  const auto result = gpus.run({"--gpus=free"}, kShow);
  INFO(result.err);
  CHECK(result.status == 0);
  CHECK(sorted_lines(result.out) ==
        std::vector<std::string>{"[rank0] gpus=0,2,3 order=PCI_BUS_ID",
                                 "[rank1] gpus=0,2,3 order=PCI_BUS_ID",
                                 "[rank2] gpus=0,2,3 order=PCI_BUS_ID"});
  CHECK_THAT(result.err, Contains("ddprun: --gpus=free: the job has GPU 0,2,3\n"));
}

TEST_CASE("option --gpus=free takes as many GPUs as there are workers, or as it says") {
  EmulatedGpus gpus(4);
  CHECK_THAT(gpus.run({"--gpus=free", "--nproc-per-node=2"}, kShow).out, Contains("gpus=0,1 "));
  CHECK_THAT(gpus.run({"--gpus=free:3", "--nproc-per-node=1"}, kShow).out, Contains("gpus=0,1,2 "));
  const auto more = gpus.run({"--gpus=free:1", "--nproc-per-node=2"}, kShow);
  CHECK(more.status == kExitUsage);
}

TEST_CASE("too few free GPUs are an error that names who uses each of the others") {
  EmulatedGpus gpus(3);
  gpus.used("0 " + std::to_string(::getpid()) + " 2147483648\n2 0 1073741824\n");
  const auto result = gpus.run({"--gpus=free:2"}, kShow);
  CHECK(result.status == kExitNoRound);
  CHECK(result.err ==
        "ddprun: --gpus=free:2: 1 of 3 visible GPUs is free, and 2 are wanted\n"
        "  GPU 0: pid " +
            std::to_string(::getpid()) + " (test_free_gpus, uid " + std::to_string(::getuid()) +
            ") uses 2.0 GiB\n"
            "  GPU 2: a process that cannot be seen from here uses 1.0 GiB\n");
  CHECK(result.out.empty());
}

TEST_CASE("option --gpus=free needs NVML and a GPU") {
  EmulatedGpus none(0);
  const auto result = none.run({"--gpus=free"}, kShow);
  CHECK(result.status == kExitUsage);
  CHECK_THAT(result.err, Contains("--gpus=free: no GPU was found (looked for NVML"));
}

TEST_CASE("of 200 ddprun at once each GPU has one at a time, and the others are told who has it") {
  constexpr int kLaunches = 200;
  constexpr int kGpus = 8;
  EmulatedGpus gpus(kGpus);
  const std::string script =
      "mkdir $SHARED/gpu$CUDA_VISIBLE_DEVICES || touch $SHARED/twice; touch $SHARED/ran.$$; "
      "sleep 0.5; rmdir $SHARED/gpu$CUDA_VISIBLE_DEVICES";
  std::deque<Child> launches;
  for (int i = 0; i < kLaunches; ++i)
    launches.emplace_back(EmulatedGpus::command({"--gpus=free:1"}, script), gpus.settings());
  int ran = 0;
  int refused = 0;
  for (Child& launch : launches) {
    const ChildResult result = launch.wait();
    INFO(result.err);
    if (result.status == 0) {
      ++ran;
    } else {
      ++refused;
      CHECK(result.status == kExitNoRound);
      CHECK_THAT(result.err, Contains("claimed by pid ") && Contains("(ddprun, uid "));
    }
  }
  CHECK(ran >= kGpus);
  CHECK(ran + refused == kLaunches);
  CHECK_FALSE(fs::exists(gpus.shared() / "twice"));
  CHECK(entries_in(gpus.shared()) == static_cast<std::size_t>(ran));
}

TEST_CASE("a restart waits until nothing uses the GPUs, and names who does") {
  EmulatedGpus gpus(2);
  const std::string script =
      "if [ $TORCHELASTIC_RESTART_COUNT = 1 ]; then cat $STUB_NVML_USED; exit; fi; "
      "echo 0 $PPID 5368709120 > $STUB_NVML_USED; exit 3";
  Child child(
      EmulatedGpus::command({"--gpus=free:1", "--max-restarts=1", "--restart-delay=0"}, script),
      gpus.settings());
  REQUIRE(child.wait_for([](const std::string&, const std::string& err) {
    return err.find("waiting at most 30 s for GPUs that are in use: GPU 0: pid ") !=
           std::string::npos;
  }));
  gpus.used("");
  const auto result = child.wait();
  INFO(result.err);
  CHECK(result.status == 0);
  CHECK(result.out.empty());
  CHECK_THAT(result.err, Contains(") uses 5.0 GiB\n"));
}

TEST_CASE("a job that is ended while it waits for its GPUs ends at once") {
  EmulatedGpus gpus(1);
  const std::string script = "echo 0 $PPID 5368709120 > $STUB_NVML_USED; exit 3";
  Child child(
      EmulatedGpus::command({"--gpus=free", "--max-restarts=1", "--restart-delay=0"}, script),
      gpus.settings());
  REQUIRE(child.wait_for([](const std::string&, const std::string& err) {
    return err.find("waiting at most 30 s for GPUs that are in use: GPU 0: pid ") !=
           std::string::npos;
  }));
  child.signal(SIGTERM);
  CHECK(child.wait().status == 128 + SIGTERM);
}
