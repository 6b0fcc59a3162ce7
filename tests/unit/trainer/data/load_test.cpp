// From --data to a pair of sets: folders found, normalisation, refusals.
#include "trainer/data/load.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>

#include "tests/support/temp_dir.hpp"
#include "trainer/data/byte_images.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

using Catch::Matchers::Contains;

constexpr ImageShape kGrey{.height = 28, .width = 28, .channels = 1};

void write_images(const std::filesystem::path& path, std::uint8_t count, std::uint8_t side) {
  std::ofstream out(path, std::ios::binary);
  const std::vector<std::uint8_t> header{0, 0, 8, 3, 0, 0, 0, count, 0, 0, 0, side, 0, 0, 0, side};
  out.write(reinterpret_cast<const char*>(header.data()), 16);
  for (int i = 0; i < count * side * side; ++i) out.put(static_cast<char>(i % 2 == 0 ? 0 : 200));
}

void write_labels(const std::filesystem::path& path, const std::vector<std::uint8_t>& labels) {
  std::ofstream out(path, std::ios::binary);
  for (const int byte : {0, 0, 8, 1, 0, 0, 0, static_cast<int>(labels.size())}) {
    out.put(static_cast<char>(byte));
  }
  for (const std::uint8_t label : labels) out.put(static_cast<char>(label));
}

TrainAndTest load(const std::string& data, ImageShape shape = kGrey,
                  DataKind kind = DataKind::labelled_images, std::optional<int> head = {}) {
  return load_data({.data = data, .kind = kind, .images = {.shape = shape}, .head = head});
}

std::uint64_t known_bytes(const std::string& data, ImageShape shape = kGrey,
                          DataKind kind = DataKind::labelled_images) {
  return known_data_bytes({.data = data, .kind = kind, .images = {.shape = shape}});
}

/// A folder of 4 training and 2 held-out pictures of 8 x 8.
void write_set(const test::TempDir& directory) {
  write_images(directory / "train-images-idx3-ubyte", 4, 8);
  write_labels(directory / "train-labels-idx1-ubyte", {0, 1, 2, 1});
  write_images(directory / "t10k-images.idx3-ubyte", 2, 8);
  write_labels(directory / "t10k-labels.idx1-ubyte", {0, 1});
}

TEST_CASE("a folder with the four files becomes a pair of normalised sets") {
  const test::TempDir directory;
  write_set(directory);
  const TrainAndTest sets = load(directory.path().string());
  CHECK(sets.train->size() == 4);
  CHECK(sets.test->size() == 2);
  CHECK(sets.train->classes() == 3);
  CHECK(sets.test->classes() == 3);
  // Half of the pixels are 0, half 200: mean and deviation are both 100 / 255.
  CHECK(sets.train->images()->normalization().mean.at(0) == Approx(100.0 / 255));
  CHECK(sets.train->images()->normalization().deviation.at(0) == Approx(100.0 / 255));
  std::vector<std::uint8_t> pixels(64);
  CHECK(sets.train->images()->read(2, pixels) == 2);
  CHECK((pixels[0] == 0 && pixels[1] == 200));
}

TEST_CASE("images of a folder become as large as is asked for, and their masks with them") {
  const test::TempDir directory;
  write_set(directory);
  write_images(directory / "train-masks-idx3-ubyte", 4, 8);
  write_images(directory / "t10k-masks-idx3-ubyte", 2, 8);
  DataRequest request{.data = directory.path().string(),
                      .other_shape = ImageShape{.height = 4, .width = 16, .channels = 3}};
  const TrainAndTest labelled = load_data(request);
  CHECK(to_string(labelled.train->images()->shape()) == "4x16x3");
  CHECK(known_data_bytes(request) == labelled.train->bytes() + labelled.test->bytes());
  request.kind = DataKind::masked_images;
  const TrainAndTest sets = load_data(request);
  CHECK(known_data_bytes(request) == sets.train->bytes() + sets.test->bytes());
  CHECK(to_string(sets.test->images()->shape()) == "4x16x3");
  std::vector<std::uint8_t> pixels(64 * 3), mask(64);
  sets.train->images()->read(3, pixels, mask);
  CHECK(mask[1] == 0);
  CHECK(mask[2] == 200);
}

TEST_CASE("folders in a data set are looked into only where it needs them, and may be unreadable") {
  const test::TempDir directory;
  const std::string folder = directory.path().string();
  // A link to itself: no folder, which cannot even be looked at.
  std::filesystem::create_directory_symlink("raw", directory / "raw");
  CHECK_THROWS_WITH(load(folder), Contains("it holds raw"));
  std::filesystem::create_directories(directory / "mnist");
  write_set(directory);
  for (const std::string name : {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                 "t10k-images.idx3-ubyte", "t10k-labels.idx1-ubyte"})
    std::filesystem::rename(directory / name, directory / "mnist" / name);
  CHECK(load(folder).train->size() == 4);
  write_set(directory);
  write_images(directory / "mnist" / "train-images-idx3-ubyte", 5, 8);
  CHECK(load(folder).train->size() == 4);
}

TEST_CASE("a folder that is missing or incomplete is named, with what is expected") {
  CHECK_THROWS_WITH(load("/nonexistent/set"), Contains("/nonexistent/set: no such directory"));
  const test::TempDir directory;
  write_set(directory);
  std::filesystem::remove(directory / "t10k-labels.idx1-ubyte");
  CHECK_THROWS_WITH(load(directory.path().string()),
                    Contains(directory.path().string()) && Contains("t10k-labels-idx1-ubyte"));
}

TEST_CASE("training and held-out files must belong together") {
  const test::TempDir directory;
  write_set(directory);
  SECTION("shape") {
    write_images(directory / "t10k-images.idx3-ubyte", 2, 9);
    CHECK_THROWS_WITH(load(directory.path().string()), Contains("8x8x1") && Contains("9x9x1"));
  }
  SECTION("labels") {
    write_labels(directory / "t10k-labels.idx1-ubyte", {0, 7});
    CHECK_THROWS_WITH(load(directory.path().string()), Contains(": sample 1: the label is 7, but"));
  }
}

TEST_CASE("a label beyond the head is refused with its file and sample, in both sets") {
  const test::TempDir directory;
  write_set(directory);
  const auto load_for = [&](std::optional<int> head) {
    return load(directory.path().string(), kGrey, DataKind::labelled_images, head);
  };
  const std::string train = directory / "train-labels-idx1-ubyte";
  const std::string held_out = directory / "t10k-labels.idx1-ubyte";
  SECTION("training set") {
    write_labels(train, {0, 1, 200, 1});
    CHECK_THROWS_WITH(load_for(10),
                      Contains(train + ": sample 2: the label is 200, but "
                                       "--classes=10 allows 0 to 9: correct the file") &&
                          Contains("--classes=201"));
  }
  SECTION("held-out set") {
    write_labels(held_out, {0, 12});
    CHECK_THROWS_WITH(load_for(12), Contains(held_out + ": sample 1: the label is 12, but "
                                                        "--classes=12 allows 0 to 11"));
    CHECK_THROWS_WITH(load_for({}), Contains("end at 2: correct the file, or give --classes=13"));
    const TrainAndTest sets = load_for(20);
    CHECK(sets.train->classes() == 13);
    CHECK(sets.test->classes() == 13);
  }
  SECTION("a head that is wider than both") { CHECK(load_for(7).test->classes() == 3); }
  SECTION("labels that are all the same") {
    write_labels(train, {0, 0, 0, 0});
    write_labels(held_out, {0, 0});
    CHECK_THROWS_WITH(load_for({}),
                      Contains(train + ": all labels are 0, but a classifier needs two "
                                       "classes: correct the file, or give --classes"));
    CHECK(load_for(2).train->classes() == 1);
  }
}

TEST_CASE("image shapes are read as they are written") {
  for (const char* shape : {"28x28x1", "32x32x3", "64x96x3", "512x32x1", "1x1x1"})
    CHECK(to_string(parse_image_shape(shape)) == shape);
  for (const char* wrong : {"", "28", "28x28", "64x64x2", "0x32x1", "544x32x1", "032x32x1",
                            "32x32x3 ", "0x0x0", "-1x2x3"}) {
    CHECK_THROWS_WITH(parse_image_shape(wrong),
                      Contains("--image-shape") && Contains("must be like 64x96x3"));
  }
}

TEST_CASE("there are fewer generated pictures where they are large") {
  const auto count = [](int height, int width) {
    const TrainAndTest sets = load("generated", {.height = height, .width = width, .channels = 1});
    CHECK(sets.train->images()->shape().width == width);
    CHECK(sets.train->classes() == 10);
    return std::pair(sets.train->size(), sets.test->size());
  };
  CHECK(count(8, 512) == std::pair<std::size_t, std::size_t>(12'000, 2'000));
  CHECK(count(65, 64) == std::pair<std::size_t, std::size_t>(1'200, 200));
}

TEST_CASE("generated data has masks where a model learns masks, and a folder may have some") {
  const TrainAndTest sets =
      load("generated", {.height = 32, .width = 32, .channels = 1}, DataKind::masked_images);
  CHECK(sets.train->images()->target() == Target::mask);
  CHECK(sets.train->size() == 1200);
  CHECK(sets.test->size() == 200);
  CHECK(sets.train->classes() == 1);
  const test::TempDir directory;
  write_set(directory);
  CHECK_THROWS_WITH(load(directory.path().string(), kGrey, DataKind::masked_images),
                    Contains(directory.path().string()) && Contains("holds labels") &&
                        Contains("add train-masks-idx3-ubyte"));
  write_images(directory / "train-masks-idx3-ubyte", 4, 8);
  CHECK_THROWS_WITH(load(directory.path().string(), kGrey, DataKind::masked_images),
                    Contains("no t10k-masks-idx3-ubyte") && Contains("images and masks"));
  write_images(directory / "t10k-masks-idx3-ubyte", 2, 8);
  const TrainAndTest drawn = load(directory.path().string(), kGrey, DataKind::masked_images);
  CHECK(drawn.train->images()->target() == Target::mask);
  CHECK(drawn.test->size() == 2);
  std::vector<std::uint8_t> pixels(64), mask(64);
  drawn.train->images()->read(3, pixels, mask);
  CHECK(mask[0] == 0);
  CHECK(mask[1] == 200);
  CHECK(load(directory.path().string()).train->images()->target() == Target::label);
}

TEST_CASE("masks of one value are refused, in the set for training and the held-out one") {
  const test::TempDir directory;
  write_set(directory);
  write_images(directory / "train-masks-idx3-ubyte", 4, 8);
  write_images(directory / "t10k-masks-idx3-ubyte", 2, 8);
  const auto load_masks = [&] {
    return load(directory.path().string(), kGrey, DataKind::masked_images);
  };
  CHECK_NOTHROW(load_masks());
  const auto fill = [&](const char* name, std::uint8_t count, int value) {
    write_images(directory / name, count, 8);
    std::fstream file(directory / name, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(16);
    for (int i = 0; i < count * 64; ++i) file.put(static_cast<char>(value));
  };
  SECTION("none of the training masks") {
    fill("train-masks-idx3-ubyte", 4, 127);
    CHECK_THROWS_WITH(
        load_masks(),
        Contains("no pixel of the training masks has a value of 128 or more, so there "
                 "is nothing to learn: look at the files of masks"));
  }
  SECTION("all of the training masks") {
    fill("train-masks-idx3-ubyte", 4, 128);
    CHECK_THROWS_WITH(load_masks(), Contains("every pixel of the training masks"));
  }
  SECTION("none of the held-out masks") {
    fill("t10k-masks-idx3-ubyte", 2, 0);
    CHECK_THROWS_WITH(load_masks(),
                      Contains("no pixel of the held-out masks has a value of 128 or more, so IoU "
                               "and F1 measure nothing"));
  }
  SECTION("all of the held-out masks") {
    fill("t10k-masks-idx3-ubyte", 2, 255);
    CHECK_THROWS_WITH(load_masks(), Contains("every pixel of the held-out masks"));
  }
}

TEST_CASE("the bytes of generated sets are known before they are drawn") {
  const auto bytes = [](const TrainAndTest& sets) {
    return sets.train->bytes() + sets.test->bytes();
  };
  const ImageShape shape{.height = 8, .width = 16, .channels = 3};
  for (const DataKind kind : {DataKind::labelled_images, DataKind::masked_images})
    CHECK(known_bytes("generated", shape, kind) == bytes(load("generated", shape, kind)));
  CHECK(known_bytes("generated", shape, DataKind::labelled_images) == 14'000 * (8 * 16 * 3 + 2));
  for (const SentenceSettings& settings : {SentenceSettings{.count = 3, .tokens = 64},
                                           SentenceSettings{.count = 4000, .tokens = 200}}) {
    const DataRequest texts{.kind = DataKind::texts, .sentences = settings};
    const auto there = static_cast<double>(bytes(load_data(texts)));
    CHECK(static_cast<double>(known_data_bytes(texts)) == Approx(there).epsilon(0.25));
  }
}

TEST_CASE("the bytes of a folder are known but for files that are compressed") {
  const test::TempDir directory;
  write_set(directory);
  const std::string folder = directory.path().string();
  const std::uint64_t headers = 16 + 16 + 8 + 8;
  const TrainAndTest sets = load(folder);
  CHECK(sets.train->bytes() == 4 * 66);
  CHECK(known_bytes(folder) == 6 * 65 + headers);
  std::filesystem::rename(directory / "train-images-idx3-ubyte",
                          directory / "train-images-idx3-ubyte.gz");
  CHECK(known_bytes(folder) == 6 * 65 + headers - (4 * 64 + 16));
}

TEST_CASE("an image of one value everywhere is not divided by zero") {
  ByteImages images;
  images.shape = ImageShape{.height = 2, .width = 2, .channels = 1};
  images.classes = 1;
  images.pixels = {7, 7, 7, 7};
  images.labels = {0};
  const Normalization normalization = measure_normalization(images);
  CHECK(normalization.mean == std::vector{7.0F / 255});
  CHECK(normalization.deviation == std::vector{1.0F});
}

}  // namespace
}  // namespace ddprun::trainer
