#include "launcher/plan/devices_plan.hpp"

#include <catch2/catch.hpp>

using namespace ddprun;
using namespace ddprun::launcher;
using Catch::Matchers::Contains;
using ddprun::machine::GpuDiscovery;
using Words = std::vector<std::string>;

namespace {

machine::GpuDiscovery gpus(int count) {
  machine::GpuDiscovery found;
  for (int i = 0; i < count; ++i)
    found.gpus.push_back({i, "GPU-" + std::string(4, static_cast<char>('a' + i))});
  if (count > 0) found.source = "NVML";
  found.looked_for = "NVML, /proc";
  return found;
}

GpuSelection list(std::vector<int> places) {
  return {.kind = GpuSelection::Kind::list, .list = std::move(places), .given = true};
}
const GpuSelection kAll = {};
const GpuSelection kNone = {.kind = GpuSelection::Kind::none, .list = {}, .given = true};

Words visible(int count, const std::optional<std::string>& variable) {
  return visible_gpus(gpus(count), variable).entries;
}

DevicesPlan planned(int count, const std::optional<std::string>& variable,
                    const GpuSelection& selection) {
  auto plan = plan_devices(gpus(count), variable, selection);
  if (!plan) FAIL(plan.error().message);
  return std::move(*plan);
}

std::string refused(int count, const std::optional<std::string>& variable,
                    const GpuSelection& selection) {
  const auto plan = plan_devices(gpus(count), variable, selection);
  if (plan) FAIL("was accepted");
  CHECK(plan.error().exit_code == 2);
  return plan.error().message;
}

std::optional<std::string> worker(int count, const std::optional<std::string>& variable,
                                  const GpuSelection& selection, GpuVisibility visibility,
                                  int local_rank) {
  return worker_visible_devices(planned(count, variable, selection), variable, selection,
                                visibility, local_rank);
}

}  // namespace

TEST_CASE("without CUDA_VISIBLE_DEVICES all GPUs are visible by number") {
  CHECK(visible(3, std::nullopt) == Words{"0", "1", "2"});
  CHECK(visible(0, std::nullopt).empty());
}

TEST_CASE("CUDA_VISIBLE_DEVICES chooses by number in its own order") {
  CHECK(visible(4, "3,1") == Words{"3", "1"});
  CHECK(visible(4, " 2 , 0 ") == Words{"2", "0"});
}

TEST_CASE(
    "CUDA_VISIBLE_DEVICES chooses by the beginning of a UUID and by MIG instance, kept as text") {
  CHECK(visible(2, "GPU-bb") == Words{"GPU-bb"});
  CHECK(visible(2, "MIG-1234,MIG-GPU-aaaa/1/0") == Words{"MIG-1234", "MIG-GPU-aaaa/1/0"});
  machine::GpuDiscovery nameless = gpus(1);
  nameless.gpus.front().uuid.clear();
  CHECK(visible_gpus(nameless, "GPU-whatever").entries == Words{"GPU-whatever"});
}

TEST_CASE("an empty CUDA_VISIBLE_DEVICES and minus one hide all GPUs without a note") {
  CHECK(visible(2, "").empty());
  CHECK(visible(2, "-1").empty());
  CHECK(visible(2, "0,-1,1") == Words{"0"});
  CHECK(visible_gpus(gpus(2), "").note.empty());
  CHECK(visible_gpus(gpus(2), "-1").note.empty());
}

TEST_CASE("an invalid entry of CUDA_VISIBLE_DEVICES hides the entries after it and is noted") {
  CHECK(visible(2, "0,7,1") == Words{"0"});
  CHECK(visible(2, "x,1").empty());
  CHECK(visible(2, "GPU-zz,1").empty());
  CHECK_THAT(visible_gpus(gpus(2), "0,7,1").note, Contains("7 is no GPU of this machine"));
}

TEST_CASE("an entry of CUDA_VISIBLE_DEVICES that occurs twice hides all and is noted") {
  CHECK(visible(2, "0,1,0").empty());
  CHECK_THAT(visible_gpus(gpus(2), "0,1,0").note, Contains("twice"));
}

TEST_CASE("on a machine without GPUs CUDA_VISIBLE_DEVICES names none, without a note") {
  CHECK(visible(0, "0,1").empty());
  CHECK(visible_gpus(gpus(0), "0,1").note.empty());
}

TEST_CASE("a list of GPUs counts among the visible ones") {
  CHECK(planned(4, std::nullopt, list({0, 2})).chosen == Words{"0", "2"});
  CHECK(planned(8, "7,5,3", list({2, 0})).chosen == Words{"3", "7"});
  CHECK(planned(4, std::nullopt, list({0})).source == "NVML");
}

TEST_CASE("a GPU that is not visible is refused with a list of visible ones") {
  CHECK_THAT(refused(4, "2,3", list({0, 2})),
             Contains("names GPU 2, but 2 are visible, counted from 0 (2,3)"));
  CHECK_THAT(refused(1, std::nullopt, list({1})), Contains("but 1 is visible"));
  CHECK_THAT(refused(0, std::nullopt, list({0})),
             Contains("looked for NVML, /proc") && Contains("--gpus=none"));
  CHECK_THAT(refused(2, "", list({0})), Contains("CUDA_VISIBLE_DEVICES= leaves no GPU visible"));
}

TEST_CASE("every worker sees the job's whole list by default") {
  for (const int rank : {0, 1}) {
    CHECK(worker(2, std::nullopt, kAll, GpuVisibility::all, rank) == "0,1");
    CHECK(worker(4, std::nullopt, list({3, 1}), GpuVisibility::all, rank) == "3,1");
    CHECK(worker(4, "2,3", list({1}), GpuVisibility::all, 0) == "3");
  }
}

TEST_CASE("the user's own CUDA_VISIBLE_DEVICES is left as it is when nothing is chosen from it") {
  CHECK_FALSE(worker(4, "2,3", kAll, GpuVisibility::all, 0).has_value());
}

TEST_CASE("with own visibility a worker sees its one GPU") {
  CHECK(worker(4, "2,3", kAll, GpuVisibility::own, 0) == "2");
  CHECK(worker(4, "2,3", kAll, GpuVisibility::own, 1) == "3");
  CHECK(worker(4, std::nullopt, list({3, 1}), GpuVisibility::own, 1) == "1");
}

TEST_CASE("without GPUs the variable is left alone, there or not") {
  CHECK_FALSE(worker(0, std::nullopt, kAll, GpuVisibility::all, 0).has_value());
  CHECK_FALSE(worker(0, "0", kAll, GpuVisibility::own, 0).has_value());
  CHECK_FALSE(worker(2, "", kAll, GpuVisibility::own, 0).has_value());
}

TEST_CASE("a CPU job hides all GPUs from its workers") {
  CHECK(planned(4, std::nullopt, kNone).chosen.empty());
  CHECK(worker(4, std::nullopt, kNone, GpuVisibility::all, 0) == "");
  CHECK(worker(4, "0,1", kNone, GpuVisibility::own, 1) == "");
}
