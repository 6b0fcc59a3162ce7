#include "base/version.hpp"

#include <fmt/format.h>
#include <spdlog/version.h>
#include <boost/version.hpp>
#include <nlohmann/json.hpp>

#include "base/build_info.hpp"  // generated, see base/CMakeLists.txt

namespace ddprun {

const char* version() noexcept { return kBuildVersion; }

std::string version_text(const char* program) {
  return fmt::format(
      "{} {} ({})\n"
      "compiler: {}, {}\n"
      "libraries: Boost {}.{}.{}, fmt {}.{}.{}, spdlog {}.{}.{}, nlohmann-json {}.{}.{}\n"
      "protocols: job control {}..{}, c10d store of PyTorch (tested with 2.15)\n",
      program, kBuildVersion, kBuildGitState, kBuildCompiler, kBuildType, BOOST_VERSION / 100000,
      BOOST_VERSION / 100 % 1000, BOOST_VERSION % 100, FMT_VERSION / 10000, FMT_VERSION / 100 % 100,
      FMT_VERSION % 100, SPDLOG_VER_MAJOR, SPDLOG_VER_MINOR, SPDLOG_VER_PATCH,
      NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR, NLOHMANN_JSON_VERSION_PATCH,
      kProtocolVersionMin, kProtocolVersionMax);
}

}  // namespace ddprun
