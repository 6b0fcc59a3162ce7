// One loop over the images of a batch, on as many threads as the calling one uses.
#pragma once

namespace ddprun::trainer {

/// Images have nothing in common, so the bits do not depend on the number of threads.
template <class Function>
void for_each_image(int images, Function function) {
#if defined(_OPENMP) && !defined(__SANITIZE_THREAD__)  // ThreadSanitizer does not know its waits
#pragma omp parallel for schedule(static)
#endif
  for (int image = 0; image < images; ++image) function(image);
}

}  // namespace ddprun::trainer
