// ncclMemAlloc and ncclCommRegister of the fake NCCL, as from 2.19 on. Memory is that of the
// emulated GPU which the thread has. DDPRUN_FAKE_NCCL_MEMORY=none: there is none.
//
// Further faults of DDPRUN_FAKE_NCCL: no_register (success without a handle), register_error.
#include <cstdlib>
#include <cstring>

#include "tests/emulated_gpu/fake_nccl_state.hpp"

namespace fake_nccl {

extern "C" {

int ncclMemAlloc(void** memory, std::size_t bytes) {
  const char* const setting = std::getenv("DDPRUN_FAKE_NCCL_MEMORY");
  const bool has_none = setting != nullptr && std::strcmp(setting, "none") == 0;
  *memory = has_none ? nullptr : allocated().allocate(bytes);
  return *memory == nullptr ? unhandled_cuda_error : success;
}

int ncclMemFree(void* memory) {
  allocated().free(static_cast<std::byte*>(memory));
  return success;
}

int ncclCommRegister(Handle* comm, void* memory, std::size_t bytes, void** handle) {
  *handle = nullptr;
  if (comm->state->plan.has("register_error")) return internal_error;
  if (comm->state->plan.has("no_register")) return success;
  *handle = comm->state->add(memory, bytes, false);
  return *handle == nullptr ? invalid_argument : success;
}

int ncclCommDeregister(Handle* comm, void* handle) {
  return handle == nullptr || comm->state->remove(handle) ? success : invalid_usage;
}

}  // extern "C"

}  // namespace fake_nccl
