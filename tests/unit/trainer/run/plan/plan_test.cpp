// Shards, batches, steps, lanes and directories that follow from options and environment.
#include "trainer/run/plan/plan.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "trainer/error.hpp"
#include "trainer/model/model.hpp"

namespace ddprun::trainer {
namespace {

using Catch::Matchers::Contains;

const DataFacts kData{.name = "shapes",
                      .content = "0123456789abcdef",
                      .test_content = "fedcba9876543210",
                      .samples = 1000,
                      .shape = {.height = 28, .width = 28, .channels = 1},
                      .classes = 10};

WorkerEnvironment workers(int count) {
  WorkerEnvironment environment;
  environment.world_size = count;
  environment.local_world_size = count;
  return environment;
}

TEST_CASE("V is the first number of workers times the accumulation, unless it is given") {
  Options options;
  CHECK(make_plan(options, workers(3), kData, std::nullopt).shards == 3);
  options.batches.accumulate = 4;
  CHECK(make_plan(options, workers(3), kData, std::nullopt).shards == 12);
  options.batches.shards = 5;
  CHECK(make_plan(options, workers(3), kData, std::nullopt).shards == 5);
}

TEST_CASE("a resumed run keeps the V of its checkpoint, unless another is asked for") {
  Options options;
  CHECK(make_plan(options, workers(1), kData, 4).shards == 4);
  options.batches.shards = 2;
  CHECK(make_plan(options, workers(1), kData, 4).shards == 2);
}

TEST_CASE("a run that may grow has a shard for each worker that may come") {
  WorkerEnvironment environment = workers(2);
  environment.max_world_size = 6;
  CHECK(make_plan({}, environment, kData, std::nullopt).shards == 6);
  Options options;
  options.batches.accumulate = 2;
  CHECK(make_plan(options, environment, kData, std::nullopt).shards == 12);
  options.batches.shards = 4;
  CHECK(make_plan(options, environment, kData, std::nullopt).shards == 4);
}

TEST_CASE("V of replicas is their number times the accumulation, and they divide it") {
  Options options;
  options.device.parallel = Parallel::dp;
  options.device.replicas = 3;
  TrainPlan plan = make_plan(options, workers(1), kData, std::nullopt);
  CHECK(plan.shards == 3);
  CHECK(plan.replicas == 3);
  CHECK(statistic_shards(plan) == 1);
  CHECK(choose_lanes(options, workers(1), 1, plan.shards) == 3);
  options.batches.accumulate = 4;
  plan = make_plan(options, workers(1), kData, std::nullopt);
  CHECK(plan.shards == 12);
  CHECK(statistic_shards(plan) == 4);
  CHECK(make_plan(options, workers(1), kData, 6).shards == 6);
  CHECK_THROWS_WITH(make_plan(options, workers(1), kData, 4),
                    Contains("--replicas is 3 here, but a step has 4 shards (V) there, which 3 "
                             "does not divide: give --replicas=2 to go on"));
  options.batches.shards = 4;
  CHECK_THROWS_WITH(make_plan(options, workers(1), kData, std::nullopt),
                    Contains("--replicas 3 does not divide the 4 shards"));
  options.batches.shards.reset();
  options.batches.accumulate = 1;
  options.batches.global_batch = 64;
  CHECK_THROWS_WITH(make_plan(options, workers(1), kData, std::nullopt),
                    Contains("--replicas 3 does not divide --global-batch 64"));
  options.batches.global_batch = 63;
  CHECK(make_plan(options, workers(1), kData, std::nullopt).batch == 21);
}

TEST_CASE("replicas are of one worker") {
  Options options;
  CHECK_NOTHROW(check_parallel(options, workers(2)));
  options.device.parallel = Parallel::dp;
  options.device.replicas = 2;
  CHECK_NOTHROW(check_parallel(options, workers(1)));
  CHECK_THROWS_WITH(check_parallel(options, workers(2)), Contains("but WORLD_SIZE is 2"));
}

TEST_CASE("the local rank on the command line is that of the environment, or none") {
  Options options;
  for (const auto local_rank : {std::optional<int>(), std::optional(-1), std::optional(0)}) {
    options.device.local_rank = local_rank;
    CHECK_NOTHROW(check_parallel(options, workers(1)));
  }
  options.device.local_rank = 1;
  CHECK_THROWS_WITH(check_parallel(options, workers(1)),
                    Contains("--local-rank 1: LOCAL_RANK, which the launcher sets, is 0"));
}

TEST_CASE("replicas are a setting where a model has batch norm, and elsewhere change no bit") {
  Options options;
  options.batches.shards = 2;
  const auto config = [&] { return make_plan(options, workers(1), kData, std::nullopt).config; };
  const auto difference = [&](ModelName model, int replicas) {
    options.model.name = model;
    options.device.parallel = Parallel::ddp;
    options.device.replicas.reset();
    const RunConfig ddp = config();
    options.device.parallel = Parallel::dp;
    options.device.replicas = replicas;
    return compare(ddp, config());
  };
  for (const ModelName model : {ModelName::lenet, ModelName::resnet18})
    CHECK(difference(model, 1).settings.empty());
  CHECK(difference(ModelName::lenet, 2).settings.empty());
  CHECK(difference(ModelName::resnet18, 2).identity.empty());
  CHECK(difference(ModelName::resnet18, 2).settings == "replicas absent there, 2 here");
  for (const ModelName model : {ModelName::resnet18, ModelName::unet16, ModelName::alexnet}) {
    const Graph graph = make_graph({.model = model, .shape = {64, 64, 1}, .classes = 2});
    const auto& all = graph.parameters();
    CHECK(has_batch_norm(model) == std::any_of(all.begin(), all.end(), [](const auto& one) {
            return one.role == ParameterRole::statistic;
          }));
  }
}

TEST_CASE("the weight of a mask's pixels is given, or that of the training masks") {
  DataFacts data = kData;
  data.mask_pixels = 1000 * 28 * 28 / 8;
  Options options;
  CHECK(positive_weight_of(options, data) == 1);
  options.model.positive_weight = std::nullopt;
  CHECK(positive_weight_of(options, data) == 7);
  data.mask_pixels = 1000 * 28 * 28;
  CHECK_THROWS_WITH(positive_weight_of(options, data), Contains("all pixels of shapes belong"));
  data.mask_pixels = 0;
  CHECK_THROWS_WITH(positive_weight_of(options, data),
                    Contains("--pos-weight auto: no pixel of shapes belongs to a mask"));
}

TEST_CASE("fewer shards than workers are refused with the remedy") {
  Options options;
  options.batches.shards = 2;
  CHECK_THROWS_WITH(make_plan(options, workers(3), kData, std::nullopt),
                    Contains("2 shards are too few for 3 workers") && Contains("--shards=3"));
}

TEST_CASE("a global batch is divided among the shards, or refused") {
  Options options;
  options.batches.global_batch = 96;
  options.batches.shards = 4;
  CHECK(make_plan(options, workers(1), kData, std::nullopt).batch == 24);
  options.batches.global_batch = 97;
  CHECK_THROWS_WITH(make_plan(options, workers(1), kData, std::nullopt),
                    Contains("--global-batch 97 is not divisible by the 4 shards"));
}

TEST_CASE("steps do not depend on the number of workers") {
  Options options;
  options.batches.shards = 4;
  options.batches.batch = 30;
  options.batches.epochs = 3;
  for (const int count : {1, 2, 3, 4}) {
    const TrainPlan plan = make_plan(options, workers(count), kData, std::nullopt);
    CHECK(plan.steps_per_epoch == 9);  // 250 samples a shard, 30 at a time
    CHECK(plan.total_steps == 27);
    CHECK(plan.last_step == 27);
    CHECK(config_hash(plan.config) ==
          config_hash(make_plan(options, workers(1), kData, std::nullopt).config));
  }
}

TEST_CASE(
    "a run is known by its crop, flips and normalisation, where they are not the usual ones") {
  const auto config = [](const Options& options) {
    return make_plan(options, workers(1), kData, std::nullopt).config;
  };
  Options options;
  const RunConfig usual = config(options);
  for (const ConfigEntry& entry : usual)
    CHECK((entry.name != "crop" && entry.name != "flip" && entry.name != "normalize"));
  options.data.preparation.crop = Crop{.height = 24, .width = 24, .padding = 2};
  CHECK_THAT(compare(usual, config(options)).identity, Contains("crop") && Contains("24x24+2"));
  options.data.preparation = {};
  options.data.preparation.flip = true;
  CHECK_THAT(compare(usual, config(options)).identity, Contains("flip"));
  options.data.preparation = {};
  options.data.preparation.normalize = parse_normalize("0.5:0.25");
  const RunConfig halves = config(options);
  CHECK_THAT(compare(usual, halves).identity, Contains("0.5:0.25"));
  // Equal numbers in other digits make the run no other one.
  options.data.preparation.normalize = parse_normalize("0.50:0.250");
  CHECK(compare(halves, config(options)).identity.empty());
}

TEST_CASE("a rate that is meant for another global batch is scaled, for any number of workers") {
  Options options;
  options.batches.shards = 4;
  options.batches.batch = 64;
  options.optimizer.learning_rate = 0.1;
  options.optimizer.scale_lr = 128;
  for (const int count : {1, 2, 4})
    CHECK(make_plan(options, workers(count), kData, std::nullopt).schedule.base_rate ==
          Approx(0.2));
}

TEST_CASE("the plateau follows from the losses of all epochs, those that --plateau-on names") {
  Options options;
  options.schedule.kind = ScheduleKind::plateau;
  options.schedule.plateau = {.factor = 0.5, .patience = 0};
  Schedule schedule = make_plan(options, workers(1), kData, std::nullopt).schedule;
  std::vector<EpochSummary> epochs(3);
  for (std::size_t i = 0; i < 3; ++i) epochs[i].train_loss = 1.0 / static_cast<double>(i + 1);
  for (std::size_t i = 0; i < 3; ++i) epochs[i].test_loss = 1;
  CHECK(plateau_after(epochs, options, schedule).share == 0.25);
  CHECK(plateau_after({}, options, schedule).share == 1);
  options.schedule.plateau_on = PlateauOn::train;
  CHECK(plateau_after(epochs, options, schedule).share == 1);
  options.schedule.plateau_on = PlateauOn::held_out;
  schedule.kind = ScheduleKind::constant;
  CHECK(plateau_after(epochs, options, schedule).share == 1);
}

TEST_CASE("a share of warm-up counts all steps of the run, rounded up") {
  Options options;
  options.batches.shards = 4;
  options.batches.batch = 30;
  options.batches.epochs = 3;  // 27 steps
  options.schedule.warmup.share = 0.06;
  for (const int count : {1, 2, 4})
    CHECK(make_plan(options, workers(count), kData, std::nullopt).schedule.warmup_steps == 2);
}

TEST_CASE("how the warm-up begins is a setting of the run, as it is typed") {
  Options options;
  options.schedule.warmup = {.steps = 20, .share = 0, .begin = 1};
  const auto warmup = [&] {
    const RunConfig config = make_plan(options, workers(1), kData, std::nullopt).config;
    const auto found = std::find_if(config.begin(), config.end(),
                                    [](const auto& entry) { return entry.name == "warmup"; });
    REQUIRE(found != config.end());
    return to_string(found->value);
  };
  CHECK(warmup() == "20+1");
  options.schedule.warmup.begin = 0;
  CHECK(warmup() == "20");
}

TEST_CASE("the loss scale is that of the options, and of fp16 alone") {
  Options options;
  options.precision.format = Precision::fp16;
  const auto scaler = [&] { return make_plan(options, workers(1), kData, std::nullopt).scaler; };
  CHECK(scaler().enabled);
  CHECK(scaler().initial == 65536);
  options.precision.loss_scale = {.kind = LossScale::Kind::fixed, .value = 512};
  ScalerState state = initial_scaler(scaler());
  CHECK(state.scale == 512);
  for (int step = 0; step < 3000; ++step) state = next_scaler(scaler(), state, step % 10 == 0);
  CHECK(state.scale == 512);
  // A checkpoint with a dynamic scale goes on with this one, and the other way round.
  CHECK(resumed_scaler(scaler(), {.scale = 65536, .good_steps = 7}).scale == 512);
  CHECK(resumed_scaler(scaler(), {.scale = 1, .good_steps = 7}).scale == 512);
  options.precision.loss_scale = {.kind = LossScale::Kind::none};
  CHECK_FALSE(scaler().enabled);
  CHECK(resumed_scaler(scaler(), {.scale = 65536, .good_steps = 7}).scale == 1);
  options.precision.loss_scale = {};
  CHECK(resumed_scaler(scaler(), {.scale = 512, .good_steps = 7}) == ScalerState{512, 7});
  options = {};
  CHECK_FALSE(scaler().enabled);
}

TEST_CASE("a run stopped early by --max-steps keeps its schedule") {
  Options options;
  options.batches.max_steps = 5;
  const TrainPlan plan = make_plan(options, workers(1), kData, std::nullopt);
  CHECK(plan.last_step == 5);
  CHECK(plan.schedule.total_steps == plan.total_steps);
  options.batches.max_steps = 1'000'000;
  CHECK(make_plan(options, workers(1), kData, std::nullopt).last_step == plan.total_steps);
}

TEST_CASE(
    "what fixes the bits of a result is part of a run's identity and what may change is not") {
  const Options options;
  const RunConfig base = make_plan(options, workers(1), kData, std::nullopt).config;
  const auto difference = [&](const Options& other) {
    return compare(base, make_plan(other, workers(1), kData, std::nullopt).config);
  };
  Options other = options;
  other.seed = 1;
  CHECK_THAT(difference(other).identity, Contains("seed 0 there, 1 here"));
  other = options;
  other.device.threads_per_shard = 2;
  CHECK_THAT(difference(other).identity, Contains("threads_per_shard"));
  other = options;
  other.precision.format = Precision::fp16;
  CHECK_THAT(difference(other).identity, Contains("precision fp32 there, fp16 here"));
  other = options;
  other.model.normal_init = 0.01;
  CHECK(difference(other).identity == "init absent there, normal:0.01 here");
  other = options;
  other.model.classes = 12;
  CHECK(difference(other).identity == "classes 10 there, 12 here");
  other = options;
  other.optimizer.decay = Decay::all;
  CHECK(difference(other).identity.empty());
  CHECK(difference(other).settings == "decay absent there, all here");
  other = options;
  other.optimizer.learning_rate = 0.5;
  CHECK(difference(other).identity.empty());
  CHECK_THAT(difference(other).settings, Contains("lr 0.05 there, 0.5 here"));
  other = options;
  other.device.lanes = 3;
  other.comm.bucket_mb = 1;
  other.batches.max_steps = 3;
  CHECK(difference(other).identity.empty());
  CHECK(difference(other).settings.empty());
}

TEST_CASE("the head has the data's classes, or more, but never fewer") {
  Options options;
  CHECK(head_classes(options, kData) == 10);
  options.model.classes = 1000;
  CHECK(head_classes(options, kData) == 1000);
  options.model.classes = 9;
  CHECK_THROWS_WITH(head_classes(options, kData),
                    Contains("--classes 9: shapes has 10 classes") && Contains("--classes=10"));
}

TEST_CASE("a run knows its data by content and not by name") {
  const auto config = [](const DataFacts& data) {
    return make_plan({}, workers(1), data, std::nullopt).config;
  };
  DataFacts other = kData;
  other.name = "renamed";
  CHECK(compare(config(kData), config(other)).identity.empty());
  CHECK(compare(config(kData), config(other)).settings.empty());
  CHECK(config_hash(config(kData)) == config_hash(config(other)));
  other.content = "1111111111111111";
  CHECK(compare(config(kData), config(other)).identity ==
        "data shapes (0123456789abcdef) there, renamed (1111111111111111) here");
  other = kData;
  other.test_content = "2222222222222222";
  CHECK(compare(config(kData), config(other)).identity ==
        "test_data shapes (fedcba9876543210) there, shapes (2222222222222222) here");
}

TEST_CASE("initial weights of a file are part of a run's identity by their content") {
  const auto config = [](const std::string& file, const std::string& hash) {
    Options options;
    if (!file.empty()) options.model.init_from = file;
    DataFacts facts = kData;
    facts.initial_weights = hash;
    return make_plan(options, workers(1), facts, std::nullopt).config;
  };
  CHECK(compare(config("a", "0123"), config("b", "0123")).identity.empty());
  CHECK(compare(config("a", "0123"), config("a", "4567")).identity ==
        "init_from a (0123) there, a (4567) here");
  CHECK(compare(config("a", "0123"), config("", "")).identity ==
        "init_from a (0123) there, absent here");
  CHECK(compare(config("", ""), config("a", "0123")).identity ==
        "init_from absent there, a (0123) here");
}

TEST_CASE("ranks with and without a file of initial weights do not train together") {
  Options options;
  const RunConfig without = make_plan(options, workers(2), kData, std::nullopt).loop;
  options.model.init_from = "a";
  const RunConfig with = make_plan(options, workers(2), kData, std::nullopt).loop;
  CHECK(compare(with, without).identity == "has_init_from 1 there, 0 here");
  options.model.init_from = "another path of the same file";
  CHECK(compare(with, make_plan(options, workers(2), kData, std::nullopt).loop).identity.empty());
}

TEST_CASE("V is found in a checkpoint's configuration") {
  const RunConfig config = make_plan({}, workers(3), kData, std::nullopt).config;
  CHECK(shards_of(config) == 3);
  CHECK_FALSE(shards_of({}));
  CHECK_FALSE(shards_of({{"shards", std::int64_t{-1}, true}}));
  CHECK_FALSE(shards_of({{"shards", std::string("many"), true}}));
}

TEST_CASE("lanes fill the cores that a worker has, and never exceed its shards") {
  Options options;
  CHECK(choose_lanes(options, workers(2), 8, 4) == 4);
  CHECK(choose_lanes(options, workers(2), 8, 3) == 3);
  CHECK(choose_lanes(options, workers(4), 2, 3) == 1);
  options.device.threads_per_shard = 2;
  CHECK(choose_lanes(options, workers(2), 8, 4) == 2);
  options.device.lanes = 3;
  CHECK(choose_lanes(options, workers(2), 1, 4) == 3);
}

}  // namespace
}  // namespace ddprun::trainer
