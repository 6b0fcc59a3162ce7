// What is raced: models at the sizes of the seed experiments.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace ddprun::bench {

/// One model at one size. A further row needs an entry in cases.cpp and one in pytorch_step.py.
struct Case {
  std::string name;   ///< for --model of the benchmark
  std::string model;  ///< --model of `train`, and of pytorch_step.py
  int height = 28;
  int width = 28;
  int channels = 1;
  int batch = 64;
  std::string optimizer = "sgd";  ///< sgd: with momentum 0.9
  bool masks = false;             ///< generated pictures with masks; else pictures of noise
  int tokens = 0;                 ///< generated texts of at most so many; 0: pictures
  std::string size{};             ///< of textclf: --size
  int steps = 6;                  ///< that are measured
  bool by_default = true;

  [[nodiscard]] std::string shape_text() const;
  /// Training texts.
  [[nodiscard]] std::size_t texts() const;
  /// Bytes of the data set, as `train` holds it: one for each value of a picture or a mask, four
  /// for a token of a text (of mean length).
  [[nodiscard]] std::size_t data_bytes() const;
};

const std::vector<Case>& all_cases();

/// Writes the IDX files of a set of noise that has enough samples for one epoch; nothing where the
/// case takes generated pictures or texts.
void write_data(const Case& one, const std::string& folder);

}  // namespace ddprun::bench
