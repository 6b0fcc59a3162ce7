// A small layout and a snapshot with recognisable values, shared by the tests of checkpoints.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "trainer/checkpoint/checkpoint_files.hpp"

namespace ddprun::test {

/// A convolution stored channels-last, its bias, and a gap between them, as in real arenas.
inline trainer::CheckpointLayout small_layout() {
  trainer::CheckpointLayout layout;
  layout.parameters = {
      {.name = "fc.bias",
       .shape = {5},
       .layout = trainer::ParameterLayout::as_pytorch,
       .offset = 0,
       .count = 5,
       .decay = false},
      {.name = "conv.weight",
       .shape = {2, 3, 2, 2},
       .layout = trainer::ParameterLayout::conv_ohwi,
       .offset = 16,
       .count = 24,
       .decay = true},
  };
  layout.arena_size = 48;
  layout.moments = {"exp_avg", "exp_avg_sq"};
  layout.metadata = {{"model", "small"}};
  return layout;
}

/// Every element different, and different from snapshot to snapshot.
inline trainer::Snapshot small_snapshot(const trainer::CheckpointLayout& layout,
                                        std::int64_t step) {
  trainer::Snapshot snapshot(layout);
  for (const trainer::Parameter& parameter : layout.parameters) {
    for (std::size_t i = parameter.offset; i < parameter.offset + parameter.count; ++i) {
      const auto value = static_cast<float>(i) + 0.5F + static_cast<float>(step);
      snapshot.parameters.span()[i] = value;
      snapshot.moments[0].span()[i] = 100 + value;
      snapshot.moments[1].span()[i] = 200 + value;
    }
  }
  snapshot.state.origin.lineage = "abc";
  snapshot.state.step = step;
  snapshot.state.sequence = static_cast<std::uint64_t>(step);
  snapshot.state.config = {{"model", std::string("small"), true}, {"rate", 0.1, false}};
  return snapshot;
}

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

inline void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

}  // namespace ddprun::test
