// One loop over the images of a batch, on as many threads as the calling one uses.
#pragma once

namespace ddprun::trainer {

/// Images have nothing in common, so the bits do not depend on the number of threads.
template <class Function>
void for_each_image(int images, Function function) {
#if !defined(__SANITIZE_THREAD__)  // which does not know the waits of OpenMP
#pragma omp parallel for schedule(static)
#endif
  for (int image = 0; image < images; ++image) function(image);
}

}  // namespace ddprun::trainer
