#include "launcher/plan/devices_plan.hpp"

#include <algorithm>
#include <utility>

#include "base/joined.hpp"
#include "proto/environment_names.hpp"

namespace ddprun::launcher {
namespace {

std::vector<std::string> entries_of(const std::string& list) {
  constexpr std::string_view kBlanks = " \t";
  std::vector<std::string> entries;
  std::size_t begin = 0;
  while (begin <= list.size()) {
    const auto end = std::min(list.find(',', begin), list.size());
    std::string entry = list.substr(begin, end - begin);
    entry.erase(0, std::min(entry.find_first_not_of(kBlanks), entry.size()));
    entry.erase(entry.find_last_not_of(kBlanks) + 1);
    entries.push_back(std::move(entry));
    begin = end + 1;
  }
  return entries;
}

/// What CUDA, or another vendor's software, makes of one entry: a GPU's number, a GPU by the
/// beginning of its UUID, or a MIG instance.
bool names_a_gpu(const machine::GpuDiscovery& discovered, const std::string& entry) {
  if (entry.starts_with("MIG-")) return !discovered.gpus.empty();
  if (entry.starts_with("GPU-")) {
    const auto matches = [&](const machine::Gpu& gpu) {
      return gpu.uuid.empty() || gpu.uuid.starts_with(entry);
    };
    return std::any_of(discovered.gpus.begin(), discovered.gpus.end(), matches);
  }
  return machine::find_gpu(discovered, entry) != nullptr;
}

}  // namespace

VisibleGpus visible_gpus(const machine::GpuDiscovery& discovered,
                         const std::optional<std::string>& variable) {
  VisibleGpus visible;
  if (!variable) {
    for (const machine::Gpu& gpu : discovered.gpus)
      visible.entries.push_back(std::to_string(gpu.index));
    return visible;
  }
  const std::string spelling = discovered.variable + "=" + *variable;
  if (discovered.gpus.empty()) return visible;
  for (auto& entry : entries_of(*variable)) {
    if (!names_a_gpu(discovered, entry)) {
      // -1 and the empty text are how people hide all GPUs.
      if (!entry.empty() && entry != "-1") {
        visible.note = spelling + ": " + entry + " is no " + discovered.name +
                       " of this machine; it and what follows it are ignored";
      }
      break;
    }
    if (std::find(visible.entries.begin(), visible.entries.end(), entry) != visible.entries.end()) {
      visible.entries.clear();
      visible.note = spelling + " names " + entry + " twice: no GPU at all is visible then";
      break;
    }
    visible.entries.push_back(std::move(entry));
  }
  return visible;
}

std::vector<std::string> unchecked_entries(const std::string& cuda_visible_devices) {
  std::vector<std::string> entries = entries_of(cuda_visible_devices);
  const auto end = std::find_if(entries.begin(), entries.end(), [](const std::string& entry) {
    return entry.empty() || entry == "-1";
  });
  entries.erase(end, entries.end());
  return entries;
}

void hide_gpus(machine::GpuDiscovery& discovered, const std::string& outer) {
  machine::GpuDiscovery by_outer = discovered;
  by_outer.variable = discovered.outer_variable;
  std::vector<machine::Gpu> left;
  for (const std::string& entry : visible_gpus(by_outer, outer).entries) {
    const machine::Gpu* const gpu = machine::find_gpu(by_outer, entry);
    if (gpu == nullptr) continue;
    left.push_back(*gpu);
    left.back().index = static_cast<int>(left.size()) - 1;
  }
  discovered.gpus = std::move(left);
  discovered.looked_for += ", with " + by_outer.variable + "=" + outer;
}

LaunchResult<DevicesPlan> plan_devices(const machine::GpuDiscovery& discovered,
                                       const std::optional<std::string>& variable,
                                       const GpuSelection& selection) {
  DevicesPlan plan;
  if (selection.kind == GpuSelection::Kind::none) {
    plan.cpu_job = true;
    return plan;
  }
  VisibleGpus visible = visible_gpus(discovered, variable);
  if (!visible.note.empty()) plan.warnings.push_back(std::move(visible.note));
  plan.source = discovered.source;
  plan.variable = discovered.variable;
  if (selection.kind == GpuSelection::Kind::all || selection.kind == GpuSelection::Kind::free) {
    plan.chosen = std::move(visible.entries);
    return plan;
  }
  const auto count = static_cast<int>(visible.entries.size());
  for (const int place : selection.list) {
    if (place < count) {
      plan.chosen.push_back(visible.entries[static_cast<std::size_t>(place)]);
      continue;
    }
    const std::string number = std::to_string(place);
    const std::string names =
        selection.spelling + " names " + discovered.name + " " + number + ", but ";
    // Elsewhere (Lightning) --devices=2 is a number of devices.
    const std::string count_meant =
        selection.list.size() == 1 && place > 1
            ? "; for " + (place == 2 ? "two" : number) + " workers: --nproc-per-node=" + number
            : "";
    if (count == 0) {
      return usage_error(names + no_gpu(discovered, variable) + "; --gpus=none makes it a CPU job" +
                         count_meant);
    }
    return usage_error(names + std::to_string(count) + (count == 1 ? " is" : " are") +
                       " visible, counted from 0 (" + joined(visible.entries, ",") + ")" +
                       count_meant);
  }
  return plan;
}

LaunchResult<void> take_free_gpus(const machine::GpuDiscovery& discovered,
                                  const GpuSelection& selection, std::size_t wanted,
                                  const ClaimGpus& claim, DevicesPlan& plan) {
  const std::size_t visible = plan.chosen.size();
  if (visible > 0 && plan.source != machine::kNvmlSource) {
    return usage_error(selection.spelling + ": only NVIDIA's NVML tells whether a GPU is free (" +
                       discovered.looked_for + "); name them, as in --gpus=0,1");
  }
  std::vector<machine::GpuCandidate> candidates;
  for (const std::string& entry : plan.chosen)
    candidates.push_back({entry, machine::uuid_of(discovered, entry)});
  machine::GpuClaims claims = claim(std::move(candidates), wanted);
  if (!claims.problem.empty()) return LaunchError{kExitNoRound, claims.problem};
  if (claims.claimed.empty()) {
    const std::size_t free = visible - claims.busy.size();
    LaunchError error{kExitNoRound, selection.spelling + ": " + std::to_string(free) + " of " +
                                        std::to_string(visible) + " visible GPUs " +
                                        (free == 1 ? "is" : "are") + " free" +
                                        (wanted > 0 ? ", and " + std::to_string(wanted) +
                                                          (wanted == 1 ? " is" : " are") + " wanted"
                                                    : "")};
    for (const machine::BusyGpu& gpu : claims.busy)
      error.more += "\n  GPU " + printable(gpu.entry) + ": " + gpu.why;
    return error;
  }
  plan.chosen.clear();
  for (const machine::GpuClaim& one : claims.claimed) plan.chosen.push_back(one.gpu.entry);
  plan.claims = std::move(claims.claimed);
  return {};
}

std::string no_gpu(const machine::GpuDiscovery& discovered,
                   const std::optional<std::string>& variable) {
  if (!discovered.gpus.empty() && variable)
    return discovered.variable + "=" + *variable + " leaves no " + discovered.name + " visible";
  return "no " + discovered.name + " was found (looked for " + discovered.looked_for + ")";
}

std::optional<std::string> worker_visible_devices(const DevicesPlan& devices,
                                                  const std::optional<std::string>& variable,
                                                  const GpuSelection& selection,
                                                  GpuVisibility visibility, int local_rank) {
  if (devices.cpu_job) return "";
  if (devices.chosen.empty()) return std::nullopt;
  if (visibility == GpuVisibility::own)
    return devices.chosen.at(static_cast<std::size_t>(local_rank));
  // The user's own text says the same already, and may name more than we understand; and other
  // vendors' software sees all of them without the variable.
  const bool sees_the_same = variable || devices.variable != proto::env::kCudaVisibleDevices;
  if (sees_the_same && selection.kind == GpuSelection::Kind::all) return std::nullopt;
  return joined(devices.chosen, ",");
}

}  // namespace ddprun::launcher
