#include "machine/devices/devices.hpp"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <system_error>

#include <fmt/format.h>

#include "base/lower_case.hpp"
#include "base/number_in.hpp"
#include "base/small_file.hpp"
#include "base/trimmed.hpp"
#include "machine/devices/nvml.hpp"

namespace ddprun::machine {

std::string sysfs_spelling(std::string_view text) {
  constexpr std::size_t kDomainDigits = 4;
  std::string address = lower_case(text);
  auto digits = address.find(':');
  for (; digits != std::string::npos && digits > kDomainDigits && address[0] == '0'; --digits)
    address.erase(0, 1);
  return address;
}

namespace {

/// Sorted; empty when the folder can't be read.
std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::opendir(folder.c_str()), &::closedir);
  if (!stream) return names;
  while (const dirent* entry = ::readdir(stream.get())) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// The driver has one folder for each GPU, named by its PCI address, with a file of `Name: value`
/// lines.
std::vector<Gpu> from_proc(const std::string& folder) {
  constexpr std::string_view kUuidLine = "GPU UUID:";
  std::vector<Gpu> gpus;
  for (const auto& name : names_in(folder)) {
    Gpu gpu{static_cast<int>(gpus.size()), "", sysfs_spelling(name)};
    std::ifstream information(folder + "/" + name + "/information");
    for (std::string line; std::getline(information, line);) {
      if (!line.starts_with(kUuidLine)) continue;
      const auto begin = line.find_first_not_of(" \t", kUuidLine.size());
      // A driver without a UUID yet shows question marks.
      if (begin != std::string::npos && line.find('?') == std::string::npos)
        gpu.uuid = line.substr(begin);
    }
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

/// Device files nvidia0, nvidia1, ...; not nvidiactl and the like.
std::vector<Gpu> from_dev(const std::string& folder) {
  constexpr std::string_view kPrefix = "nvidia";
  std::vector<Gpu> gpus;
  for (const auto& name : names_in(folder)) {
    if (!name.starts_with(kPrefix) || name.size() == kPrefix.size()) continue;
    if (name.find_first_not_of("0123456789", kPrefix.size()) != std::string::npos) continue;
    gpus.push_back({static_cast<int>(gpus.size()), ""});
  }
  return gpus;
}

}  // namespace

bool gpus_likely(const GpuPlaces& places) {
  // dxg is how the Windows Subsystem for Linux shows a GPU.
  for (const auto& path : {places.proc, places.dev + "/nvidiactl", places.dev + "/dxg"}) {
    if (::access(path.c_str(), F_OK) == 0) return true;
  }
  return false;
}

GpuDiscovery discover_gpus(const GpuPlaces& places) {
  GpuDiscovery found;
  const auto say = [&](const std::string& text) {
    found.looked_for += (found.looked_for.empty() ? "" : ", ") + text;
  };
  if (!places.nvml.empty()) {
    const auto nvml = Nvml::open(places.nvml);
    auto gpus = nvml ? nvml->gpus() : nvml.error();
    if (gpus) {  // NVML's word is final: it asks the driver.
      say(gpus->empty() ? "NVML: it knows of none" : "NVML");
      if (!gpus->empty()) found.source = kNvmlSource;
      found.gpus = std::move(*gpus);
      return found;
    }
    say(places.nvml + ": " + gpus.error());
  }
  found.gpus = from_proc(places.proc + "/gpus");
  if (!found.gpus.empty()) {
    found.source = places.proc + "/gpus";
    return found;
  }
  say(places.proc + "/gpus: none");
  found.gpus = from_dev(places.dev);
  if (!found.gpus.empty()) {
    found.source = places.dev + "/nvidia*";
    return found;
  }
  say(places.dev + "/nvidia[0-9]+: none");
  return found;
}

const Gpu* find_gpu(const GpuDiscovery& discovered, const std::string& entry) {
  const std::string_view whole =
      discovered.has_parts ? std::string_view(entry).substr(0, entry.find('.')) : entry;
  const auto index = number_in<int>(whole);
  const bool by_uuid = entry.starts_with("GPU-");
  const auto found =
      std::find_if(discovered.gpus.begin(), discovered.gpus.end(), [&](const Gpu& gpu) {
        return index ? gpu.index == *index : by_uuid && gpu.uuid.starts_with(entry);
      });
  return found == discovered.gpus.end() ? nullptr : &*found;
}

std::string uuid_of(const GpuDiscovery& discovered, const std::string& entry) {
  if (entry.starts_with("MIG-")) return entry;
  const Gpu* const gpu = find_gpu(discovered, entry);
  return gpu == nullptr ? std::string() : gpu->uuid;
}

std::string pci_address_of(const GpuDiscovery& discovered, const std::string& entry) {
  const std::vector<Gpu>& gpus = discovered.gpus;
  if (gpus.size() == 1) return gpus.front().pci_address;  // a MIG instance's too
  const Gpu* const gpu = find_gpu(discovered, entry);
  return gpu == nullptr ? std::string() : gpu->pci_address;
}

namespace {

namespace fs = std::filesystem;

struct Vendor {
  std::string_view word;
  std::string_view name;
  std::string_view variable;
  std::string_view other_variable;
  std::string_view outer_variable;
  bool has_parts;
  std::string_view place;  // for people
  std::vector<Gpu> (*scan)(const std::string& root);
};

bool exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

std::string text_of(const std::string& path) {
  const auto text = read_small_file(path);
  return text ? std::string(trimmed(*text)) : std::string();
}

/// The numbers in the names of entries that are PREFIX and a number, in order. Empty when the
/// folder can't be read.
std::vector<int> numbered(const std::string& folder, std::string_view prefix) {
  std::vector<int> numbers;
  std::error_code failed;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(prefix)) continue;
    const auto number = number_in<int>(std::string_view(name).substr(prefix.size()));
    if (number && *number >= 0) numbers.push_back(*number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

/// A device's folder in /sys is a link to the one that is named by its PCI address.
std::string pci_address(const std::string& device) {
  std::error_code failed;
  const fs::path real = fs::canonical(device, failed);
  return failed ? std::string() : real.filename().string();
}

/// Lines of a name, a blank and a number.
std::map<std::string, std::uint64_t, std::less<>> properties_in(const std::string& path) {
  std::map<std::string, std::uint64_t, std::less<>> properties;
  const std::string text = text_of(path);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    const std::size_t blank = std::min(line.find(' '), line.size());
    if (const auto value = number_in<std::uint64_t>(trimmed(line.substr(blank))))
      properties.emplace(line.substr(0, blank), *value);
    begin = end + 1;
  }
  return properties;
}

/// The driver's nodes are CPUs, too; these have no SIMD units. A container sees all nodes, but has
/// the render nodes of its own GPUs only.
std::vector<Gpu> scan_amd(const std::string& root) {
  const std::string nodes = root + "/sys/class/kfd/kfd/topology/nodes";
  std::vector<Gpu> gpus;
  for (const int node : numbered(nodes, "")) {
    const auto properties = properties_in(fmt::format("{}/{}/properties", nodes, node));
    const auto value = [&](std::string_view name) {
      const auto found = properties.find(name);
      return found == properties.end() ? std::uint64_t{0} : found->second;
    };
    if (value("simd_count") == 0) continue;
    if (!exists(fmt::format("{}/dev/dri/renderD{}", root, value("drm_render_minor")))) continue;
    const std::uint64_t at = value("location_id");
    gpus.push_back({static_cast<int>(gpus.size()),
                    value("unique_id") == 0 ? "" : fmt::format("GPU-{:016x}", value("unique_id")),
                    fmt::format("{:04x}:{:02x}:{:02x}.{:x}", value("domain"), at >> 8 & 0xff,
                                at >> 3 & 0x1f, at & 7)});
  }
  return gpus;
}

/// Graphics that are a part of the CPU have this address on every machine; people do not train
/// there. A card with several tiles is as many devices (ZE_FLAT_DEVICE_HIERARCHY=FLAT).
std::vector<Gpu> scan_intel(const std::string& root) {
  constexpr std::string_view kVendor = "0x8086";
  constexpr std::string_view kIntegrated = "0000:00:02.0";
  const std::string cards = root + "/sys/class/drm";
  std::vector<Gpu> gpus;
  for (const int number : numbered(cards, "card")) {
    const std::string card = fmt::format("{}/card{}", cards, number);
    const std::string device = card + "/device";
    if (text_of(device + "/vendor") != kVendor) continue;
    const std::string address = pci_address(device);
    if (address == kIntegrated) continue;
    const std::vector<int> render_nodes = numbered(device + "/drm", "renderD");
    const auto can_open = [&](int node) {
      return exists(fmt::format("{}/dev/dri/renderD{}", root, node));
    };
    if (std::none_of(render_nodes.begin(), render_nodes.end(), can_open)) continue;
    // The driver xe has the one, i915 the other.
    const std::size_t tiles = std::max(
        {std::size_t{1}, numbered(device, "tile").size(), numbered(card + "/gt", "gt").size()});
    for (std::size_t tile = 0; tile < tiles; ++tile)
      gpus.push_back({static_cast<int>(gpus.size()), "", address});
  }
  return gpus;
}

/// The variable counts what a container has, whatever the numbers of the files are.
std::vector<Gpu> scan_ascend(const std::string& root) {
  std::vector<Gpu> gpus(numbered(root + "/dev", "davinci").size());
  for (std::size_t i = 0; i < gpus.size(); ++i) gpus[i].index = static_cast<int>(i);
  return gpus;
}

/// The variable names modules, which are places in the machine and keep their numbers. Other
/// vendors have devices of this class, too.
std::vector<Gpu> scan_gaudi(const std::string& root) {
  constexpr std::string_view kVendor = "0x1da3";
  struct Class {
    std::string_view folder, prefix, file;
  };
  std::vector<Gpu> gpus;
  for (const auto& [folder, prefix, file] :
       {Class{"/sys/class/accel", "accel", "/dev/accel/accel"},
        Class{"/sys/class/habanalabs", "hl", "/dev/hl"}}) {  // of older drivers
    const std::string devices = root + std::string(folder);
    for (const int number : numbered(devices, prefix)) {
      const std::string device = fmt::format("{}/{}{}/device", devices, prefix, number);
      if (text_of(device + "/vendor") != kVendor) continue;
      if (!exists(fmt::format("{}{}{}", root, file, number))) continue;
      const auto module = number_in<int>(text_of(device + "/module_id"));
      gpus.push_back({module.value_or(number), "", pci_address(device)});
    }
    if (!gpus.empty()) break;
  }
  std::sort(gpus.begin(), gpus.end(), [](const Gpu& a, const Gpu& b) { return a.index < b.index; });
  return gpus;
}

constexpr std::array kVendors = {
    Vendor{"gpu", "GPU", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
           false, "/sys/class/kfd (AMD)", scan_amd},
    Vendor{"xpu", "Intel GPU", "ZE_AFFINITY_MASK", "", "", true, "/sys/class/drm (Intel)",
           scan_intel},
    Vendor{"npu", "Ascend NPU", "ASCEND_RT_VISIBLE_DEVICES", "", "", false, "/dev/davinci[0-9]+",
           scan_ascend},
    Vendor{"hpu", "Gaudi HPU", "HABANA_VISIBLE_MODULES", "", "", false,
           "/sys/class/accel (Gaudi), /sys/class/habanalabs", scan_gaudi},
};

}  // namespace

GpuDiscovery discover_accelerators(std::string_view word, const std::string& root) {
  GpuDiscovery found;
  for (const Vendor& vendor : kVendors) {
    if (!word.empty() && vendor.word != word) continue;
    if (!word.empty()) found.name = vendor.name;
    found.looked_for +=
        (found.looked_for.empty() ? "" : ", ") + std::string(vendor.place) + ": none";
    found.gpus = vendor.scan(root);
    if (found.gpus.empty()) continue;
    found.source = vendor.place;
    found.name = vendor.name;
    found.variable = vendor.variable;
    found.other_variable = vendor.other_variable;
    found.outer_variable = vendor.outer_variable;
    found.has_parts = vendor.has_parts;
    found.looked_for = vendor.place;
    break;
  }
  return found;
}

}  // namespace ddprun::machine
