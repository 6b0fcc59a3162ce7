#include "trainer/run/peak_memory.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/small_file.hpp"
#include "trainer/run/run_memory.hpp"

namespace ddprun::trainer {
namespace {

std::string range_text(const std::vector<std::uint64_t>& bytes) {
  const auto [least, most] = std::minmax_element(bytes.begin(), bytes.end());
  const std::string from = bytes_text(*least);
  const std::string to = bytes_text(*most);
  return from == to ? to : fmt::format("{} to {}", from, to);
}

/// The most that this process was resident with so far; 0: not known.
std::uint64_t peak_resident_bytes() {
  constexpr std::uint64_t kKilobyte = 1024;
  const std::string rows = read_small_file("/proc/self/status").value_or("");
  return counter_in(rows, "VmHWM:").value_or(0) * kKilobyte;
}

}  // namespace

PeakMemory peak_memory(const Device& device, const Communicator& communicator) {
  return {.device = device.peak_bytes() + communicator.shared_arena_bytes(),
          .process = peak_resident_bytes()};
}

std::vector<std::uint64_t> peaks_of(std::span<const PeakMemory> all,
                                    std::uint64_t PeakMemory::*which) {
  std::vector<std::uint64_t> bytes;
  for (const PeakMemory& one : all) bytes.push_back(one.*which);
  return bytes;
}

std::string peak_memory_text(std::span<const PeakMemory> all, std::size_t replicas) {
  const std::vector<std::uint64_t> processes = peaks_of(all, &PeakMemory::process);
  const bool are_known = std::find(processes.begin(), processes.end(), 0U) == processes.end();
  std::string of_each = all.size() > 1 ? " of each worker" : "";
  if (replicas > 1) of_each = fmt::format(" of all {} replicas together", replicas);
  std::string text = fmt::format("peak memory{}:\n", of_each);
  text += fmt::format("  {} for weights, gradients, activations\n",
                      range_text(peaks_of(all, &PeakMemory::device)));
  if (are_known) text += fmt::format("  {} of the process\n", range_text(processes));
  return text;
}

}  // namespace ddprun::trainer
