// What is said about a run, word for word.
#include "trainer/run/report_lines.hpp"

#include <catch2/catch.hpp>
#include <limits>
#include <nlohmann/json.hpp>

namespace ddprun::trainer {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

const Interval kInterval{.step = 120,
                         .last_step = 470,
                         .epoch = 1,
                         .epochs = 5,
                         .loss = 0.41234,
                         .score = 0.871,
                         .learning_rate = 0.05,
                         .loss_scale = std::nullopt,
                         .skipped = 0,
                         .samples_per_second = 45210.4,
                         .exposed_share = 0.012,
                         .seconds_left = 65};

const Score kScore = score_of(Target::label);

const EpochSummary kEpoch{.epoch = 0,
                          .train_loss = 0.5,
                          .train_score = 0.75,
                          .test_loss = 0.25,
                          .test_score = 0.9,
                          .seconds = 2.5,
                          .samples_per_second = 4800};

TEST_CASE("the progress line has step, loss and speed") {
  CHECK(progress_text(kInterval, kScore, 0) ==
        "epoch 2/5  step 120/470  loss 0.4123  accuracy 87.1 %  45210 samples/s  lr 0.05  comm 1.2 "
        "%  1 m 05 s left");
  Interval half = kInterval;
  half.loss_scale = 32768;
  half.skipped = 1;
  CHECK_THAT(progress_text(half, kScore, 0), Contains("scale 32768  skipped 1"));
}

TEST_CASE("a speed of few samples a second has a fraction") {
  Interval slow = kInterval;
  const auto shown = [&](double rate) {
    slow.samples_per_second = rate;
    const std::string text = progress_text(slow, kScore, 0);
    const std::size_t end = text.find(" samples/s"), begin = text.rfind(' ', end - 1) + 1;
    return text.substr(begin, end - begin);
  };
  CHECK(shown(0.034) == "0.034");
  CHECK(shown(0.31) == "0.31");
  CHECK(shown(3.14) == "3.1");
  CHECK(shown(9.96) == "10");
  CHECK(shown(99.6) == "100");
  EpochSummary epoch = kEpoch;
  epoch.samples_per_second = 0.31;
  Outcome outcome;
  outcome.epochs = {epoch};
  CHECK_THAT(outcome_text(outcome, kScore, 0), Contains("       0.31     2.5 s"));
}

TEST_CASE("the share of communication is left out where the device cannot tell it") {
  CHECK(nlohmann::json::parse(progress_json(kInterval, kScore, {}))["exposed_share"] == 0.012);
  Interval unknown = kInterval;
  unknown.exposed_share.reset();
  CHECK_THAT(progress_text(unknown, kScore, 0), !Contains("comm"));
  CHECK_FALSE(nlohmann::json::parse(progress_json(unknown, kScore, {})).contains("exposed_share"));
}

TEST_CASE("an evaluation under way shows how far it is and how long the run takes") {
  const EvaluationProgress progress{
      .step = 94, .last_step = 470, .epoch = 0, .epochs = 5, .share = 0.4, .seconds_left = 65};
  CHECK(evaluation_text(progress, 0) == "epoch 1/5  step 94/470  evaluating 40 %  1 m 05 s left");
  CHECK(evaluation_text(progress, 40) == "epoch 1/5  step 94/470  evaluating 40 %");
  CHECK(evaluation_text(progress, 20) == "evaluating 40 %");
  const auto json = nlohmann::json::parse(evaluation_json(progress, {.world_size = 4, .round = 2}));
  CHECK(json["type"] == "evaluation");
  CHECK(json["round"] == 2);
  CHECK(json["share"] == 0.4);
}

TEST_CASE("a run that learns masks is judged by the overlap of the pixels") {
  const Score score = score_of(Target::mask);
  CHECK_THAT(progress_text(kInterval, score, 0), Contains("IoU 87.1 %"));
  CHECK_THAT(epoch_text(kEpoch, {.epochs = 5}, score, 0), Contains("held-out IoU 90.00 %"));
  const auto json = nlohmann::json::parse(epoch_json(kEpoch, {}, score, {}));
  CHECK(json["train_iou"] == 0.75);
  CHECK(json["test_iou"] == 0.9);
  CHECK_FALSE(json.contains("test_accuracy"));
  const Counters counters{.count = 1, .correct = 1, .true_positives = 1, .false_negatives = 3};
  CHECK(score.of(counters) == 0.25);
  CHECK(kScore.of(counters) == 1);
}

TEST_CASE("an epoch that --max-steps cut off is not called done") {
  CHECK_THAT(epoch_text(kEpoch, {.epochs = 5, .learning_rate = 0.05}, kScore, 0),
             StartsWith("epoch 1/5 done in 2.5 s: train loss 0.5000"));
  CHECK_THAT(epoch_text(kEpoch, {.end = EpochEnd::cut_off, .epochs = 5}, kScore, 0),
             StartsWith("epoch 1/5 cut off by --max-steps after 2.5 s: train loss 0.5000"));
  const auto complete = [](EpochEnd end) {
    return nlohmann::json::parse(epoch_json(kEpoch, {.end = end}, kScore, {}))["complete"]
        .get<bool>();
  };
  CHECK(complete(EpochEnd::complete));
  CHECK_FALSE(complete(EpochEnd::cut_off));
}

TEST_CASE("a JSON line has its world size and round") {
  const auto json =
      nlohmann::json::parse(progress_json(kInterval, kScore, {.world_size = 4, .round = 2}));
  CHECK(json["type"] == "interval");
  CHECK(json["world_size"] == 4);
  CHECK(json["round"] == 2);
  CHECK(json["step"] == 120);
  CHECK_FALSE(json.contains("loss_scale"));
}

TEST_CASE("a loss that is not a number is null in JSON") {
  EpochSummary epoch = kEpoch;
  epoch.train_loss = std::numeric_limits<double>::quiet_NaN();
  const auto json = nlohmann::json::parse(epoch_json(epoch, {}, kScore, {}));
  CHECK(json["train_loss"].is_null());
  CHECK(json["test_accuracy"] == 0.9);
}

TEST_CASE("the final table ends with the hash of the weights and what its bits depend on") {
  const Outcome outcome{.epochs = {kEpoch},
                        .weights_hash = "0123456789abcdef",
                        .shards = 4,
                        .batch = 64,
                        .threads_per_shard = 1,
                        .compute = "oneDNN 2.6.3 avx2",
                        .steps = 94,
                        .skipped = 1,
                        .restarts = 2,
                        .seconds = 12.4,
                        .checkpoint = "/out/step-00000094",
                        .memory = {{45'000'000, 118'000'000}, {45'000'000, 102'000'000}}};
  const std::string text = outcome_text(outcome, kScore, 0);
  CHECK_THAT(text,
             Catch::Matchers::EndsWith(
                 "weights: 0123456789abcdef (V=4, b=64, threads=1, isa=avx2, oneDNN 2.6.3)\n"));
  Outcome on_gpu = outcome;
  on_gpu.compute = "NVIDIA H200, CUDA 13.0, cuDNN 9.19.0";
  CHECK_THAT(outcome_text(on_gpu, kScore, 0),
             Catch::Matchers::EndsWith("threads=1, NVIDIA H200, CUDA 13.0, cuDNN 9.19.0)\n"));
  CHECK_THAT(text, Contains("90.00 %") && Contains("restarts 2") &&
                       Contains("checkpoint: /out/step-00000094") && Contains("skipped 1"));
  const auto json = nlohmann::json::parse(outcome_json(outcome, kScore, {}));
  CHECK(json["type"] == "final");
  CHECK(json["weights"] == "0123456789abcdef");
  CHECK(json["test_accuracy"] == 0.9);
  CHECK_THAT(text, Contains("\npeak memory of each worker:\n  45 MB for "));
  CHECK(json["peak_device_bytes"] == nlohmann::json({45'000'000, 45'000'000}));
  CHECK(json["peak_process_bytes"] == nlohmann::json({118'000'000, 102'000'000}));
  Outcome idle = outcome;
  idle.memory.clear();
  CHECK_THAT(outcome_text(idle, kScore, 0), !Contains("peak memory"));
  CHECK_FALSE(nlohmann::json::parse(outcome_json(idle, kScore, {})).contains("peak_device_bytes"));
}

TEST_CASE("the final report names the best epoch, by which metric and in which direction") {
  Outcome outcome;
  outcome.epochs = {kEpoch, kEpoch};
  outcome.epochs[1].epoch = 1;
  outcome.epochs[1].test_score = 0.95;
  outcome.best = Evaluation{.epoch = outcome.epochs[1], .step = 16};
  CHECK_THAT(outcome_text(outcome, kScore, 0),
             Contains("\nbest: epoch 2, largest held-out accuracy 95.00 %\n"));
  outcome.best->is_cut_off = true;
  CHECK_THAT(
      outcome_text(outcome, kScore, 0),
      Contains("\nbest: epoch 2 (cut off after step 16), largest held-out accuracy 95.00 %\n"));
  const auto json = nlohmann::json::parse(outcome_json(outcome, score_of(Target::mask), {}));
  CHECK(json["best_metric"] == "test_iou");
  CHECK(json["best_is"] == "largest");
  CHECK(json["best_epoch"] == 1);
  CHECK(json["best_step"] == 16);
  CHECK(json["best_score"] == 0.95);
  outcome.best = std::nullopt;
  CHECK_THAT(outcome_text(outcome, kScore, 0), !Contains("best"));
  CHECK_FALSE(nlohmann::json::parse(outcome_json(outcome, kScore, {})).contains("best_metric"));
}

TEST_CASE(
    "the path of a checkpoint that is no UTF-8 is in the last line, with marks for its bytes") {
  Outcome outcome;
  outcome.checkpoint = "/out/\xff/step-00000094";
  const auto json = nlohmann::json::parse(outcome_json(outcome, kScore, {}));
  CHECK(json["checkpoint"] == "/out/\xef\xbf\xbd/step-00000094");
}

TEST_CASE("a run that was asked to end says how to go on") {
  StoppedRun run{.signal = "SIGTERM",
                 .step = 120,
                 .checkpoint = "runs/first/step-00000120",
                 .is_saved = true,
                 .is_named = true,
                 .is_resumed = true};
  const std::string saved =
      "stopped by SIGTERM after step 120; checkpoint runs/first/step-00000120; ";
  CHECK(stopped_text(run) == saved + "the same command goes on there");
  run.is_named = false;
  CHECK(stopped_text(run) == saved + "--out=runs/first goes on there");
  run.is_resumed = false;
  CHECK(stopped_text(run) == saved + "--resume=auto --out=runs/first goes on there");
  CHECK(stopped_json(run, {2, 1}) ==
        R"({"type":"stopped","world_size":2,"round":1,"signal":"SIGTERM","step":120,)"
        R"("checkpoint":"runs/first/step-00000120","saved":true})");
  run.is_saved = false;
  run.checkpoint = "runs/first/step-00000100";
  CHECK(stopped_text(run) ==
        "stopped by SIGTERM after step 120, which is in no checkpoint; the newest one is "
        "runs/first/step-00000100");
  run.checkpoint = "";
  CHECK(stopped_text(run) ==
        "stopped by SIGTERM after step 120, which is in no checkpoint; there is none");
  run.is_saved = run.is_off = true;  // nothing was to be written
  CHECK(stopped_text(run) ==
        "stopped by SIGTERM after step 120; no checkpoint, as --checkpoint-every is off");
  CHECK(stopped_json(run, {1, 0}).find("\"saved\":false") != std::string::npos);
}

TEST_CASE("durations are printed in readable units") {
  CHECK(duration_text(0.04) == "0.0 s");
  CHECK(duration_text(9.94) == "9.9 s");
  CHECK(duration_text(59.4) == "59 s");
  CHECK(duration_text(65) == "1 m 05 s");
  CHECK(duration_text(3725) == "1 h 02 m");
}

}  // namespace
}  // namespace ddprun::trainer
