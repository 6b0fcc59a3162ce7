#include "bench/store/report.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include <fmt/format.h>

namespace ddprun::bench {
namespace {

constexpr int kWidthMin = 11;

std::string text_of(const Report::Value& value, bool json) {
  if (const auto* text = std::get_if<std::string>(&value))
    return json ? fmt::format("\"{}\"", *text) : *text;
  const double number = std::get<double>(value);
  if (std::isnan(number)) return json ? "null" : "-";
  char buffer[64];
  const double size = std::fabs(number);
  const char* format = size >= 1000 || number == std::floor(number) ? "%.0f"
                       : size >= 100                                ? "%.1f"
                       : size >= 10                                 ? "%.2f"
                                                                    : "%.3f";
  std::snprintf(buffer, sizeof buffer, format, number);
  return buffer;
}

int width_of(const std::string& name) {
  return std::max(kWidthMin, static_cast<int>(name.size())) + 2;
}

}  // namespace

void Report::begin(const std::string& scenario, const std::string& title) {
  scenario_ = scenario;
  names_.clear();
  if (!json_) std::printf("\n%s: %s\n", scenario.c_str(), title.c_str());
}

void Report::row(const Row& row) {
  if (json_) {
    std::printf("{\"scenario\":\"%s\"", scenario_.c_str());
    for (const auto& [name, value] : row)
      std::printf(",\"%s\":%s", name.c_str(), text_of(value, true).c_str());
    std::printf("}\n");
  } else {
    std::vector<std::string> names;
    for (const auto& [name, value] : row) names.push_back(name);
    if (names != names_) {
      for (const std::string& name : names) std::printf("%*s", width_of(name), name.c_str());
      std::printf("\n");
      names_ = names;
    }
    for (const auto& [name, value] : row)
      std::printf("%*s", width_of(name), text_of(value, false).c_str());
    std::printf("\n");
  }
  std::fflush(stdout);
}

void Report::note(const std::string& text) {
  if (json_) {
    std::printf("{\"scenario\":\"%s\",\"note\":\"%s\"}\n", scenario_.c_str(), text.c_str());
  } else {
    std::printf("  %s\n", text.c_str());
  }
  std::fflush(stdout);
}

}  // namespace ddprun::bench
