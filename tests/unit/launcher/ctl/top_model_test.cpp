// What `ddpctl top` makes of a job's answers.
#include "launcher/ctl/top_model.hpp"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "launcher/ctl/device_watch.hpp"

using namespace ddprun;
using namespace ddprun::ctl;
using namespace std::chrono_literals;

namespace {

const TopTime kStart{1h};

std::string worker(int rank, const std::string& more) {
  return R"({"rank":)" + std::to_string(rank) + R"(,"pid":)" + std::to_string(100 + rank) +
         R"(,"state":"running",)" + more + "}";
}
std::string at_step(int rank, int step, double age = 0, double cpu = 0) {
  return worker(rank, R"("step":)" + std::to_string(step) + R"(,"step_age_seconds":)" +
                          std::to_string(age) + R"(,"cpu_seconds":)" + std::to_string(cpu));
}
std::string status(const std::vector<std::string>& workers, const std::string& node = "a",
                   int group_rank = 0) {
  std::string text =
      R"({"run_id":"job","node":")" + node +
      R"(","state":"running","restart_count":1,"max_restarts":3,"round":2,"nodes":2,)"
      R"("devices_variable":"CUDA_VISIBLE_DEVICES","group_rank":)" +
      std::to_string(group_rank) + R"(,"world_size":4,"workers":[)";
  for (std::size_t i = 0; i < workers.size(); ++i) text += (i > 0 ? "," : "") + workers[i];
  return text + "]}";
}

/// Asked once a second; each time with these workers.
class Asked {
 public:
  void answer(const std::vector<std::string>& workers) {
    now_ += 1s;
    REQUIRE(model.take(status(workers), now_));
  }
  [[nodiscard]] TopView view(TopOrder order = TopOrder::slowest) const {
    return model.view(now_, order);
  }
  [[nodiscard]] TopRow row() const { return view().rows.at(0); }
  TopModel model{1s};

 private:
  TopTime now_ = kStart;
};

std::vector<std::int64_t> ranks(const TopView& view) {
  std::vector<std::int64_t> all;
  for (const TopRow& row : view.rows) all.push_back(row.rank);
  return all;
}

}  // namespace

TEST_CASE("top: the job's own numbers come from its newest answer") {
  Asked asked;
  asked.answer({});
  const TopView view = asked.view();
  CHECK(view.job == "job");
  CHECK(view.state == "running");
  CHECK(view.round == 2);
  CHECK(view.restart_count == 1);
  CHECK(view.max_restarts == 3);
  CHECK(view.nodes_in_round == 2);
  CHECK(view.rows.empty());
  CHECK_FALSE(view.silent_seconds.has_value());
}

TEST_CASE("top: what is no status has no effect") {
  TopModel model(1s);
  for (const char* const text : {"", "7", "[]", "{}", R"({"error":"busy"})"})
    CHECK_FALSE(model.take(text, kStart));
  CHECK(model.view(kStart, TopOrder::slowest).nodes.empty());
  CHECK(model.take(R"({"workers":[7,{},{"rank":"x","pid":"y","step":-1,"signal":"z"}]})", kStart));
  CHECK(model.view(kStart, TopOrder::slowest).rows.size() == 2);
}

TEST_CASE("top: the time of a step is that of the newest steps, by the worker's reports") {
  Asked asked;
  asked.answer({at_step(0, 100, 0.3)});
  CHECK_FALSE(asked.row().step_seconds.has_value());
  asked.answer({at_step(0, 110, 0.3)});
  CHECK(*asked.row().step_seconds == Approx(0.3));  // the current one lasts that long already
  asked.answer({at_step(0, 120, 0.05)});
  CHECK(*asked.row().step_seconds == Approx(2.25 / 20));
  CHECK(asked.row().step_history.size() == 2);
  for (int i = 3; i < 200; ++i) asked.answer({at_step(0, 90 + 10 * i)});
  CHECK(*asked.row().step_seconds == Approx(0.1));
  CHECK(asked.row().step_history.size() == 64);
  asked.answer({at_step(0, 2080, 1)});
  asked.answer({at_step(0, 2080, 2)});
  CHECK(*asked.row().step_seconds == Approx(2));
}

TEST_CASE("top: the first of slow steps does not count, because only its end was seen") {
  Asked asked;
  asked.answer({at_step(0, 5)});
  asked.answer({at_step(0, 6)});
  CHECK_FALSE(asked.row().step_seconds.has_value());
  asked.answer({at_step(0, 6, 1)});
  asked.answer({at_step(0, 6, 2)});
  asked.answer({at_step(0, 7)});
  CHECK(*asked.row().step_seconds == Approx(3));
  CHECK(asked.row().step_history == std::vector<double>{3});
}

TEST_CASE("top: a worker that goes back, or another process, begins anew") {
  Asked asked;
  for (const int step : {100, 110, 120}) asked.answer({at_step(0, step, 0, 1)});
  REQUIRE(asked.row().step_seconds.has_value());
  REQUIRE(asked.row().cpu_percent.has_value());
  asked.answer({at_step(0, 50, 0, 1)});
  CHECK_FALSE(asked.row().step_seconds.has_value());
  CHECK(asked.row().step_history.empty());
  asked.answer({R"({"rank":0,"pid":7,"state":"running","cpu_seconds":0.5})"});
  CHECK_FALSE(asked.row().step.has_value());
  CHECK_FALSE(asked.row().cpu_percent.has_value());
}

TEST_CASE("top: reports with impossible times count by the answers' times") {
  Asked asked;
  asked.answer({at_step(0, 100, 0)});
  asked.answer({at_step(0, 110, 500)});
  CHECK(asked.row().step_history.at(0) == Approx(0.1));
  asked.answer({at_step(0, 120, 1e30)});
  CHECK(asked.row().step == 120);
}

TEST_CASE("top: CPU is a share of the time between two answers") {
  Asked asked;
  asked.answer({at_step(0, 1, 0, 10)});
  CHECK_FALSE(asked.row().cpu_percent.has_value());
  asked.answer({at_step(0, 2, 0, 11.5)});
  CHECK(*asked.row().cpu_percent == Approx(150));
  asked.answer({R"({"rank":0,"pid":100,"state":"ended","exit_code":3})"});
  CHECK_FALSE(asked.row().cpu_percent.has_value());
}

TEST_CASE("top: how a worker has ended is its state, and its step stays") {
  Asked asked;
  asked.answer({at_step(0, 5), at_step(1, 6), at_step(2, 7), at_step(3, 8)});
  asked.answer({R"({"rank":0,"pid":100,"state":"ended","exit_code":3})",
                R"({"rank":1,"pid":101,"state":"ended","signal":9})",
                R"({"rank":2,"pid":102,"state":"ended","exit_code":0})",
                R"({"rank":3,"pid":0,"state":"not_started","problem":"x"})"});
  const auto rows = asked.view(TopOrder::rank).rows;
  CHECK(rows[0].state == "exit 3");
  CHECK(rows[0].has_failed);
  CHECK(rows[0].step == 5);
  CHECK(rows[1].state == "SIGKILL");
  CHECK(rows[1].has_failed);
  CHECK(rows[2].state == "exit 0");
  CHECK_FALSE(rows[2].has_failed);
  CHECK(rows[3].state == "not started");
  CHECK(rows[3].has_failed);
}

TEST_CASE("top: the slowest come first, and those without progress last") {
  Asked asked;
  for (int i = 0; i < 3; ++i)
    asked.answer({worker(0, R"("cpu_seconds":0)"), at_step(1, 50 + 10 * i),
                  at_step(2, 50 + 10 * i, i == 2 ? 0.5 : 0), at_step(3, 40 + 10 * i),
                  at_step(4, 50 + 10 * i)});
  CHECK(ranks(asked.view()) == std::vector<std::int64_t>{3, 2, 1, 4, 0});
  CHECK(ranks(asked.view(TopOrder::rank)) == std::vector<std::int64_t>{0, 1, 2, 3, 4});
}

TEST_CASE("top: a last line is as a terminal would show it, and printable") {
  const auto shown = [](const std::string& json_text) {
    Asked asked;
    asked.answer({worker(0, R"("last_line":")" + json_text + "\"")});
    return asked.row().last_line;
  };
  CHECK(shown("loss 1.5") == "loss 1.5");
  CHECK(shown("\\u001b[31mred\\u001b[0m end") == "red end");
  CHECK(shown("epoch:  10%\\repoch:  20%\\r") == "epoch:  20%");
  CHECK(shown("a\\tb\\u0007c\\u009b") == "a b\\x07c\\xc2\\x9b");
  CHECK(shown("open \\u001b[3") == "open ");
}

TEST_CASE("top: a node that does not answer in time is told, and ages grow") {
  TopModel model(1s);
  REQUIRE(model.take(status({at_step(0, 5, 1)}), kStart));
  CHECK_FALSE(model.view(kStart + 2s, TopOrder::rank).silent_seconds.has_value());
  const TopView view = model.view(kStart + 9s, TopOrder::rank);
  CHECK(*view.silent_seconds == Approx(9));
  CHECK(*view.rows.at(0).age_seconds == Approx(10));
}

TEST_CASE("top: answers of several nodes are one table, with a sum for each node") {
  TopModel model(1s);
  for (int i = 0; i < 2; ++i) {
    const TopTime at = kStart + i * 1s;
    REQUIRE(model.take(status({at_step(2, 9 + i, 0, i), at_step(3, 8 + i, 0, i)}, "b", 1), at));
    REQUIRE(model.take(status({at_step(0, 7 + i), R"({"rank":1,"pid":5,"signal":9})"}), at));
  }
  const TopView view = model.view(kStart + 1s, TopOrder::rank);
  CHECK(ranks(view) == std::vector<std::int64_t>{0, 1, 2, 3});
  REQUIRE(view.nodes.size() == 2);
  CHECK(view.nodes[0].name == "a");
  CHECK(view.nodes[0].failed == 1);
  CHECK(view.nodes[1].name == "b");
  CHECK(view.nodes[1].workers == 2);
  CHECK(view.nodes[1].step == 9);
  CHECK(*view.nodes[1].cpu_percent == Approx(200));
}

TEST_CASE("top: the devices of running workers are asked for, and their use is shown") {
  Asked asked;
  asked.answer({worker(0, R"("cpu_seconds":0,"devices":"1")"),
                worker(1, R"("cpu_seconds":0,"devices":"1")"),
                R"({"rank":2,"pid":5,"state":"ended","exit_code":0,"devices":"2"})"});
  CHECK(asked.model.devices() == std::vector<std::string>{"1"});
  asked.model.set_device_uses({{"1", {97.0, 1000}}});
  CHECK(*asked.row().devices.percent == Approx(97));
  asked.model.set_device_uses({});
  CHECK_FALSE(asked.row().devices.used_bytes.has_value());

  TopModel other(1s);
  std::string text = status({worker(0, R"("cpu_seconds":0,"devices":"1")")});
  text.replace(text.find("CUDA"), 4, "ROCR");
  REQUIRE(other.take(text, kStart));
  CHECK(other.devices().empty());
}

TEST_CASE("top: several devices of a worker are one use, unless one of them is unknown") {
  const std::vector<machine::Gpu> gpus{{0, "GPU-a"}, {1, "GPU-b"}};
  const auto load = [](const std::string& uuid) -> machine::GpuLoad {
    if (uuid == "GPU-a") return {50, 1000, 2000};
    return {{}, 500, 2000};
  };
  CHECK(*use_of("0", gpus, load).percent == Approx(50));
  CHECK(use_of("GPU-a", gpus, load).used_bytes == 1000U);
  CHECK_FALSE(use_of("0,1", gpus, load).percent.has_value());
  CHECK(use_of("0,GPU-b", gpus, load).used_bytes == 1500U);
  for (const char* const unknown : {"", "7", "0,7", "MIG-a", "0,MIG-a", ",,"}) {
    INFO(unknown);
    CHECK_FALSE(use_of(unknown, gpus, load).percent.has_value());
    CHECK_FALSE(use_of(unknown, gpus, load).used_bytes.has_value());
  }
}
