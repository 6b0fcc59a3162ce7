#include "trainer/host/thread_count.hpp"

#include <omp.h>

#include <string>

#include "trainer/error.hpp"

namespace ddprun::trainer {

void set_thread_count(int threads) {
  if (threads < 1) throw DataError("a shard needs at least one thread");
  if (omp_get_thread_limit() < threads) {
    throw DataError("OMP_THREAD_LIMIT=" + std::to_string(omp_get_thread_limit()) + " forbids the " +
                    std::to_string(threads) +
                    " threads that each shard of this run uses; unset it or raise it");
  }
  omp_set_dynamic(0);
  omp_set_num_threads(threads);
}

int thread_count() { return omp_get_max_threads(); }

}  // namespace ddprun::trainer
