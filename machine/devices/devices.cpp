#include "machine/devices/devices.hpp"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <memory>
#include <optional>

#include "base/lower_case.hpp"
#include "base/number_in.hpp"
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

}  // namespace ddprun::machine
