// A libFuzzer target for the entry that DDPRUN_FUZZ_ENTRY names.
#include "tests/fuzz/entries.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ddprun::test::DDPRUN_FUZZ_ENTRY(data, size);
  return 0;
}
