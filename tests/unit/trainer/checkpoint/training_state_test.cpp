// state.json: a round trip without loss, damage found, configurations compared.
#include "trainer/checkpoint/training_state.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/json_text.hpp"
#include "trainer/checkpoint/durable_file.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

using Catch::Matchers::Contains;

TrainingState full_state() {
  TrainingState state;
  state.origin.run = "job-7";
  state.origin.lineage = "0123456789abcdef";
  state.sequence = 12;
  state.best = true;
  state.step = 1234;
  state.epoch = 3;
  state.block = 34;
  state.step_state.learning_rate = 0.1F;
  state.step_state.scaler = {.scale = 32768.0F, .good_steps = 7};
  state.step_state.updates = 1230;
  state.step_state.skipped = 4;
  state.step_state.stuck = 3;
  state.epoch_counters = {.loss = 207125980,
                          .count = 64,
                          .correct = 50,
                          .true_positives = 7,
                          .false_positives = 8,
                          .false_negatives = 9,
                          .not_finite = 1};
  state.interval = {.first_step = 1230,
                    .counters = {.loss = 12345, .count = 16, .correct = 9},
                    .seconds = 0.25,
                    .exposed_seconds = 0.125};
  state.epochs = {{.epoch = 0,
                   .train_loss = 1.25,
                   .train_score = 0.5,
                   .test_loss = 1.0 / 3,
                   .test_score = 0.875,
                   .seconds = 1.5,
                   .samples_per_second = 12345.678}};
  state.cut_off = {{.step = 1234, .summary = state.epochs[0]}};
  state.best_so_far.score = 0.875;
  state.best_so_far.metric = "test_iou";
  state.best_so_far.is = "largest";
  state.seconds = 2.5;
  state.origin.world_size = 4;
  state.origin.round = 2;
  state.origin.restarts = 1;
  state.origin.compute = "oneDNN 2.6.3 avx2";
  state.config = {{"model", std::string("lenet"), true},
                  {"shards", std::int64_t{4}, true},
                  {"lr", 0.05, false}};
  return state;
}

TEST_CASE("a state is read back as it was written") {
  const TrainingState state = full_state();
  const std::string text =
      to_json(state, {{.name = "model.safetensors", .bytes = 99, .crc32 = 4'000'000'000U}});
  const auto [read, files] = parse_state(text, "state.json");
  CHECK(to_json(read, files) == text);
  CHECK(read.step == 1234);
  CHECK(read.step_state.learning_rate == 0.1F);
  CHECK(read.step_state.scaler == state.step_state.scaler);
  CHECK(read.step_state.stuck == 3);
  CHECK(read.epoch_counters == state.epoch_counters);
  CHECK(read.interval == state.interval);
  CHECK(read.epochs == state.epochs);
  CHECK(read.cut_off == state.cut_off);
  CHECK(read.best_so_far.metric == "test_iou");
  CHECK(read.best_so_far.is == "largest");
  CHECK(read.config == state.config);
  REQUIRE(files.size() == 1);
  CHECK(files[0].crc32 == 4'000'000'000U);
}

TEST_CASE("a state without what was added later, as it was written before, is read") {
  // The checksum is of what stands before it.
  const TrainingState state = full_state();
  auto json = nlohmann::ordered_json::parse(to_json(state, {}));
  for (const char* name : {"best_metric", "best_is", "cut_off", "interval", "checksum"})
    json.erase(name);
  const std::string text = json_text(json);
  json["checksum"] = crc32_of(std::as_bytes(std::span(text)));
  const TrainingState read = parse_state(json.dump(), "state.json").first;
  CHECK(read.best_so_far.score == 0.875);
  CHECK(read.best_so_far.metric.empty());
  CHECK(read.cut_off.empty());
  CHECK(read.interval == OpenInterval{.first_step = state.step});
  CHECK(read.step == state.step);
}

TEST_CASE("names that are no UTF-8 are written, and the state is still its run's") {
  TrainingState state = full_state();
  state.origin.run = "job-\xff";
  state.config.push_back({"data", std::string("im\xe4ges 1f"), true});
  const auto [read, files] = parse_state(to_json(state, {}), "state.json");
  CHECK(read.origin.run == "job-\xef\xbf\xbd");
  CHECK(compare(read.config, state.config).identity.empty());
}

TEST_CASE("a loss that is not a number survives in the summary of its epoch") {
  TrainingState state = full_state();
  state.epochs[0].train_loss = std::numeric_limits<double>::quiet_NaN();
  const auto read = parse_state(to_json(state, {}), "state.json").first;
  CHECK(std::isnan(read.epochs[0].train_loss));
}

TEST_CASE("every cut and every changed letter of a state is found") {
  const std::string text = to_json(full_state(), {});
  for (std::size_t size = 0; size + 1 < text.size(); size += 7) {
    CHECK_THROWS_AS(parse_state(text.substr(0, size), "s"), DataError);
  }
  std::string changed = text;
  changed.replace(changed.find("1234"), 4, "1235");
  CHECK_THROWS_WITH(parse_state(changed, "state.json"), Contains("state.json: damaged"));
}

TEST_CASE("a file that is not ours is told from a damaged one") {
  CHECK_THROWS_WITH(parse_state("{}", "state.json"), Contains("not a checkpoint of this program"));
  CHECK_THROWS_WITH(parse_state(R"({"format": 7})", "state.json"),
                    Contains("not a checkpoint of this program"));
  CHECK_THROWS_WITH(parse_state(R"({"format": "ddprun-checkpoint-2"})", "state.json"),
                    Contains("written by another version of train (ddprun-checkpoint-2; this one"));
  CHECK_THROWS_WITH(parse_state("hello", "state.json"), Contains("not JSON"));
}

TEST_CASE("configurations are compared by what makes a run, and by what may change") {
  const RunConfig here = full_state().config;
  CHECK(compare(here, here).identity.empty());
  CHECK(compare(here, here).settings.empty());

  RunConfig there = here;
  there[1].value = std::int64_t{8};
  CHECK(compare(there, here).identity == "shards 8 there, 4 here");
  there = here;
  there[2].value = 0.1;
  CHECK(compare(there, here).identity.empty());
  CHECK(compare(there, here).settings == "lr 0.1 there, 0.05 here");
  there.pop_back();
  CHECK(compare(there, here).settings == "lr absent there, 0.05 here");
  CHECK(compare(here, there).settings == "lr 0.05 there, absent here");
}

TEST_CASE("a title explains a value in words and is not compared") {
  TrainingState state = full_state();
  state.config.push_back({"data", std::string("0123"), true, "fashion 28x28x1"});
  const RunConfig there = parse_state(to_json(state, {}), "state.json").first.config;
  RunConfig here = there;
  const auto data = std::find_if(here.begin(), here.end(),
                                 [](const auto& entry) { return entry.name == "data"; });
  REQUIRE(data != here.end());
  CHECK(data->title == "fashion 28x28x1");
  data->title = "renamed 28x28x1";
  CHECK(compare(there, here).identity.empty());
  CHECK(config_hash(there) == config_hash(here));
  data->value = std::string("4567");
  CHECK(compare(there, here).identity ==
        "data fashion 28x28x1 (0123) there, renamed 28x28x1 (4567) here");
}

TEST_CASE("the hash of a configuration depends on what makes a run only") {
  RunConfig config = full_state().config;
  const std::string hash = config_hash(config);
  config[2].value = 7.0;
  CHECK(config_hash(config) == hash);
  config[1].value = std::int64_t{5};
  CHECK(config_hash(config) != hash);
}

}  // namespace
}  // namespace ddprun::trainer
