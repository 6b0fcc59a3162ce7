// libFuzzer target for the c10d parser and the store behind it. See docs/protocol.md for how to run
// it.
#include "tests/fuzz/c10d_entry.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ddprun::test::fuzz_c10d(data, size);
  return 0;
}
