// Calls of NCCL within a group: side by side, and begun by the group's end.
#pragma once

#include "trainer/comm/communicator.hpp"
#include "trainer/nccl/nccl_api.hpp"

namespace ddprun::trainer::nccl {

/// Lives between ncclGroupStart and ncclGroupEnd. A failure within is kept, not acted on: until the
/// group's end NCCL holds the communicator.
class GroupCalls {
 public:
  GroupCalls(const Functions& call, Comm comm, NativeStream stream)
      : call_(call), comm_(comm), stream_(stream) {}

  /// The first one that failed; its name is that of the function.
  struct Failure {
    Status status = Status::success;
    const char* name = "";
  };
  [[nodiscard]] const Failure& failure() const { return failure_; }

  void send(const float* from, Range range, int peer) {
    if (range.begin == range.end) return;
    keep("ncclSend",
         call_.send(from, range.end - range.begin, DataType::fp32, peer, comm_, stream_));
  }
  void receive(float* to, Range range, int peer) {
    if (range.begin == range.end) return;
    keep("ncclRecv", call_.recv(to, range.end - range.begin, DataType::fp32, peer, comm_, stream_));
  }
  /// In place.
  void all_reduce(float* values, std::size_t count) {
    keep("ncclAllReduce",
         call_.all_reduce(values, values, count, DataType::fp32, Operation::sum, comm_, stream_));
  }

 private:
  void keep(const char* name, Status status) {
    if (status != Status::success && status != Status::in_progress &&
        failure_.status == Status::success)
      failure_ = {status, name};
  }

  const Functions& call_;
  Comm comm_;
  NativeStream stream_;
  Failure failure_;
};

}  // namespace ddprun::trainer::nccl
