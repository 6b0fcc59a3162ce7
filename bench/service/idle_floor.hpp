// What keep-alives cost a server at the least: one thread on epoll that reads so many bytes and
// sends so many back, and knows nothing of what they mean.
#pragma once

#include "bench/service/life.hpp"

namespace ddprun::bench {

/// CPU of bench_store's floor, in cores, while as many clients as there are agents send as many
/// messages a second as the agents do, of the same length. Throws std::runtime_error where that
/// does not work.
double idle_floor(const LifeSettings& settings, double messages_per_second);

}  // namespace ddprun::bench
