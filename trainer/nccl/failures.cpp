#include "trainer/nccl/failures.hpp"

#include <fmt/format.h>

#include "trainer/error.hpp"

namespace ddprun::trainer::nccl {

std::string Awaited::text() const {
  if (bucket >= 0) return fmt::format("the sum of bucket {}", bucket);
  return is_meeting ? "the meeting of all ranks" : "NCCL";
}

CommResult peer_ended(int peer, int pid, const Awaited& awaited) {
  return {CommStatus::aborted, peer, awaited.bucket,
          fmt::format("rank {} (pid {}) ended before it finished {}", peer, pid,
                      awaited.is_nothing() ? "the run" : awaited.text())};
}

CommResult nccl_failed(const std::string& call, const Awaited& awaited, const std::string& gpu,
                       const std::string& error, const std::string& last) {
  return {CommStatus::aborted, -1, awaited.bucket,
          fmt::format("{} failed{} on {}: {} ({}); NCCL_DEBUG=INFO tells more", call,
                      awaited.is_nothing() ? "" : " in " + awaited.text(), gpu, error, last)};
}

CommResult waited_too_long(int rank, const Awaited& awaited, std::chrono::duration<double> waited) {
  return {CommStatus::timed_out, -1, awaited.bucket,
          fmt::format("rank {} has waited {:.3f} s for {}, until its deadline; a rank hangs, or a "
                      "network is cut",
                      rank, waited.count(), awaited.text())};
}

std::string own_work_hangs(const Awaited& awaited, std::chrono::duration<double> waited) {
  return fmt::format(
      "after {:.3f} s the GPU has not finished its own work{}: it hangs, or is too slow for "
      "--comm-timeout; look at nvidia-smi and the kernel's log",
      waited.count(), awaited.is_nothing() ? "" : " before " + awaited.text());
}

cuda::WatchFunction watch_until(std::chrono::nanoseconds timeout) {
  return [timeout](std::chrono::steady_clock::duration waited) {
    if (waited >= timeout) throw DeviceError(own_work_hangs({}, waited));
  };
}

}  // namespace ddprun::trainer::nccl
