// The most memory that workers have taken.
#include "trainer/run/peak_memory.hpp"

#include <array>
#include <catch2/catch.hpp>

#include "trainer/comm/local_communicator.hpp"
#include "trainer/host/host_device.hpp"

namespace ddprun::trainer {
namespace {

constexpr std::size_t kMegabyte = 1000 * 1000;

TEST_CASE("a device's peak is what was allocated at one time, with memory given back since") {
  const auto device = make_host_device();
  CHECK(device->peak_bytes() == 0);
  {
    const DeviceMemory first = device->allocate(3 * kMegabyte);
    const DeviceMemory second = device->allocate(kMegabyte);
  }
  const DeviceMemory later = device->allocate(2 * kMegabyte);
  CHECK(device->peak_bytes() == 4 * kMegabyte);
  const LocalCommunicator alone(device->allocate(3 * kMegabyte));
  const PeakMemory peak = peak_memory(*device, alone);
  CHECK(peak.device == 5 * kMegabyte);
  CHECK(peak.process > kMegabyte);
}

TEST_CASE("the peak of one worker is one number, of several the range") {
  const std::array all{PeakMemory{45 * kMegabyte, 118 * kMegabyte},
                       PeakMemory{45 * kMegabyte, 102 * kMegabyte}};
  CHECK(peak_memory_text(std::span(all).first(1)) ==
        "peak memory:\n  45 MB for weights, gradients, activations\n  118 MB of the process\n");
  CHECK(peak_memory_text(all) ==
        "peak memory of each worker:\n  45 MB for weights, gradients, activations\n"
        "  102 MB to 118 MB of the process\n");
  CHECK(peak_memory_text(std::span(all).first(1), 2) ==
        "peak memory of all 2 replicas together:\n  45 MB for weights, gradients, activations\n"
        "  118 MB of the process\n");
  CHECK(peaks_of(all, &PeakMemory::process) ==
        std::vector<std::uint64_t>{118 * kMegabyte, 102 * kMegabyte});
}

TEST_CASE("a process with an unknown size has no line") {
  const PeakMemory one{.device = 45 * kMegabyte};
  CHECK(peak_memory_text(std::span(&one, 1)) ==
        "peak memory:\n  45 MB for weights, gradients, activations\n");
}

}  // namespace
}  // namespace ddprun::trainer
