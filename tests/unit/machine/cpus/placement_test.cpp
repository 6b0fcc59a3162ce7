// Sets of CPUs and the rules of --numa-binding, on machines made of a few numbers.
#include "machine/cpus/placement.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <iterator>
#include <random>

#include "machine/cpus/usable_cpus.hpp"

using namespace ddprun::machine;
using Catch::Matchers::Contains;

namespace {

CpuSet common_cpus(const CpuSet& left, const CpuSet& right) {
  CpuSet both;
  std::set_intersection(left.begin(), left.end(), right.begin(), right.end(),
                        std::back_inserter(both));
  return both;
}

CpuSet cpus(std::string_view text) { return parse_cpus(text).value(); }

/// A regular machine, numbered as Linux does: first one thread of every core, then the others.
struct Shape {
  int packages = 1;
  int nodes_per_package = 1;
  int cores_per_node = 4;
  int threads_per_core = 1;
  int cores_per_cache = 4;
};

MachineTopology machine(const Shape& shape) {
  const int cores = shape.packages * shape.nodes_per_package * shape.cores_per_node;
  MachineTopology topology;
  for (int cpu = 0; cpu < cores * shape.threads_per_core; ++cpu) {
    CpuPlace place;
    place.cpu = cpu;
    place.core = cpu % cores;
    place.node = place.core / shape.cores_per_node;
    place.package = place.node / shape.nodes_per_package;
    place.cache = place.core / shape.cores_per_cache;
    topology.cpus.push_back(place);
  }
  return topology;
}

MachineTopology allowing(MachineTopology topology, std::string_view mask) {
  const CpuSet allowed = cpus(mask);
  for (CpuPlace& place : topology.cpus)
    place.allowed = std::binary_search(allowed.begin(), allowed.end(), place.cpu);
  return topology;
}

/// GPU i gets the address `gpuI` and the i-th node.
std::vector<std::string> with_gpus(MachineTopology& topology, const std::vector<int>& nodes) {
  std::vector<std::string> addresses;
  for (const int node : nodes) {
    addresses.push_back("gpu" + std::to_string(addresses.size()));
    topology.pci_nodes[addresses.back()] = node;
  }
  return addresses;
}

/// The sets as one text: `0-3 4-7`; for an error its message.
std::string placed(const MachineTopology& topology, NumaBinding mode, int workers,
                   const std::vector<std::string>& gpus = {}) {
  const auto sets = place_workers(topology, mode, workers, gpus);
  if (!sets) return sets.error().message;
  std::string text;
  for (const CpuSet& set : *sets) text += (text.empty() ? "" : " ") + format_cpus(set);
  return text;
}

/// The sets of workers with a GPU each, as one text; for an error its message.
std::string placed_by_gpus(MachineTopology topology, NumaBinding mode,
                           const std::vector<int>& nodes) {
  const auto gpus = with_gpus(topology, nodes);
  return placed(topology, mode, static_cast<int>(nodes.size()), gpus);
}

// Two packages with two nodes each, four cores of two threads: 0-15 and their siblings 16-31.
const Shape kLarge{2, 2, 4, 2, 2};

}  // namespace

TEST_CASE("sets of CPUs are written as ranges") {
  CHECK(format_cpus({}).empty());
  CHECK(format_cpus({5}) == "5");
  CHECK(format_cpus({0, 1, 2, 3, 8}) == "0-3,8");
  CHECK(format_cpus({0, 2, 3, 5}) == "0,2-3,5");
}

TEST_CASE("sets of CPUs are read in any order, with blanks, and CPUs named twice once") {
  CHECK(cpus("0-3,8") == CpuSet{0, 1, 2, 3, 8});
  CHECK(cpus(" 8 , 0 - 1,\t1-2\n") == CpuSet{0, 1, 2, 8});
  CHECK(cpus("65535") == CpuSet{65'535});
}

TEST_CASE("a text that is no set of CPUs is refused with an example of one") {
  for (const std::string text :
       {"", " ", ",", "1,", ",1", "a", "1-", "-1", "3-1", "1--2", "1-2-3", "0x1", "1.5", "+1",
        "65536", "0-99999999999999999999", "1 2", "all"}) {
    INFO("text: " << text);
    const auto set = parse_cpus(text);
    REQUIRE(set.has_error());
    CHECK_THAT(set.error().message, Contains("0-3,8"));
  }
  CHECK_THAT(parse_cpus("1," + std::string(1000, '\x07')).error().message,
             Contains("\"" + std::string(40, '?') + "...\""));
}

TEST_CASE("every set of CPUs is read back from its text") {
  std::mt19937 random(7);
  for (int repetition = 0; repetition < 300; ++repetition) {
    CpuSet set;
    for (int cpu = static_cast<int>(random() % 5); cpu < 300;
         cpu += 1 + (random() % 3 == 0 ? 2 : 0))
      if (random() % 2 == 0) set.push_back(cpu);
    if (set.empty()) continue;
    CHECK(cpus(format_cpus(set)) == set);
  }
}

TEST_CASE("random texts are read or refused, never more") {
  std::mt19937 random(11);
  constexpr std::string_view kLetters = "0123456789,,--- \n9x";
  for (int repetition = 0; repetition < 20'000; ++repetition) {
    std::string text;
    for (auto length = random() % 12; length > 0; --length)
      text += kLetters[random() % kLetters.size()];
    const auto set = parse_cpus(text);
    if (!set) continue;
    INFO("text: " << text);
    CHECK_FALSE(set->empty());
    CHECK(std::is_sorted(set->begin(), set->end()));
    CHECK(cpus(format_cpus(*set)) == *set);
  }
}

TEST_CASE("a mask has a bit for each CPU, and as many words as the highest needs") {
  CHECK(affinity_mask({}).empty());
  CHECK(affinity_mask({0, 3}) == std::vector<unsigned long>{9});
  CHECK(affinity_mask({63, 64, 130}) == std::vector<unsigned long>{1UL << 63U, 1, 4});
}

TEST_CASE("this thread may run somewhere") {
  const auto allowed = allowed_cpus();
  REQUIRE(allowed.has_value());
  CHECK_FALSE(allowed->empty());
  CHECK(std::is_sorted(allowed->begin(), allowed->end()));
}

TEST_CASE("node gives the whole NUMA node of the GPU") {
  CHECK(placed_by_gpus(machine(kLarge), NumaBinding::node, {0, 0, 3, 1}) ==
        "0-3,16-19 0-3,16-19 12-15,28-31 4-7,20-23");
}

TEST_CASE("socket gives all NUMA nodes of the GPU's package") {
  CHECK(placed_by_gpus(machine(kLarge), NumaBinding::socket, {1, 2}) == "0-7,16-23 8-15,24-31");
}

TEST_CASE("socket finds the package of a node by a CPU that is not ours") {
  CHECK(placed_by_gpus(allowing(machine(kLarge), "5-9"), NumaBinding::socket, {0, 3}) == "5-7 8-9");
}

TEST_CASE("exclusive splits the cores of a node and keeps SMT siblings together") {
  CHECK(placed_by_gpus(machine(kLarge), NumaBinding::exclusive, {0, 0, 1, 1}) ==
        "0-1,16-17 2-3,18-19 4-5,20-21 6-7,22-23");
}

TEST_CASE("exclusive gives the first GPUs of a node one core more") {
  CHECK(placed_by_gpus(machine({.cores_per_node = 8}), NumaBinding::exclusive, {0, 0, 0}) ==
        "0-2 3-5 6-7");
}

TEST_CASE("exclusive counts the GPUs of other nodes apart, in whatever order they come") {
  CHECK(placed_by_gpus(machine(kLarge), NumaBinding::exclusive, {1, 0, 1}) ==
        "4-5,20-21 0-3,16-19 6-7,22-23");
}

TEST_CASE("exclusive leaves the share of a visible GPU without worker alone") {
  auto topology = machine({.cores_per_node = 8});
  const auto gpus = with_gpus(topology, {0, 0, 0, 0});
  CHECK(placed(topology, NumaBinding::exclusive, 2, gpus) == "0-1 2-3");
}

TEST_CASE("exclusive orders cores by the lowest of their CPUs that are ours") {
  // Core 0 is left with its second thread only, so core 1 comes first.
  auto topology = machine({.cores_per_node = 2, .threads_per_core = 2});
  CHECK(placed_by_gpus(allowing(topology, "1-3"), NumaBinding::exclusive, {0, 0}) == "1,3 2");
}

TEST_CASE("exclusive needs a core for each GPU, and two threads of a core are one") {
  auto topology = machine({.cores_per_node = 2, .threads_per_core = 2});
  const std::string message = placed_by_gpus(topology, NumaBinding::exclusive, {0, 0, 0});
  CHECK_THAT(message, Contains("NUMA node 0 has 3 GPUs, but only 2 "
                               "physical cores"));
  CHECK_THAT(message, Contains("0-3") && Contains("--numa-binding=node"));
  CHECK_THAT(message, !Contains("\n"));  // one line
}

TEST_CASE("core-complex gives each GPU of a node a last-level cache, and begins again") {
  CHECK(placed_by_gpus(machine(kLarge), NumaBinding::core_complex, {0, 0, 0, 1}) ==
        "0-1,16-17 2-3,18-19 0-1,16-17 4-5,20-21");
}

TEST_CASE("core-complex takes the largest cache first, then the one with the lowest CPU") {
  // The mask cuts the first cache; the others are whole.
  const auto topology = machine({.cores_per_node = 12, .cores_per_cache = 4});
  CHECK(placed_by_gpus(allowing(topology, "2-11"), NumaBinding::core_complex, {0, 0, 0}) ==
        "4-7 8-11 2-3");
}

TEST_CASE("core-complex knows hybrid cores with caches of different sizes") {
  // Four fast cores of two threads below one cache; eight slow ones in pairs without it.
  MachineTopology topology;
  for (int cpu = 0; cpu < 16; ++cpu) {
    CpuPlace place;
    place.cpu = cpu;
    place.core = cpu < 8 ? cpu / 2 : cpu;
    place.cache = cpu < 8 ? 0 : cpu / 2;
    topology.cpus.push_back(place);
  }
  CHECK(placed_by_gpus(topology, NumaBinding::core_complex, {0, 0, 0}) == "0-7 8-9 10-11");
  CHECK(placed_by_gpus(topology, NumaBinding::exclusive, {0, 0, 0, 0, 0}) ==
        "0-5 6-9 10-11 12-13 14-15");
}

TEST_CASE("no worker gets a CPU that is not ours") {
  const auto topology = allowing(machine(kLarge), "1-2,5,8-11,14,17,29-31");
  CHECK(placed_by_gpus(topology, NumaBinding::node, {0, 1, 2, 3}) == "1-2,17 5 8-11 14,29-31");
}

TEST_CASE("a GPU on a node without usable CPUs is an error that names both") {
  for (const auto mode : {NumaBinding::node, NumaBinding::exclusive, NumaBinding::core_complex}) {
    const std::string message = placed_by_gpus(allowing(machine(kLarge), "0-7"), mode, {0, 3});
    CHECK_THAT(message, Contains("GPU 1 (gpu1) is on NUMA node 3") && Contains("it may use 0-7"));
    CHECK_THAT(message, Contains("; give the job CPUs of that node"));
  }
  CHECK_THAT(placed_by_gpus(allowing(machine(kLarge), "0-7"), NumaBinding::socket, {3}),
             Contains("no CPU that this process may use"));
}

TEST_CASE("a GPU on a node of memory only is an error in every mode") {
  for (const auto mode :
       {NumaBinding::node, NumaBinding::socket, NumaBinding::exclusive, NumaBinding::core_complex})
    CHECK_THAT(placed_by_gpus(machine(kLarge), mode, {7}), Contains("NUMA node 7, which has no"));
}

TEST_CASE("a GPU of unknown place is fine where one node has all CPUs, else an error") {
  CHECK(placed(machine({.cores_per_node = 4}), NumaBinding::node, 1, {""}) == "0-3");
  CHECK_THAT(placed(machine(kLarge), NumaBinding::node, 1, {""}),
             Contains("the NUMA node of GPU 0 is not known, because its PCI address is not"));
  CHECK_THAT(placed(machine(kLarge), NumaBinding::node, 1, {"0000:01:00.0"}),
             Contains("GPU 0 (0000:01:00.0) is not known to /sys/bus/pci/devices"));
}

TEST_CASE("more workers than GPUs cannot be bound beside them") {
  auto topology = machine(kLarge);
  const auto gpus = with_gpus(topology, {0, 1});
  CHECK_THAT(placed(topology, NumaBinding::node, 3, gpus),
             Contains("3 workers and 2 GPUs") && Contains("--gpus=none"));
}

TEST_CASE("without GPUs the workers spread over the nodes in order") {
  const auto topology = machine(kLarge);
  CHECK(placed(topology, NumaBinding::node, 1) == "0-3,16-19");
  CHECK(placed(topology, NumaBinding::node, 2) == "0-3,16-19 8-11,24-27");
  CHECK(placed(topology, NumaBinding::node, 4) == "0-3,16-19 4-7,20-23 8-11,24-27 12-15,28-31");
  CHECK(placed(topology, NumaBinding::socket, 2) == "0-7,16-23 8-15,24-31");
  CHECK(placed(topology, NumaBinding::exclusive, 8) ==
        "0-1,16-17 2-3,18-19 4-5,20-21 6-7,22-23 8-9,24-25 10-11,26-27 12-13,28-29 14-15,30-31");
  CHECK(placed(topology, NumaBinding::core_complex, 8) ==
        placed(topology, NumaBinding::exclusive, 8));
}

TEST_CASE("without GPUs a node gets workers by its cores that are ours") {
  const auto topology = allowing(machine({.packages = 2, .cores_per_node = 8}), "0-7,8-9");
  CHECK(placed(topology, NumaBinding::exclusive, 5) == "0-1 2-3 4-5 6-7 8-9");
  CHECK_THAT(placed(topology, NumaBinding::exclusive, 11), Contains("NUMA node 0 has 9 workers"));
}

TEST_CASE("without GPUs exclusive sets are disjoint while there is a core for each worker") {
  for (const std::string mask : {"0-31", "0-2,7,9-15", "16-19,31", "0,16,1,17,8"}) {
    const auto topology = allowing(machine(kLarge), mask);
    CpuSet cores;
    for (const CpuPlace& place : topology.cpus)
      if (place.allowed) cores.push_back(place.core);
    std::sort(cores.begin(), cores.end());
    cores.erase(std::unique(cores.begin(), cores.end()), cores.end());
    for (int workers = 1; workers <= static_cast<int>(cores.size()); ++workers) {
      INFO(mask << " for " << workers);
      const auto sets = place_workers(topology, NumaBinding::exclusive, workers, {});
      REQUIRE(sets.has_value());
      CpuSet all;
      for (const CpuSet& set : *sets) {
        CHECK_FALSE(set.empty());
        CHECK(common_cpus(all, set).empty());
        all.insert(all.end(), set.begin(), set.end());
        std::sort(all.begin(), all.end());
      }
      CHECK(common_cpus(all, cpus(mask)) == all);
    }
  }
}

TEST_CASE("a machine that shows no CPU of ours is an error, not an empty set") {
  auto topology = machine(kLarge);
  for (CpuPlace& place : topology.cpus) place.allowed = false;
  CHECK_THAT(placed(topology, NumaBinding::node, 1), Contains("it may use none that is online"));
  CHECK_THAT(placed(MachineTopology(), NumaBinding::exclusive, 1), Contains("NUMA node 0"));
  CHECK(place_workers(topology, NumaBinding::node, 0, {}).value().empty());
}

TEST_CASE("usable CPUs are the allowed ones, and no more than whole CPUs of the quota") {
  CHECK(usable_cpus(cpus("0-7"), std::nullopt) == 8);
  CHECK(usable_cpus(cpus("0-7"), 2.5) == 2);
  CHECK(usable_cpus(cpus("0-7"), 4.0) == 4);
  CHECK(usable_cpus(cpus("0-1"), 64.0) == 2);
  CHECK(usable_cpus(cpus("0-7"), 0.1) == 1);
  CHECK(usable_cpus({}, std::nullopt) == 1);
}

TEST_CASE("threads are the usable CPUs divided among the workers, at least one each") {
  CHECK(omp_threads(8, 2) == 4);
  CHECK(omp_threads(8, 3) == 2);
  CHECK(omp_threads(2, 8) == 1);
  CHECK(omp_threads(1, 0) == 1);
}

TEST_CASE("a bound worker starts threads for its own CPUs, and its part of shared ones") {
  const auto threads = [](int usable, std::initializer_list<std::string_view> texts) {
    std::vector<CpuSet> sets;
    for (const auto text : texts) sets.push_back(cpus(text));
    return omp_threads(usable, sets);
  };
  CHECK(threads(5, {"0-2", "3-4"}) == std::vector<int>{3, 2});
  CHECK(threads(8, {"0-2", "0-2", "0-2"}) == std::vector<int>{1, 1, 1});
  CHECK(threads(8, {"0-3", "0-3", "4-7"}) == std::vector<int>{2, 2, 4});
  // A quota of four CPUs on eight.
  CHECK(threads(4, {"0-3", "4-7"}) == std::vector<int>{2, 2});
  CHECK(threads(1, {"0-3", "4-7"}) == std::vector<int>{1, 1});
  CHECK(threads(8, {}).empty());
}
