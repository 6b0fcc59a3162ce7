// One loop over the images of a batch, on as many threads as the calling one uses.
#pragma once

#ifndef _OPENMP
#include "trainer/host/thread_count.hpp"
#endif

namespace ddprun::trainer {

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
