#include "machine/cpus/placement.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>

namespace ddprun::machine {
namespace {

/// What sits on a NUMA node and wants CPUs: a GPU, or a worker where there are none.
struct CpuUser {
  std::string name;  ///< for messages
  int node = 0;
};

using CpuUsers = std::vector<CpuUser>;

std::vector<CpuPlace> allowed_places(const MachineTopology& topology) {
  std::vector<CpuPlace> places;
  std::copy_if(topology.cpus.begin(), topology.cpus.end(), std::back_inserter(places),
               [](const CpuPlace& place) { return place.allowed; });
  return places;
}

CpuSet numbers_of(const std::vector<CpuPlace>& places) {
  CpuSet cpus;
  for (const CpuPlace& place : places) cpus.push_back(place.cpu);
  return cpus;
}

/// In groups of equal `key`, ordered by their lowest CPU.
std::vector<CpuSet> grouped(const std::vector<CpuPlace>& places, int CpuPlace::*key) {
  std::vector<CpuSet> groups;
  std::map<int, std::size_t> group_of_key;
  for (const CpuPlace& place : places) {
    const auto [entry, is_new] = group_of_key.try_emplace(place.*key, groups.size());
    if (is_new) groups.emplace_back();
    groups[entry->second].push_back(place.cpu);
  }
  return groups;
}

class PlacementRules {
 public:
  PlacementRules(const MachineTopology& topology, NumaBinding mode, bool with_gpus)
      : topology_(topology),
        allowed_(allowed_places(topology)),
        mode_(mode),
        users_are_(with_gpus ? "GPUs" : "workers") {}

  Placed<CpuSet> set_for(const CpuUsers& users, std::size_t number) const {
    const int node = users[number].node;
    const std::vector<CpuPlace> places =
        mode_ == NumaBinding::socket ? of_package(node) : of_node(node);
    if (places.empty()) return nothing_for(users[number]);
    const auto share = [&](const CpuUser& user) { return user.node == node; };
    const auto own = users.begin() + static_cast<std::ptrdiff_t>(number);
    const auto before = static_cast<std::size_t>(std::count_if(users.begin(), own, share));
    if (mode_ == NumaBinding::exclusive) {
      const auto sharers =
          static_cast<std::size_t>(std::count_if(users.begin(), users.end(), share));
      return exclusive_share(places, before, sharers, node);
    }
    if (mode_ == NumaBinding::core_complex) return core_complex(places, before);
    return numbers_of(places);
  }

 private:
  std::vector<CpuPlace> of_node(int node) const {
    std::vector<CpuPlace> places;
    std::copy_if(allowed_.begin(), allowed_.end(), std::back_inserter(places),
                 [&](const CpuPlace& place) { return place.node == node; });
    return places;
  }

  std::vector<CpuPlace> of_package(int node) const {
    // The node's package is known by any of its CPUs, also by one that is not ours.
    const auto member = std::find_if(topology_.cpus.begin(), topology_.cpus.end(),
                                     [&](const CpuPlace& place) { return place.node == node; });
    if (member == topology_.cpus.end()) return {};
    std::set<int> nodes;
    for (const CpuPlace& place : topology_.cpus) {
      if (place.package == member->package) nodes.insert(place.node);
    }
    std::vector<CpuPlace> places;
    std::copy_if(allowed_.begin(), allowed_.end(), std::back_inserter(places),
                 [&](const CpuPlace& place) { return nodes.count(place.node) != 0; });
    return places;
  }

  Placed<CpuSet> exclusive_share(const std::vector<CpuPlace>& places, std::size_t number,
                                 std::size_t sharers, int node) const {
    const std::vector<CpuSet> cores = grouped(places, &CpuPlace::core);
    if (cores.size() < sharers) {
      return PlacementError(
          "NUMA node " + std::to_string(node) + " has " + std::to_string(sharers) + " " +
          users_are_ + ", but only " + std::to_string(cores.size()) +
          " physical cores that this process may use (CPUs " + format_cpus(numbers_of(places)) +
          "); use --numa-binding=node, or give the job more CPUs (taskset, "
          "cpuset, --cpus-per-task)");
    }
    const std::size_t each = cores.size() / sharers;
    const std::size_t one_more = cores.size() % sharers;
    const std::size_t begin = number * each + std::min(number, one_more);
    const std::size_t end = begin + each + (number < one_more ? 1 : 0);
    CpuSet share;
    for (std::size_t core = begin; core < end; ++core)
      share.insert(share.end(), cores[core].begin(), cores[core].end());
    std::sort(share.begin(), share.end());
    return share;
  }

  static CpuSet core_complex(const std::vector<CpuPlace>& places, std::size_t number) {
    std::vector<CpuSet> complexes = grouped(places, &CpuPlace::cache);
    // Stable: equal sizes keep the order of their lowest CPUs.
    std::stable_sort(complexes.begin(), complexes.end(),
                     [](const CpuSet& a, const CpuSet& b) { return a.size() > b.size(); });
    return complexes[number % complexes.size()];
  }

  PlacementError nothing_for(const CpuUser& user) const {
    const std::string ours = format_cpus(numbers_of(allowed_));
    return PlacementError(user.name + " is on NUMA node " + std::to_string(user.node) +
                          ", which has no CPU that this process may use (it may use " +
                          (ours.empty() ? "none that is online" : ours) +
                          "); give the job CPUs of that node (taskset, cpuset, scheduler), use "
                          "other GPUs (--gpus), or leave --numa-binding out");
  }

  const MachineTopology& topology_;
  std::vector<CpuPlace> allowed_;
  NumaBinding mode_;
  std::string users_are_;
};

/// The only NUMA node with CPUs, if it is the only one.
std::optional<int> only_node(const MachineTopology& topology) {
  if (topology.cpus.empty()) return 0;
  const int node = topology.cpus.front().node;
  const bool all = std::all_of(topology.cpus.begin(), topology.cpus.end(),
                               [&](const CpuPlace& place) { return place.node == node; });
  return all ? std::optional<int>(node) : std::nullopt;
}

Placed<CpuUsers> gpu_users(const MachineTopology& topology, const std::vector<std::string>& gpus) {
  CpuUsers users;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const std::string name =
        "GPU " + std::to_string(i) + (gpus[i].empty() ? "" : " (" + gpus[i] + ")");
    const auto known = topology.pci_nodes.find(gpus[i]);
    if (known != topology.pci_nodes.end()) {
      users.push_back({name, known->second});
    } else if (const auto only = only_node(topology)) {
      users.push_back({name, *only});
    } else {
      return PlacementError(
          "the NUMA node of " + name + " is not known" +
          (gpus[i].empty() ? ", because its PCI address is not" : " to /sys/bus/pci/devices") +
          "; leave --numa-binding out, or bind workers by a wrapper (numactl)");
    }
  }
  return users;
}

/// Without GPUs each worker stands where its part of all physical cores begins, so nodes get
/// workers by their sizes, and never more than they have cores while there are cores for all.
CpuUsers worker_users(const MachineTopology& topology, int local_workers) {
  std::map<int, std::vector<CpuPlace>> nodes;
  for (const CpuPlace& place : allowed_places(topology)) nodes[place.node].push_back(place);
  std::vector<int> node_of_core;
  for (const auto& [node, places] : nodes)
    node_of_core.insert(node_of_core.end(), grouped(places, &CpuPlace::core).size(), node);
  CpuUsers users;
  const auto workers = static_cast<std::size_t>(local_workers);
  for (std::size_t i = 0; i < workers; ++i) {
    const int node = node_of_core.empty() ? 0 : node_of_core[i * node_of_core.size() / workers];
    users.push_back({"local rank " + std::to_string(i), node});
  }
  return users;
}

}  // namespace

Placed<std::vector<CpuSet>> place_workers(const MachineTopology& topology, NumaBinding mode,
                                          int local_workers, const std::vector<std::string>& gpus) {
  const std::size_t workers = static_cast<std::size_t>(std::max(0, local_workers));
  if (!gpus.empty() && workers > gpus.size()) {
    return PlacementError("local rank i runs beside GPU i, but there are " +
                          std::to_string(workers) + " workers and " + std::to_string(gpus.size()) +
                          " GPUs; start a worker for each GPU (--nproc-per-node=gpu), or make it "
                          "a CPU job (--gpus=none)");
  }
  CpuUsers users;
  if (gpus.empty()) {
    users = worker_users(topology, local_workers);
  } else {
    auto found = gpu_users(topology, gpus);
    if (!found) return found.error();
    users = std::move(*found);
  }
  const PlacementRules rules(topology, mode, !gpus.empty());
  std::vector<CpuSet> sets;
  for (std::size_t i = 0; i < workers; ++i) {
    auto set = rules.set_for(users, i);
    if (!set) return set.error();
    sets.push_back(std::move(*set));
  }
  return sets;
}

}  // namespace ddprun::machine
