// What --eval says of a model, as a table for people and as a JSON line for programs. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "trainer/run/class_counts.hpp"
#include "trainer/run/report_lines.hpp"

namespace ddprun::trainer {

struct EvaluationResult {
  std::string weights_file;
  std::string weights_hash;
  std::string data;                      ///< the set's name
  Counters counters;                     ///< over the whole held-out set
  std::vector<ClassCount> classes;       ///< of masks: outside, inside
  std::vector<std::string> class_names;  ///< empty: their numbers
  double seconds = 0;
};

std::string evaluation_result_text(const EvaluationResult& result, const Score& score);
std::string evaluation_result_json(const EvaluationResult& result, const Score& score,
                                   const Place& place);

}  // namespace ddprun::trainer
