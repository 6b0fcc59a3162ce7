#include "trainer/comm/exchange_failure.hpp"

#include <fmt/format.h>

#include "proto/error.hpp"

namespace ddprun::trainer {

CommResult exchange_failure(ErrorCode error, int rank, const std::string& what) {
  if (error == proto::Errc::timed_out) {
    return {CommStatus::timed_out, rank, -1,
            fmt::format("{}: not there by the deadline; is that rank running?", what)};
  }
  return {CommStatus::aborted, rank, -1, fmt::format("{}: {}", what, error.message())};
}

}  // namespace ddprun::trainer
