// The hash by which a run knows its data: the stated formula, and that no byte is left out.
#include "trainer/data/content_hash.hpp"

#include <catch2/catch.hpp>
#include <set>
#include <vector>

#include "trainer/data/byte_images.hpp"

namespace ddprun::trainer {
namespace {

using Bytes = std::vector<std::uint8_t>;

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

TEST_CASE("the hash of bytes is that of its formula") {
  const auto step = [](std::uint64_t hash, std::uint64_t word) {
    const std::uint64_t product = (hash ^ word) * 0x9e3779b97f4a7c15U;
    return product ^ (product >> 32);
  };
  const std::uint64_t start = 0x9ae16a3b2f90404fU;
  CHECK(hash_content({}) == step(start, 0));
  const Bytes bytes{1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  const std::uint64_t whole = step(step(step(start, 0x0807060504030201U), 0x0a09U), 10);
  CHECK(hash_content(bytes) == whole);
  CHECK(hash_content(bytes, 7) == step(step(step(7, 0x0807060504030201U), 0x0a09U), 10));
}

TEST_CASE("every byte and the length of what is hashed count") {
  std::set<std::uint64_t> seen;
  Bytes bytes(21, 0);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = 1;
    seen.insert(hash_content(bytes));
    bytes[i] = 0;
  }
  for (std::size_t size = 0; size <= bytes.size(); ++size) {
    seen.insert(hash_content(std::span(bytes).first(size)));
  }
  CHECK(seen.size() == 21 + 22);
}

TEST_CASE("a set is known by its samples and labels and not by its name") {
  const ByteImages images = four_images();
  const std::uint64_t content = content_of(images);
  CHECK(content == hash_content(images.labels, hash_content(images.pixels)));
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

}  // namespace
}  // namespace ddprun::trainer
