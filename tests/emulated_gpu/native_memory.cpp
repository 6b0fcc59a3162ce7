#include "tests/emulated_gpu/native_memory.hpp"

namespace ddprun::trainer::test {

NativeMemory*& native_memory() {
  thread_local NativeMemory* current = nullptr;
  return current;
}

}  // namespace ddprun::trainer::test
