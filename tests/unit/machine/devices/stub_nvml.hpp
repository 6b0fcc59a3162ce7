// Where the library is that stands for the driver's NVML; see stub_nvml.cpp.
#pragma once

#include <cstdlib>
#include <string>

namespace ddprun::test {

inline std::string stub_nvml() {
  const char* folder = std::getenv("DDPRUN_TEST_HELPERS");
  return std::string(folder == nullptr ? STUB_NVML_FOLDER : folder) + "/libstub_nvml.so.1";
}

}  // namespace ddprun::test
