// What is said about a run, word for word.
#include "trainer/run/report/report_lines.hpp"

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
  CHECK(line_of(kInterval, {}).text ==
        "epoch 2/5  step 120/470  loss 0.4123  accuracy 87.1 %  45210 samples/s  lr 0.05  comm 1.2 "
        "%  1 m 05 s left");
  Interval half = kInterval;
  half.loss_scale = 32768;
  half.skipped = 1;
  CHECK_THAT(line_of(half, {}).text, Contains("scale 32768  skipped 1"));
}

TEST_CASE("a speed of few samples a second has a fraction") {
  Interval slow = kInterval;
  const auto shown = [&](double rate) {
    slow.samples_per_second = rate;
    const std::string text = line_of(slow, {}).text;
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
  CHECK_THAT(line_of(outcome, {}).text, Contains("       0.31     2.5 s"));
}

TEST_CASE("the share of communication is left out where the device cannot tell it") {
  CHECK(nlohmann::json::parse(line_of(kInterval, {}).json)["exposed_share"] == 0.012);
  Interval unknown = kInterval;
  unknown.exposed_share.reset();
  CHECK_THAT(line_of(unknown, {}).text, !Contains("comm"));
  CHECK_FALSE(nlohmann::json::parse(line_of(unknown, {}).json).contains("exposed_share"));
}

TEST_CASE("an evaluation under way shows how far it is and how long the run takes") {
  const EvaluationProgress progress{
      .step = 94, .last_step = 470, .epoch = 0, .epochs = 5, .share = 0.4, .seconds_left = 65};
  CHECK(line_of(progress, {}).text == "epoch 1/5  step 94/470  evaluating 40 %  1 m 05 s left");
  CHECK(line_of(progress, {.columns = 40}).text == "epoch 1/5  step 94/470  evaluating 40 %");
  CHECK(line_of(progress, {.columns = 20}).text == "evaluating 40 %");
  const auto json =
      nlohmann::json::parse(line_of(progress, {.place = {.world_size = 4, .round = 2}}).json);
  CHECK(json["type"] == "evaluation");
  CHECK(json["round"] == 2);
  CHECK(json["share"] == 0.4);
}

TEST_CASE("a run that learns masks is judged by the overlap of the pixels") {
  const Score score = score_of(Target::mask);
  CHECK_THAT(line_of(kInterval, {.score = score}).text, Contains("IoU 87.1 %"));
  CHECK_THAT(line_of(kEpoch, {.epochs = 5}, {.score = score}).text,
             Contains("held-out IoU 90.00 %"));
  const auto json = nlohmann::json::parse(line_of(kEpoch, {}, {.score = score}).json);
  CHECK(json["train_iou"] == 0.75);
  CHECK(json["test_iou"] == 0.9);
  CHECK_FALSE(json.contains("test_accuracy"));
  const Counters counters{.count = 1, .correct = 1, .true_positives = 1, .false_negatives = 3};
  CHECK(score.of(counters) == 0.25);
  CHECK(kScore.of(counters) == 1);
}

TEST_CASE("an epoch that --max-steps cut off is not called done") {
  CHECK_THAT(line_of(kEpoch, {.epochs = 5, .learning_rate = 0.05}, {}).text,
             StartsWith("epoch 1/5 done in 2.5 s: train loss 0.5000"));
  CHECK_THAT(line_of(kEpoch, {.end = EpochEnd::cut_off, .epochs = 5}, {}).text,
             StartsWith("epoch 1/5 cut off by --max-steps after 2.5 s: train loss 0.5000"));
  const auto complete = [](EpochEnd end) {
    return nlohmann::json::parse(line_of(kEpoch, {.end = end}, {}).json)["complete"].get<bool>();
  };
  CHECK(complete(EpochEnd::complete));
  CHECK_FALSE(complete(EpochEnd::cut_off));
}

TEST_CASE("a JSON line has its world size and round") {
  const auto json =
      nlohmann::json::parse(line_of(kInterval, {.place = {.world_size = 4, .round = 2}}).json);
  CHECK(json["type"] == "interval");
  CHECK(json["world_size"] == 4);
  CHECK(json["round"] == 2);
  CHECK(json["step"] == 120);
  CHECK_FALSE(json.contains("loss_scale"));
}

TEST_CASE("a loss that is not a number is null in JSON") {
  EpochSummary epoch = kEpoch;
  epoch.train_loss = std::numeric_limits<double>::quiet_NaN();
  const auto json = nlohmann::json::parse(line_of(epoch, {}, {}).json);
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
  const std::string text = line_of(outcome, {}).text;
  CHECK_THAT(text, Catch::Matchers::EndsWith(
                       "weights: 0123456789abcdef (V=4, b=64, threads=1, isa=avx2, oneDNN 2.6.3)"));
  Outcome on_gpu = outcome;
  on_gpu.compute = "NVIDIA H200, CUDA 13.0, cuDNN 9.19.0";
  CHECK_THAT(line_of(on_gpu, {}).text,
             Catch::Matchers::EndsWith("threads=1, NVIDIA H200, CUDA 13.0, cuDNN 9.19.0)"));
  CHECK_THAT(text, Contains("90.00 %") && Contains("restarts 2") &&
                       Contains("checkpoint: /out/step-00000094") && Contains("skipped 1"));
  const auto json = nlohmann::json::parse(line_of(outcome, {}).json);
  CHECK(json["type"] == "final");
  CHECK(json["weights"] == "0123456789abcdef");
  CHECK(json["test_accuracy"] == 0.9);
  CHECK_THAT(text, Contains("\npeak memory of each worker:\n  45 MB for "));
  CHECK(json["peak_device_bytes"] == nlohmann::json({45'000'000, 45'000'000}));
  CHECK(json["peak_process_bytes"] == nlohmann::json({118'000'000, 102'000'000}));
  Outcome idle = outcome;
  idle.memory.clear();
  CHECK_THAT(line_of(idle, {}).text, !Contains("peak memory"));
  CHECK_FALSE(nlohmann::json::parse(line_of(idle, {}).json).contains("peak_device_bytes"));
}

TEST_CASE("the final report names the best epoch, by which metric and in which direction") {
  Outcome outcome;
  outcome.epochs = {kEpoch, kEpoch};
  outcome.epochs[1].epoch = 1;
  outcome.epochs[1].test_score = 0.95;
  outcome.best = Evaluation{.epoch = outcome.epochs[1], .step = 16};
  CHECK_THAT(line_of(outcome, {}).text,
             Contains("\nbest: epoch 2, largest held-out accuracy 95.00 %\n"));
  outcome.best->is_cut_off = true;
  CHECK_THAT(
      line_of(outcome, {}).text,
      Contains("\nbest: epoch 2 (cut off after step 16), largest held-out accuracy 95.00 %\n"));
  const auto json = nlohmann::json::parse(line_of(outcome, {.score = score_of(Target::mask)}).json);
  CHECK(json["best_metric"] == "test_iou");
  CHECK(json["best_is"] == "largest");
  CHECK(json["best_epoch"] == 1);
  CHECK(json["best_step"] == 16);
  CHECK(json["best_score"] == 0.95);
  outcome.best = std::nullopt;
  CHECK_THAT(line_of(outcome, {}).text, !Contains("best"));
  CHECK_FALSE(nlohmann::json::parse(line_of(outcome, {}).json).contains("best_metric"));
}

TEST_CASE(
    "the path of a checkpoint that is no UTF-8 is in the last line, with marks for its bytes") {
  Outcome outcome;
  outcome.checkpoint = "/out/\xff/step-00000094";
  const auto json = nlohmann::json::parse(line_of(outcome, {}).json);
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
  CHECK(line_of(run, {}).text == saved + "the same command goes on there");
  run.is_named = false;
  CHECK(line_of(run, {}).text == saved + "--out=runs/first goes on there");
  run.is_resumed = false;
  CHECK(line_of(run, {}).text == saved + "--resume=auto --out=runs/first goes on there");
  CHECK(line_of(run, {.place = {2, 1}}).json ==
        R"({"type":"stopped","world_size":2,"round":1,"signal":"SIGTERM","step":120,)"
        R"("checkpoint":"runs/first/step-00000120","saved":true})");
  run.is_saved = false;
  run.checkpoint = "runs/first/step-00000100";
  CHECK(line_of(run, {}).text ==
        "stopped by SIGTERM after step 120, which is in no checkpoint; the newest one is "
        "runs/first/step-00000100");
  run.checkpoint = "";
  CHECK(line_of(run, {}).text ==
        "stopped by SIGTERM after step 120, which is in no checkpoint; there is none");
  run.is_saved = run.is_off = true;  // nothing was to be written
  CHECK(line_of(run, {}).text ==
        "stopped by SIGTERM after step 120; no checkpoint, as --checkpoint-every is off");
  CHECK(line_of(run, {.place = {1, 0}}).json.find("\"saved\":false") != std::string::npos);
}

TEST_CASE("durations are printed in readable units") {
  CHECK(duration_text(0.04) == "0.0 s");
  CHECK(duration_text(9.94) == "9.9 s");
  CHECK(duration_text(59.4) == "59 s");
  CHECK(duration_text(65) == "1 m 05 s");
  CHECK(duration_text(3725) == "1 h 02 m");
}

TEST_CASE("the peak of one worker is one number, of several the range") {
  Outcome outcome;
  const auto shown = [&](std::vector<PeakMemory> all) {
    outcome.memory = std::move(all);
    return line_of(outcome, {}).text;
  };
  CHECK_THAT(shown({{45'000'000, 118'000'000}}),
             Contains("\npeak memory:\n  45 MB for weights, gradients, activations\n"
                      "  118 MB of the process\n"));
  CHECK_THAT(shown({{45'000'000, 118'000'000}, {45'000'000, 102'000'000}}),
             Contains("\npeak memory of each worker:\n  45 MB for weights, gradients, activations\n"
                      "  102 MB to 118 MB of the process\n"));
  // A process with an unknown size has no line.
  CHECK_THAT(shown({{45'000'000, 0}}), !Contains("of the process"));
  outcome.data_parallel = DataParallelFigures{.seconds = {}, .peak_bytes = {1, 1}};
  CHECK_THAT(shown({{45'000'000, 118'000'000}}),
             Contains("\npeak memory of all 2 replicas together:\n"));
}

TEST_CASE("curves have the names of what the lines of progress say") {
  const Score score = score_of(Target::mask);
  const auto tags = [](const std::vector<Scalar>& scalars) {
    std::string all;
    for (const Scalar& scalar : scalars) all += scalar.tag + ";";
    return all;
  };
  CHECK(tags(line_of(Interval{}, {.score = score}).scalars) ==
        "loss/train;iou/train;learning_rate/train;samples_per_second;");
  Interval interval;
  interval.loss_scale = 1024;
  interval.gradient_norm = 2;
  CHECK(tags(line_of(interval, {.score = score}).scalars).ends_with(";loss_scale;gradient_norm;"));
  CHECK(tags(line_of(EpochSummary{}, EpochEnding{}, {.score = score}).scalars) ==
        "loss/held-out;iou/held-out;loss/epoch;iou/epoch;learning_rate/epoch;f1/held-out;");
  CHECK(tags(line_of(EpochSummary{}, EpochEnding{}, {}).scalars).find("f1") == std::string::npos);
}

EvaluationResult result_of_labels() {
  EvaluationResult result{.weights_file = "run/best/model.safetensors",
                          .weights_hash = "0123456789abcdef",
                          .data = "shapes",
                          .counters = {},
                          .classes = {{.wanted = 6, .predicted = 4, .correct = 3},
                                      {.wanted = 0, .predicted = 2, .correct = 0},
                                      {.wanted = 4, .predicted = 4, .correct = 4}},
                          .class_names = {},
                          .seconds = 1.5};
  result.counters.count = 10;
  result.counters.correct = 7;
  result.counters.loss = static_cast<std::int64_t>(5 / kLossUnit);
  return result;
}

TEST_CASE("an evaluation is a table of classes, with a mean of those that have samples") {
  EvaluationResult result = result_of_labels();
  CHECK(line_of(result, {}).text ==
        "class       samples  precision     recall         F1\n"
        "0                 6    75.00 %    50.00 %    60.00 %\n"
        "1                 0     0.00 %     0.00 %     0.00 %\n"
        "2                 4   100.00 %   100.00 %   100.00 %\n"
        "held-out loss 0.5000, accuracy 70.00 %, mean F1 80.00 %, 10 samples of shapes, 1.5 s\n"
        "weights: 0123456789abcdef (run/best/model.safetensors)");
  result.class_names = {"cat", "a name that is much longer than any column", "b\x1b[31m"};
  const std::string text = line_of(result, {}).text;
  CHECK(text.find("cat  ") != std::string::npos);
  CHECK(text.find("a name that is much longer th...  ") != std::string::npos);
  CHECK(text.find('\x1b') == std::string::npos);
}

TEST_CASE("an evaluation is a JSON line with all classes") {
  const auto json =
      nlohmann::json::parse(line_of(result_of_labels(), {.place = {.world_size = 2}}).json);
  CHECK(json["type"] == "evaluated");
  CHECK(json["world_size"] == 2);
  CHECK(json["test_loss"] == 0.5);
  CHECK(json["test_accuracy"] == 0.7);
  CHECK(json["test_f1"] == 0.8);
  REQUIRE(json["classes"].size() == 3);
  CHECK(json["classes"][0] == nlohmann::json{{"name", "0"},
                                             {"samples", 6},
                                             {"predicted", 4},
                                             {"correct", 3},
                                             {"precision", 0.75},
                                             {"recall", 0.5},
                                             {"f1", 0.6},
                                             {"iou", 3.0 / 7}});
}

TEST_CASE("of masks the pixels are counted, and the F1 is that of the mask") {
  EvaluationResult result = result_of_labels();
  result.counters.true_positives = 5;
  result.counters.false_positives = 3;
  result.counters.false_negatives = 4;
  result.classes = mask_counts(result.counters, 50);
  const Score score = score_of(Target::mask);
  CHECK(line_of(result, {.score = score})
            .text.starts_with("class          pixels  precision     recall         F1        IoU\n"
                              "outside           491    99.19 %    99.39 %    99.29 %    98.59 %\n"
                              "mask                9    62.50 %    55.56 %    58.82 %    41.67 %\n"
                              "held-out loss 0.5000, IoU 41.67 %, 10 samples of shapes, 1.5 s\n"));
  const auto json = nlohmann::json::parse(line_of(result, {.score = score}).json);
  CHECK(json["test_iou"] == 5.0 / 12);
  CHECK(json["test_f1"] == 10.0 / 17);
  CHECK(json["classes"][1]["pixels"] == 9);
}

}  // namespace
}  // namespace ddprun::trainer
