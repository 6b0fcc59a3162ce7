// The hash by which a run knows its data.

#include <catch2/catch.hpp>
#include <vector>

#include "base/hash_bytes.hpp"
#include "trainer/data/byte_images.hpp"

namespace ddprun::trainer {
namespace {

ByteImages four_images() {
  ByteImages images;
  images.shape = {.height = 2, .width = 3, .channels = 1};
  images.classes = 5;
  for (std::uint8_t i = 0; i < 24; ++i) images.pixels.push_back(i);
  images.labels = {0, 4, 2, 1};
  return images;
}

std::uint64_t content_of(const ByteImages& images, const std::string& name = "set") {
  return ByteImageSet(name, images, {.mean = {0.5F}, .deviation = {0.25F}}).content_hash();
}

std::uint64_t hash(const std::vector<std::uint8_t>& bytes, std::uint64_t start) {
  return hash_bytes(std::as_bytes(std::span(bytes)), bytes.size(), start);
}

TEST_CASE("a set is known by its samples and labels and not by its name") {
  const ByteImages images = four_images();
  const std::uint64_t content = content_of(images);
  CHECK(content == hash({0, 4, 2, 1}, hash(images.pixels, kHashStart)));
  CHECK(content_of(images, "renamed") == content);

  ByteImages other = images;
  other.pixels[23] = 99;
  CHECK(content_of(other) != content);
  other = images;
  other.labels[3] = 3;
  CHECK(content_of(other) != content);
  other = images;
  std::swap(other.labels[0], other.labels[1]);
  CHECK(content_of(other) != content);
}

TEST_CASE("labels are two bytes in the hash once one of them needs two") {
  ByteImages images = four_images();
  images.classes = 1000;
  images.labels = {0, 255, 2, 1};
  CHECK(content_of(images) == hash({0, 255, 2, 1}, hash(images.pixels, kHashStart)));
  images.labels[1] = 256;
  const std::uint64_t content = content_of(images);
  CHECK(content == hash({0, 0, 0, 1, 2, 0, 1, 0}, hash(images.pixels, kHashStart)));
  images.labels[1] = 512;
  CHECK(content_of(images) != content);
}

TEST_CASE("a set of masks is known by its masks, one after the other with its image") {
  ByteImages images = four_images();
  images.labels.clear();
  images.masks = images.pixels;
  images.masks[8] = 255;
  const std::uint64_t content = content_of(images);
  const ByteImageSet set("masks", images, {.mean = {0.5F}, .deviation = {0.25F}});
  CHECK(set.size() == 4);
  std::vector<std::uint8_t> pixels(6), mask(6);
  CHECK(set.read(1, pixels, mask) == 0);
  CHECK(pixels == std::vector<std::uint8_t>{6, 7, 8, 9, 10, 11});
  CHECK(mask == std::vector<std::uint8_t>{6, 7, 255, 9, 10, 11});
  // The pixels and the mask of one image after the other.
  std::vector<std::uint8_t> all;
  for (std::ptrdiff_t i = 0; i < 24; i += 6) {
    all.insert(all.end(), images.pixels.begin() + i, images.pixels.begin() + i + 6);
    all.insert(all.end(), images.masks.begin() + i, images.masks.begin() + i + 6);
  }
  CHECK(content == hash_bytes(std::as_bytes(std::span(all)), all.size()));
  images.masks[23] = 99;
  CHECK(content_of(images) != content);
}

}  // namespace
}  // namespace ddprun::trainer
