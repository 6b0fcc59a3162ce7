// Images in another size, beside values recorded from Pillow and torch.
#include "trainer/data/resize.hpp"

#include <catch2/catch.hpp>

#include "trainer/data/data_set.hpp"

namespace ddprun::trainer {
namespace {

using Bytes = std::vector<std::uint8_t>;

/// Every value of a byte in some order, as the script that recorded the values has it.
ByteImage image_of(ImageShape shape) {
  ByteImage image{.shape = shape, .pixels = {}};
  for (int y = 0; y < shape.height; ++y)
    for (int x = 0; x < shape.width; ++x)
      for (int c = 0; c < shape.channels; ++c)
        image.pixels.push_back(
            static_cast<std::uint8_t>(y * 37 + x * 11 + c * 101 + x * y % 23 * 9));
  return image;
}

TEST_CASE(
    "resizing columns and then rows gives Pillow's values, and to the nearest pixel torch's") {
  struct Case {
    ImageShape from, to;
    Bytes bilinear, nearest;
  };
  // Pillow 13.0: resize(BILINEAR) of the columns, then of the rows. torch 2.15: interpolate(bytes,
  // size, mode="nearest").
  const std::vector<Case> cases{
      {{13, 17, 3},
       {5, 6, 3},
       {64,  153, 114, 108, 143, 118, 127, 113, 108, 132, 140, 116, 105, 160, 141, 106, 140, 105,
        152, 144, 117, 118, 127, 141, 115, 137, 128, 128, 127, 117, 128, 145, 118, 143, 121, 142,
        125, 126, 145, 113, 138, 116, 137, 138, 105, 147, 125, 116, 135, 123, 133, 144, 128, 115,
        113, 135, 114, 148, 121, 113, 142, 112, 157, 123, 128, 151, 112, 141, 133, 129, 133, 132,
        110, 136, 140, 117, 148, 125, 103, 162, 151, 111, 139, 101, 130, 137, 112, 133, 128, 127},
       {0,   101, 202, 22,  123, 224, 55,  156, 1,   88,  189, 34,  121, 222, 67,  154, 255, 100,
        74,  175, 20,  132, 233, 78,  219, 64,  165, 50,  151, 252, 137, 238, 83,  17,  118, 219,
        185, 30,  131, 41,  142, 243, 2,   103, 204, 170, 15,  116, 131, 232, 77,  92,  193, 38,
        3,   104, 205, 151, 252, 97,  166, 11,  112, 181, 26,  127, 196, 41,  142, 211, 56,  157,
        114, 215, 60,  60,  161, 6,   205, 50,  151, 45,  146, 247, 141, 242, 87,  30,  131, 232}},
      {{12, 7, 1},
       {4, 20, 1},
       {46,  47,  55,  62,  70,  78,  86,  94,  101, 109, 111, 108, 105, 108, 116, 124,
        132, 140, 147, 148, 148, 148, 155, 162, 166, 162, 159, 152, 139, 125, 113, 101,
        89,  86,  86,  86,  104, 126, 148, 150, 88,  89,  95,  101, 107, 113, 118, 127,
        138, 150, 149, 134, 120, 120, 128, 136, 147, 159, 170, 171, 105, 106, 118, 130,
        135, 113, 92,  85,  103, 121, 131, 132, 132, 133, 134, 134, 131, 127, 123, 123},
       {0,   0,   0,   11,  11,  11,  22,  22,  22,  33,  33,  33,  44,  44,  44,  55,
        55,  55,  66,  66,  111, 111, 111, 149, 149, 149, 187, 187, 187, 225, 225, 225,
        7,   7,   7,   45,  45,  45,  83,  83,  222, 222, 222, 31,  31,  31,  96,  96,
        96,  161, 161, 161, 19,  19,  19,  84,  84,  84,  149, 149, 77,  77,  77,  169,
        169, 169, 5,   5,   5,   146, 146, 146, 238, 238, 238, 74,  74,  74,  215, 215}},
      {{40, 50, 1},
       {3, 4, 1},
       {124, 130, 126, 133, 122, 118, 121, 119, 128, 126, 126, 123},
       {0, 132, 19, 151, 225, 7, 15, 53, 194, 187, 11, 4}},
      {{9, 9, 1},
       {9, 4, 1},
       {9,   31, 57,  79,  54, 94,  140, 180, 98, 157, 205, 77,  142, 157, 57,  146, 187, 114,
        132, 73, 180, 102, 61, 124, 115, 101, 99, 148, 64,  164, 167, 161, 109, 141, 189, 126},
       {0,  22,  44,  66, 37,  77, 117, 157, 74, 132, 190, 248, 111, 187, 7,  83,  148, 242,
        80, 223, 185, 41, 153, 58, 222, 96,  19, 149, 3,   151, 92,  240, 40, 206, 165, 124}}};
  for (const Case& one : cases) {
    INFO(to_string(one.from) << " to " << to_string(one.to));
    const ByteImage image = image_of(one.from);
    const ByteImage bilinear = resize_bilinear(image, one.to.height, one.to.width);
    CHECK(to_string(bilinear.shape) == to_string(one.to));
    CHECK(bilinear.pixels == one.bilinear);
    CHECK(resize_nearest(image, one.to.height, one.to.width).pixels == one.nearest);
  }
}

TEST_CASE("an image of one value keeps it in any size") {
  ByteImage image{.shape = {.height = 7, .width = 5, .channels = 3}, .pixels = Bytes(105, 255)};
  for (const int side : {1, 2, 5, 7, 30, 100}) {
    CHECK(resize_bilinear(image, side, 101 - side).pixels ==
          Bytes(static_cast<std::size_t>(side * (101 - side) * 3), 255));
  }
}

TEST_CASE("an image in its own size is the same") {
  const ByteImage image = image_of({.height = 4, .width = 6, .channels = 3});
  CHECK(resize_bilinear(image, 4, 6).pixels == image.pixels);
  CHECK(resize_nearest(image, 4, 6).pixels == image.pixels);
}

TEST_CASE("the bytes that resizing holds are those of its largest pass") {
  // 4x6 to 4x3 columns, then to 2x3; the other way the last image is the largest.
  CHECK(resizing_bytes({.height = 4, .width = 6, .channels = 3}, 2, 3) == 3 * (12 + 24));
  CHECK(resizing_bytes({.height = 2, .width = 3, .channels = 1}, 4, 6) == 12 + 24);
}

}  // namespace
}  // namespace ddprun::trainer
