#include "trainer/nccl/end_comm.hpp"

namespace ddprun::trainer::nccl {

void destroy_comm(const Functions& call, Comm comm, cuda::CallWatch* calls) {
  const cuda::CallWatch::Scope scope(calls, "ncclCommDestroy");
  (void)call.comm_destroy(comm);
}

void abort_comm(const Functions& call, Comm comm, cuda::CallWatch* calls, const std::string& why) {
  if (calls != nullptr) calls->happened(why);
  // Not by its name: in a log that is a sign of a lost peer, but this rank may have failed itself.
  const cuda::CallWatch::Scope scope(calls, "the end of NCCL");
  (void)call.comm_abort(comm);
}

}  // namespace ddprun::trainer::nccl
