#include "machine/cpus/topology.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "base/small_file.hpp"

namespace ddprun::machine {
namespace {

constexpr int kNodesMax = 4096;       // the kernel's own limit is 1024
constexpr int kCacheIndexesMax = 16;  // a CPU shows four or five
constexpr int kUnknown = -1;          // also what the kernel writes for it
constexpr std::string_view kHexDigits = "0123456789abcdefABCDEF";

std::string_view first_word(std::string_view text) {
  return text.substr(0, text.find_first_of(" \t\r\n"));
}

std::optional<int> number_in(const std::string& path) {
  const auto text = read_small_file(path);
  if (!text) return std::nullopt;
  const std::string_view word = first_word(*text);
  int number = 0;
  const auto parsed = std::from_chars(word.data(), word.data() + word.size(), number);
  if (parsed.ec != std::errc() || word.empty() || parsed.ptr != word.data() + word.size())
    return std::nullopt;
  return number;
}

/// Empty also where the file is missing or garbage.
CpuSet cpus_in(const std::string& path) {
  const auto text = read_small_file(path);
  if (!text) return {};
  auto cpus = parse_cpus(*text);
  return cpus ? std::move(*cpus) : CpuSet();
}

class TopologyReader {
 public:
  TopologyReader(const CpuSet& allowed, const std::string& sysfs)
      : cpu_folder_(sysfs + "/devices/system/cpu"), node_folder_(sysfs + "/devices/system/node") {
    CpuSet online = cpus_in(cpu_folder_ + "/online");
    if (online.empty()) online = allowed;
    for (const int cpu : online) {
      CpuPlace place;
      place.cpu = cpu;
      place.allowed = std::binary_search(allowed.begin(), allowed.end(), cpu);
      place.core = place.cache = kUnknown;
      cpus_.push_back(place);
    }
  }

  std::vector<CpuPlace> read() {
    read_nodes();
    for (CpuPlace& place : cpus_) {
      // One look at each core and cache, not at each CPU: large machines have many.
      if (place.core == kUnknown) read_core(place);
      if (place.cache == kUnknown) read_cache(place);
    }
    return std::move(cpus_);
  }

 private:
  CpuPlace* find(int cpu) {
    const auto found =
        std::lower_bound(cpus_.begin(), cpus_.end(), cpu,
                         [](const CpuPlace& place, int number) { return place.cpu < number; });
    return found != cpus_.end() && found->cpu == cpu ? &*found : nullptr;
  }

  void read_nodes() {
    for (const int node : cpus_in(node_folder_ + "/online")) {
      if (node >= kNodesMax) break;
      const CpuSet members = cpus_in(node_folder_ + "/node" + std::to_string(node) + "/cpulist");
      for (const int cpu : members) {
        if (CpuPlace* place = find(cpu)) place->node = node;
      }
    }
  }

  void read_core(CpuPlace& place) {
    const std::string folder = cpu_folder_ + "/cpu" + std::to_string(place.cpu) + "/topology/";
    // Named -1 where the firmware does not tell.
    const int package = std::max(0, number_in(folder + "physical_package_id").value_or(0));
    CpuSet siblings = cpus_in(folder + "core_cpus_list");
    if (siblings.empty()) siblings = cpus_in(folder + "thread_siblings_list");  // before Linux 5.3
    place.core = place.cpu;
    place.package = package;
    for (const int cpu : siblings) {
      CpuPlace* sibling = find(cpu);
      if (sibling == nullptr || sibling->core != kUnknown) continue;
      sibling->core = place.core;
      sibling->package = package;
    }
  }

  void read_cache(CpuPlace& place) {
    const std::string folder = cpu_folder_ + "/cpu" + std::to_string(place.cpu) + "/cache/index";
    int last_level = 0;
    int last_index = 0;
    for (int index = 0; index < kCacheIndexesMax; ++index) {
      const std::string cache = folder + std::to_string(index);
      const auto level = number_in(cache + "/level");
      if (!level) break;
      const auto type = read_small_file(cache + "/type").value_or("");
      if (*level > last_level && first_word(type) != "Instruction") {
        last_level = *level;
        last_index = index;
      }
    }
    CpuSet sharers;
    if (last_level > 0) sharers = cpus_in(folder + std::to_string(last_index) + "/shared_cpu_list");
    if (sharers.empty()) {
      // Virtual machines often show no caches. Numbers of their own, beside those of CPUs.
      place.cache = kCpuNumberMax + 1 + place.node;
      return;
    }
    place.cache = place.cpu;
    for (const int cpu : sharers) {
      CpuPlace* sharer = find(cpu);
      if (sharer != nullptr && sharer->cache == kUnknown) sharer->cache = place.cache;
    }
  }

  std::string cpu_folder_;
  std::string node_folder_;
  std::vector<CpuPlace> cpus_;
};

bool is_pci_address(const std::string& text) {
  return !text.empty() && text.find_first_of(kHexDigits) == 0 &&
         text.find_first_not_of(std::string(kHexDigits) + ":.") == std::string::npos;
}

}  // namespace

MachineTopology read_topology(const CpuSet& allowed, const std::vector<std::string>& pci_addresses,
                              const std::string& sysfs) {
  MachineTopology topology;
  topology.cpus = TopologyReader(allowed, sysfs).read();
  for (const std::string& address : pci_addresses) {
    if (!is_pci_address(address)) continue;  // it becomes part of a path
    const auto node = number_in(sysfs + "/bus/pci/devices/" + address + "/numa_node");
    if (node) topology.pci_nodes[address] = std::max(0, *node);
  }
  return topology;
}

}  // namespace ddprun::machine
