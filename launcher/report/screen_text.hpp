// What others wrote, made fit for a terminal. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun::launcher {

/// How much of one text a report shows.
inline constexpr std::size_t kTextBytesShown = 400;

/// The text as one line of at most `bytes_max` bytes, and three more where it was cut: `...`.
/// Line ends and tabs become blanks; escape sequences are left out (colours, titles); control
/// characters and what is no UTF-8 become `?`.
std::string on_screen(std::string_view text, std::size_t bytes_max);

}  // namespace ddprun::launcher
