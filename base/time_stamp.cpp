#include "base/time_stamp.hpp"

#include <algorithm>
#include <array>
#include <ctime>

namespace ddprun {
namespace {

constexpr std::string_view kForm = "0000-00-00_00-00-00";
static_assert(kForm.size() == kTimeStampBytes);

}  // namespace

std::string time_stamp(std::chrono::system_clock::time_point time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm local{};
  localtime_r(&seconds, &local);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%d_%H-%M-%S", &local)};
}

bool begins_with_time_stamp(std::string_view name) {
  return name.size() >= kForm.size() &&
         std::equal(kForm.begin(), kForm.end(), name.begin(), [](char form, char c) {
           return form == '0' ? c >= '0' && c <= '9' : c == form;
         });
}

}  // namespace ddprun
