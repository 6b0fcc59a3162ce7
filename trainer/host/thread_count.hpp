// Fixes how many threads the library uses for calls from this thread: results may depend on it, so
// nothing outside a run's own settings may change it.
#pragma once

namespace ddprun::trainer {

/// From now on parallel regions started by the calling thread have exactly `threads` threads,
/// whatever OMP_NUM_THREADS, OMP_DYNAMIC and the CPU mask say. Throws DataError if OMP_THREAD_LIMIT
/// forbids that.
void set_thread_count(int threads);

/// How many that is.
int thread_count();

}  // namespace ddprun::trainer
