// What the end of a wait for the other ranks' keys is called.
#pragma once

#include <string>

#include "base/result.hpp"
#include "trainer/comm/communicator.hpp"

namespace ddprun::trainer {

/// `what`: what was asked of the exchange; `rank`: the rank that it is about.
CommResult exchange_failure(ErrorCode error, int rank, const std::string& what);

}  // namespace ddprun::trainer
