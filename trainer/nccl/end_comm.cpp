#include "trainer/nccl/end_comm.hpp"

namespace ddprun::trainer::nccl {

void destroy_comm(const Functions& call, Comm comm, cuda::CallWatch* calls) {
  const cuda::CallWatch::Scope scope(calls, "ncclCommDestroy");
  (void)call.comm_destroy(comm);
}

void abort_comm(const Functions& call, Comm comm, cuda::CallWatch* calls, const std::string& why) {
  const std::string name = why.empty() ? "ncclCommAbort" : why + "; then ncclCommAbort";
  const cuda::CallWatch::Scope scope(calls, name.c_str());
  (void)call.comm_abort(comm);
}

}  // namespace ddprun::trainer::nccl
