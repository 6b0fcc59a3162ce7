// What is read from sysfs and from cgroups, in trees of files made for each case.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <random>

#include "base/cgroup_places.hpp"
#include "machine/cpus/placement.hpp"
#include "machine/cpus/topology.hpp"
#include "machine/cpus/usable_cpus.hpp"
#include "tests/support/temp_dir.hpp"

using namespace ddprun::machine;
using ddprun::cgroup_places;
using ddprun::CgroupPlace;

namespace {

/// A tree of files in a directory of its own.
class FileTree {
 public:
  FileTree& file(const std::string& path, const std::string& text) {
    const auto place = dir_ / path;
    std::filesystem::create_directories(place.parent_path());
    std::ofstream(place) << text;
    paths_.push_back(place);
    return *this;
  }
  FileTree& folder(const std::string& path) {
    std::filesystem::create_directories(dir_ / path);
    return *this;
  }
  [[nodiscard]] std::string root() const { return dir_.path().string(); }
  [[nodiscard]] const std::vector<std::filesystem::path>& paths() const { return paths_; }

 private:
  ddprun::test::TempDir dir_;
  std::vector<std::filesystem::path> paths_;
};

const std::string kCpuFolder = "devices/system/cpu/";

void add_cpu(FileTree& tree, int cpu, const std::string& package, const std::string& siblings,
             const std::string& sharers) {
  const std::string folder = kCpuFolder + "cpu" + std::to_string(cpu) + "/";
  tree.file(folder + "topology/physical_package_id", package + "\n");
  tree.file(folder + "topology/core_cpus_list", siblings + "\n");
  tree.file(folder + "cache/index0/level", "1\n").file(folder + "cache/index0/type", "Data\n");
  tree.file(folder + "cache/index0/shared_cpu_list", siblings + "\n");
  tree.file(folder + "cache/index1/level", "3\n").file(folder + "cache/index1/type", "Unified\n");
  tree.file(folder + "cache/index1/shared_cpu_list", sharers + "\n");
}

/// Two packages with a node each, two cores of two threads with a cache together: 0,1 4,5 | 2,3
/// 6,7.
void add_two_packages(FileTree& tree) {
  tree.file(kCpuFolder + "online", "0-7\n");
  tree.file("devices/system/node/online", "0-1\n");
  tree.file("devices/system/node/node0/cpulist", "0-1,4-5\n");
  tree.file("devices/system/node/node1/cpulist", "2-3,6-7\n");
  for (int cpu = 0; cpu < 8; ++cpu) {
    const int core = cpu % 4;
    add_cpu(tree, cpu, core < 2 ? "0" : "1", std::to_string(core) + "," + std::to_string(core + 4),
            core < 2 ? "0-1,4-5" : "2-3,6-7");
  }
}

const CpuSet kEight = {0, 1, 2, 3, 4, 5, 6, 7};

std::string text_of(const CpuPlace& place) {
  return "cpu" + std::to_string(place.cpu) + (place.allowed ? "" : " not ours") + " node" +
         std::to_string(place.node) + " package" + std::to_string(place.package) + " core" +
         std::to_string(place.core) + " cache" + std::to_string(place.cache);
}

std::vector<std::string> texts_of(const MachineTopology& topology) {
  std::vector<std::string> texts;
  for (const CpuPlace& place : topology.cpus) texts.push_back(text_of(place));
  return texts;
}

using Texts = std::vector<std::string>;

std::optional<double> quota_of(const FileTree& tree) { return cgroup_cpu_quota(tree.root()); }

const std::string kUnifiedMount =
    "31 23 0:28 / /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup rw,nsdelegate\n";
const std::string kCpuMount =
    "30 23 0:27 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
    "32 31 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n";

}  // namespace

TEST_CASE("sysfs tells node, package, core and last-level cache of each CPU") {
  FileTree tree;
  add_two_packages(tree);
  const auto topology = read_topology(kEight, {}, tree.root());
  CHECK(texts_of(topology) ==
        Texts{"cpu0 node0 package0 core0 cache0", "cpu1 node0 package0 core1 cache0",
              "cpu2 node1 package1 core2 cache2", "cpu3 node1 package1 core3 cache2",
              "cpu4 node0 package0 core0 cache0", "cpu5 node0 package0 core1 cache0",
              "cpu6 node1 package1 core2 cache2", "cpu7 node1 package1 core3 cache2"});
}

TEST_CASE("CPUs outside the mask are known, offline CPUs are not") {
  FileTree tree;
  add_two_packages(tree);
  tree.file(kCpuFolder + "online", "0-2,6\n");
  const auto topology = read_topology({1, 2, 3}, {}, tree.root());
  CHECK(texts_of(topology) ==
        Texts{"cpu0 not ours node0 package0 core0 cache0", "cpu1 node0 package0 core1 cache0",
              "cpu2 node1 package1 core2 cache2", "cpu6 not ours node1 package1 core2 cache2"});
}

TEST_CASE("a node of memory only has no CPU and does no harm") {
  FileTree tree;
  add_two_packages(tree);
  tree.file("devices/system/node/online", "0-2\n");
  tree.file("devices/system/node/node2/cpulist", "\n");
  tree.file("bus/pci/devices/0000:01:00.0/numa_node", "2\n");
  const auto topology = read_topology(kEight, {"0000:01:00.0"}, tree.root());
  CHECK(topology.cpus.size() == 8);
  CHECK(topology.pci_nodes.at("0000:01:00.0") == 2);
  CHECK(place_workers(topology, NumaBinding::node, 1, {"0000:01:00.0"}).has_error());
}

TEST_CASE("the cache that counts is the last one that holds data") {
  FileTree tree;
  tree.file(kCpuFolder + "online", "0-3\n");
  for (int cpu = 0; cpu < 4; ++cpu) {
    const std::string pair = cpu < 2 ? "0-1" : "2-3";
    add_cpu(tree, cpu, "0", std::to_string(cpu), pair);
    const std::string folder = kCpuFolder + "cpu" + std::to_string(cpu) + "/cache/index2/";
    tree.file(folder + "level", "4\n").file(folder + "type", "Instruction\n");
    tree.file(folder + "shared_cpu_list", "0-3\n");
  }
  const auto topology = read_topology({0, 1, 2, 3}, {}, tree.root());
  CHECK(topology.cpus[1].cache == 0);
  CHECK(topology.cpus[2].cache == 2);
}

TEST_CASE("kernels before 5.3 name SMT siblings otherwise") {
  FileTree tree;
  tree.file(kCpuFolder + "online", "0-3\n");
  for (int cpu = 0; cpu < 4; ++cpu) {
    tree.file(kCpuFolder + "cpu" + std::to_string(cpu) + "/topology/thread_siblings_list",
              cpu < 2 ? "0-1\n" : "2-3\n");
  }
  const auto topology = read_topology({0, 1, 2, 3}, {}, tree.root());
  CHECK(topology.cpus[1].core == 0);
  CHECK(topology.cpus[3].core == 2);
}

TEST_CASE("a machine without sysfs is one node, each CPU a core, one cache") {
  FileTree tree;
  const auto topology = read_topology({2, 5, 9}, {"0000:01:00.0"}, tree.root() + "/nothing");
  REQUIRE(topology.cpus.size() == 3);
  CHECK(topology.pci_nodes.empty());
  CHECK(topology.cpus[2].core == 9);
  CHECK(topology.cpus[0].cache == topology.cpus[2].cache);
  CHECK(place_workers(topology, NumaBinding::exclusive, 3, {}).value() ==
        std::vector<CpuSet>{{2}, {5}, {9}});
  CHECK(place_workers(topology, NumaBinding::core_complex, 1, {"0000:01:00.0"}).value() ==
        std::vector<CpuSet>{{2, 5, 9}});
}

TEST_CASE("a device without a NUMA node counts as on node 0") {
  FileTree tree;
  add_two_packages(tree);
  tree.file("bus/pci/devices/0000:01:00.0/numa_node", "-1\n");
  tree.file("bus/pci/devices/0000:02:00.0/numa_node", "1\n");
  tree.file("bus/pci/devices/0000:03:00.0/numa_node", "one\n");
  const auto topology = read_topology(
      kEight, {"0000:01:00.0", "0000:02:00.0", "0000:03:00.0", "0000:04:00.0"}, tree.root());
  CHECK(topology.pci_nodes == std::map<std::string, int>{{"0000:01:00.0", 0}, {"0000:02:00.0", 1}});
}

TEST_CASE("an invalid PCI address is not used as a path") {
  FileTree tree;
  tree.file("bus/pci/devices/a/numa_node", "1\n").file("bus/pci/numa_node", "1\n");
  const auto topology =
      read_topology(kEight, {"", "..", "../devices/a", "a/../a", "./a"}, tree.root());
  CHECK(topology.pci_nodes.empty());
}

TEST_CASE("garbage in sysfs gives a topology that workers can be placed on") {
  std::mt19937 random(3);
  for (int repetition = 0; repetition < 60; ++repetition) {
    FileTree tree;
    add_two_packages(tree);
    tree.file("bus/pci/devices/0000:01:00.0/numa_node", "1\n");
    const auto paths = tree.paths();
    for (int damage = 0; damage < 12; ++damage) {
      const auto& path = paths[random() % paths.size()];
      std::string bytes;
      switch (random() % 4) {
        case 0:
          for (auto length = random() % 40; length > 0; --length)
            bytes += static_cast<char>(random() % 256);
          break;
        case 1:
          bytes = "0-65535,7,99999999999999999999";
          break;
        case 2:
          bytes = std::to_string(static_cast<int>(random() % 9) - 1) + "-7";
          break;
        default:
          std::filesystem::remove(path);
          std::filesystem::create_directory(path);  // a folder at the place of a file
          continue;
      }
      if (!std::filesystem::is_directory(path)) std::ofstream(path) << bytes;
    }
    const auto topology = read_topology(kEight, {"0000:01:00.0"}, tree.root());
    for (const auto mode : {NumaBinding::node, NumaBinding::socket, NumaBinding::exclusive,
                            NumaBinding::core_complex}) {
      const auto sets = place_workers(topology, mode, 1, {"0000:01:00.0"});
      if (sets) {
        CHECK_FALSE(sets->front().empty());
        CHECK(std::includes(kEight.begin(), kEight.end(), sets->front().begin(),
                            sets->front().end()));
      } else {
        CHECK_FALSE(sets.error().message.empty());
      }
    }
  }
}

TEST_CASE("this machine's topology has all CPUs of this thread") {
  const CpuSet allowed = allowed_cpus().value();
  const auto topology = read_topology(allowed, {});
  CpuSet seen;
  for (const CpuPlace& place : topology.cpus)
    if (place.allowed) seen.push_back(place.cpu);
  CHECK(seen == allowed);
  CHECK(usable_cpus(allowed, cgroup_cpu_quota()) >= 1);
}

TEST_CASE("the least quota on the way up counts in cgroup version 2") {
  FileTree tree;
  tree.file("proc/self/cgroup", "0::/job/step/task\n");
  tree.file("proc/self/mountinfo", kUnifiedMount);
  tree.folder("sys/fs/cgroup/job/step/task");
  CHECK_FALSE(quota_of(tree));
  tree.file("sys/fs/cgroup/job/step/task/cpu.max", "max 100000\n");
  CHECK_FALSE(quota_of(tree));
  tree.file("sys/fs/cgroup/job/step/cpu.max", "400000 100000\n");
  CHECK(quota_of(tree) == 4.0);
  tree.file("sys/fs/cgroup/job/cpu.max", "125000 50000\n");
  CHECK(quota_of(tree) == 2.5);
  tree.file("sys/fs/cgroup/job/step/task/cpu.max", "800000 100000\n");
  CHECK(quota_of(tree) == 2.5);
}

TEST_CASE("a container that sees its own cgroup as the root finds its quota there") {
  FileTree tree;
  tree.file("proc/self/cgroup", "0::/\n").file("proc/self/mountinfo", kUnifiedMount);
  tree.file("sys/fs/cgroup/cpu.max", "150000 100000\n");
  CHECK(quota_of(tree) == 1.5);
}

TEST_CASE("the quota of cgroup version 1 stands in the folder of its cpu controller") {
  FileTree tree;
  tree.file("proc/self/cgroup", "5:memory:/\n4:cpu,cpuacct:/a:b/c\n3:cpuset:/x\n0::/\n");
  tree.file("proc/self/mountinfo", kCpuMount);
  tree.file("sys/fs/cgroup/cpu,cpuacct/a:b/c/cpu.cfs_quota_us", "-1\n");
  tree.file("sys/fs/cgroup/cpu,cpuacct/a:b/c/cpu.cfs_period_us", "100000\n");
  CHECK_FALSE(quota_of(tree));
  tree.file("sys/fs/cgroup/cpu,cpuacct/a:b/cpu.cfs_quota_us", "300000\n");
  tree.file("sys/fs/cgroup/cpu,cpuacct/a:b/cpu.cfs_period_us", "100000\n");
  CHECK(quota_of(tree) == 3.0);
}

TEST_CASE("the path of a cgroup is taken from where its mount begins") {
  const auto places = [](const std::string& path, const std::string& mount_root) {
    const auto found =
        cgroup_places("cpu", "0::" + path + "\n",
                      "31 23 0:28 " + mount_root + " /c\\040g rw - cgroup2 cgroup rw\n");
    REQUIRE(found.size() == 1);
    CHECK(found[0].unified);
    return found[0].mount_point + found[0].path;
  };
  CHECK(places("/a/b", "/") == "/c g/a/b");
  CHECK(places("/", "/") == "/c g");
  CHECK(places("/docker/1/a", "/docker/1") == "/c g/a");
  CHECK(places("/docker/1", "/docker/1") == "/c g");
  CHECK(places("/docker/12", "/docker/1") == "/c g");
  CHECK(places("/elsewhere", "/docker/1") == "/c g");
  CHECK(places("/../outside", "/") == "/c g");
}

TEST_CASE("of several mounts the one that shows our cgroup counts") {
  const auto found = cgroup_places("cpu", "0::/a/b\n",
                                   "31 23 0:28 /x /first rw - cgroup2 cgroup rw\n"
                                   "32 23 0:28 /a /second rw - cgroup2 cgroup rw\n");
  REQUIRE(found.size() == 1);
  CHECK(found[0].mount_point == "/second");
  CHECK(found[0].path == "/b");
}

TEST_CASE("quotas that are no positive numbers are no limit") {
  FileTree tree;
  tree.file("proc/self/cgroup", "0::/a\n").file("proc/self/mountinfo", kUnifiedMount);
  for (const std::string text :
       {"", "\n", "max", "100000", "100000 ", "0 100000", "-5 100000", "100000 0", "1e5 100000",
        "100000  100000", "99999999999999999999 1", "100000 100000 1"}) {
    INFO("cpu.max: " << text);
    tree.file("sys/fs/cgroup/a/cpu.max", text);
    CHECK_FALSE(quota_of(tree));
  }
  CHECK_FALSE(cgroup_cpu_quota(tree.root() + "/nothing"));
}

TEST_CASE("garbage at the place of cgroup and mountinfo gives no hierarchy or a whole one") {
  std::mt19937 random(5);
  const std::string cgroup = "4:cpu,cpuacct:/a\n0::/b/c\n";
  const std::string mountinfo = kUnifiedMount + kCpuMount;
  for (int repetition = 0; repetition < 3000; ++repetition) {
    std::string texts[2] = {cgroup, mountinfo};
    for (std::string& text : texts) {
      for (auto changes = random() % 4; changes > 0; --changes) {
        const auto place = random() % text.size();
        if (random() % 2 == 0)
          text[place] = static_cast<char>(random() % 256);
        else
          text.erase(place, random() % 20);
        if (text.empty()) text.assign(1, ' ');
      }
    }
    for (const CgroupPlace& found : cgroup_places("cpu", texts[0], texts[1]))
      CHECK((found.path.empty() || found.path.front() == '/'));
  }
  CHECK(cgroup_places("cpu", "", "").empty());
  CHECK(cgroup_places("cpu", cgroup, "").empty());
  CHECK(cgroup_places("cpu", "0:/\n:\n", mountinfo).empty());
}
