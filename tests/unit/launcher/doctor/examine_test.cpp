// ddprun doctor: what each missing thing costs, on machines in memory.
#include "launcher/doctor/examine.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

using namespace ddprun::launcher;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

constexpr std::uint64_t kMiB = 1U << 20U;

/// Nothing is missing.
MachineFacts good_machine() {
  MachineFacts facts;
  facts.installation = {{"/opt/bin/ddprun", "ddprun 1.2.3"},
                        {"/opt/libexec/ddprun/train", "train 1.2.3"},
                        {"/opt/bin/ddprun"},
                        true};
  facts.python = {.file = "/usr/bin/python3", .version = "3.11.2", .has_torch = true};
  facts.system = {.release = "6.1.0-13-amd64",
                  .machine = "x86_64",
                  .libc = "glibc 2.36",
                  .usable_cpus = 3,
                  .cpus = 8,
                  .containment = "cgroup"};
  facts.gpus = {.found = "0,1 (NVML)",
                .driver = true,
                .device_files = 2,
                .nvml_loads = true,
                .cuda_loads = true};
  facts.folders = {.memory_free = 64 * kMiB,
                   .memory_writable = true,
                   .temporary = "/tmp",
                   .temporary_usable = true};
  facts.py_spy = "/usr/bin/py-spy";
  facts.gdb = "/usr/bin/gdb";
  facts.nodes = {.openssl = "libssl.so.3",
                 .munge_loads = true,
                 .munge_runs = true,
                 .ports = {{29400}, {29500}},
                 .host_name = "node7",
                 .host_address = "10.0.0.7"};
  return facts;
}

Finding finding(const MachineFacts& facts, const std::string& name) {
  for (const auto& section : examine(facts)) {
    for (const Finding& one : section.findings) {
      if (one.name == name) return one;
    }
  }
  FAIL("no finding " + name);
  return {};
}

std::string cost(const MachineFacts& facts, const std::string& name) {
  return finding(facts, name).cost;
}

}  // namespace

TEST_CASE("a machine that has everything costs nothing") {
  std::string titles;
  for (const auto& section : examine(good_machine())) {
    titles += section.title + ",";
    for (const Finding& one : section.findings) {
      INFO(one.name);
      CHECK(one.cost.empty());
      CHECK_FALSE(one.found.empty());
    }
  }
  CHECK(titles ==
        "Programs,Python,System,GPUs,Containment,Limits,Folders,Stacks of hangs,Several "
        "nodes,Network,");
}

TEST_CASE("a cost is a line of its own below what was found") {
  CHECK(doctor_text({{"One", {{"gdb", "not found", "no frames"}, {"py-spy", "/bin/py-spy"}}},
                     {"Two", {}}}) ==
        "One\n  gdb                not found\n                     -> no frames\n"
        "  py-spy             /bin/py-spy\nTwo\n");
}

TEST_CASE("without NVIDIA's driver jobs run on CPUs, except where another vendor's devices are") {
  MachineFacts facts = good_machine();
  facts.gpus = {.found = "none"};
  CHECK(cost(facts, "NVIDIA driver") == "jobs run on CPUs");
  facts.gpus = {.found = "2 GPUs, by /sys/class/kfd (AMD)", .others = true};
  CHECK(cost(facts, "NVIDIA driver").empty());
  CHECK(finding(facts, "ddprun finds").found == "2 GPUs, by /sys/class/kfd (AMD)");
}

TEST_CASE("a trainer that is missing or does not run costs only the trainer") {
  MachineFacts facts = good_machine();
  facts.installation.train.version.clear();
  CHECK(finding(facts, "train").found == "/opt/libexec/ddprun/train: does not run");
  CHECK_THAT(cost(facts, "train"), StartsWith("only the bundled trainer can't be started"));
  facts.installation.train = {};
  CHECK(finding(facts, "train").found == "missing from this installation");
  CHECK_THAT(cost(facts, "train"), StartsWith("only the bundled trainer can't be started"));
}

TEST_CASE("another ddprun on PATH, or none, is answered with what to type") {
  MachineFacts facts = good_machine();
  facts.installation.first_on_path = {"/usr/bin/ddprun", "ddprun 0.0.1"};
  facts.installation.first_is_own = false;
  CHECK(finding(facts, "on PATH").found == "/usr/bin/ddprun comes first: ddprun 0.0.1");
  CHECK_THAT(cost(facts, "on PATH"), Contains("export PATH=/opt/bin:$PATH"));
  facts.installation.first_on_path = {};
  facts.installation.ddprun.file = "/my programs/ddprun";
  CHECK(finding(facts, "on PATH").found == "no ddprun");
  CHECK(cost(facts, "on PATH") ==
        "type '/my programs/ddprun', or export PATH='/my programs':$PATH");
}

TEST_CASE("the Python of scripts is named, with an environment that is active beside it") {
  MachineFacts facts = good_machine();
  CHECK(finding(facts, "Python").found == "3.11.2, /usr/bin/python3");
  facts.python.other_environment = "/b";
  CHECK_THAT(cost(facts, "environment"), Contains("PYTHON_EXEC=/b/bin/python"));
  facts.python.is_wanted = true;
  CHECK(finding(facts, "Python").found == "3.11.2, /usr/bin/python3 (PYTHON_EXEC)");
  facts.python.has_torch = false;
  CHECK(finding(facts, "PyTorch").found == "not found by this Python");
  CHECK_THAT(cost(facts, "PyTorch"), Contains("ddprun does not need it"));
  facts.python.version.clear();
  CHECK(finding(facts, "Python").found == "/usr/bin/python3: does not run");
  facts.python = {.problem = "scripts can't be started"};
  CHECK(cost(facts, "Python") == "scripts can't be started");
}

TEST_CASE("a kernel without pidfds costs the wait by them, and one below 4.18 is not supported") {
  const std::string by_pid = "without pidfds (5.4): workers are waited for by pid";
  const std::string old = "older than 4.18: not supported";
  const std::vector<std::pair<std::string, std::string>> cases{
      {"6.1.0-13-amd64", ""},     {"5.10.0", ""},
      {"5.4.0-42-generic", ""},   {"5.3.18-lp152", by_pid},
      {"4.18.0-553.el8", by_pid}, {"4.17.19", old},
      {"3.10.0-1160.el7", old}};
  for (const auto& [release, expected] : cases) {
    MachineFacts facts = good_machine();
    facts.system.release = release;
    CHECK(finding(facts, "kernel").found == release + " on x86_64");
    CHECK(cost(facts, "kernel") == expected);
  }
  CHECK(finding(good_machine(), "CPUs").found == "3 usable of 8");
}

TEST_CASE("without a driver jobs run on CPUs, and no library is named") {
  MachineFacts facts = good_machine();
  facts.gpus = {.found = "none"};
  CHECK(finding(facts, "ddprun finds").found == "none");
  CHECK(cost(facts, "NVIDIA driver") == "jobs run on CPUs");
  CHECK(doctor_text(examine(facts)).find("libcuda") == std::string::npos);
}

TEST_CASE("a driver without GPUs is a container that was started without them") {
  MachineFacts facts = good_machine();
  facts.gpus.device_files = 0;
  CHECK(cost(facts, "NVIDIA driver") ==
        "jobs run on CPUs; start a container with its GPUs (docker: --gpus=all)");
}

TEST_CASE("each missing library of the driver has its own cost") {
  MachineFacts facts = good_machine();
  facts.gpus.nvml_loads = false;
  CHECK(cost(facts, "libnvidia-ml.so.1") == "ddprun finds GPUs by /dev alone");
  CHECK(cost(facts, "libcuda.so.1").empty());
  facts.gpus.cuda_loads = false;
  CHECK(cost(facts, "libcuda.so.1") == "no program can use the GPUs");
}

TEST_CASE("level tree costs that detached processes may outlive two kills at once") {
  MachineFacts facts = good_machine();
  facts.system.containment = "tree";
  CHECK_THAT(cost(facts, "level"), Contains("with --contain=cgroup or pidns none does"));
  facts.system.containment = "pidns";
  CHECK(cost(facts, "level").empty());
  facts.system.containment.clear();
  facts.system.problem = "why";
  CHECK(cost(facts, "level") == "why");
}

TEST_CASE("few open files, few processes and no core files have their costs") {
  MachineFacts facts = good_machine();
  facts.limits = {.open_files = 64, .open_files_hard = 71, .processes = 1023, .core_bytes = 0};
  CHECK(finding(facts, "open files").found == "64, may be raised to 71");
  CHECK(cost(facts, "open files") ==
        "one worker for each CPU needs up to 72: ulimit -Hn");  // 32 + 5 * 8
  CHECK_THAT(cost(facts, "processes"), Contains("workers may fail to start (ulimit -u)"));
  CHECK(cost(facts, "core files") == "a crash leaves no core file (ulimit -c unlimited)");
  facts.limits = {.open_files = 64, .open_files_hard = 72, .processes = 1024, .core_bytes = 1};
  for (const auto* name : {"open files", "processes", "core files"})
    CHECK(cost(facts, name).empty());
  facts.limits = {};
  CHECK(finding(facts, "open files").found == "unlimited, may be raised to unlimited");
}

TEST_CASE("a small, a closed and a missing /dev/shm have their costs, and so has TMPDIR") {
  const std::string disk = "progress pages lie in TMPDIR, on a disk";
  MachineFacts facts = good_machine();
  CHECK(finding(facts, "/dev/shm").found == "64 MiB free");
  facts.folders.memory_free = 64 * kMiB - 1;
  CHECK_THAT(cost(facts, "/dev/shm"),
             Contains("may fail with a bus error (docker: --shm-size=1g)"));
  facts.folders.memory_writable = false;
  CHECK(finding(facts, "/dev/shm").found == "not writable");
  CHECK(cost(facts, "/dev/shm") == disk);
  facts.folders.memory_free.reset();
  CHECK(finding(facts, "/dev/shm").found == "missing");
  CHECK(cost(facts, "/dev/shm") == disk);
  facts.folders.temporary_usable = false;
  CHECK(cost(facts, "TMPDIR") == "no folder that you can write to: --log-dir has to name one");
}

TEST_CASE("each missing debugger has its own cost") {
  MachineFacts facts = good_machine();
  facts.py_spy.clear();
  CHECK(cost(facts, "py-spy") == "a hang shows no Python lines (pip install py-spy)");
  CHECK(cost(facts, "gdb").empty());
  facts.gdb.clear();
  CHECK(cost(facts, "gdb") == "a hang shows no C frames");
}

TEST_CASE("without OpenSSL nothing is encrypted, and without MUNGE nodes need a secret") {
  MachineFacts facts = good_machine();
  facts.nodes.munge_runs = false;
  CHECK(finding(facts, "MUNGE").found == "libmunge.so.2, but no /run/munge/munge.socket.2");
  CHECK_THAT(cost(facts, "MUNGE"), Contains("(ddprun --make-secret)"));
  facts.nodes.munge_loads = false;
  CHECK(finding(facts, "MUNGE").found == "not found");
  facts.nodes.openssl.clear();
  CHECK_THAT(cost(facts, "OpenSSL"), StartsWith("--rdzv-tls and rdzvd --tls can't be used"));
}

TEST_CASE("a port in use has to be replaced, and a host name has to lead to other nodes") {
  MachineFacts facts = good_machine();
  facts.nodes.ports[1].taken = "Address already in use";
  CHECK(finding(facts, "port 29400").found == "free");
  CHECK(finding(facts, "port 29500").found == "Address already in use");
  CHECK(cost(facts, "port 29500") == "jobs of several nodes take it by default; give another port");
  CHECK(finding(facts, "host name").found == "node7: 10.0.0.7");
  for (const auto* address : {"127.0.1.1", "::1", ""}) {
    facts.nodes.host_address = address;
    CHECK_THAT(cost(facts, "host name"), StartsWith("other nodes can't reach this name"));
  }
}
