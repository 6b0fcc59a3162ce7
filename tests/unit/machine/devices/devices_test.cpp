// The discovery of GPUs, with folders and a library of our own in place of the machine's.
#include "machine/devices/devices.hpp"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temp_dir.hpp"
#include "tests/unit/machine/devices/stub_nvml.hpp"

using namespace ddprun::machine;
using Catch::Matchers::Contains;

namespace {

/// Folders as the driver makes them, without any GPU.
class SimulatedMachine {
 public:
  SimulatedMachine() {
    std::filesystem::create_directories(dir_ / "dev");
    places.nvml.clear();
    places.proc = (dir_ / "driver").string();
    places.dev = (dir_ / "dev").string();
    ::unsetenv("STUB_NVML_GPUS");
    ::unsetenv("STUB_NVML_FAILS");
  }
  SimulatedMachine& with_nvml(const char* gpus, const char* failing_call = "") {
    places.nvml = ddprun::test::stub_nvml();
    ::setenv("STUB_NVML_GPUS", gpus, 1);
    ::setenv("STUB_NVML_FAILS", failing_call, 1);
    return *this;
  }
  SimulatedMachine& with_proc(const std::string& pci, const std::string& information) {
    const auto folder = dir_ / "driver" / "gpus" / pci;
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "information") << information;
    return *this;
  }
  SimulatedMachine& with_device_file(const std::string& name) {
    std::ofstream(dir_ / "dev" / name).flush();
    return *this;
  }

  GpuPlaces places;

 private:
  ddprun::test::TempDir dir_;
};

}  // namespace

TEST_CASE("a machine without driver has no GPU, and the searched places are reported") {
  SimulatedMachine machine;
  machine.places.nvml = "libddprun-no-such-library.so.1";
  CHECK_FALSE(gpus_likely(machine.places));
  const auto found = discover_gpus(machine.places);
  CHECK(found.gpus.empty());
  CHECK(found.source.empty());
  CHECK_THAT(found.looked_for, Contains("libddprun-no-such-library.so.1: not found") &&
                                   Contains("/driver/gpus: none") &&
                                   Contains("/dev/nvidia[0-9]+: none"));
}

TEST_CASE("NVML gives GPUs with their UUIDs and is left shut down") {
  SimulatedMachine machine;
  machine.with_nvml("3");
  for (int repetition = 0; repetition < 2;
       ++repetition) {  // the stub counts only when opened exactly once
    const auto found = discover_gpus(machine.places);
    REQUIRE(found.gpus.size() == 3);
    CHECK(found.gpus[2].index == 2);
    CHECK(found.gpus[2].uuid == "GPU-2");
    CHECK(found.gpus[2].pci_address == "0000:1c:00.0");
    CHECK(found.source == "NVML");
  }
}

TEST_CASE("a GPU counts even if NVML does not report its PCI address") {
  SimulatedMachine machine;
  machine.with_nvml("1", "pci");
  const auto found = discover_gpus(machine.places);
  REQUIRE(found.gpus.size() == 1);
  CHECK(found.gpus[0].pci_address.empty());
}

TEST_CASE("an entry of CUDA_VISIBLE_DEVICES gives its GPU's PCI address") {
  GpuDiscovery found;
  found.gpus = {{0, "GPU-aa1", "0000:01:00.0"}, {1, "GPU-bb2", "0000:02:00.0"}};
  CHECK(pci_address_of(found, "1") == "0000:02:00.0");
  CHECK(pci_address_of(found, "GPU-b") == "0000:02:00.0");
  for (const char* entry : {"2", "-1", "", "1x", "GPU-c", "MIG-1/2/3", "99999999999999999999"})
    CHECK(pci_address_of(found, entry).empty());
  found.gpus.pop_back();
  CHECK(pci_address_of(found, "MIG-1/2/3") == "0000:01:00.0");
}

TEST_CASE("a GPU does not count if NVML refuses its handle") {
  SimulatedMachine machine;
  machine.with_nvml("3", "handle");
  const auto found = discover_gpus(machine.places);
  REQUIRE(found.gpus.size() == 2);
  CHECK(found.gpus[1].index == 1);
  CHECK(found.gpus[1].uuid == "GPU-2");
}

TEST_CASE("a GPU without UUID is counted all the same") {
  SimulatedMachine machine;
  machine.with_nvml("1", "uuid");
  const auto found = discover_gpus(machine.places);
  REQUIRE(found.gpus.size() == 1);
  CHECK(found.gpus[0].uuid.empty());
}

TEST_CASE("NVML's word that there is no GPU is final") {
  SimulatedMachine machine;
  machine.with_nvml("0").with_device_file("nvidia0");
  CHECK(discover_gpus(machine.places).gpus.empty());
}

TEST_CASE("where NVML fails the driver's folders count") {
  for (const char* call : {"init", "count"}) {
    SimulatedMachine machine;
    machine.with_nvml("3", call)
        .with_proc("0000:41:00.0", "Model: \t NVIDIA H200\nGPU UUID: \t GPU-second\n")
        .with_proc("0000:01:00.0", "GPU UUID: \t GPU-first\nDevice Minor: 0\n")
        .with_proc("0000:81:00.0", "GPU UUID: \t GPU-unknown?\n");
    const auto found = discover_gpus(machine.places);
    REQUIRE(found.gpus.size() == 3);
    CHECK(found.gpus[0].uuid == "GPU-first");
    CHECK(found.gpus[1].pci_address == "0000:41:00.0");
    CHECK(found.gpus[1].uuid == "GPU-second");
    CHECK(found.gpus[2].uuid.empty());
    CHECK_THAT(found.source, Contains("/driver/gpus"));
  }
}

TEST_CASE("a library that is not NVML is passed over") {
  SimulatedMachine machine;
  machine.places.nvml = "libc.so.6";
  CHECK_THAT(discover_gpus(machine.places).looked_for, Contains("libc.so.6: lacks a function"));
}

TEST_CASE("without the driver's folders its device files are counted, and no others") {
  SimulatedMachine machine;
  for (const std::string name :
       {"nvidia0", "nvidia1", "nvidia10", "nvidiactl", "nvidia-uvm", "nvidia", "null"}) {
    machine.with_device_file(name);
  }
  const auto found = discover_gpus(machine.places);
  CHECK(found.gpus.size() == 3);
  CHECK_THAT(found.source, Contains("/dev/nvidia*"));
}

TEST_CASE("GPUs are likely where the driver's folder or its control file is") {
  SimulatedMachine with_folder, with_file, with_neither;
  with_folder.with_proc("0000:01:00.0", "");
  with_file.with_device_file("nvidiactl");
  with_neither.with_device_file("null");
  CHECK(gpus_likely(with_folder.places));
  CHECK(gpus_likely(with_file.places));
  CHECK_FALSE(gpus_likely(with_neither.places));
}
