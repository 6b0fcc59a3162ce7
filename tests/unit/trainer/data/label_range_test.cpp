#include "trainer/data/label_range.hpp"

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
