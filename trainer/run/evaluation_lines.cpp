#include "trainer/run/evaluation_lines.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_text.hpp"
#include "base/printable.hpp"

namespace ddprun::trainer {
namespace {

constexpr std::size_t kNameMax = 32;

/// `index`: of the class.
std::string name_of(const EvaluationResult& result, const Score& score, std::size_t index) {
  if (score.is_of_masks()) return index == 0 ? "outside" : "mask";
  return index < result.class_names.size() ? result.class_names[index] : std::to_string(index);
}

std::string shown(std::string name) {
  name = printable(name);
  return name.size() <= kNameMax ? name : name.substr(0, kNameMax - 3) + "...";
}

/// The mean over the classes that have samples.
double mean_f1(const std::vector<ClassCount>& classes) {
  double sum = 0;
  int count = 0;
  for (const ClassCount& one : classes) {
    if (one.wanted == 0) continue;
    sum += f1_of(one);
    ++count;
  }
  return count > 0 ? sum / count : 0;
}

}  // namespace

std::string evaluation_result_text(const EvaluationResult& result, const Score& score) {
  const bool masks = score.is_of_masks();
  std::vector<std::string> names;
  for (std::size_t i = 0; i < result.classes.size(); ++i)
    names.push_back(shown(name_of(result, score, i)));
  std::size_t width = std::string_view("class").size();
  for (const std::string& name : names) width = std::max(width, name.size());

  std::string text = fmt::format("{:<{}}  {:>12}  {:>9}  {:>9}  {:>9}{}\n", "class", width,
                                 masks ? "pixels" : "samples", "precision", "recall", "F1",
                                 masks ? fmt::format("  {:>9}", "IoU") : "");
  for (std::size_t i = 0; i < names.size(); ++i) {
    const ClassCount& one = result.classes[i];
    text += fmt::format("{:<{}}  {:>12}  {:>7.2f} %  {:>7.2f} %  {:>7.2f} %{}\n", names[i], width,
                        one.wanted, 100 * precision_of(one), 100 * recall_of(one), 100 * f1_of(one),
                        masks ? fmt::format("  {:>7.2f} %", 100 * iou_of(one)) : "");
  }
  text += fmt::format("held-out loss {:.4f}, {} {:.2f} %{}, {} samples of {}, {}\n",
                      mean_loss(result.counters), score.text, 100 * score.of(result.counters),
                      masks ? "" : fmt::format(", mean F1 {:.2f} %", 100 * mean_f1(result.classes)),
                      result.counters.count, result.data, duration_text(result.seconds));
  return text +
         fmt::format("weights: {} ({})\n", result.weights_hash, printable(result.weights_file));
}

std::string evaluation_result_json(const EvaluationResult& result, const Score& score,
                                   const Place& place) {
  nlohmann::ordered_json json{{"type", "evaluated"},
                              {"world_size", place.world_size},
                              {"round", place.round},
                              {"file", result.weights_file},
                              {"weights", result.weights_hash},
                              {"data", result.data},
                              {"samples", result.counters.count},
                              {"test_loss", mean_loss(result.counters)},
                              {score.held_out_key(), score.of(result.counters)}};
  json["test_f1"] = score.is_of_masks() ? f1_of(result.classes.back()) : mean_f1(result.classes);
  json["seconds"] = result.seconds;
  auto classes = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < result.classes.size(); ++i) {
    const ClassCount& one = result.classes[i];
    classes.push_back({{"name", name_of(result, score, i)},
                       {score.is_of_masks() ? "pixels" : "samples", one.wanted},
                       {"predicted", one.predicted},
                       {"correct", one.correct},
                       {"precision", precision_of(one)},
                       {"recall", recall_of(one)},
                       {"f1", f1_of(one)},
                       {"iou", iou_of(one)}});
  }
  json["classes"] = std::move(classes);
  return json_text(json);
}

}  // namespace ddprun::trainer
