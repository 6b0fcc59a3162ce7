// Fixes how many threads the library uses for calls from this thread: results may depend on it, so
// nothing outside a run's own settings may change it.
#pragma once

#include <functional>

namespace ddprun::trainer {

/// From now on parallel regions started by the calling thread have exactly `threads` threads,
/// whatever OMP_NUM_THREADS, OMP_DYNAMIC and the CPU mask say. Throws DataError if OMP_THREAD_LIMIT
/// forbids that, or the system refuses a thread.
void set_thread_count(int threads);

/// How many that is.
int thread_count();

/// Without OpenMP only: calls range(begin, end) for ranges that together are 0 to `count`, on these
/// threads. `range` must not throw.
void for_ranges(int count, const std::function<void(int begin, int end)>& range);

/// Images have nothing in common, so the bits do not depend on the number of threads. `function`
/// must not throw.
template <class Function>
void for_each_image(int images, Function function) {
#ifdef _OPENMP
#ifndef __SANITIZE_THREAD__  // ThreadSanitizer does not know its waits
#pragma omp parallel for schedule(static)
#endif
  for (int image = 0; image < images; ++image) function(image);
#else
  for_ranges(images, [&](int begin, int end) {
    for (int image = begin; image < end; ++image) function(image);
  });
#endif
}

}  // namespace ddprun::trainer
