// The accelerators of vendors other than NVIDIA, in a /sys and /dev of our own.
#include "machine/devices/devices.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temp_dir.hpp"

using namespace ddprun::machine;

namespace {

/// /sys and /dev as the drivers make them.
class SimulatedRoot {
 public:
  SimulatedRoot& file(const std::string& path, const std::string& text = "") {
    const std::filesystem::path full = dir_.path() / path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
    return *this;
  }
  /// The folder of a device of a class: a link to the one of its PCI address.
  SimulatedRoot& device(const std::string& entry, const std::string& address,
                        const std::string& vendor) {
    file("sys/devices/pci/" + address + "/vendor", vendor + "\n");
    std::filesystem::create_directories(dir_.path() / entry);
    std::filesystem::create_directory_symlink(dir_.path() / "sys/devices/pci" / address,
                                              dir_.path() / entry / "device");
    return *this;
  }
  /// A node of AMD's driver; simd 0: of a CPU.
  SimulatedRoot& kfd(int node, int simd, int render, const std::string& more = "") {
    return file("sys/class/kfd/kfd/topology/nodes/" + std::to_string(node) + "/properties",
                "cpu_cores_count 0\nsimd_count " + std::to_string(simd) + "\ndrm_render_minor " +
                    std::to_string(render) + "\n" + more);
  }
  SimulatedRoot& intel(int card, const std::string& address, int render) {
    const std::string minor = std::to_string(render);
    device("sys/class/drm/card" + std::to_string(card), address, "0x8086");
    return file("sys/devices/pci/" + address + "/drm/renderD" + minor + "/dev")
        .file("dev/dri/renderD" + minor);
  }
  [[nodiscard]] GpuDiscovery found(const std::string& word = "") const {
    return discover_accelerators(word, dir_.path().string());
  }

 private:
  ddprun::test::TempDir dir_;
};

}  // namespace

TEST_CASE("without accelerators every place that was searched is named") {
  const SimulatedRoot root;
  CHECK(root.found().gpus.empty());
  CHECK(root.found().looked_for ==
        "/sys/class/kfd (AMD): none, /sys/class/drm (Intel): none, /dev/davinci[0-9]+: none, "
        "/sys/class/accel (Gaudi), /sys/class/habanalabs: none");
  CHECK(root.found("xpu").looked_for == "/sys/class/drm (Intel): none");
  CHECK(root.found("xpu").name == "Intel GPU");
}

TEST_CASE("AMD's GPUs are the nodes with SIMD units, in the order of their numbers") {
  SimulatedRoot root;
  root.kfd(0, 0, 0).file("dev/dri/renderD128").file("dev/dri/renderD129");
  root.kfd(10, 304, 129, "location_id 49416\ndomain 1\nunique_id 81985529216486895\n");
  root.kfd(2, 304, 128, "location_id 256\ndomain 0\nunique_id 0\n");
  const auto found = root.found("gpu");
  REQUIRE(found.gpus.size() == 2);
  CHECK(found.variable == "HIP_VISIBLE_DEVICES");
  CHECK(found.gpus[0].pci_address == "0000:01:00.0");
  CHECK(found.gpus[0].uuid.empty());
  CHECK(found.gpus[1].pci_address == "0001:c1:01.0");
  CHECK(found.gpus[1].uuid == "GPU-0123456789abcdef");
  CHECK(find_gpu(found, "GPU-0123") == &found.gpus[1]);
}

TEST_CASE("a container has the AMD GPUs whose device files it has") {
  SimulatedRoot root;
  root.kfd(1, 304, 128).kfd(2, 304, 129).file("dev/dri/renderD129");
  CHECK(root.found().gpus.size() == 1);
}

TEST_CASE("Intel's GPUs are those of their own, tile by tile, not the graphics of the CPU") {
  SimulatedRoot root;
  root.intel(0, "0000:00:02.0", 128).intel(1, "0000:29:00.0", 129).intel(2, "0000:3a:00.0", 130);
  root.file("sys/class/drm/card1-DP-1/status")
      .device("sys/class/drm/card3", "0000:03:00.0", "0x1a03");
  const auto found = root.found("xpu");
  REQUIRE(found.gpus.size() == 2);
  CHECK(found.gpus[0].pci_address == "0000:29:00.0");
  CHECK(found.variable == "ZE_AFFINITY_MASK");
  CHECK(find_gpu(found, "1.0") == &found.gpus[1]);
  CHECK(find_gpu(found, "2.0") == nullptr);
  root.file("sys/devices/pci/0000:29:00.0/tile0/id").file("sys/devices/pci/0000:29:00.0/tile1/id");
  root.file("sys/class/drm/card2/gt/gt0/id").file("sys/class/drm/card2/gt/gt1/id");
  CHECK(root.found("xpu").gpus.size() == 4);
}

TEST_CASE("Ascend's devices are counted from 0, whatever their files are called") {
  SimulatedRoot root;
  root.file("dev/davinci3").file("dev/davinci12").file("dev/davinci_manager");
  const auto found = root.found();
  REQUIRE(found.gpus.size() == 2);
  CHECK(found.gpus[1].index == 1);
  CHECK(found.variable == "ASCEND_RT_VISIBLE_DEVICES");
  CHECK(root.found("xpu").gpus.empty());
}

TEST_CASE("Gaudi's devices have the numbers of their modules") {
  SimulatedRoot root;
  root.device("sys/class/accel/accel0", "0000:19:00.0", "0x1da3").file("dev/accel/accel0");
  root.device("sys/class/accel/accel1", "0000:1a:00.0", "0x1da3").file("dev/accel/accel1");
  root.device("sys/class/accel/accel2", "0000:00:0b.0", "0x8086").file("dev/accel/accel2");
  root.file("sys/class/accel/accel_controlD0/dev");
  root.file("sys/devices/pci/0000:19:00.0/module_id", "5\n");
  root.file("sys/devices/pci/0000:1a:00.0/module_id", "4\n");
  const auto found = root.found("hpu");
  REQUIRE(found.gpus.size() == 2);
  CHECK(found.gpus[0].index == 4);
  CHECK(found.gpus[0].pci_address == "0000:1a:00.0");
  CHECK(find_gpu(found, "5") == &found.gpus[1]);
  CHECK(found.variable == "HABANA_VISIBLE_MODULES");
}

TEST_CASE("Gaudi's older driver has a class of its own") {
  SimulatedRoot root;
  root.device("sys/class/habanalabs/hl0", "0000:19:00.0", "0x1da3").file("dev/hl0");
  CHECK(root.found().gpus.size() == 1);
}
