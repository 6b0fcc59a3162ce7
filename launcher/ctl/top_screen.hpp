// What `ddpctl top` draws: lines for a terminal of any size. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/ctl/top_model.hpp"

namespace ddprun::ctl {

/// How a line looks; it means the same without.
enum class Paint { plain, title, warning, heading, failed, quiet };

struct TopLine {
  std::string text;  ///< not wider than the terminal
  Paint paint = Paint::plain;
};

struct ScreenSize {
  int columns = 80;
  int rows = 24;
  bool utf8 = true;  ///< false: the lines are ASCII
};

/// What the user has chosen.
struct TopChoice {
  std::size_t first_row = 0;  ///< of the workers
  TopOrder order = TopOrder::slowest;
  bool help = false;
};

struct TopPicture {
  std::vector<TopLine> lines;  ///< at most as many as the terminal has rows
  std::size_t first_row = 0;   ///< of the workers; less than chosen where there are fewer
  std::size_t rows = 0;        ///< so many workers are shown
};

TopPicture top_picture(const TopView& view, const ScreenSize& size, const TopChoice& choice);

/// A character for each of the newest `columns` values. One of `usual` has half the height.
std::string sparkline(const std::vector<double>& values, double usual, std::size_t columns,
                      bool utf8);

/// `4ms`, `0.3s`, `52s`, `7m`, `3h`, `2d`.
std::string short_time(double seconds);

}  // namespace ddprun::ctl
