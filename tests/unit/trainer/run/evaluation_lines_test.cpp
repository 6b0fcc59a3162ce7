#include "trainer/run/evaluation_lines.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

namespace ddprun::trainer {
namespace {

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
  CHECK(evaluation_result_text(result, score_of(Target::label)) ==
        "class       samples  precision     recall         F1\n"
        "0                 6    75.00 %    50.00 %    60.00 %\n"
        "1                 0     0.00 %     0.00 %     0.00 %\n"
        "2                 4   100.00 %   100.00 %   100.00 %\n"
        "held-out loss 0.5000, accuracy 70.00 %, mean F1 80.00 %, 10 samples of shapes, 1.5 s\n"
        "weights: 0123456789abcdef (run/best/model.safetensors)\n");
  result.class_names = {"cat", "a name that is much longer than any column", "b\x1b[31m"};
  const std::string text = evaluation_result_text(result, score_of(Target::label));
  CHECK(text.find("cat  ") != std::string::npos);
  CHECK(text.find("a name that is much longer th...  ") != std::string::npos);
  CHECK(text.find('\x1b') == std::string::npos);
}

TEST_CASE("an evaluation is a JSON line with all classes") {
  const auto json = nlohmann::json::parse(
      evaluation_result_json(result_of_labels(), score_of(Target::label), {.world_size = 2}));
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
  CHECK(evaluation_result_text(result, score)
            .starts_with("class          pixels  precision     recall         F1        IoU\n"
                         "outside           491    99.19 %    99.39 %    99.29 %    98.59 %\n"
                         "mask                9    62.50 %    55.56 %    58.82 %    41.67 %\n"
                         "held-out loss 0.5000, IoU 41.67 %, 10 samples of shapes, 1.5 s\n"));
  const auto json = nlohmann::json::parse(evaluation_result_json(result, score, {}));
  CHECK(json["test_iou"] == 5.0 / 12);
  CHECK(json["test_f1"] == 10.0 / 17);
  CHECK(json["classes"][1]["pixels"] == 9);
}

}  // namespace
}  // namespace ddprun::trainer
