#include "trainer/nccl/call_wait.hpp"

#include <chrono>
#include <thread>

namespace ddprun::trainer::nccl {
namespace {

constexpr std::chrono::milliseconds kPollEvery{1};

}  // namespace

CallEnd wait_for_call(const Functions& call, Comm comm, Status status, PeerWatch& peers,
                      Clock::time_point deadline) {
  while (status == Status::in_progress || status == Status::success) {
    const Status asked = call.comm_get_async_error(comm, &status);
    if (asked != Status::success) status = asked;
    if (status != Status::in_progress) break;
    const auto now = Clock::now();
    if (now >= deadline) break;
    if (const int peer = peers.ended(now); peer >= 0) return {status, peer};
    std::this_thread::sleep_for(kPollEvery);
  }
  return {status, -1};
}

}  // namespace ddprun::trainer::nccl
