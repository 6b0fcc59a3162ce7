#include "trainer/data/train_and_test.hpp"

#include <catch2/catch.hpp>
#include <string>

#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

using Catch::Contains;
using Catch::Matchers::StartsWith;

FileLabels labels(const std::string& file, std::vector<std::int32_t> values) {
  return {.file = file, .labels = std::move(values), .place = [](std::size_t sample) {
            return "line " + std::to_string(10 * sample);
          }};
}

TEST_CASE("without a head the held-out labels are in the range of the training set's") {
  CHECK(agree_on_classes(labels("a", {0, 4, 1}), labels("b", {2, 0}), {}) == 5);
  CHECK(agree_on_classes(labels("a", {0, 4, 1}), labels("b", {}), {}) == 5);
  CHECK_THROWS_WITH(
      agree_on_classes(labels("a", {0, 4, 1}), labels("b", {4, 5, 8}), {}),
      Catch::Matchers::Equals("b: line 10: the label is 5, but the labels of a end at 4: "
                              "correct the file, or give --classes=9 if the label is right"));
  CHECK_THROWS_WITH(agree_on_classes(labels("a", {0, 0}), labels("b", {1}), {}),
                    StartsWith("a: all labels are 0, but a classifier needs two classes"));
}

TEST_CASE("many classes of which few occur must be asked for") {
  CHECK_THROWS_WITH(
      agree_on_classes(labels("a", {0, 70'000, 1}), labels("b", {0}), {}),
      Catch::Matchers::Equals(
          "a: line 10: the label is 70000, so that there would be 70001 classes, but only 3 "
          "different labels occur: number them from 0 on, or give --classes=70001 if they are "
          "right"));
  CHECK(agree_on_classes(labels("a", {0, 70'000, 1}), labels("b", {0}), 70'001) == 70'001);
  CHECK(agree_on_classes(labels("a", {0, 999}), labels("b", {0}), {}) == 1'000);
  CHECK_THROWS_WITH(agree_on_classes(labels("a", {0, 1'000}), labels("b", {0}), {}),
                    Contains("only 2 different labels"));
  std::vector<std::int32_t> every_other;
  for (std::int32_t label = 0; label < 2'000; label += 2) every_other.push_back(label);
  every_other.push_back(1'999);
  CHECK(agree_on_classes(labels("a", every_other), labels("b", {0}), {}) == 2'000);
}

TEST_CASE("with a head the labels of both sets are below it") {
  CHECK(agree_on_classes(labels("a", {0, 1}), labels("b", {3, 0}), 4) == 4);
  CHECK(agree_on_classes(labels("a", {0, 0}), labels("b", {0}), 300) == 1);
  CHECK_THROWS_WITH(agree_on_classes(labels("a", {0, 300}), labels("b", {3}), 300),
                    StartsWith("a: line 10: the label is 300, but --classes=300 allows 0 to 299") &&
                        Contains("--classes=301"));
  CHECK_THROWS_WITH(agree_on_classes(labels("a", {0, 1}), labels("b", {3}), 3),
                    StartsWith("b: line 0: the label is 3, but --classes=3 allows 0 to 2"));
}

}  // namespace
}  // namespace ddprun::trainer
