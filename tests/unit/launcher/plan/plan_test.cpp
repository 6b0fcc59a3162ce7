#include "launcher/plan/plan.hpp"

#include <catch2/catch.hpp>
#include <set>

#include "base/time_stamp.hpp"
#include "tests/unit/launcher/planned.hpp"

using namespace ddprun;
using namespace ddprun::launcher;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;
using namespace ddprun::launcher::test;

TEST_CASE("a cgroup is used if ddprun's own is delegated or on request") {
  using ddprun::machine::ContainmentLevel;
  Machine machine;
  const auto level_of = [&](const Words& words) {
    return planned(words, machine).agent.containment;
  };
  CHECK(level_of({}) == machine::ContainmentLevel::tree);
  CHECK(level_of({"--contain=pidns"}) == machine::ContainmentLevel::pidns);
  CHECK(refused_plan({"--contain=cgroup"}, machine).find("Delegate=yes") != std::string::npos);
  machine.cgroup_possible = true;
  CHECK(level_of({}) == machine::ContainmentLevel::tree);
  CHECK(level_of({"--contain=cgroup"}) == machine::ContainmentLevel::cgroup);
  machine.cgroup_delegated = true;
  CHECK(level_of({}) == machine::ContainmentLevel::cgroup);
  CHECK(level_of({"--contain=tree"}) == machine::ContainmentLevel::tree);
}

TEST_CASE("the plan holds program, arguments and limits as they were given") {
  const auto plan = planned({"--max-restarts=2", "--grace-period=1.5", "--role=r"});
  CHECK(plan.program.file == "/usr/bin/true");
  CHECK(plan.program.argv == Words{"true", "--own"});
  CHECK(plan.agent.job.restart.max_restarts == 2);
  CHECK(plan.agent.stop.grace_period == std::chrono::milliseconds(1500));
  CHECK(plan.agent.node.role == "r");
  CHECK(plan.agent.containment == machine::ContainmentLevel::tree);
  CHECK(plan.agent.workers.size() == 1);
}

TEST_CASE("a program that is not found ends the plan with its own exit code") {
  const auto options = parse_launch_options({"nothing-of-the-kind"}, {});
  REQUIRE(options.has_value());
  const Machine machine;
  const auto plan = make_plan(*options, machine.environment, machine.probes());
  REQUIRE_FALSE(plan.has_value());
  CHECK(plan.error().exit_code == 127);
}

TEST_CASE("a machine without GPUs is not searched for them unless they are asked for") {
  const Machine machine;
  CHECK(planned({"--nproc-per-node=2"}, machine).agent.workers.size() == 2);
  CHECK(planned({"--nproc-per-node=cpu"}, machine).agent.workers.size() == 6);
  CHECK(planned({"--gpus=none"}, machine).agent.workers.size() == 1);
  CHECK(machine.discoveries == 0);
  CHECK(planned({"--nproc-per-node=auto"}, machine).agent.workers.size() == 6);
  CHECK(machine.discoveries == 1);
}

TEST_CASE("workers are numbered from 0 and told the job's GPUs") {
  const auto plan = planned({"--nproc-per-node=2"}, Machine(4));
  REQUIRE(plan.agent.workers.size() == 2);
  CHECK(plan.agent.workers[1].argv == plan.program.argv);
  CHECK(plan.agent.workers[1].visible_devices == "0,1,2,3");
  CHECK(planned({"--nproc-per-node=2", "--gpu-visibility=own"}, Machine(4))
            .agent.workers[1]
            .visible_devices == "1");
  CHECK_FALSE(planned({"--nproc-per-node=2"}).agent.workers[1].visible_devices.has_value());
}

TEST_CASE("gpu means one worker for each visible GPU") {
  CHECK(planned({"--nproc-per-node=gpu"}, Machine(3)).agent.workers.size() == 3);
  CHECK(planned({"--nproc-per-node=gpu"}, Machine(3).with("CUDA_VISIBLE_DEVICES", "2"))
            .agent.workers.size() == 1);
  CHECK(planned({"--nproc-per-node=gpu", "--gpus=0,2"}, Machine(3)).agent.workers.size() == 2);
}

TEST_CASE("gpu without a GPU is refused with the places that were searched") {
  CHECK(refused_plan({"--nproc-per-node=gpu"}) ==
        "--nproc-per-node=gpu: no GPU was found (looked for NVML); give a number, cpu or auto");
  CHECK_THAT(refused_plan({"--nproc-per-node=gpu"}, Machine(2).with("CUDA_VISIBLE_DEVICES", "")),
             Contains("CUDA_VISIBLE_DEVICES= leaves no GPU visible"));
  CHECK_THAT(refused_plan({"--nproc-per-node=gpu", "--gpus=none"}, Machine(2)),
             Contains("exclude each other"));
}

namespace {

/// AMD's GPUs, by number, and what they are called there.
Machine with_amd(int count) {
  Machine machine;
  for (int i = 0; i < count; ++i)
    machine.accelerators.gpus.push_back({i, "GPU-0" + std::to_string(i)});
  machine.accelerators.variable = "HIP_VISIBLE_DEVICES";
  machine.accelerators.other_variable = "CUDA_VISIBLE_DEVICES";
  machine.accelerators.outer_variable = "ROCR_VISIBLE_DEVICES";
  machine.accelerators.looked_for = "/sys/class/kfd";
  return machine;
}

std::size_t workers_of(const Machine& machine) {
  return planned({"--nproc-per-node=auto"}, machine).agent.workers.size();
}

}  // namespace

TEST_CASE("accelerators of other vendors are counted where no GPU of NVIDIA is found") {
  const Machine amd = with_amd(4);
  CHECK(planned({"--nproc-per-node=gpu"}, amd).agent.workers.size() == 4);
  CHECK(amd.asked_for == "gpu");
  CHECK(workers_of(amd) == 4);
  CHECK(amd.asked_for == "");
  Machine both = with_amd(4);
  both.gpus = 2;
  CHECK(workers_of(both) == 2);
  CHECK_FALSE(both.asked_for.has_value());
  CHECK(planned({"--nproc-per-node=xpu"}, both).agent.workers.size() == 4);
  CHECK(both.discoveries == 1);
}

TEST_CASE("a number of workers does not ask for accelerators of other vendors") {
  const Machine amd = with_amd(1);  // of a laptop's CPU, perhaps
  CHECK(planned({"--nproc-per-node=3"}, amd).agent.workers.size() == 3);
  CHECK_FALSE(amd.asked_for.has_value());
}

TEST_CASE("the variables of other vendors hide devices") {
  CHECK(workers_of(with_amd(4).with("HIP_VISIBLE_DEVICES", "1,3")) == 2);
  CHECK(workers_of(with_amd(4).with("CUDA_VISIBLE_DEVICES", "1")) == 1);
  CHECK(workers_of(
            with_amd(4).with("CUDA_VISIBLE_DEVICES", "1").with("HIP_VISIBLE_DEVICES", "2,0")) == 2);
  // The inner variable counts what the outer one leaves.
  const Machine two = with_amd(4).with("ROCR_VISIBLE_DEVICES", "3,GPU-01");
  CHECK(workers_of(two) == 2);
  CHECK(planned({"--gpus=1"}, two).agent.workers[0].visible_devices == "1");
  CHECK_THAT(refused_plan({"--nproc-per-node=gpu"}, with_amd(2).with("ROCR_VISIBLE_DEVICES", "-1")),
             Contains("looked for NVML, /sys/class/kfd, with ROCR_VISIBLE_DEVICES=-1)"));
  CHECK_THAT(refused_plan({"--nproc-per-node=gpu"}, with_amd(2).with("HIP_VISIBLE_DEVICES", "")),
             Contains("HIP_VISIBLE_DEVICES= leaves no GPU visible"));
}

TEST_CASE("workers get the variable of their devices only where some are chosen") {
  const auto own = planned({"--nproc-per-node=gpu", "--gpu-visibility=own"}, with_amd(2));
  CHECK(own.agent.environment.devices_variable == "HIP_VISIBLE_DEVICES");
  CHECK(own.agent.workers[1].visible_devices == "1");
  const auto listed = planned({"--gpus=1"}, with_amd(2).with("CUDA_VISIBLE_DEVICES", "0,1"));
  CHECK(listed.agent.environment.devices_variable == "CUDA_VISIBLE_DEVICES");
  CHECK(listed.agent.workers[0].visible_devices == "1");
  CHECK_FALSE(
      planned({"--nproc-per-node=gpu"}, with_amd(2)).agent.workers[0].visible_devices.has_value());
}

TEST_CASE("auto means the GPUs where there are any, else the CPUs") {
  CHECK(planned({"--nproc-per-node=auto"}, Machine(3)).agent.workers.size() == 3);
  CHECK(planned({"--nproc-per-node=auto"}, Machine(0)).agent.workers.size() == 6);
  CHECK(planned({"--nproc-per-node=auto", "--gpus=none"}, Machine(3)).agent.workers.size() == 6);
  CHECK(planned({"--nproc-per-node=auto"}, Machine(3).with("CUDA_VISIBLE_DEVICES", "-1"))
            .agent.workers.size() == 6);
}

TEST_CASE("more workers than GPUs is refused, with the CPU job as a remedy that works") {
  CHECK(refused_plan({"--nproc-per-node=3"}, Machine(2)) ==
        "--nproc-per-node=3: more workers than GPUs (2 visible: 0,1); use --nproc-per-node=gpu, or "
        "--gpus=none for a CPU "
        "job");
  const auto cpu_job = planned({"--nproc-per-node=3", "--gpus=none"}, Machine(2));
  CHECK(cpu_job.agent.workers.size() == 3);
  CHECK(cpu_job.agent.workers[0].visible_devices == "");
  CHECK(planned({"--nproc-per-node=3"}, Machine(2).with("CUDA_VISIBLE_DEVICES", ""))
            .agent.workers.size() == 3);
  CHECK(planned({"--nproc-per-node=3"}, Machine(0)).agent.workers.size() == 3);
}

TEST_CASE("the word cpu may start more workers than GPUs, unless each shall own one") {
  CHECK(planned({"--nproc-per-node=cpu"}, Machine(2)).agent.workers.size() == 6);
  CHECK_THAT(refused_plan({"--nproc-per-node=cpu", "--gpu-visibility=own"}, Machine(2)),
             Contains("more workers than GPUs"));
}

TEST_CASE("free GPUs are taken for the workers that are asked for, else for a worker on each") {
  Machine machine(5);
  machine.busy_gpus = {"1"};
  const auto all = planned({"--gpus=free"}, machine);
  CHECK(all.devices.chosen == Words{"0", "2", "3", "4"});
  CHECK(all.agent.workers.size() == 4);
  CHECK(all.agent.workers[3].visible_devices == "0,2,3,4");
  CHECK(all.agent.checks.claimed_gpus == Words{"0=GPU-0", "2=GPU-2", "3=GPU-3", "4=GPU-4"});
  CHECK(all.notes == Words{"--gpus=free: the job has GPU 0,2,3,4"});
  const auto two = planned({"--gpus=free", "--nproc-per-node=2"}, machine);
  CHECK(two.devices.chosen == Words{"0", "2"});
  CHECK(two.devices.claims.size() == 2);
  CHECK(planned({"--gpus=free:3"}, machine).agent.workers.size() == 3);
  CHECK(planned({"--gpus=free:3", "--nproc-per-node=gpu"}, machine).agent.workers.size() == 3);
  CHECK(planned({"--gpus=free:3", "--nproc-per-node=1"}, machine).devices.chosen.size() == 3);
  const auto named = planned({"--gpus=free"}, machine.with("CUDA_VISIBLE_DEVICES", "4,1"));
  CHECK(named.devices.chosen == Words{"4"});
  CHECK(planned({"--gpus=all"}, machine).agent.checks.claimed_gpus.empty());
}

TEST_CASE(
    "too few free GPUs are no usage error, and each that is not free is told with its reason") {
  Machine machine(3);
  machine.busy_gpus = {"0", "2"};
  const auto refused = plan_of({"--gpus=free:2"}, machine);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().exit_code == kExitNoRound);
  CHECK(refused.error().message == "--gpus=free:2: 1 of 3 visible GPUs is free, and 2 are wanted");
  CHECK(refused.error().more == "\n  GPU 0: pid 7 uses it\n  GPU 2: pid 7 uses it");
  machine.busy_gpus = {"0", "1", "2"};
  CHECK(plan_of({"--gpus=free"}, machine).error().message ==
        "--gpus=free: 0 of 3 visible GPUs are free");
  CHECK_THAT(refused_plan({"--gpus=free"}, Machine(0)), Contains("no GPU was found"));
  machine.gpu_source = "/dev/nvidia*";
  CHECK_THAT(refused_plan({"--gpus=free"}, machine), Contains("only NVIDIA's NVML tells"));
}

TEST_CASE("a list of GPUs asks for a worker on each unless a number is given") {
  CHECK(planned({"--gpus=0,2"}, Machine(4)).agent.workers.size() == 2);
  CHECK(planned({"--gpus=0,2", "--nproc-per-node=1"}, Machine(4)).agent.workers.size() == 1);
  CHECK(planned({"--gpus=all"}, Machine(4)).agent.workers.size() == 1);
  CHECK_THAT(refused_plan({"--gpus=0,9"}, Machine(4)), Contains("names GPU 9"));
  CHECK(refused_plan({"--gpus=0"}, Machine(0)) ==
        "--gpus=0 names GPU 0, but no GPU was found (looked for NVML); --gpus=none makes it a CPU "
        "job");
  CHECK(refused_plan({"--devices", "2"}, Machine(0)) ==
        "--devices=2 names GPU 2, but no GPU was found (looked for NVML); --gpus=none makes it a "
        "CPU job; for two workers: --nproc-per-node=2");
  CHECK_THAT(refused_plan({"--devices=4"}, Machine(4)),
             EndsWith("(0,1,2,3); for 4 workers: --nproc-per-node=4"));
}

TEST_CASE("with the static backend an endpoint is where the workers meet, otherwise it is not") {
  const auto plan = planned({"--rdzv-endpoint=10.0.0.7:4000"});
  CHECK(plan.agent.store.master_addr == "10.0.0.7");
  CHECK(plan.agent.store.master_port == 4000);
  const auto dynamic = planned({"--rdzv-backend=c10d", "--rdzv-endpoint=10.0.0.7:4000"});
  CHECK(dynamic.agent.store.master_addr == "127.0.0.1");
  CHECK(dynamic.agent.store.master_port == 0);
  CHECK(dynamic.warnings.empty());
  CHECK(planned({"--rdzv-backend=etcd"}).warnings.size() == 1);
}

TEST_CASE("the address of this machine stands in for a missing master address") {
  CHECK(planned({"--local-addr=10.0.0.9"}).agent.store.master_addr == "10.0.0.9");
  CHECK(planned({"--local-addr=10.0.0.9", "--master-addr=10.0.0.8"}).agent.store.master_addr ==
        "10.0.0.8");
}

TEST_CASE("a name is waited for as long as the rendezvous may take, and not at all in a dry run") {
  const Machine machine;
  CHECK_THAT(refused_plan({"--master-addr=later"}, machine), Contains("does not resolve"));
  CHECK(machine.limits.back() == std::chrono::seconds(60));
  refused_plan({"--master-addr=later", "--rdzv-conf=join_timeout=5"}, machine);
  CHECK(machine.limits.back() == std::chrono::seconds(5));
  refused_plan({"--master-addr=later", "--rdzv-conf=timeout=5,read_timeout=3"}, machine);
  CHECK(machine.limits.back() == std::chrono::seconds(3));
  refused_plan({"--dry-run", "--master-addr=later"}, machine);
  CHECK(machine.limits.back() == std::chrono::seconds(0));
}

TEST_CASE("without options the meeting point is loopback, a free port and a fresh run id") {
  const Machine machine;
  const auto plan = planned({}, machine);
  CHECK(plan.agent.store.master_addr == "127.0.0.1");
  CHECK(plan.agent.store.host == "127.0.0.1");
  CHECK(plan.agent.store.master_port == 0);
  CHECK(plan.agent.run_id == "fresh-id");
  CHECK(machine.resolved.empty());
}

TEST_CASE("a given address, port and id are used") {
  const auto plan = planned({"--master-addr=10.1.2.3", "--master-port=29500", "--rdzv-id=job"});
  CHECK(plan.agent.store.master_addr == "10.1.2.3");
  CHECK(plan.agent.store.host == "10.1.2.3");
  CHECK(plan.agent.store.master_port == 29500);
  CHECK(plan.agent.run_id == "job");
}

TEST_CASE("a host name stays for the workers and is resolved for the store") {
  const Machine machine;
  const auto plan = planned({"--master-addr=node1"}, machine);
  CHECK(plan.agent.store.master_addr == "node1");
  CHECK(plan.agent.store.host == "10.0.0.1");
  CHECK(planned({"--master-addr=localhost"}, machine).agent.store.host == "127.0.0.1");
  CHECK(planned({"--master-addr=localhost"}, machine).agent.store.master_addr == "localhost");
  CHECK(planned({"--master-addr=::1"}, machine).agent.store.host == "::1");
  CHECK(planned({"--master-addr=[::1]"}, machine).agent.store.master_addr == "::1");
  CHECK(machine.resolved == Words{"node1"});
  CHECK_THAT(refused_plan({"--master-addr=nowhere"}),
             Contains("--master-addr=nowhere does not resolve"));
}

TEST_CASE("standalone ignores a given id, address and port, with a warning") {
  const auto plan =
      planned({"--standalone", "--rdzv-id=job", "--master-addr=nowhere", "--master-port=29500"});
  CHECK(plan.agent.run_id == "fresh-id");
  CHECK(plan.agent.store.master_addr == "127.0.0.1");
  CHECK(plan.agent.store.master_port == 0);
  CHECK(plan.warnings == Words{"--rdzv-id is ignored because of --standalone",
                               "--master-addr is ignored because of --standalone",
                               "--master-port is ignored because of --standalone"});
  CHECK(planned({"--standalone"}).warnings.empty());
}

TEST_CASE("notes of options and devices come along in order") {
  const auto plan =
      planned({"--start-method=fork"}, Machine(2).with("CUDA_VISIBLE_DEVICES", "0,0"));
  REQUIRE(plan.warnings.size() == 2);
  CHECK_THAT(plan.warnings[0], StartsWith("--start-method=fork has no effect here"));
  CHECK_THAT(plan.warnings[1], Contains("twice"));
}

TEST_CASE("the real machine gives ids that begin with date and time, CPUs and its own folder") {
  const Probes probes = machine_probes();
  std::set<std::string> ids;
  for (int i = 0; i < 100; ++i) {
    const std::string id = probes.new_run_id();
    REQUIRE(id.size() == std::string("2026-11-28_17-15-33_0123abcd").size());
    CHECK(ddprun::begins_with_time_stamp(id));
    CHECK(id.find_first_not_of("0123456789abcdef", 20) == std::string::npos);
    CHECK(ids.insert(id).second);
  }
  CHECK(probes.logical_cpus() >= 1);
  CHECK(probes.files->look(probes.executable_folder).kind == FileInfo::Kind::folder);
  CHECK(probes.resolve_host("127.0.0.1", std::chrono::seconds(0)) == "127.0.0.1");
}
