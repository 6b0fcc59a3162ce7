// ncclCommWindowRegister of the fake NCCL, as from 2.27 on: a call of all ranks, which
// ncclCommGetAsyncError tells the end of.
//
// Further faults of DDPRUN_FAKE_NCCL: no_windows (success without a handle, as on a machine on
// which not all GPUs reach each other: plan it for all ranks), window_error, window_hangs (this
// rank does not come to it), window_kill (SIGKILL).
#include <csignal>

#include "tests/emulated_gpu/fake_nccl_state.hpp"

namespace fake_nccl {

extern "C" {

int ncclCommWindowRegister(Handle* comm, void* memory, std::size_t bytes, void** window,
                           int flags) {
  State& state = *comm->state;
  *window = nullptr;
  if (flags != 1) return invalid_argument;
  if (state.plan.has("no_windows")) return success;
  if (state.pending.handle != nullptr || state.windows == kWindowsMax) return invalid_usage;
  if (state.plan.has("window_kill")) std::raise(SIGKILL);
  if (!state.begin_window(window, memory, bytes)) return invalid_argument;
  state.board->rank(state.rank).window_bytes[state.windows++] = bytes;
  if (state.plan.has("window_error")) {
    state.error = system_error;
  } else if (!state.plan.has("window_hangs")) {
    state.board->rank(state.rank).windows.store(state.windows);
  }
  return in_progress;
}

int ncclCommWindowDeregister(Handle* comm, void* window) {
  return window == nullptr || comm->state->remove(window) ? success : invalid_usage;
}

}  // extern "C"

}  // namespace fake_nccl
