// Prints an image in another size, for tests that compare it with other programs: height, width,
// channels, new height and new width, then the pixels on stdin. Bilinear, then nearest.
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <iterator>

#include "trainer/data/resize.hpp"

int main(int count, char** words) {
  using namespace ddprun::trainer;
  if (count != 6) return 2;
  ByteImage image{.shape = {.height = std::atoi(words[1]),
                            .width = std::atoi(words[2]),
                            .channels = std::atoi(words[3])},
                  .pixels = {std::istreambuf_iterator<char>(std::cin), {}}};
  if (image.pixels.size() != sample_size(image.shape)) return 2;
  const int height = std::atoi(words[4]);
  const int width = std::atoi(words[5]);
  for (const ByteImage& one :
       {resize_bilinear(image, height, width), resize_nearest(image, height, width)})
    std::fwrite(one.pixels.data(), 1, one.pixels.size(), stdout);
  return 0;
}
